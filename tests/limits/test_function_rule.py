"""Functions of the beginning of a run are rules: live, on recordings, and in the benchmark, at the same step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from benchmarks.stoprulebench.entries import About, FunctionEntry, RuleEntry
from benchmarks.stoprulebench.first_stops import Scoped
from benchmarks.stoprulebench.judge import judge
from boolab.limits.function_rule import as_rule
from tests.support.bench_cases import some_recordings

LOOK = {"tool_calls": [{"name": "ls"}]}


def long(prefix: Any) -> bool:
    return len(prefix.steps) >= 3


def failing(prefix: Any) -> bool:
    results = [result for step in prefix.steps for result in step.results if result is not None]
    return sum(result.is_error is True for result in results) >= 2


def late(prefix: Any) -> bool:
    step = prefix.steps[-1]
    return bool((step.start_ms or 0) + (step.duration_ms or 0) > 10**6 or step.index == 4)


def run_of(steps: int, **how: Any) -> bl.Run:
    return bl.run_sync(None, "Look", model=bl.ScriptedModel([{**LOOK, "repeat": steps}, "Done."]), **how)


@pytest.mark.parametrize("function", [long, failing, late])
def test_function_stops_a_run_and_its_recording_alike(function: Callable[[Any], bool]) -> None:
    live, free = run_of(6, stop=function), run_of(6, stop=bl.max_steps(99))
    row = bl.counterfactual(free, rules=function).iloc[0]
    assert row["rule"] == function.__name__ == live.stop.rule
    assert (row["stop_step"], row["stop_reason"]) == (live.stop_step, live.stop_reason) == (live.n_steps, "stuck")
    in_shadow = run_of(6, stop=bl.max_steps(99), shadow=[function])
    assert [bool(step.shadow_stops) for step in in_shadow.steps].index(True) == live.n_steps
    assert bl.Replay(free, rules=[function]).run.run_id == free.run_id


def test_function_rule_gives_the_same_tables_as_a_built_in_rule() -> None:
    runs = bl.load_dataset("atlas/tau-airline", limit=40)

    def cap(prefix: Any) -> bool:
        return len(prefix.steps) >= 7

    both = [bl.counterfactual(runs, rules=[rule]) for rule in (cap, bl.max_steps(7))]
    first, second = (table.drop(columns=["rule", "stop_reason"]) for table in both)
    assert first.equals(second)
    cards = [bl.scorecard(runs, rule)[["alarms", "true_alarms", "saved_steps"]] for rule in (cap, bl.max_steps(7))]
    assert cards[0].equals(cards[1])
    found = [bl.stats.frontier(runs, [rule])[["kept_lower", "saved_steps"]] for rule in (cap, bl.max_steps(7))]
    assert found[0].equals(found[1])


def test_counters_of_a_function_start_again_with_a_turn() -> None:
    turn = [{"role": "user", "content": "Go"}] + [
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "a"},
    ] * 2
    runs = bl.load_runs([turn * 2])
    by_turn, by_run = (bl.counterfactual(runs, rules=long, scope=scope) for scope in ("turn", "run"))
    assert by_turn["outcome"].tolist() != by_run["outcome"].tolist() == ["truncated"]


def test_benchmark_judges_a_function_and_its_rule_alike(tmp_path: Path) -> None:
    data = some_recordings()
    function = FunctionEntry(about=About(name="a"), target=long)
    rule = RuleEntry(about=About(name="a"), settings=[(Scoped(as_rule(long, "rules")),)])
    assert len({str(one.tracks["none"]) for entry in (function, rule) for one in judge([entry], data)}) == 1


class Learner:
    def fit(self, runs: Any) -> Any: ...


async def waits(prefix: Any) -> bool:
    return True


def scores(prefix: Any) -> float:
    return 0.5


def breaks(prefix: Any) -> bool:
    return prefix.step > 3  # type: ignore[no-any-return]


def by_agent(prefix: Any) -> bool:
    return prefix.agent == "a"  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Learner, r"Learner\(\).fit\(runs\)"),
        (Learner(), r"it.fit\(runs\)"),
        (waits, "a plain function, not an async one"),
        (bl.max_steps, r"what it makes, such as max_steps\(20\)"),
        ("my.py:RULE", "from my import RULE"),
        ("doom_loop", "is not a stop rule"),
        (3, "is not a stop rule"),
        (scores, "gave 0.5 after step 1.*a threshold on a score"),
        (breaks, "breaks after step 1: AttributeError: .*no attribute 'step'"),
        (by_agent, "reads prefix.agent.*by='agent'"),
        ([long, lambda prefix: True, lambda prefix: False], "two functions are called .*lambda.*with def"),
    ],
)
def test_what_is_no_rule_is_named_with_what_is(rule: Any, words: str) -> None:
    run = run_of(2, stop=bl.max_steps(99))
    for use in (bl.counterfactual, bl.scorecard):
        with pytest.raises(bl.SettingError, match=words):
            use(run, rules=rule)


def test_function_needs_the_calls_of_runs() -> None:
    run = run_of(2, stop=bl.max_steps(99))
    with pytest.raises(bl.SettingError, match="function:.*long cannot be computed from a frame.*pass runs"):
        bl.counterfactual(bl.recording_df(run), rules=long)
