"""The targets that are Python frameworks: what is exported runs, and is the number that their presets say."""

import ast
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.harnesses.exports.export import export, target_of
from boolab.harnesses.exports.python_code import default_note, monitor_notes, rule_lines, spending_notes
from boolab.harnesses.exports.values import Limits
from boolab.harnesses.registry import TARGETS
from boolab.limits.stop import StopRule
from boolab.limits.table import LIMITS

PYTHON = ["langchain", "langgraph", "openai-agents", "pydantic-ai", "smolagents", "inspect"]
FRAMEWORKS = [*PYTHON, "mini-swe-agent"]
ALL = Limits(
    max_steps=20, tool_budget=90, doom_loop=5, error_streak=4, max_tokens=200_000, max_cost=2.5, max_time=600.5
)
NAMES = st.text(st.characters(), min_size=1, max_size=8)
LIMIT_VALUES = st.builds(
    Limits,
    max_steps=st.none() | st.integers(1, 10_000),
    tool_budget=st.none() | st.integers(1, 10_000),
    doom_loop=st.none() | st.integers(2, 100),
    error_streak=st.none() | st.integers(1, 100),
    max_tokens=st.none() | st.integers(1, 10**9),
    max_cost=st.none() | st.floats(0.001, 1000),
    max_time=st.none() | st.floats(0.1, 10_000),
    identity=st.sampled_from(["canonical", "ordered"]) | st.just({"*": "ordered", "poll": None}),
    exempt=st.lists(NAMES, max_size=2).map(tuple),
    scope=st.sampled_from(["turn", "run"]),
    agent=st.none() | NAMES,
)


def texts(target: str, limits: Limits) -> list[str]:
    return [part.text for part in export(target, limits).parts if part.language == "python"]


@pytest.mark.parametrize("target", FRAMEWORKS)
def test_the_number_is_the_one_that_the_preset_says(target: str) -> None:
    written = "".join(part.text for part in export(target, Limits(max_steps=20)).parts)
    wanted = {
        "langchain": "ModelCallLimitMiddleware(run_limit=20,",
        "langgraph": '"recursion_limit": 40',
        "openai-agents": "max_turns=20",
        "pydantic-ai": "request_limit=20",
        "smolagents": "max_steps=20",
        "inspect": "turn_limit=20",
        "mini-swe-agent": "step_limit: 20",
    }
    assert wanted[target] in written
    assert target_of(target).preset in bl.policies


def test_langgraph_has_a_number_for_each_of_its_two_agents() -> None:
    agent, react = export("langgraph", Limits(max_steps=20)).parts
    assert '{"recursion_limit": 40}' in agent.text
    assert '{"recursion_limit": 41}' in react.text
    assert "create_agent" in agent.how
    assert "create_react_agent" in react.how


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 20])
@pytest.mark.parametrize("preset", ["langchain_agent", "langgraph_react"])
def test_translated_cap_executes_the_same_number_of_steps(preset: str, steps: int) -> None:
    limit = {"langchain_agent": 2 * steps, "langgraph_react": 2 * steps + 1}[preset]
    endless = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}], tools={"ls": "a file"})
    policy = bl.policies[preset].vary(cap={"max_steps": limit})
    run = bl.run_sync(None, "go", model=endless, policy=policy)
    assert sum(any(step.results) for step in run.steps) == steps
    assert f'"recursion_limit": {limit}' in "".join(texts("langgraph", Limits(max_steps=steps)))


@given(limits=LIMIT_VALUES, target=st.sampled_from(PYTHON))
def test_exported_python_parses_and_calls_only_known_functions(limits: Limits, target: str) -> None:
    if not limits.given:
        return
    for text in texts(target, limits):
        text.encode("utf-8")
        tree = ast.parse(text)
        called = {
            node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "attr")
        }
        assert called <= {*LIMITS, "run_sync", "invoke", "eval"}


@given(limits=LIMIT_VALUES)
def test_mini_swe_agent_export_is_valid_yaml_for_all_limits(limits: Limits) -> None:
    if not limits.given:
        return
    part = export("mini-swe-agent", limits).parts[0]
    loaded = yaml.safe_load(part.text)
    assert loaded is None or set(loaded["agent"]) <= {"step_limit", "cost_limit", "wall_time_limit_seconds"}


@given(limits=LIMIT_VALUES, target=st.sampled_from(["langchain", "openai-agents", "pydantic-ai", "smolagents"]))
def test_the_rule_for_the_monitor_is_the_rule_of_the_limits(limits: Limits, target: str) -> None:
    (text,) = texts(target, limits) if limits.given else [""]
    code = [node for node in ast.parse(text).body if isinstance(node, ast.Assign) and node.targets[0].id == "rule"]  # type: ignore[attr-defined]
    by_monitor = [row.limit for row in target_of(target).sets if "bl." in row.where and row.limit in limits.given]
    wanted: StopRule | None = None
    for name in by_monitor:
        extra: dict[str, Any] = {"identity": limits.identity, "exempt": limits.exempt} if name == "doom_loop" else {}
        rule = getattr(bl, name)(limits.given[name], **extra)
        wanted = rule if wanted is None else wanted | rule
    if wanted is None:
        assert code == []
    else:
        scope: dict[str, Any] = {"bl": bl}
        exec(ast.unparse(code[0]), scope)  # noqa: S102 - a text of our own, which is what is tested
        assert scope["rule"] == wanted


@pytest.mark.parametrize("target", PYTHON)
def test_the_text_runs_with_the_names_that_it_asks_for(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for the packages; `make conformance` runs it in the packages themselves."""
    used: dict[str, Any] = {}

    class Whatever(type):
        def __getattr__(cls, name: str) -> Any:
            return Anything

    class Anything(metaclass=Whatever):
        def __init__(self, *_: Any, **given: Any) -> None:
            used.update(given)

        def __getattr__(self, name: str) -> Any:
            return Anything

        def __call__(self, *_: Any, **given: Any) -> Any:
            return Anything(**given)

    for name in (
        "agents", "boolab.integrations.langchain", "boolab.integrations.openai_agents",
        "boolab.integrations.pydantic_ai", "boolab.integrations.smolagents", "inspect_ai", "langchain",
        "langchain.agents", "langchain.agents.middleware", "pydantic_ai", "smolagents",
    ):  # fmt: skip
        module = ModuleType(name)
        module.__getattr__ = lambda _name: Anything  # type: ignore[method-assign]
        module.__path__ = []
        monkeypatch.setitem(__import__("sys").modules, name, module)
    for text in texts(target, ALL):
        scope = dict.fromkeys(("agent", "model", "tools", "prompt", "task"), Anything())
        exec(compile(text, target, "exec"), scope)  # noqa: S102 - as above
    if target == "inspect":
        assert {used[name] for name in ("turn_limit", "token_limit", "cost_limit", "time_limit")} == {
            20, 200_000, 2.5, 601,
        }  # fmt: skip


@pytest.mark.parametrize("target", ["openai-agents", "pydantic-ai"])
def test_a_default_cap_that_stays_in_force_is_named(target: str) -> None:
    default = bl.policies[target_of(target).preset].cap.max_steps
    assert f"Its default cap of {default} stays in force" in export(target, Limits(doom_loop=3)).notes[0]


def test_all_frameworks_are_targets() -> None:
    assert set(FRAMEWORKS) <= set(TARGETS)


def test_rule_lines_set_the_named_limits() -> None:
    assert rule_lines(Limits(max_steps=9, doom_loop=5, exempt=("poll",)), ["doom_loop"]) == [
        'rule = bl.doom_loop(5, exempt=["poll"])',
        "",
    ]


def test_monitor_note_names_what_the_package_lacks() -> None:
    assert (
        monitor_notes(Limits(doom_loop=5), ["doom_loop"], "LangChain")[0].partition(":")[0]
        == "LangChain has no doom-loop threshold of its own"
    )


def test_spending_notes_are_of_presets_that_differ() -> None:
    limits = Limits(max_tokens=9)
    assert [len([*spending_notes(limits, preset)]) for preset in ("mini_swe_agent", "pydantic_ai")] == [0, 1]


def test_default_note_names_the_cap_in_force() -> None:
    assert default_note(Limits(doom_loop=5), "openai_agents", "max_turns=None lifts it") == (
        "Its default cap of 10 stays in force: max_turns=None lifts it.",
    )
