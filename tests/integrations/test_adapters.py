"""The adapters of `Monitor` for other packages. `make conformance` runs them in the packages, which are not here."""

import ast
import contextlib
import copy
import importlib
import time
from typing import Any

import pytest

import boolab as bl
from benchmarks.conformance import monitors
from benchmarks.conformance.monitors import ADAPTERS, PAGE, cases, differences, made_cases, page, read_kept
from boolab.integrations.monitored_run import MonitoredRun
from tests.support.project import ROOT

MADE = {
    "langchain": ("middleware", "langchain", "langchain"),
    "pydantic_ai": ("capability", "pydantic_ai", "pydantic-ai-slim"),
    "openai_agents": ("hooks", "agents.lifecycle", "openai-agents"),
    "smolagents": ("callback", "smolagents", "smolagents"),
}
LOOK: Any = [("look", {})]


@pytest.mark.parametrize("name", MADE)
def test_an_adapter_without_its_package_says_what_to_install(name: str) -> None:
    function, module, package = MADE[name]
    with contextlib.suppress(ImportError):
        importlib.import_module(module)
        pytest.skip(f"{package} is installed")
    adapter = importlib.import_module(f"boolab.integrations.{name}")
    with pytest.raises(bl.BoolabError, match=f"pip install {package}"):
        getattr(adapter, function)(bl.max_steps(3))


def test_scripted_runs_of_packages_agree_with_counterfactual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "cases", made_cases)
    kept = read_kept()
    assert list(kept) == list(ADAPTERS)
    assert differences(kept) == {}


@pytest.mark.slow
def test_runs_of_packages_agree_with_counterfactual_and_page() -> None:
    kept = read_kept()
    for name, adapter in ADAPTERS.items():
        assert {*kept[name]["found"]} | {*adapter.skips} == {case.name for case in cases()}
    assert differences(kept) == {}
    assert page(kept) == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stop", ["step_cap", 4, "max_steps(3)"]),
        ("model_calls", 4),
        ("end", "finished"),
        ("reason", "By magic."),
        ("kept", 2),
    ],
)
def test_a_package_that_does_something_else_differs(field: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = copy.deepcopy(read_kept())
    only = tuple(case for case in made_cases() if case.name == "3 steps")
    monkeypatch.setattr(monitors, "cases", lambda: only)
    kept["openai-agents"]["found"]["3 steps"][field] = value
    assert [*differences(kept)] == [("openai-agents", "3 steps")]


def test_first_stop_is_reported_once_with_a_reason_for_the_user() -> None:
    reported: list[Any] = []
    run = MonitoredRun(bl.max_steps(2), "shadow", on_stop=reported.append)
    verdicts = [run.after(LOOK, ["x"]) for _ in range(3)]
    assert [stop.step for stop in reported] == [2]
    assert {verdict.action for verdict in verdicts} == {"continue"}
    assert MonitoredRun(bl.max_steps(0)).boundary().message == "Stopped before the first step by max_steps(0)."


def test_the_time_of_a_run_is_that_since_its_turn_began(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    turn, run = (MonitoredRun(bl.max_time(60), scope=scope) for scope in ("turn", "run"))
    now[0] += 50
    for one in (turn, run):
        one.after(LOOK, ["x"])
        one.open_turn()
    now[0] += 20
    assert turn.after(LOOK, ["x"]).action == "continue"
    assert run.after(LOOK, ["x"]).action == "stop"
    assert turn.monitor.counters["elapsed"] == 20_000


@pytest.mark.parametrize("name", MADE)
def test_an_adapter_has_at_most_60_lines_of_code(name: str) -> None:
    text = (ROOT / "boolab" / "integrations" / f"{name}.py").read_text(encoding="utf-8")
    words = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    code = [line for n, line in enumerate(text.splitlines(), 1) if line.strip() and n not in words]
    assert len(code) <= 60
