"""Compactions that follow each other closely: live, in recordings, in tables, and after a resumption."""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.events import RECORDED_BY, compactions_of
from boolab.core.run import Run
from boolab.core.types import Event, Step, Stop, ToolCall, ToolResult
from boolab.limits.detectors.context import CompactionThrash
from boolab.limits.detectors.wrappers import Detections, PerMessage, Rearmed
from boolab.limits.ladder import Watch
from boolab.live.follow.rule_state import RuleState
from boolab.whatif.from_runs import ledger_of
from tests.runtime.engine.test_branch import branched
from tests.support.cases import cases
from tests.support.helpers import call, play

FULL, EMPTY = 1000, 10
"""Tokens of a request, over and under the limit at which these tests compact."""
COMPACTION = bl.Compaction(at_tokens=500, keep_steps=0, by=lambda _: "What was done so far.")


def walked(before: list[int], within: int) -> int:
    """How many compactions, up to the latest, came at most so many steps apart: from the places of all of them."""
    places = [place for place, times in enumerate(before) for _ in range(times)]
    if not places or len(before) - places[-1] > within:
        return 0
    count = 1
    while count < len(places) and places[-count] - places[-count - 1] <= within:
        count += 1
    return count


def one_step(number: int, turn: int = 1, *, counted: bool = True) -> Step:
    response = bl.models.Response("", (ToolCall("", "ls", "{}"),))
    return Step(number, turn, 0, 0, 0, response, (ToolResult("", "x"),), counted=counted)


def compacted_run(before: list[list[tuple[int, bool]]], source: str = "claude_code") -> Run:
    """A run of several turns; each step with how often the history was compacted before it, and whether it counts."""
    steps: list[Step] = []
    events: list[Event] = []
    for turn, given_steps in enumerate(before, 1):
        for times, counted in given_steps:
            events += [Event(None, "compaction", {"after_step": len(steps)})] * times
            steps.append(one_step(len(steps) + 1, turn, counted=counted))
    return Run(run_id="", agent="", model="", policy="", task="", source=source,
               stop=Stop("aborted", len(before[-1]) if before else 0),
               steps=tuple(steps), events=tuple(events))  # fmt: skip


TIMES = st.sampled_from((0, 0, 0, 1, 1, 2))


@cases(100)
@given(st.lists(st.lists(st.tuples(TIMES, st.sampled_from((True, True, False))), min_size=1, max_size=8), max_size=3),
       st.integers(1, 3), st.sampled_from(("turn", "run")))  # fmt: skip
def test_the_fold_counts_what_the_places_of_all_compactions_say(turns: Any, within: int, scope: Any) -> None:
    detector, run = CompactionThrash(within), compacted_run(turns)
    found = ledger_of([run], [detector], scope).counters[detector.name].tolist()
    expected: list[int] = []
    for part in turns if scope == "turn" else [[one for turn in turns for one in turn]]:
        before: list[int] = []
        waiting = count = 0
        for times, counted in part:
            waiting += times
            if counted:
                before.append(waiting)
                waiting, count = 0, walked(before, within)
            expected.append(count)
    assert found == expected
    if all(counted for turn in turns for _, counted in turn):
        rows = bl.boundaries_df(run, bl.detectors.compaction_thrash(2, within))
        assert scope == "run" or rows[rows["boundary"] > 0][detector.name].tolist() == found


ITEMS = st.lists(st.sampled_from((FULL, EMPTY)), max_size=12).map(
    lambda tokens: [
        {"tool_calls": [call("look", n=n)], "usage": {"input_tokens": of, "output_tokens": 1}}
        for n, of in enumerate(tokens)
    ]
)


@cases(50, suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS, st.integers(1, 3), st.integers(2, 4))
def test_compaction_thrash_stops_live_where_recording_fires(items: Any, within: int, n: int) -> None:
    rule = bl.detectors.compaction_thrash(n, within)
    whole = play([*items, "done"], compaction=COMPACTION, stop=bl.max_steps(100))
    rows = bl.boundaries_df(whole, rule)
    fired = [number for number, true in enumerate(rule(rows)) if true]
    live = play([*items, "done"], compaction=COMPACTION, stop=rule)
    assert (live.stop_step if live.stop_reason == "stuck" else None) == (fired[0] if fired else None)
    table = bl.counterfactual([whole], rules=[rule])
    assert table["stop_step"].tolist() == [live.stop_step]
    before = compactions_of(whole) or {}
    counts = [walked([before.get(k + 1, 0) for k in range(end)], within) for end in range(len(rows))]
    assert rows[f"compaction_thrash:{within}"].tolist() == counts


@cases(25, suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS, st.data())
def test_compaction_count_continues_in_a_branch(items: Any, data: Any) -> None:
    rule, script = bl.detectors.compaction_thrash(2, 2), bl.ScriptedModel([*items, "done"])
    whole = play(script, compaction=COMPACTION, stop=bl.max_steps(100))
    at = data.draw(st.integers(0, len(items)))
    live = play(script, compaction=COMPACTION, stop=rule)
    if live.stop_step > at:
        branch = branched(whole, at, script, compaction=COMPACTION, stop=rule)
        assert (branch.stop_reason, branch.stop_step) == (live.stop_reason, live.stop_step)
        assert compactions_of(branch) == compactions_of(live)


@cases(50, suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS, st.integers(1, 3), st.integers(2, 4))
def test_compaction_thrash_stops_monitor_and_log_as_live_loop(items: Any, within: int, n: int) -> None:
    rule = bl.detectors.compaction_thrash(n, within) | bl.detectors.context_growth(1500, "tool")
    whole = play([*items, "done"], compaction=COMPACTION, stop=bl.max_steps(100))
    live = play([*items, "done"], compaction=COMPACTION, stop=rule)
    monitor, before = bl.Monitor(rule), compactions_of(whole) or {}
    state = RuleState(rule, "turn")
    for step in whole.steps[: len(items)]:
        if times := before.get(step.index):
            monitor.compacted(times)
        monitor = pickle.loads(pickle.dumps(monitor))  # noqa: S301 - its own
        monitor.after(step.response.tool_calls, step.results, step.response.usage)
        prefix = whole.steps[: step.index]
        known = tuple(event for event in whole.events if event.payload.get("after_step", 0) < step.index)
        state.update(replace(whole, steps=prefix, events=known, stop=Stop("aborted", len(prefix))))
    assert monitor.first_stop == (live.stop if live.stop_reason == "stuck" else None)
    assert [fired.stop for fired in state.fired] == ([live.stop] if live.stop_reason == "stuck" else [])


def test_third_rapid_compaction_stops_and_spaced_ones_do_not() -> None:
    def script(*tokens: int) -> list[Any]:
        usage = [{"input_tokens": of, "output_tokens": 1} for of in tokens]
        return [*({"tool_calls": [call("look", n=n)], "usage": of} for n, of in enumerate(usage)), "done"]

    rule = bl.detectors.compaction_thrash(3)
    refilled = script(*[FULL, EMPTY] * 6)  # Claude Code: the context is full again within 3 turns
    assert play(refilled, compaction=COMPACTION, stop=rule).stop_step == 6
    every = script(*[FULL] * 8)  # opencode issue 27924, hermes-agent issue 53008: again at each step
    assert play(every, compaction=COMPACTION, stop=rule).stop_step == 4
    seldom = script(*[FULL, EMPTY, EMPTY, EMPTY] * 6)
    assert play(seldom, compaction=COMPACTION, stop=rule).stop_reason == "finished"
    assert play(seldom, compaction=COMPACTION, stop=bl.detectors.compaction_thrash(3, 4)).stop_step == 10


@cases(50)
@given(st.lists(st.integers(0, 5), max_size=8))
def test_compaction_chain_is_one_more_than_claude_code_refills(gaps: list[int]) -> None:
    places, refills = [0], 0
    for turns in gaps:  # since the compaction before; at the third of fewer than 3 turns in a row it gives up
        refills = refills + 1 if turns < 3 else 0
        places.append(places[-1] + turns)
    run = compacted_run([[(places.count(place), True) for place in range(places[-1] + 1)]])
    assert ledger_of([run], [CompactionThrash()]).counters["compaction_thrash:2"][-1] == refills + 1


def test_compactions_are_unknown_if_the_source_omits_them() -> None:
    run, rule = compacted_run([[(0, True)] * 3]), bl.detectors.compaction_thrash(2)
    assert compactions_of(run) == {}
    other = replace(run, source="swe_agent")
    assert compactions_of(other) is None
    assert bl.boundaries_df(other, rule)["compaction_thrash:2"].isna().tolist() == [False, True, True, True]
    assert bl.scorecard([other], [rule], positive=lambda _: True).frame["n_unknown"].tolist() == [1]
    assert compactions_of(replace(compacted_run([[(0, True), (1, True)]]), source="swe_agent")) == {2: 1}


def test_opencode_compaction_with_two_messages_counts_once() -> None:
    run = compacted_run([[(0, True)] * 3], "opencode")
    pair = (
        Event(1, "compaction", {"after_step": 1, "auto": True}),
        Event(2, "compaction", {"after_step": 1, "reason": "summary"}),
    )
    assert compactions_of(replace(run, events=pair)) == {2: 1}
    assert compactions_of(replace(run, events=pair * 2)) == {2: 2}
    assert compactions_of(replace(run, events=(*pair, pair[0]))) == {2: 2}


def test_every_format_whose_reader_reports_compactions_is_named() -> None:
    from importlib import import_module
    from pathlib import Path

    import boolab.logs.readers

    folder = Path(boolab.logs.readers.__file__).parent
    stems = {path.stem for path in folder.glob("*.py") if '"compaction"' in path.read_text("utf-8")}
    of_parts = {
        "_claude_chain": "claude_code",
        "_claude_run": "claude_code",
        "_codex_account": "codex",
        "_opencode_database": "opencode",
        "_opencode_session": "opencode",
    }
    stems = {of_parts.get(stem, stem) for stem in stems}
    names = {import_module(f"boolab.logs.readers.{stem}").NAME for stem in stems}
    assert names | {"boolab"} == RECORDED_BY


@pytest.mark.parametrize(
    ("wrapped", "counts"),
    [
        (PerMessage(CompactionThrash()), [1, 1, 0]),
        (Rearmed(CompactionThrash(), 2), [1, 2, 0]),
        (Detections(CompactionThrash(), 2), [0, 1, 2]),
    ],
)
def test_detectors_around_it_pass_compactions_on(wrapped: Any, counts: list[int]) -> None:
    watch, found = Watch([wrapped]), []
    for times in (1, 1, 0):
        if times:
            watch.add_compaction(times)
        got: dict[str, int | None] = {}
        step = one_step(1)
        watch.complete(step.response, step.results, got)
        found.append(got[wrapped.name])
    assert found == counts
    plain = Watch([PerMessage(bl.detectors.RepeatStreak())])
    plain.add_compaction(None)
    assert pickle.loads(pickle.dumps(wrapped)) == wrapped  # noqa: S301 - its own
