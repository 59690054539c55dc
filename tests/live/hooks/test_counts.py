"""The counts of the hook: kept from step to step, they are those of all events, and what is lost makes no stop."""

import errno
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Response, Step, Stop, ToolCall, ToolResult
from boolab.live.hooks import counts, journal
from boolab.live.hooks.claude_code import call_records
from boolab.live.hooks.counts import Boundary, State, monitor_for, state_after
from boolab.live.hooks.options import Options
from tests.support.cases import cases
from tests.support.hook_events import Did, Session

ONE, OTHER = {"command": "make"}, {"command": "ls"}
IDS = st.sampled_from([*"abcdefgh", ""])
TIMES = st.one_of(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(list), st.sampled_from([None, "x", [1], [1, True]])
)
CALLS = st.tuples(
    IDS,
    st.sampled_from(["Bash", "Read"]),
    st.integers(0, 1),
    st.integers(0, 2),
    st.integers(0, 1),
    st.sampled_from(["", "refused", "denied"]),
).map(list)
RECORDS = st.one_of(
    st.fixed_dictionaries({"e": st.sampled_from(["asked", "blocked", "ran", "failed"]), "id": IDS}),
    st.fixed_dictionaries({"e": st.just("step"), "t": TIMES, "calls": st.lists(CALLS, max_size=3)}),
    st.fixed_dictionaries({"e": st.sampled_from(["turn", "compact", "lost", "verdict", "new"]), "t": TIMES}),
    st.sampled_from([{}, {"e": []}, {"e": "ran", "id": [1]}, {"e": "step", "calls": [7, ["a"], [None] * 6]}]),
)


def written(state: State) -> str:
    return json.dumps(state.as_json())


@pytest.mark.parametrize("seen", [4, 1000])
@given(st.lists(st.tuples(RECORDS, st.booleans()), max_size=30))
def test_counts_kept_at_any_place_are_those_of_all_records(
    seen: int, records: list[tuple[dict[str, Any], bool]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "MAX_CALL_IDS", seen)
        replayed, kept = State(), State()
        for record, is_kept in records:
            replayed.apply(record)
            kept.apply(record)
            if is_kept:
                kept = State.from_json(json.loads(written(kept)))
        assert written(kept) == written(replayed)


EVENTS = st.lists(
    st.one_of(
        st.lists(
            st.builds(
                Did,
                st.sampled_from(["Bash", "Read"]),
                st.sampled_from([ONE, OTHER]),
                st.sampled_from(["ok", "no"]),
                st.sampled_from(
                    ["ran", "ran", "failed", "failed", "denied", "refused"]
                    + [f"{end}-{lost}" for end in ("ran", "failed") for lost in ("asked", "result", "both")]
                ),
            ),
            min_size=1,
            max_size=3,
        ),
        st.sampled_from(["prompt", "again", "compact"]),
    ),
    max_size=12,
)
LIMITS = "--max-steps 5 --tool-budget 7 --doom-loop 2 --error-streak 2"


def answers(events: list[Any], options: str) -> list[Any]:
    """What a session answers; `again` is the event at the end of the step before, once more."""
    session = Session(options)
    session._ids = iter(range(1000))
    given: list[Any] = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        for event in events:
            if event == "prompt":
                session.prompt()
            elif event == "compact":
                session.event("SessionStart", source="compact")
            elif event == "again" and session.calls:
                given.append(session.event("PostToolBatch", tool_calls=session.calls))
            elif event != "again":
                given.append(session.step(*event))
        session.event("Stop")
        log = Path(folder, "boolab/hook/claude-code/log.jsonl").read_text() if given else ""
    return [given, [{**json.loads(line), "at": ""} for line in log.splitlines()]]


@cases(150)
@given(EVENTS, st.sampled_from(["turn", "run"]), st.sampled_from(["stop", "nudge", "shadow"]))
def test_rewriting_the_journal_at_each_step_changes_no_answer(events: list[Any], scope: str, action: str) -> None:
    options = f"{LIMITS} --scope {scope}{'' if action == 'stop' else f' --{action}'}"
    whole = answers(events, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "COMPACT_BYTES", 0)
        assert answers(events, options) == whole


ENDS = ("ran", "ran", "failed", "failed", "refused", "ran-both", "failed-both")


def steps_by(chance: Random, ends: Sequence[str]) -> list[list[Did]]:
    """Some steps of one to three calls each."""
    return [
        [
            Did(chance.choice(["Bash", "Read"]), chance.choice([ONE, OTHER]), "ok", chance.choice(ends))
            for _ in range(chance.randint(1, 3))
        ]
        for _ in range(chance.randint(1, 8))
    ]


def recorded(number: int, steps: list[list[Did]]) -> Run:
    """The run with these calls as a log has it; the status of a call whose records are lost is not known."""
    status = {"ran": False, "failed": True, "refused": True}
    made = []
    for index, did in enumerate(steps, 1):
        calls = tuple(ToolCall(f"{index}.{n}", call.tool, json.dumps(call.arguments)) for n, call in enumerate(did))
        pairs = zip(calls, did, strict=True)
        results = tuple(ToolResult(call.id, one.given, is_error=status.get(one.end)) for call, one in pairs)
        made.append(Step(index, 1, None, None, None, Response("", calls), results))
    made.append(Step(len(made) + 1, 1, None, None, None, Response("Done.")))
    stop = Stop("finished", len(steps))
    return Run(run_id=f"r{number}", agent="", model="m", policy="", task="t", stop=stop, steps=tuple(made))


@pytest.mark.parametrize("limits", ["--error-streak 2", "--error-streak 3 --doom-loop 3"])
def test_hook_stops_where_counterfactual_of_the_same_calls_does(limits: str) -> None:
    chance = Random(34)  # noqa: S311 - no secret
    histories = [steps_by(chance, ENDS) for _ in range(40)]
    rule = bl.error_streak(int(limits.split()[1]), on_unknown="ignore")
    rules = [rule | bl.doom_loop(3)] if "doom" in limits else [rule]
    table = bl.counterfactual([recorded(*pair) for pair in enumerate(histories)], rules=rules)
    expected = [
        step if outcome == "truncated" else None
        for outcome, step in zip(table["outcome"], table["stop_step"], strict=True)
    ]
    told = []
    for number, steps in enumerate(histories):
        session = Session(limits, session=f"{limits}{number}")
        told.append(next((index for index, did in enumerate(steps, 1) if session.step(*did)), None))
    assert told == expected
    assert 5 < sum(step is not None for step in told) < 40


def check_full_disk(seed: int) -> int:
    """Let a disk be full at times; nothing is stopped before it is due. How many times it was full."""
    chance, times = Random(seed), [0]  # noqa: S311 - no secret
    options = "--max-steps 4 --tool-budget 6 --doom-loop 2 --error-streak 2"
    monitor = monitor_for(Options.parse(options.split()))
    session = Session(options)
    write = journal._write

    def write_at_times(fd: int, content: bytes) -> None:
        if chance.random() < 0.25:
            times[0] += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        write(fd, content)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        patch.setattr(journal, "_write", write_at_times)
        for did in steps_by(chance, ("ran", "failed", "refused")):
            if chance.random() < 0.2:
                monitor.open_turn()
                ignoring(session.event, "UserPromptSubmit", prompt="Go on.")
            calls = [(call.tool, json.dumps(call.arguments)) for call in did]
            monitor.after(calls, [(call.given, call.end != "ran") for call in did])
            told = step_ignoring_errors(session, did)
            if monitor.verdict.action == "stop":
                break
            assert told == [], (seed, did)
    return times[0]


def test_what_a_full_disk_loses_makes_no_stop() -> None:
    assert sum(map(check_full_disk, range(40))) > 40


@pytest.mark.slow
def test_what_a_full_disk_loses_makes_no_stop_in_600_sessions() -> None:
    assert sum(map(check_full_disk, range(1000, 1600))) > 600


def ignoring(event: Any, name: str, **more: Any) -> Any:
    """The answer to an event; as in the process of the hook, an error is no answer."""
    try:
        return event(name, **more)
    except OSError:
        return None


def step_ignoring_errors(session: Session, did: list[Did]) -> list[Any]:
    """All that the hook answers to a step."""
    event, given = session.event, []

    def answer(name: str, **more: Any) -> None:
        if (said := ignoring(event, name, **more)) is not None:
            given.append(said)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "event", answer)
        session.step(*did)
    return given


def hooked(*steps: list[Did], options: str) -> list[str]:
    session = Session(options, session=options)
    return [session.step(*did) for did in steps]


@pytest.mark.parametrize("lost", ["asked", "result", "both"])
def test_a_lost_record_of_a_success_is_no_error(lost: str) -> None:
    gone = [[Did(arguments=number, end=f"ran-{lost}")] for number in range(4)]
    assert hooked(*gone, options="--error-streak 1") == [""] * 4
    failed = [Did(arguments="x", end="failed")]
    assert hooked(failed, *gone, failed, options="--error-streak 2") == [""] * 6


def test_error_streak_is_unknown_after_a_lost_call_until_success() -> None:
    failed, gone, ran = ([Did(arguments=end, end=end)] for end in ("failed", "ran-both", "ran"))
    told = hooked(gone, failed, failed, failed, ran, failed, failed, options="--error-streak 2")
    assert [bool(text) for text in told] == [False] * 6 + [True]


def test_a_step_cap_counts_steps_whose_results_are_lost() -> None:
    told = hooked(*([Did(arguments=number, end="ran-both")] for number in range(3)), options="--max-steps 3")
    assert [bool(text) for text in told] == [False, False, True]


def test_a_call_with_a_lost_result_may_have_ended_a_doom_loop() -> None:
    same, gone = [Did(arguments=1)], [Did(arguments=2, end="ran-result")]
    assert hooked(same, gone, same, options="--doom-loop 2") == [""] * 3
    assert hooked(same, [Did(arguments=1, end="ran-result")], same, options="--doom-loop 2 --shadow") == [""] * 3
    denied = [Did(arguments=2, end="denied")]
    assert hooked(same, denied, same, options="--doom-loop 2 --error-streak 9")[-1] != ""


def test_a_step_that_was_lost_ends_streaks() -> None:
    session = Session("--error-streak 2 --doom-loop 3")
    failed = Did(arguments=1, end="failed")
    assert session.step(failed) == ""
    for name in ("PreToolUse", "PostToolUse"):  # its PostToolBatch is lost
        session.event(name, tool_name="Bash", tool_input={}, tool_use_id="toolu_lost")
    assert [bool(session.step(failed)) for _ in range(3)] == [False, False, True]


def test_a_call_without_an_id_counts_nowhere_and_ends_streaks() -> None:
    session = Session("--error-streak 2 --max-steps 3")
    failed = Did(end="failed")
    assert session.step(failed) == ""
    nameless = {"tool_name": "Bash", "tool_input": {}, "tool_response": "ok"}
    assert session.event("PostToolBatch", tool_calls=[nameless]) is None
    for name in ("PreToolUse", "PostToolUse", "PostToolUseFailure"):
        with pytest.raises(ValueError, match="no tool_use_id"):
            session.event(name, **nameless)
    assert session.step(failed) == ""
    assert session.event("PostToolBatch", tool_calls=[nameless]) is None
    assert session.step(failed) != ""  # the third step on record
    assert session.event("PostToolBatch", tool_calls=[nameless]) is None  # no failure of the hook ends the agent


def test_each_call_without_an_id_ends_streaks() -> None:
    session = Session("--error-streak 2")
    nameless = {"tool_name": "Bash", "tool_input": {}, "tool_response": "ok"}
    for end in ("", "ran", "failed", "", "failed"):
        if end:
            assert session.step(Did(arguments=end, end=end)) == ""
        else:
            assert session.event("PostToolBatch", tool_calls=[nameless]) is None


@pytest.mark.parametrize("scope", ["turn", "run"])
def test_time_of_a_run_counts_on_over_turns(scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clocks(monkeypatch)
    session = Session(f"--max-time 60 --scope {scope}", session=scope)
    session.prompt()
    now.update(wall=50, other=50)
    assert session.step(Did(arguments=1)) == ""
    session.prompt()
    now.update(wall=61, other=61)
    assert bool(session.step(Did(arguments=2))) == (scope == "run")


def clocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Two clocks, in seconds: the time of day, and the one that is never set."""
    now = {"wall": 0, "other": 0}
    monkeypatch.setattr("boolab.live.hooks.journal.time.time_ns", lambda: now["wall"] * 1_000_000_000)
    monkeypatch.setattr("boolab.live.hooks.journal.time.monotonic_ns", lambda: now["other"] * 1_000_000_000)
    return now


@pytest.mark.parametrize(("wall", "other"), [(10_000, 5), (-10_000, 70), (70, -10_000), (5, 10_000)])
def test_a_clock_that_is_set_makes_no_stop(wall: int, other: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clocks(monkeypatch)
    session = Session("--max-time 60")
    session.prompt()
    now.update(wall=wall, other=other)
    assert session.step(Did(arguments=1)) == ""
    now.update(wall=60, other=60)
    assert session.step(Did(arguments=2)) != ""


def test_elapsed_time_is_zero_where_none_has_passed(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    clocks(monkeypatch)
    session = Session("--max-time 60")
    session.prompt()
    session.step(Did())
    assert counted(state).turn.place.counters["elapsed"] == 0


def counted(state: Path, session: str = "s-1") -> State:
    return state_after((state / f"sessions/{session}/main.jsonl").read_bytes())


def test_repeated_event_after_the_next_step_counts_once(state: Path) -> None:
    session = Session("--max-steps 3 --error-streak 2")
    session.step(Did(arguments=1))
    first = session.calls
    session.step(Did(arguments=2, end="failed"))
    for name in ("PreToolUse", "PostToolUse"):
        session.event(name, **first[0])
    assert session.event("PostToolBatch", tool_calls=first) is None
    assert counted(state).turn.place.counters["steps"] == counted(state).run.place.counters["steps"] == 2
    assert "error_streak(2)" in Session("--error-streak 2").step(Did(arguments=3, end="failed"))  # it ended no streak


def test_a_call_that_is_twice_in_one_event_counts_once() -> None:
    call = {"tool_use_id": "a", "tool_name": "ls", "tool_input": {}, "tool_response": "x"}
    records = call_records([call, call, {**call, "tool_use_id": "b"}], b"key")
    assert [record[0] for record in records] == ["a", "b"]


def test_a_state_is_bounded_by_the_newest_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MAX_CALL_IDS", 20)
    state, sizes = State(), set()
    for number in range(100, 300):
        state.apply({"e": "asked", "id": f"gone{number}"})
        state.apply({"e": "ran", "id": f"id{number}"})
        state.apply({"e": "step", "t": [0, 0], "calls": [[f"id{number}", "ls", number, number, 7, ""]]})
        sizes.add(len(written(state)))
    assert max(sizes) == len(written(state))
    assert len(state.as_json()["seen"]) == 20
    state.apply({"e": "step", "t": [0, 0], "calls": [[f"more{number}", "ls", 0, 0, 0, ""] for number in range(30)]})
    state.apply({"e": "step", "t": [0, 0], "calls": [["more0", "ls", 0, 0, 0, ""]]})
    assert state.run.place.counters["steps"] == 201


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ("--doom-loop 2", None),
        ("--doom-loop 3", "doom_loop(3, canonical)"),
        ("--doom-loop 3 --identity ordered", None),
        ("--doom-loop 3 --identity tool", "doom_loop(3, tool)"),
        ("--doom-loop 3 --identity tool --exempt Bash", None),
        ("--doom-loop 3 --exempt Read", "doom_loop(3, canonical,Read=exempt)"),
    ],
)
def test_one_state_answers_for_all_options(options: str, rule: str | None) -> None:
    state = State()
    for number in range(3):
        state.apply({"e": "ran", "id": f"{number}"})
        state.apply({"e": "step", "t": [0, 0], "calls": [[f"{number}", "Bash", 7, number, number, ""]]})
    if options == "--doom-loop 2":
        state = State()
    stop = Boundary(state, Options.parse(options.split())).verdict.stop
    assert (None if stop is None else stop.rule) == rule


def test_interrupted_call_ends_no_streak_of_the_next_turn() -> None:
    for scope, told in (("turn", True), ("run", False)):
        session = Session(f"--error-streak 2 --scope {scope}", session=scope)
        session.event("PreToolUse", tool_use_id="toolu_interrupted")
        session.prompt()
        assert session.step(Did(arguments=1, end="failed")) == ""
        assert bool(session.step(Did(arguments=2, end="failed"))) == told


def test_a_refusal_in_a_list_of_blocks_is_one() -> None:
    session = Session("--error-streak 2")
    block = {"type": "text", "text": "<tool_use_error>no such tool</tool_use_error>"}
    for number in range(2):
        call = {"tool_use_id": f"t{number}", "tool_name": "Gone", "tool_input": {}, "tool_response": [block]}
        answer = session.event("PostToolBatch", tool_calls=[call])
    assert answer is not None


@pytest.mark.parametrize("text", ["PreToolUse:Bash hook error: no", "This command requires approval"])
def test_denial_with_a_lost_first_event_is_a_step_without_calls(text: str, state: Path) -> None:
    session = Session("--tool-budget 1")
    call = {"tool_use_id": "t", "tool_name": "Bash", "tool_input": {}, "tool_response": text}
    assert session.event("PostToolBatch", tool_calls=[call]) is None
    assert {name: value for name, value in counted(state).turn.place.counters.items() if value} == {"steps": 1}
