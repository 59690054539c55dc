"""A run where no JavaScript runs: as a picture, and as text with a line for each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from boolab.core.run import Run
from boolab.core.text import clean, clip, count
from boolab.core.types import Response, Step
from boolab.display.transcript import WIDTH
from boolab.frames.dtypes import well_formed
from boolab.widgets._base.widget import png_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LAID_OUT: Final = 1_000  # steps: with more, the layout of a picture takes as long as drawing it
MAX_LINES: Final = 48  # steps of a run that are shown as text
MAX_LAST: Final = 12  # how many of these are the last ones of a long run


# --- The picture ------------------------------------------------------------------------------------------------------


def picture_of(run: Run) -> bytes:
    """The timeline of a run as a PNG: no text in the run can prevent the drawing."""
    from boolab.plots.timeline import plot_timeline

    long = run.n_steps > MAX_LAID_OUT

    def draw(figure: Figure) -> None:
        plot_timeline(_drawable(run), ax=figure.subplots())
        if long:
            figure.subplots_adjust(left=0.2, right=0.97, top=0.84, bottom=0.2)

    return png_of(draw, (9, 4.2), layout=None if long else "constrained")


def _drawable(run: Run) -> Run:
    """The run with texts that fonts and tables accept: no control characters, no lone surrogates."""
    steps = tuple(_drawable_step(step) for step in run.steps)
    limits = {clean(name): value for name, value in run.limits.items()}
    return replace(run, run_id="run", agent=clean(run.agent), task=clean(run.task[:200]), limits=limits, steps=steps)


def _drawable_step(step: Step) -> Step:
    original = step.response
    calls = tuple(
        call._replace(name=clean(call.name[:80]), arguments=well_formed(call.arguments)) for call in original.tool_calls
    )
    results = tuple(result and result._replace(content=well_formed(result.content)) for result in step.results)
    response = Response("text" if original.text else "", calls, usage=original.usage)
    return step._replace(response=response, results=results, error="", shadow_stops=())


# --- The text ---------------------------------------------------------------------------------------------------------


def replay_text(data: Mapping[str, Any]) -> str:
    """The steps of `replay_data` as text, about 60 lines at most, with the stop and those of other policies."""
    return "\n".join(clip(line.rstrip(), WIDTH) for line in _lines(data))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield clean(" · ".join(data["pills"]))
    steps = data["steps"]
    numbers = _shown(len(steps))
    opens = {turn["first"]: turn["title"] for turn in data["turns"]}
    if not steps:
        yield from filter(None, map(_line, opens.values()))
    last = 0
    for number in numbers:
        if number > last + 1:
            hidden_count = number - last - 1
            yield f"      {count(hidden_count, 'step')} {'is' if hidden_count == 1 else 'are'} left out"
        if number in opens:
            yield _line(opens[number])
        yield f"{number:4}. {_step_line(steps[number - 1])}"
        last = number
    yield _line(data["stop"]["text"])
    if data["finding"]:
        yield _line(data["finding"])
    yield from _marked(data["marks"])
    if data["children"]:
        yield _line("subagents: " + ", ".join(child["run"]["title"] for child in data["children"][:MAX_LAST]))


def _shown(n: int) -> Sequence[int]:
    """The numbers of the steps that are shown: of a long run the beginning and the end."""
    if n <= MAX_LINES:
        return range(1, n + 1)
    return [*range(1, MAX_LINES - MAX_LAST + 1), *range(n - MAX_LAST + 1, n + 1)]


def _step_line(step: Mapping[str, Any]) -> str:
    parts = [call["label"] + _outcome(call) for call in step["calls"]]
    if not parts and step["text"]:
        parts = [f'"{_line(step["text"])}"']
    if not parts and step["missing"]:
        parts = ["a text that is not on record"]
    if step["error"]:
        parts.append(f"failed: {_line(step['error'])}")
    return ", ".join(parts) or "nothing"


def _outcome(call: Mapping[str, Any]) -> str:
    if call["dropped"]:
        return " (never ran)"
    failed = " (failed)" if call["error"] else ""
    return f"{failed} (same call, {call['streak']} in a row)" if call["streak"] > 1 else failed


def _marked(marks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    other_marks = [mark for mark in marks if not mark["own"] and mark["step"] is not None]
    for mark in sorted(other_marks, key=lambda mark: int(mark["step"]))[:6]:
        yield _line(f"{mark['label']}: after step {mark['step']:,}")


def _line(text: str) -> str:
    return clean(text[:400])
