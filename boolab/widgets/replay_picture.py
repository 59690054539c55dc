"""A run as a picture, where nothing can be played."""

from __future__ import annotations

import warnings
from dataclasses import replace
from io import BytesIO
from typing import Final

from boolab.stats.finding import clean
from boolab.types import Response, Run, Step, ToolResult

_LAID_OUT: Final = 1_000  # steps: with more, laying out a picture takes as long as drawing it


def picture_of(run: Run) -> bytes:
    """The timeline of a run: see `boolab.plots.timeline.plot_timeline`. Pyplot is left alone.

    Args:
        run: The run; no text in it can keep it from being drawn.

    Returns:
        A PNG.

    Example:
        >>> from boolab import ScriptedModel, run_sync
        >>> picture_of(run_sync(None, "Hello", model=ScriptedModel(["Hi."])))[1:4]
        b'PNG'
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    from boolab.plots.timeline import plot_timeline  # noqa: PLC0415 - the same

    long = run.n_steps > _LAID_OUT
    figure = Figure(figsize=(9, 4.2), layout=None if long else "constrained")
    out = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        plot_timeline(_drawable(run), ax=figure.subplots())
        if long:
            figure.subplots_adjust(left=0.2, right=0.97, top=0.84, bottom=0.2)
        figure.savefig(out, format="png")
    return out.getvalue()


def _drawable(run: Run) -> Run:
    """The run with texts that fonts and tables take: no control characters, no halves of letters."""
    steps = tuple(_drawable_step(step) for step in run.steps)
    limits = {clean(name): value for name, value in run.limits.items()}
    return replace(run, run_id="run", agent=clean(run.agent), task=clean(run.task[:200]), limits=limits, steps=steps)


def _drawable_step(step: Step) -> Step:
    said = step.response
    calls = tuple(
        call._replace(name=clean(call.name[:80]), arguments=_whole(call.arguments)) for call in said.tool_calls
    )
    results = tuple(result and _drawable_result(result) for result in step.results)
    response = Response("said" if said.text else "", calls, usage=said.usage)
    return step._replace(response=response, results=results, error="", would_stop=())


def _drawable_result(result: ToolResult) -> ToolResult:
    return result._replace(content=_whole(result.content))


def _whole(text: str) -> str:
    """The text without halves of letters; equal texts stay equal."""
    return text.encode("utf-8", "replace").decode()
