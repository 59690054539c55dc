"""A run as text to read."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

import boolab as bl
from boolab.core.messages import History, Message, Text
from boolab.core.types import Event, Response, Step, Stop, StopReason, ToolCall, ToolResult, Usage
from boolab.display.numbers import duration
from boolab.display.transcript import WIDTH, fold_lines, format_limit
from boolab.logs.load import load_runs
from boolab.runtime.models.scripted import ScriptedModel
from tests.support.claude_logs import Session, usage
from tests.support.claude_logs import call as asks
from tests.support.claude_logs import text as says
from tests.support.helpers import QUIET, call, distinct, play, steps
from tests.support.project import ROOT
from tests.support.samples import FOLDER

TINY = ROOT / "tests" / "data" / "tau_bench" / "tau-bench-tiny-airline.json"


def one(result: ToolResult | None, **response: Any) -> str:
    """A run of one step with one call, as text."""
    run = play(distinct(1))
    step = Step(1, 1, 0, 5, 5, Response("", (ToolCall("c", "grep", '{"pattern": "x"}'),), "tool_calls"), (result,))
    return str(replace(run, steps=(step._replace(response=step.response._replace(**response)),)))


def test_a_session_reads_like_a_talk(tmp_path: Path) -> None:
    session = Session()
    session.user("fix the test")
    session.say("m1", says("I look."), asks("t1", "Grep", pattern="x"), usage=usage(3, 57, 90, 200))
    session.answer("t1", "a.py:1\nb.py:2", is_error=False)
    session.say("m2", says("Done."))
    session.user("and now?")
    session.say("m3", says("Nothing."))
    shown = str(session.run(tmp_path))
    assert [re.sub("[━─]{3,}", "", line).rstrip() for line in shown.splitlines()][2:] == [
        "started 2026-02-01 10:00:00 UTC",
        "",
        "── turn 1",
        "  user │ fix the test",
        "",
        "  1. at 0 ms, took 3.0 s, tokens 293 (200 cached) in, 57 out",
        "     I look.",
        '     -> Grep {"pattern":"x"}',
        "     <- ok 13 chars: a.py:1 b.py:2",
        "",
        "  2. at 3.0 s, took 1.0 s, tokens ?",
        "     Done.",
        "",
        "── turn 2",
        "  user │ and now?",
        "",
        "  3. at 5.0 s, took 1.0 s, tokens ?",
        "     Nothing.",
        "",
        "━━ finished after 3 steps",
        "   3 steps   1 call   0 errors   tokens ?   6.0 s",
    ]


def test_results_tell_their_status_and_unknown_is_marked() -> None:
    assert "<- ok 3 chars: yes" in one(ToolResult("c", "yes"))
    assert "<- error 2 chars in 40 ms: no" in one(ToolResult("c", "no", is_error=True, duration_ms=40))
    assert "<- ? 1 char: x" in one(ToolResult("c", "x", is_error=None))
    assert "0 errors (? 1)" in one(ToolResult("c", "x", is_error=None))
    assert "<- dropped, never executed" in one(None)
    assert "arguments were no JSON" in one(ToolResult("c", "x", is_error=True, parse_error=True))
    assert "tokens ?" in one(None)
    assert "tokens 12 in, ? out" in one(None, usage=Usage(12))
    assert "ended by length" in one(None, finish_reason="length")


def test_equal_steps_are_told_once() -> None:
    shown = str(play(steps("A " * 9 + "B", end=None), policy=QUIET, doom_loop=None))
    assert "⋮  the same call 8 times more, steps 2-9" in shown
    assert shown.count("-> look") == 2


def test_a_few_equal_steps_are_told_each() -> None:
    assert str(play(steps("A A A"), doom_loop=None)).count("-> look") == 3


def test_equal_calls_with_other_results_are_told_each() -> None:
    run = play(steps("A A A A A"), doom_loop=None)
    other = [s._replace(results=(ToolResult("c", f"{s.index}"),)) if s.results else s for s in run.steps]
    assert str(replace(run, steps=tuple(other))).count("-> look") == 5


def test_long_texts_are_folded_and_lines_stay_within_the_width() -> None:
    long = "\n".join(f"line {n} " + "word " * 40 for n in range(50))
    shown = str(play([{"text": long, "reasoning": long, "tool_calls": [call("look", what=long)]}, "done"]))
    assert "more lines" in shown
    assert max(len(line) for line in shown.splitlines()) <= WIDTH
    assert len(shown.splitlines()) < 40


def test_one_line_beyond_the_fold_is_shown_and_not_counted() -> None:
    six, seven, eight = (str(play(["\n".join(f"line {i}" for i in range(n))])) for n in (6, 7, 8))
    assert "more line" not in six + seven
    assert "line 6" in seven
    assert "… 2 more lines" in eight


def test_a_finish_reason_is_told_where_it_is_known_and_unusual() -> None:
    assert "ended by" not in one(None, finish_reason=None) + one(None, finish_reason="tool_calls")
    assert "ended by stop" in one(None, finish_reason="stop")


def test_texts_cannot_steer_the_terminal() -> None:
    shown = str(
        play([{"text": "red \x1b[31m\x07 \x9b bell\rgone", "tool_calls": [call("look", what="\x1b]0;x")]}, "ok"])
    )
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\r"}


def test_an_event_between_equal_steps_is_told_where_it_happened() -> None:
    lines = str(play(steps("A " * 9, end=None), policy="naive", shadow=[bl.max_steps(5)])).splitlines()
    event = next(i for i, line in enumerate(lines) if "** shadow: rule max_steps(5)" in line)
    assert lines[event - 1].strip() == "⋮  the same call 4 times more, steps 2-5"
    assert lines[event + 2].startswith("  6. ")


def test_what_came_in_says_what_it_is_and_stays_in_its_column() -> None:
    run = play(distinct(9), max_steps=2, policy="boocode")
    run = asyncio.run(bl.resume(run, "Go\non.", model=ScriptedModel(distinct(9), summary="One.\nTwo.")))
    more = asyncio.run(bl.resume(run, "Go on."))
    lines = [line for line in str(more).splitlines() if "│" in line]
    assert "  user │ [continued] Go" in lines
    assert [line.index("│") for line in lines if "One." in line or "Two." in line] == [10, 10]


def test_a_summary_that_the_sentinel_says_as_well_is_told_once() -> None:
    run = play(distinct(9), max_steps=2, policy=QUIET.vary(wrap_up={"summary": "static", "static_summary": ""}))
    assert run.wrap_up is not None
    assert run.sentinel is not None
    assert run.wrap_up.text == run.sentinel.text
    assert str(run).count(run.sentinel.text) == 1


def test_events_wrap_ups_and_stops_are_told() -> None:
    run = play(distinct(9), max_steps=2, policy="boocode")
    shown = str(run)
    assert "━━ step_cap by max_steps(2) after 2 steps, 2 of 2" in shown
    assert "[cap_hit]" in shown
    noted = replace(run, events=(Event(5, "compaction", {"after_step": 1, "trigger": "auto", "tokens": None}),))
    assert "** compaction: trigger auto, tokens ?" in str(noted)
    assert "!! it broke" in str(replace(run, error="it broke", stop=Stop("error", 2)))
    assert "synthesis" in str(replace(run, synthesis="In short."))


def test_runs_without_times_or_tokens_say_so() -> None:
    shown = str(load_runs(TINY)[0])
    assert "tokens ?   time ?" in shown
    assert " at 0 ms" not in shown
    assert "success yes" in shown
    assert "── turn 2" in shown


def test_all_sample_logs_can_be_printed() -> None:
    runs = load_runs(FOLDER / "agtrace/samples/claude_session.jsonl") if FOLDER.exists() else []
    for run in [*runs, *load_runs(TINY)]:
        assert max(len(line) for line in str(run).splitlines()) <= WIDTH


def test_reprs_stay_short_whatever_is_inside() -> None:
    big = "x" * 100_000
    calls = tuple(ToolCall(f"c{n}", "look", big) for n in range(9))
    response = Response(big, calls, "tool_calls")
    made = Step(1, 1, 0, 5, 5, response, (ToolResult("c", big, is_error=True), *[None] * 8))
    history = History([Message("user", (Text(big),))], [made])
    run = replace(play(distinct(1)), steps=(made,))
    for value in (response, made, history, run, [run] * 3):
        assert len(repr(value)) < 400
    assert repr(made).startswith("<Step 1 of turn 1: <Response 'xxx")
    assert repr(made).endswith("and 4 more>, 1 failed, 8 dropped>")
    assert repr(history) == "<History of 3 messages>"


def test_durations_are_said_as_people_say_them() -> None:
    assert [duration(ms) for ms in (0, 999, 1_000, 59_949, 60_000, 3_600_000)] == [
        "0 ms",
        "999 ms",
        "1.0 s",
        "59.9 s",
        "1 min 0 s",
        "1 h 0 min",
    ]


@pytest.mark.parametrize("reason", get_args(StopReason))
def test_the_place_of_the_end_agrees_with_the_number_of_steps(reason: StopReason) -> None:
    run = play(distinct(3))
    whole = replace(run, stop=Stop(reason, 2 if reason in ("finished", "synthesis") else 3), steps=run.steps[:3])
    assert f"━━ {reason} after 3 steps ━" in str(whole)
    assert "   3 steps   3 calls" in str(whole)
    if whole.censored:
        assert f"━━ {reason} in step 3 ━" in str(replace(whole, stop=Stop(reason, 2)))
    assert f"━━ {reason} before its first step ━" in str(replace(whole, stop=Stop(reason, 0), steps=()))


def test_the_place_of_the_end_counts_the_steps_of_all_turns() -> None:
    run = play(distinct(3))
    turns = tuple(step._replace(turn=turn) for step, turn in zip(run.steps[:3], (1, 2, 2), strict=True))
    assert "━━ step_cap after 3 steps ━" in str(replace(run, stop=Stop("step_cap", 2), steps=turns))
    assert "━━ error in step 3 ━" in str(replace(run, stop=Stop("error", 1), steps=turns))


def test_limit_in_words_has_common_units() -> None:
    assert format_limit("steps", 20) == "steps 20"
    assert format_limit("cost", 500_000) == "cost $0.50"
    assert format_limit("elapsed", 90_000) == "elapsed 90 s"


def test_folded_text_counts_its_other_lines() -> None:
    assert list(fold_lines("one two three", 1, "> ", width=7)) == ["> one", "  … 2 more lines"]
