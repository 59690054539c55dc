"""What is told of a run while it goes: text in pieces, a status line below, and nothing that upsets a terminal."""

import asyncio
import io
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.cli.run_view import Guarded, Lines, RunHeader, Transcript, status_line, view_of
from boolab.cli.terminal import Sheet, clip_columns, is_terminal
from boolab.core.events import run_events
from boolab.core.run import Run
from boolab.core.types import Event, Response
from boolab.display.text import columns_of
from boolab.runtime.engine.runner import start
from boolab.runtime.models.base import Emit, Request
from tests.support.helpers import TOOLS, call, play
from tests.support.screen import Screen

TEXTS = st.text(st.sampled_from("ab cdé\n\t 東京́\x1b\x07\r\u202e\udc80-`"), max_size=120)
"""Words, ends of lines, wide and combining characters, and what must not reach a terminal."""
HOSTILE = "\x1b]0;owned\x07 \x1b[2J \r \x9b31m \u202e \x08 \udc80 \x7f"


def written(pieces: Sequence[str], *, terminal: bool = False, columns: int = 30, status: str = "") -> str:
    """What a sheet writes for a text that comes in these pieces, with a line before and after it."""
    sheet = Sheet(io.StringIO(), terminal=terminal, columns=lambda: columns)
    sheet.line("before")
    sheet.begin("  1. ", "     ")
    for number, piece in enumerate(pieces):
        sheet.write(piece)
        if status:
            sheet.status(f"{status} {number}")
    sheet.line("after")
    sheet.end()
    stream: Any = sheet.stream
    return str(stream.getvalue())


def shown(output: str, columns: int = 30) -> str:
    screen = Screen(columns)
    screen.feed(output)
    return screen.text


@given(TEXTS, st.lists(st.integers(0, 120), max_size=8))
def test_a_text_looks_the_same_however_it_is_cut_into_pieces(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    if not any(piece.endswith("\r") for piece in pieces[:-1]):  # half an end of a line
        assert written(pieces) == written([text])


@given(TEXTS)
def test_no_word_is_lost_and_no_line_is_too_long(text: str) -> None:
    lines = written([text]).splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    said = "".join("".join(lines[1:-1]).split()).removeprefix("1.")
    assert said == "".join("".join(text.replace("\r\n", "\n").translate(GONE)).split())
    assert all(columns_of(line) < 30 for line in lines)


GONE = dict.fromkeys(map(ord, "\x1b\x07\r\u202e"), "�") | {0xDC80: "?"}


@given(st.lists(TEXTS, max_size=6))
def test_a_status_line_comes_and_goes_without_a_trace(pieces: list[str]) -> None:
    plain = "\n".join(line.rstrip() for line in written(pieces).splitlines())
    assert shown(written(pieces, terminal=True, status="step 1 of 20 and more than fits there")) == plain


def test_status_line_stays_below_the_text_being_written() -> None:
    sheet = Sheet(io.StringIO(), terminal=True, columns=lambda: 30)
    stream: Any = sheet.stream
    sheet.begin("  1. ", "     ")
    sheet.status("step 1 of 20")
    sheet.write("It is in the first of the three ")
    assert shown(stream.getvalue()) == "  1. It is in the first of\n     the three\nstep 1 of 20"
    sheet.status("step 1 of 20, and then some more")
    assert shown(stream.getvalue()).endswith("\nstep 1 of 20, and then some …")


def test_indented_code_keeps_its_indentation() -> None:
    assert written(["So:\n\n", "    if x:\n", "        go()\n\n\n\nDone.\n\n"]) == (
        "before\n  1. So:\n\n         if x:\n             go()\n\n     Done.\nafter\n"
    )


def test_what_stands_before_the_first_word_is_left_out() -> None:
    assert written(["\n\n", "   Here.  "]) == "before\n  1. Here.\nafter\n"


def test_a_word_that_is_longer_than_a_line_is_cut() -> None:
    assert (
        written(["see ", "x" * 60]) == f"before\n  1. see\n     {'x' * 24}\n     {'x' * 24}\n     {'x' * 12}\nafter\n"
    )


@given(TEXTS, st.integers(3, 40))
def test_a_clipped_line_fits(text: str, room: int) -> None:
    line = clip_columns(text.translate(GONE | {9: " ", 10: " "}), room)
    assert columns_of(line) <= room


@pytest.mark.parametrize(
    ("environment", "styled"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_styles_are_left_out_where_nobody_wants_them(environment: dict[str, str], styled: bool) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert is_terminal(Terminal(), environment) is styled
    assert not is_terminal(io.StringIO(), environment)


# --- A run ------------------------------------------------------------------------------------------------------------


def told(view: Any, model: Any, task: str = "go", **options: Any) -> Run:
    """Run a bare model and tell a view of it, as the command line does."""

    async def tell() -> Run:
        live = start(None, task, model=model, on_event=view.event, **({"tools": TOOLS} | options))
        view.begin(RunHeader("", model.name, "boocode", ".", task, live.limits, Path("record.jsonl")))
        async with live:
            async for step in live:
                view.step(step, live.progress)
        view.end(live.run, 0)
        return live.run

    return asyncio.run(tell())


def story_of(model: Any, *, terminal: bool = False, **options: Any) -> str:
    """What is told of a run in the end."""
    sheet = Sheet(io.StringIO(), terminal=terminal, columns=lambda: 80)
    told(Transcript(sheet, now=lambda: 0.0), model, **options)
    stream: Any = sheet.stream
    return shown(stream.getvalue(), 80)


SCRIPT = [
    {
        "reasoning": "I should look.",
        "text": "Let me look.",
        "tool_calls": [call("look", what="a"), call("fail", what="b")],
        "usage": {"input_tokens": 1200, "output_tokens": 80, "cost_usd": 0.0045},
    },
    {"text": "Done.", "usage": {"input_tokens": 1500, "output_tokens": 10, "cost_usd": 0.002}},
]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_run_is_told_step_by_step(terminal: bool) -> None:
    assert story_of(bl.ScriptedModel(SCRIPT), terminal=terminal).splitlines() == [
        "━━ no agent ".ljust(79, "━"),
        "   model scripted   policy boocode   root .",
        "   limits steps 200, repeat_streak 3, tool_calls 50",
        "   record record.jsonl",
        "",
        "  user │ go",
        "",
        "  1. ~ I should look.",
        "     Let me look.",
        '     -> look {"what": "a"}',
        '     -> fail {"what": "b"}',
        "     <- look ok 6 chars in 0 ms: seen a",
        "     <- fail error 15 chars in 0 ms: RuntimeError: b",
        "     0 ms, tokens 1,200 in, 80 out, $0.0045",
        "",
        "  2. Done.",
        "     0 ms, tokens 1,500 in, 10 out, $0.0020",
        "",
        "━━ finished after 2 steps ".ljust(79, "━"),
        "   2 steps   2 calls   1 error   tokens 2,700 in, 90 out, $0.0065   0 ms",
        "   record record.jsonl",
        "   to view it: boolab report record.jsonl",
    ]


class Silent:
    """A model that streams nothing: what it says is known at the end only."""

    name = "silent"

    def __init__(self, items: Any) -> None:
        self._model = bl.ScriptedModel(items)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        return await self._model.respond(request)


def test_a_model_that_streams_nothing_is_told_of_all_the_same() -> None:
    def said(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith(("  1. ~", "     L", "     ->", "  2. D"))]

    assert said(story_of(Silent(SCRIPT))) == said(story_of(bl.ScriptedModel(SCRIPT)))
    assert len(said(story_of(Silent(SCRIPT)))) == 5


def test_nothing_that_a_model_or_a_tool_says_upsets_the_terminal() -> None:
    """The screen takes no control character and no sequence but the sheet's own."""

    @bl.tool(read_only=True)
    def bad() -> str:
        return HOSTILE

    items = [
        {"reasoning": HOSTILE, "text": HOSTILE, "tool_calls": [call("bad"), call(HOSTILE, **{HOSTILE: HOSTILE})]},
        {"text": HOSTILE, "error": {"garbage": HOSTILE, "after": 500}},
    ]
    text = story_of(bl.ScriptedModel(items, name=HOSTILE), terminal=True, task=HOSTILE, tools=[bad])
    assert "�]0;owned� �[2J" in text
    assert "cannot be parsed" in text
    for options in ({"as_json": True}, {"quiet": True}):
        stream, errors = io.StringIO(), io.StringIO()
        told(view_of(stream, errors, **options), bl.ScriptedModel(items, name=HOSTILE), tools=[bad])
        Screen(100_000).feed(stream.getvalue() + errors.getvalue())
        assert errors.getvalue().startswith("boolab: the run ended with error in step 2: ModelError: ")


def test_what_breaks_is_told_with_its_reason_and_what_had_come() -> None:
    text = story_of(bl.ScriptedModel([{"text": "Half a sentence", "error": {"status": 503, "after": 6}}]))
    assert "  1. Half a\n     0 ms, tokens ?\n" in text
    assert "━━ error in step 1 ━" in text
    assert "   !! ModelError: HTTP 503 after 6 characters" in text


def test_json_lines_are_the_events_and_a_final_record() -> None:
    heard: list[Event] = []
    stream = io.StringIO()
    run = told(Lines(stream, io.StringIO()), bl.ScriptedModel(SCRIPT))
    play(bl.ScriptedModel(SCRIPT), agent=bl.Agent("", tools=TOOLS), on_event=heard.append)
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [row["kind"] for row in rows[:-1]] == [event.kind for event in heard]
    assert rows[-1] == {"kind": "record", "path": "record.jsonl", "exit_code": 0}
    assert "".join(row["text"] for row in rows if row.get("of") == "text") == "Let me look.Done."
    assert run.stop_reason == "finished"


def test_a_view_whose_reader_left_is_told_nothing_more() -> None:
    class Closed(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            raise BrokenPipeError

    stream, left = Closed(), []
    view = Guarded(Lines(stream, io.StringIO()), lambda: left.append(True))
    told(view, bl.ScriptedModel(SCRIPT))
    assert (stream.writes, left, view.left) == (1, [True], True)


class Patient:
    """A model that is tried twice and, before the second attempt, waits until somebody was told of the first."""

    name = "patient"

    def __init__(self) -> None:
        self.told = asyncio.Event()

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        assert request.note is not None
        request.note("retry", what="HTTP 503", attempt=1, status=503, wait_ms=1500)
        await asyncio.wait_for(self.told.wait(), 20)
        if emit is not None:
            emit("text", "Here.")
        return Response("Here.")


def test_retry_is_shown_while_waiting_and_kept_in_the_record() -> None:
    heard: list[Event] = []

    async def hear() -> Run:
        model = Patient()

        def listen(event: Event) -> None:
            heard.append(event)
            if event.kind == "retry":
                model.told.set()

        return await bl.run(None, "go", model=model, on_event=listen)

    run = asyncio.run(hear())
    assert [event.kind for event in heard] == ["step_start", "retry", "delta", "text", "stop"]
    assert run_events(run) == [event for event in heard if event.kind != "delta"]
    assert "     ** attempt 1 failed, again after 1.5 s: HTTP 503" in str(run)


def test_transcript_shows_retry_before_and_nudge_after_a_step() -> None:
    sheet = Sheet(io.StringIO(), terminal=False)
    story = Transcript(sheet, now=lambda: 0.0)
    story.event(Event(0, "step_start", {"step_number": 1, "started_at": 0}))
    story.event(Event(0, "nudge", {"after_step": 1, "what": "Enough."}))
    story.event(Event(0, "retry", {"attempt": 1, "wait_ms": 500, "what": f"HTTP 503 {'busy ' * 30}"}))
    story.event(Event(0, "delta", {"of": "text", "text": "Here. "}))
    story.step(play(["Here."]).steps[0], {})
    stream: Any = sheet.stream
    assert [line for line in stream.getvalue().splitlines() if line] == [
        "     ** attempt 1 failed, again after 500 ms: HTTP 503 busy busy busy busy busy busy busy busy",
        "        busy busy busy busy busy busy busy busy busy busy busy busy busy busy busy busy busy busy",
        "        busy busy busy busy",
        "  1. Here.",
        "     0 ms, tokens ?",
        "     ** nudge: Enough.",
    ]


def test_status_line_has_counters_against_limits() -> None:
    assert (
        status_line(3, {"tool_calls": 4, "cost": 4_000}, {"steps": 20, "cost": 500_000}, 12.3, "thinking 2 s")
        == "step 3 of 20 · thinking 2 s · $0.0040 of $0.50 · 4 calls · tokens 0 in, 0 out · 12 s"
    )
