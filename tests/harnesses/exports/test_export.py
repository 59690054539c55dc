"""Limits as the settings of a harness: what is exported, and what is said of the rest."""

from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.errors import SettingError
from boolab.harnesses.exports.export import export, limit_words, target_of
from boolab.harnesses.exports.step_cap import cap_of, longest_finish, step_cap
from boolab.harnesses.exports.values import Change, Limits, agent_file, comment, nest
from boolab.harnesses.registry import TARGETS
from boolab.io.resources import data_path
from boolab.limits.table import LIMITS
from boolab.stats.recommend.decision import Decision
from tests.support.samples import atlas

ALL = Limits(
    max_steps=56,
    tool_budget=90,
    doom_loop=5,
    error_streak=4,
    max_tokens=200_000,
    max_cost=2.5,
    max_time=600,
    exempt=("poll",),
    agent="coder",
)
EVERY_TARGET = pytest.mark.parametrize("target", list(TARGETS))


@EVERY_TARGET
def test_each_limit_is_set_or_its_absence_is_said(target: str) -> None:
    harness = target_of(target)
    has = {row.limit for row in harness.sets}
    assert has | set(harness.lacks) >= set(LIMITS)
    text = str(export(target, ALL))
    for name, value in ALL.given.items():
        if name in harness.lacks or name not in has:
            assert f"{LIMITS[name].with_value(value)[1:]} is not set." in " ".join(text.replace("#", "").split()), name


@EVERY_TARGET
@pytest.mark.parametrize("agent", [None, "coder"])
def test_parts_set_the_limits_that_a_target_has(target: str, agent: str | None) -> None:
    harness = target_of(target)
    off = Limits(agent=agent)
    for limits in (
        replace(ALL, agent=agent),
        *(replace(off, **{name: value}) for name, value in ALL.given.items()),  # type: ignore[arg-type]
    ):
        sets = {name for part in export(target, limits).parts for name in part.sets}
        only_subagents = {"max_time"} if target == "gemini-cli" and agent is None else set()
        assert sets == limits.given.keys() - harness.lacks.keys() - only_subagents
        assert sets <= {row.limit for row in harness.sets}


@pytest.mark.parametrize(("target", "own"), [("opencode", 3), ("gemini-cli", 5)])
def test_a_threshold_that_cannot_be_changed_is_listed_as_lacking(target: str, own: int) -> None:
    assert f"{own} identical calls" in target_of(target).lacks["doom_loop"]
    notes = export(target, Limits(doom_loop=4)).notes
    [missing] = [note for note in notes if note.startswith("A doom-loop threshold of 4 is not set.")]
    assert f"{own} identical calls" in missing


@EVERY_TARGET
def test_an_export_names_its_source_with_a_version_or_a_date(target: str) -> None:
    made = export(target, ALL)
    assert any(char.isdigit() for char in made.source) or "this version" in made.source
    assert made.parts
    assert all(part.text.endswith("\n") for part in made.parts)


@EVERY_TARGET
def test_names_of_agents_are_no_markup_and_lead_nowhere(target: str) -> None:
    made = export(target, Limits(max_steps=5, agent="../\x1b[31m<b>x</b>"))
    assert "\x1b" not in str(made)
    assert "<b>" not in made._repr_html_()
    assert all(".." not in (part.path or "") for part in made.parts)


def test_an_agent_file_has_the_limits_that_were_exported(tmp_path: Path) -> None:
    export("boolab", ALL).write(root=tmp_path)
    agent = bl.load_agents(tmp_path / "agents")["coder"]
    assert (agent.max_steps, agent.tool_budget, agent.doom_loop, agent.exempt) == (56, 90, 5, ("poll",))


def test_no_limit_and_no_such_target_are_errors() -> None:
    with pytest.raises(SettingError, match="no limit is on"):
        export("boolab", Limits())
    with pytest.raises(SettingError, match="did you mean 'boolab'"):
        export("boolob", ALL)


@pytest.mark.parametrize("wrong", [{"max_steps": 0}, {"doom_loop": 1}, {"max_cost": 0.0}, {"identity": "x"}])
def test_limits_that_no_run_could_begin_under_are_errors(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        Limits(**wrong)  # type: ignore[arg-type]


# --- From a recommendation --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_agent() -> Decision:
    """The decision on the runs of a lead and its scouts."""
    return bl.recommend(bl.load_runs(data_path("datasets") / "families"), keep=0.9)


def test_a_recommendation_is_exported_as_it_was_counted() -> None:
    runs = atlas("intercode-python")
    (tool,) = {call.name for run in runs for step in run.steps for call in step.response.tool_calls}
    recommended = bl.recommend(runs, keep=0.9, exempt=[tool], scope="turn")
    limits = recommended.limits("coder")
    assert limits.max_steps is not None
    assert limits.given == {name: value for name, value in recommended.setting.items() if value is not None}
    assert (limits.scope, limits.agent, limits.identity, limits.exempt) == ("turn", "coder", "canonical", (tool,))


def test_of_several_agents_one_is_chosen(by_agent: Decision) -> None:
    assert by_agent.limits("lead").given == {"max_steps": 23}
    assert by_agent.limits("lead").agent == "lead"
    with pytest.raises(SettingError, match=r"2 groups.*\((lead; scout|scout; lead)\): pass agent="):
        by_agent.limits()
    with pytest.raises(SettingError, match="did you mean 'scout'"):
        by_agent.limits("scuot")


def test_what_is_left_off_is_not_exported_and_reason_is_given() -> None:
    with pytest.raises(SettingError, match="nothing can be exported. Set no limit"):
        bl.recommend(atlas("swebench-verified")).export("boolab")


@pytest.mark.parametrize(
    ("n", "keep", "less"),
    [(29, 0.99, "keep=0.9, "), (29, 0.95, "keep=0.9, "), (29, 0.9, "keep=0.8, "), (29, 0.5, ""),
     (28, 0.95, "keep=0.8, "), (9, 0.95, "keep=0.7, "), (8, 0.95, "")],
)  # fmt: skip
def test_export_is_refused_with_too_few_successes_for_keep(n: int, keep: float, less: str) -> None:
    runs = [bl.run_sync(None, "x", model=bl.ScriptedModel(["Hi."])) for _ in range(n)]
    with pytest.raises(SettingError, match="nothing can be exported") as refused:
        bl.recommend(runs, keep=keep).export("boolab")
    assert ("keep less" in str(refused.value)) is bool(less)
    assert less in str(refused.value)


# --- Step caps --------------------------------------------------------------------------------------------------------


HARD = [
    policy
    for policy in bl.policies.values()
    if policy.cap.kind == "hard"
    and "no_calls" in policy.finish.conditions
    and "max_steps" in policy.order
    and policy.name not in ("aider", "opencode_3631")  # one asks again after errors only; one never finishes at its cap
]


@pytest.mark.parametrize("policy", HARD, ids=lambda policy: policy.name)
def test_translated_cap_lets_the_same_runs_finish(policy: bl.Policy) -> None:
    for longest in (2, 3, 7):
        agent = bl.Agent("a", policy=policy, max_steps=step_cap(longest, policy).value)
        for n in (longest - 1, longest, longest + 1):
            run = bl.run_sync(agent, "go", model=answers_at(n), tools=[look])
            assert (run.stop_reason == "finished") is (n <= longest), (longest, n, run.stop_reason)


def look(n: int) -> str:
    """Look."""
    return str(n)


def answers_at(n: int) -> bl.ScriptedModel:
    """A model that calls a tool in each response but the n-th."""
    calls: list[object] = [{"tool_calls": [{"name": "look", "arguments": {"n": k}}]} for k in range(n - 1)]
    return bl.ScriptedModel([*calls, "Done.", "Summary."])


def test_a_cap_in_the_unit_of_its_own_harness_stays() -> None:
    assert step_cap(20, "claude_code", value_policy="claude_code").value == 20
    rounds = bl.policies["claude_code"].vary(cap={"counts": "tool_steps", "check": "response"})
    assert step_cap(20, "langgraph_react", value_policy=rounds).value == 43
    for policy in bl.policies.values():
        assert longest_finish(policy.cap, cap_of(policy.cap, 12)) == 12


# --- The command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_what_to_paste(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "boolab", "--max-steps", "56", "--doom-loop", "5", "--agent", "coder"]) == 0
    assert capsys.readouterr().out == str(export("boolab", Limits(max_steps=56, doom_loop=5, agent="coder"))) + "\n"


def test_the_command_writes_only_if_asked_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["export", "boolab", "--max-steps", "56", "--agent", "coder"]
    assert main(command) == 0
    assert list(tmp_path.iterdir()) == []
    capsys.readouterr()
    assert main([*command, "--write"]) == 0
    assert "+max_steps: 56" in capsys.readouterr().out
    before = (tmp_path / "agents" / "coder.md").read_bytes()
    assert main([*command, "--write"]) == 0
    assert "set already" in capsys.readouterr().out
    assert (tmp_path / "agents" / "coder.md").read_bytes() == before


def test_the_command_recommends_from_logs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "boolab", "atlas/intercode-python", "--keep", "0.9", "--max-steps", "2:10"]) == 0
    cap = bl.recommend(atlas("intercode-python"), keep=0.9, grid={"max_steps": range(2, 11)}).setting
    assert f"max_steps: {cap['max_steps']}" in capsys.readouterr().out


def test_the_command_explains_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "boolab"]) == 1
    assert main(["export", "boolab", "--max-steps", "5,6"]) == 1
    told = capsys.readouterr().err
    assert "give a limit such as --max-steps 56, or LOGS" in told
    assert "--max-steps: several values need LOGS" in told


def test_limit_words_are_options_with_values() -> None:
    assert limit_words({"max_steps": 56, "max_cost": 2.5}) == ["--max-steps", "56", "--max-cost", "2.5"]


def test_limits_in_words_are_a_list() -> None:
    assert Limits(max_steps=56, max_cost=0.5).in_words() == "a step cap of 56 and a cost budget of $0.5"


def test_comment_has_a_mark_and_a_line_end() -> None:
    assert comment("toml", ["It has no tool budget."]) == "# It has no tool budget.\n"


def test_agent_file_leaves_out_parts_of_paths() -> None:
    assert agent_file(Limits(agent="../code reviewer")) == "code-reviewer"
    assert agent_file(Limits()) == "agent"


def test_nest_puts_values_at_their_places() -> None:
    assert nest([Change(("a", "b"), 1), Change(("a", "c"), 2)]) == {"a": {"b": 1, "c": 2}}
