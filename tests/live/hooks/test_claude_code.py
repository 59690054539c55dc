"""What counts in a session of Claude Code, and where the hook stops it."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.errors import SettingError
from boolab.live.hooks.claude_code import read_event
from boolab.live.hooks.counts import START, monitor_for, state_after
from boolab.live.hooks.options import Options
from tests.support.hook_events import Did, Session

SAME = Did(arguments={"command": "echo hi"})


def different(number: int, end: str = "ran") -> Did:
    return Did(arguments={"command": f"echo {number}"}, result=f"{number}", end=end)


def log_of(state: Path) -> list[dict[str, Any]]:
    path = state / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def done(state: Path) -> list[str]:
    return [line["did"] for line in log_of(state)]


def test_an_endless_call_is_stopped_told_denied_and_ended(state: Path) -> None:
    session = Session("--max-steps 56 --doom-loop 3")
    session.prompt()
    assert [session.step(SAME) for _ in range(2)] == ["", ""]
    told = session.step(SAME)
    assert told == (
        "boolab: Stopped after step 3 by doom_loop(3, canonical). "
        "Call no more tools; say what is done and what is missing."
    )
    assert session.step(SAME) == f"ended: {told}"
    assert done(state) == ["stop", "deny", "end"]
    assert {line["step"] for line in log_of(state)} == {3}


def test_events_before_and_after_a_call_are_one_call(state: Path) -> None:
    session = Session("--tool-budget 4")
    assert session.steps(map(different, range(9))) == 4
    session.event("Stop")
    assert (log_of(state)[-1]["steps"], log_of(state)[-1]["tool_calls"]) == (4, 4)


def test_parallel_calls_are_one_step_and_complete_their_batch() -> None:
    calls = [different(number) for number in range(3)]
    assert [bool(Session("--max-steps 2", "a").step(*calls)) for _ in range(2)] == [False, True]
    session = Session("--tool-budget 4", "b")
    assert [bool(session.step(*calls)) for _ in range(2)] == [False, True]


def test_denied_calls_count_nowhere_and_their_response_is_a_step(state: Path) -> None:
    denied = [different(number, "denied") for number in range(9)]
    session = Session("--tool-budget 3 --doom-loop 2 --error-streak 2")
    assert [session.step(call) for call in denied] == [""] * 9
    assert session.step(different(10), denied[0]) == session.step(different(12), denied[1]) == ""
    assert session.step(different(14)).startswith("boolab: Stopped after step 12 by tool_budget(3)")
    assert Session("--max-steps 3", "other").steps(denied) == 3


def test_a_call_that_was_denied_breaks_no_streak_and_makes_none() -> None:
    session = Session("--doom-loop 3")
    assert session.step(SAME) == session.step(SAME._replace(end="denied")) == session.step(SAME) == ""
    assert session.step(SAME) != ""


def test_denied_calls_do_not_carry_a_limit_into_the_next_turn() -> None:
    session = Session("--doom-loop 2")
    assert session.step(SAME) == ""
    assert session.step(SAME) != ""
    assert session.step(SAME).startswith("ended")
    session.prompt()
    assert session.step(SAME) == ""


def test_a_call_that_claude_code_refuses_counts_as_an_error() -> None:
    session = Session("--error-streak 3")
    assert session.steps(different(number, "refused") for number in range(9)) == 3


@pytest.mark.parametrize("options", ["--max-steps 2", "--doom-loop 2", "--doom-loop 2 --scope run"])
def test_calls_refused_by_claude_code_keep_the_agent_stopped(options: str, state: Path) -> None:
    session = Session(options)
    assert session.step(SAME) == ""
    told = session.step(SAME)
    assert told != ""
    for number in range(3):
        assert session.step(different(number, "refused")) == f"ended: {told}"
    assert session.step(different(4), different(5, "refused")) == f"ended: {told}"
    assert done(state) == ["stop", "end", "end", "end", "deny", "end"]
    session.prompt()
    assert session.step(different(6)) == ""


def test_an_event_that_comes_twice_at_the_stop_has_one_answer(state: Path) -> None:
    session = Session("--max-steps 1")
    about = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "toolu_twice"}
    for name in ("PreToolUse", "PostToolUse"):
        session.event(name, **about)
    batch = {"tool_calls": [{**about, "tool_response": "ok"}]}
    first = session.event("PostToolBatch", **batch)
    assert first is not None
    assert session.event("PostToolBatch", **batch) == first
    assert done(state) == ["stop"]


def test_errors_count_and_a_success_ends_their_streak() -> None:
    calls = [different(number, end) for number, end in enumerate(["failed"] * 2 + ["ran"] + ["failed"] * 3)]
    assert Session("--error-streak 3").steps(calls) == 6


def test_an_event_that_comes_twice_counts_once(state: Path) -> None:
    session = Session("--max-steps 3")
    about = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "toolu_twice"}
    for name in ("PreToolUse", "PostToolUse"):
        assert session.event(name, **about) is session.event(name, **about) is None
    batch = {"tool_calls": [{**about, "tool_response": "ok"}]}
    assert session.event("PostToolBatch", **batch) is session.event("PostToolBatch", **batch) is None
    session.event("Stop")
    assert log_of(state)[-1]["steps"] == 1


def test_two_hooks_on_one_session_each_hold_their_own_limits() -> None:
    loose, strict = Session("--max-steps 9"), Session("--max-steps 2")
    for number in range(2):
        about = {"tool_name": "Bash", "tool_input": {"n": number}, "tool_use_id": f"toolu_both{number}"}
        for name in ("PreToolUse", "PostToolUse"):
            assert loose.event(name, **about) is strict.event(name, **about) is None
        batch = {"tool_calls": [{**about, "tool_response": "ok"}]}
        assert loose.event("PostToolBatch", **batch) is None
        assert (strict.event("PostToolBatch", **batch) is not None) == (number == 1)
    assert loose.event("PreToolUse", tool_use_id="toolu_both9") is None
    assert strict.event("PreToolUse", tool_use_id="toolu_both9") is not None


@pytest.mark.parametrize("loose_first", [True, False])
@pytest.mark.parametrize("most_bytes", [0, 16_000])
def test_a_second_hook_on_the_session_does_not_hide_a_stop(
    most_bytes: int, monkeypatch: pytest.MonkeyPatch, *, loose_first: bool
) -> None:
    monkeypatch.setattr("boolab.live.hooks.journal.COMPACT_BYTES", most_bytes)
    loose, strict = Session("--max-steps 9"), Session("--max-steps 2")
    answers: list[Any] = []
    for number in range(5):
        about = {"tool_name": "Gone", "tool_input": {"n": number}, "tool_use_id": f"toolu_gone{number}"}
        batch = {"tool_calls": [{**about, "tool_response": "no such tool"}]}
        first, second = (loose, strict) if loose_first else (strict, loose)
        both = {id(one): one.event("PostToolBatch", **batch) for one in (first, second, first)}
        assert both[id(loose)] is None
        answers.append(both[id(strict)])
    assert answers[0] is None
    assert "additionalContext" in answers[1]["hookSpecificOutput"]
    assert [answer["continue"] for answer in answers[2:]] == [False] * 3


def test_each_subagent_has_its_own_count(state: Path) -> None:
    main = Session("--max-steps 3")
    first, second = (Session("--max-steps 3", agent=agent) for agent in ("a1", "a2"))
    for agent in (first, second):
        agent.event("SubagentStart")
    for number in range(2):
        assert main.step(different(number)) == first.step(different(number)) == second.step(different(number)) == ""
    main.prompt()  # a message of the user is none to a subagent
    assert first.step(different(3)) != ""
    assert main.step(different(3)) == ""
    assert [line["agent"] for line in log_of(state)] == ["explorer"]


def test_a_subagent_that_is_started_again_counts_anew() -> None:
    agent = Session("--max-steps 2", agent="a1")
    for _ in range(3):
        agent.event("SubagentStart")
        assert agent.step(different(1)) == ""


def test_user_message_restarts_the_count_unless_scope_is_run() -> None:
    for options, last in (("--max-steps 3", ""), ("--max-steps 3 --scope run", "boolab: Stopped after step 3")):
        session = Session(options, session=options)
        session.prompt()
        assert session.step(different(1)) == session.step(different(2)) == ""
        session.prompt()
        assert session.step(different(3)).startswith(last)
        assert bool(session.step(different(4))) == bool(last)


def test_background_task_notice_is_no_user_message() -> None:
    session = Session("--max-steps 2")
    session.prompt()
    assert session.step(different(1)) == ""
    session.prompt("<task-notification>\n<task-id>a1</task-id>\n</task-notification>")
    assert session.step(different(2)) != ""


def test_a_compaction_and_a_resumption_change_no_count() -> None:
    session = Session("--max-steps 2")
    session.prompt()
    assert session.step(different(1)) == ""
    for name, more in (("PreCompact", {"trigger": "auto"}), ("SessionStart", {"source": "compact"})):
        assert session.event(name, **more) is None
    assert session.event("SessionStart", source="resume") is None
    assert session.step(different(2)) != ""


def test_a_compaction_is_kept_once_for_rules_on_compactions(state: Path) -> None:
    session = Session("--max-steps 9")
    session.prompt()
    for number in range(2):
        for _ in range(2):  # of two hooks on the session
            assert session.event("SessionStart", source="compact") is None
        assert session.step(different(number)) == ""
    rule = bl.detectors.compaction_thrash(2)
    place = state_after((state / "sessions/s-1/main.jsonl").read_bytes()).turn.place
    assert rule(place.counters) is True
    assert place.counters["compaction_thrash:2"] == 2
    assert rule(START.counters) is False


def test_shadow_hook_answers_nothing_and_logs_once_a_turn(state: Path) -> None:
    session = Session("--doom-loop 3 --shadow")
    assert [session.step(SAME) for _ in range(6)] == [""] * 6
    session.event("Stop")
    assert done(state) == ["would stop", "finished"]
    assert log_of(state)[0]["step"] == 3


def test_a_nudge_is_one_sentence_and_denies_nothing(state: Path) -> None:
    session = Session("--doom-loop 3 --nudge")
    told = [session.step(SAME) for _ in range(5)]
    assert told == ["", "", "boolab: A limit is reached: doom_loop(3, canonical). Finish, or try another way.", "", ""]
    assert done(state) == ["nudge"]


def test_identities_exemptions_and_key_order() -> None:
    def polls(options: str) -> int:
        return Session(options, session=options).steps(SAME._replace(result=f"{number}") for number in range(5))

    assert polls("--doom-loop 3 --identity call+result") == 0
    assert polls("--doom-loop 3") == 3
    assert polls("--doom-loop 3 --exempt Bash") == 0
    flips = [Did(arguments=dict(items)) for items in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)]) * 2]
    assert Session("--doom-loop 3", "sorted").steps(flips) == 3
    assert Session("--doom-loop 3 --identity ordered", "ordered").steps(flips) == 0
    assert Session("--doom-loop 3 --identity tool", "tool").steps(map(different, range(5))) == 3


def test_time_counts_from_the_message_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    for clock in ("time_ns", "monotonic_ns"):
        monkeypatch.setattr(f"boolab.live.hooks.journal.time.{clock}", lambda: int(now[0] * 1e9))
    session = Session("--max-time 60")
    session.prompt()
    for passed, told in ((30, False), (29, False), (1, True)):
        now[0] += passed
        assert bool(session.step(SAME)) == told
    session.prompt()
    assert session.step(SAME) == ""


def test_limits_that_change_in_a_session_hold_at_once() -> None:
    session = Session("--max-steps 2")
    assert session.step(different(1)) == ""
    assert session.step(different(2)) != ""
    session.options = Options.parse(["--max-steps", "4"])
    assert session.step(different(3)) == ""
    assert session.step(different(4)).startswith("boolab: Stopped after step 4")


def test_hook_state_holds_no_text_and_is_private_to_the_user(state: Path) -> None:
    session = Session("--max-steps 2", agent="../../etc")
    session.prompt("SECRET in a prompt")
    session.step(Did(arguments={"command": "echo SECRET"}, result="SECRET"))
    session.step(Did(arguments={"command": "echo SECRET"}, result="SECRET", end="failed"))
    session.event("SubagentStop", last_assistant_message="SECRET")
    files = [path for path in state.rglob("*") if path.is_file()]
    names = sorted(path.name for path in files)
    assert names[0].startswith("agent-x")
    assert names[1:] == ["key", "log.jsonl"]
    for path in files:
        assert b"SECRET" not in path.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o777 for path in state.rglob("*") if path.is_dir()} == {0o700}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "there is no limit"),
        ("--max-steps 3 --identity raw", "as sent"),
        ("--max-steps 3 --identity canonicl", "did you mean 'canonical'"),
        ("--max-steps 3 --exempt Bash", "needs --doom-loop"),
        ("--max-steps 3 --scope auto", "scope='auto'"),
        ("--doom-loop 1", "doom_loop"),
        ("--max-steps 0", "--max-steps 0: expected a number above 0"),
        ("--max-time nan", "--max-time nan: expected a number above 0"),
    ],
)
def test_options_that_make_no_rule_are_refused(options: str, said: str) -> None:
    with pytest.raises(SettingError) as caught:
        monitor_for(Options.parse(options.split()))
    assert said in str(caught.value)


CALLS = st.builds(
    Did,
    st.sampled_from(["Bash", "Read"]),
    st.sampled_from([{"a": 1, "b": [2]}, {"b": [2], "a": 1}, {"a": True, "b": [2]}, {}, None, "text \ud800"]),
    st.sampled_from(["ok", "no", ""]),
    st.sampled_from(["ran", "ran", "ran", "failed", "denied", "refused"]),
)
OPTIONS = st.lists(
    st.sampled_from(["--max-steps 4", "--tool-budget 6", "--doom-loop 2", "--doom-loop 3", "--error-streak 2"]),
    min_size=1,
    max_size=3,
    unique_by=lambda option: option.split()[0],
)
STEPS = st.lists(st.lists(CALLS, min_size=1, max_size=3) | st.none(), max_size=8)


@given(
    OPTIONS, st.sampled_from(["canonical", "ordered", "call+result", "tool"]), st.sampled_from(["turn", "run"]), STEPS
)
def test_the_hook_stops_where_a_monitor_in_the_loop_stops(
    limits: list[str], identity: str, scope: str, steps: list[list[Did] | None]
) -> None:
    options = f"{' '.join(limits)} --identity {identity} --scope {scope}"
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        session = Session(options)
        monitor: bl.Monitor = monitor_for(session.options)
        for calls in steps:
            if calls is None:
                session.prompt()
                monitor.open_turn()
                continue
            results = [None if call.end == "denied" else (call.given, call.end != "ran") for call in calls]
            monitor.after([(call.tool, json.dumps(call.arguments)) for call in calls], results)
            told = session.step(*calls)
            assert bool(told) == (monitor.verdict.action == "stop")
            if told:
                assert told == f"boolab: {monitor.verdict.message}"
                break


def test_event_is_read_from_json() -> None:
    assert read_event('{"hook_event_name": "Stop", "session_id": "1"}')["hook_event_name"] == "Stop"
