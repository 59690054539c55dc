"""Of every prefix of a log, the state of a rule is what the offline rules say of it."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.errors import ReadWarning
from boolab.limits.stop import StopRule
from boolab.live.follow.fleet import Fleet
from boolab.live.follow.log_file import LogFile
from boolab.live.follow.places import places_of
from boolab.live.follow.rule_state import Fired, RuleState
from boolab.logs.log_files import SourceScope, scope_of
from tests.support.growing import encoded, fresh
from tests.support.samples import FOLDER, shared

RULES: list[StopRule] = [
    bl.max_steps(4),
    bl.tool_budget(6),
    bl.doom_loop(2),
    bl.error_streak(2, on_unknown="ignore"),
    bl.max_steps(20) | (bl.tool_budget(10) & bl.error_streak(1, on_unknown="ignore")),
    bl.max_tokens(30_000, on_unknown="ignore"),
]


def offline(run: bl.Run, rule: StopRule, scope: Any = "auto") -> tuple[int, int, str] | None:
    """The turn, the step and the reason of the first stop, by `counterfactual`."""
    row = bl.counterfactual([run], rules=[rule], own_limits="lifted", scope=scope).iloc[0]
    if row["outcome"] == "unchanged" or row["stop_step"] is pd.NA:
        return None
    return row["stop_turn"], row["stop_step"], row["stop_reason"]


def first(fired: list[Fired]) -> tuple[int, int, str] | None:
    """The same of a state that was followed."""
    return (fired[0].turn, fired[0].stop.step, fired[0].stop.reason) if fired else None


step = st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 3))
"""What a step calls, whether that fails, and how many calls it makes."""


def lines_of(turns: list[list[tuple[int, bool, int]]]) -> list[dict[str, Any]]:
    """The lines of a session of Claude Code with these steps, each call on a line of its own."""
    lines: list[dict[str, Any]] = []
    about = {"sessionId": "s1", "isSidechain": False, "timestamp": "2026-01-01T00:00:00Z"}

    def add(kind: str, **more: Any) -> None:
        before = lines[-1]["uuid"] if lines else None
        lines.append({"type": kind, "uuid": f"u{len(lines)}", "parentUuid": before, **about, **more})

    for t, turn in enumerate(turns):
        add("user", message={"role": "user", "content": f"task {t}"})
        for s, (which, failing, calls) in enumerate(turn):
            head: dict[str, Any] = {"id": f"m{t}.{s}", "role": "assistant", "model": "x", "usage": {"input_tokens": 9}}
            for c in range(calls):
                block: dict[str, Any] = {
                    "type": "tool_use",
                    "id": f"t{t}.{s}.{c}",
                    "name": "Bash",
                    "input": {"command": which},
                }
                add("assistant", message={**head, "content": [block]})
            if not calls:
                add("assistant", message={**head, "content": [{"type": "text", "text": "Done."}]})
            for c in range(calls):
                block = {"type": "tool_result", "tool_use_id": f"t{t}.{s}.{c}", "content": "x", "is_error": failing}
                add("user", message={"role": "user", "content": [block]})
    return lines


@given(st.lists(st.lists(step, max_size=5), min_size=1, max_size=3), st.sampled_from(RULES))
def test_line_by_line_a_rule_is_true_where_the_offline_rule_is(
    tmp_path_factory: pytest.TempPathFactory, turns: list[list[tuple[int, bool, int]]], rule: StopRule
) -> None:
    path = tmp_path_factory.mktemp("logs") / "s1.jsonl"
    path.write_bytes(b"")
    scopes: tuple[SourceScope, ...] = ("turn", "run")
    log, states = LogFile(path), {scope: RuleState(rule, scope) for scope in scopes}
    lines = lines_of(turns)
    for line in lines:
        with path.open("ab") as file:
            file.write(encoded(line))
        log.update()
        for scope, state in states.items():
            if log.runs:
                state.update(log.runs[0])
                again = RuleState(rule, scope)  # counted from the beginning
                again.update(log.runs[0])
                assert (state.fired, state.totals, dict(state.counters)) == (
                    again.fired,
                    again.totals,
                    dict(again.counters),
                )
    for run in fresh(path) or []:
        for scope, state in states.items():
            assert first(state.fired) == offline(run, rule, scope)


def test_late_call_of_a_response_is_counted_in_its_step(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    lines = lines_of([[(0, False, 2), (1, False, 1)]])
    user, first_call, second_call, first_result, second_result = lines[:5]
    second_call["parentUuid"], second_result["parentUuid"] = first_result["uuid"], second_call["uuid"]
    state = RuleState(bl.tool_budget(2), "turn")
    log = LogFile(path)
    calls = []
    path.write_bytes(b"")
    for line in (user, first_call, first_result, second_call, second_result, *lines[5:]):
        with path.open("ab") as file:
            file.write(encoded(line))
        log.update()
        state.update(log.runs[0])
        calls.append((state.counters["steps"], state.counters["tool_calls"]))
    assert calls == [(0, 0), (0, 0), (1, 1), (0, 0), (1, 2), (1, 2), (2, 3)]
    assert first(state.fired) == offline(log.runs[0], bl.tool_budget(2)) == (1, 1, "tool_budget")


def test_a_counter_that_the_log_lacks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"".join(map(encoded, lines_of([[(0, False, 1)]]))))
    log = LogFile(path)
    log.update()
    state = RuleState(bl.max_cost(1), "turn")
    state.update(log.runs[0])
    assert (state.fired, state.undecided) == ([], ("cost",))


def test_list_prices_fill_in_costs_where_the_log_lacks_them(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    lines = lines_of([[(0, False, 1)] * 3])
    usage = {"input_tokens": 10**6, "output_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    for line in lines:
        if line["type"] == "assistant":
            line["message"] |= {"model": "claude-sonnet-4-5", "usage": usage}
    path.write_bytes(b"".join(map(encoded, lines)))
    log = LogFile(path)
    log.update()
    state = RuleState(bl.max_cost(0.01), "turn", prices=True)
    state.update(log.runs[0])
    assert first(state.fired) == (1, 1, "cost_budget")
    assert state.totals.cost == sum(step.response.usage.cost or 0 for step in bl.priced(log.runs)[0].steps)
    for prices in (True, False):  # a run that is opened has the costs of its row
        fleet = Fleet(places_of([tmp_path]), bl.max_cost(0.01), prices=prices)
        fleet.look()
        assert [fleet.run(row.run_id) for row in fleet.rows()] == bl.load_runs(path, prices=prices)


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER.exists(), reason="there is no ../shared/data")
@pytest.mark.parametrize(
    "name",
    [
        "claude-code/spotter/tool_heavy.jsonl",
        "claude-code/claude-code-log/representative_messages.jsonl",
        "agtrace/samples/claude_session.jsonl",
        "agtrace/samples/codex_session.jsonl",
        "pi/large-session.jsonl",
    ],
)
def test_real_logs_stop_line_by_line_where_counterfactual_does(name: str, tmp_path: Path) -> None:
    path = tmp_path / Path(name).name
    path.write_bytes(b"")
    log = LogFile(path)
    states: dict[tuple[str, int], RuleState] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        for line in shared(name).read_bytes().splitlines(keepends=True):
            with path.open("ab") as file:
                file.write(line)
            log.update()
            for run in log.runs:
                for place, rule in enumerate(RULES):
                    state = states.setdefault((run.run_id, place), RuleState(rule, scope_of(run.source)))
                    state.update(run)
    for run in log.runs:
        for place, rule in enumerate(RULES):
            assert first(states[run.run_id, place].fired) == offline(run, rule), (run, rule)


def test_final_text_counts_towards_the_limit_and_fires_nothing() -> None:
    """It is a response, so the limit and the number of steps agree; after it no rule is evaluated."""
    run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
    state = RuleState(bl.max_steps(1), "turn")
    state.update(run)
    assert (state.progress["steps"], state.totals.steps, state.progress["tool_calls"]) == (1, 1, 0)
    assert not state.fired
    look = {"tool_calls": [{"name": "ls"}], "repeat": 3}
    longer = bl.run_sync(None, "Look", model=bl.ScriptedModel([look, "Done."]), stop=bl.max_steps(9))
    for n in range(1, longer.n_steps + 1):
        state = RuleState(bl.max_steps(9), "turn")
        state.update(replace(longer, steps=longer.steps[:n]))
        assert state.progress["steps"] == state.totals.steps == n
