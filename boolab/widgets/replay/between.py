"""What stands between the steps of a transcript: limits that would have stopped the run, compactions, and the stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from boolab.core.text import clean, clip, count
from boolab.core.types import Run, stop_place
from boolab.display.numbers import short_number
from boolab.widgets.replay.header import limit_name
from boolab.widgets.replay.subagents import Child
from boolab.widgets.replay.unrecorded import in_words


def rows_between(run: Run, marks: Sequence[Mapping[str, Any]], children: Sequence[Child] = ()) -> list[dict[str, Any]]:
    """The rows between the steps of a run, in order.

    `children`: its subagents. Those whose call is not known have a row, by the time at which they were started. Returns
    for each row `after` (the step that it follows; 0: before the first), `kind` (limit, compaction, subagent or stop),
    `title`, `text`, `name` (short, for the outline), `details` (the summary of a compaction; what was written when the
    run was stopped), `about` (what the details are), and `child` (the place of a subagent among the children; None in
    other rows).

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> [(row["after"], row["kind"], row["title"]) for row in rows_between(run, [])]
        [(1, 'stop', 'The run ended here: finished after 1 step.')]
    """
    order = ("compaction", "subagent", "limit", "stop")
    rows = [*_limits(run, marks), *_compactions(run), *_subagents(run, children), _stop(run, marks)]
    return sorted(rows, key=lambda row: (row["after"], order.index(row["kind"])))


def _row(kind: str, after: int, title: str, text: str = "", *, name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - plain data
    row = {"kind": kind, "after": after, "title": title, "text": text, "name": name}
    return row | {"details": "", "about": "", "child": None} | more


def _limits(run: Run, marks: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    acting = [mark for mark in marks if not mark["own"] and mark["acts"] in ("stops", "steps in")]
    acting.sort(key=lambda mark: (mark["step"], mark["acts"]))
    for (after, acts), group in groupby(acting, lambda mark: (mark["step"], mark["acts"])):
        members = list(group)
        each = [limit_name(mark) if acts == "stops" else mark["policy"] or mark["limit"] for mark in members]
        names = "; ".join(each)
        if acts == "stops":
            title = f"Would have stopped here: {names}."
            text = f"The run continued for {count(run.n_steps - after, 'step')}{_end(run)}."
        else:
            title = f"Would have sent the model a message here: {names}."
            text = "What would have followed is not known."
        short = each[0] + (f" +{len(each) - 1}" if each[1:] else "")
        yield _row("limit", after, title, text if after < run.n_steps else "", name=short)


def _end(run: Run) -> str:
    return {True: ", and was resolved", False: ", and failed", None: ""}[run.success]


def _compactions(run: Run) -> Iterator[dict[str, Any]]:
    """Those of a live run with their summaries; of a log, their events."""
    for one in run.compactions:
        title = f"Compaction: failed, {one.fault}" if one.fault else _compacted(one.kept_from)
        size = f"The context was about {short_number(one.tokens)} tokens."
        yield _compaction(one.before - 1, title, size, in_words(one.summary), "its summary")
    if run.compactions:
        return
    for event in run.events:
        if event.kind == "compaction":
            after, tokens = event.payload.get("after_step"), event.payload.get("tokens")
            text = f"The context was {short_number(tokens)} tokens." if isinstance(tokens, int) else ""
            place = min(after, run.n_steps) if isinstance(after, int) else run.n_steps
            title = "Compaction: a summary took the place of earlier messages."
            yield _compaction(place, title, text, _next_message(run, place), "the message that followed")


def _compaction(after: int, title: str, text: str, details: str, about: str) -> dict[str, Any]:
    return _row("compaction", after, title, text, name="compaction", details=details, about=about)


def _next_message(run: Run, after: int) -> str:
    """The first message that came in after a step: in logs, the summary is often one."""
    return next((in_words(message.text) for before, message in run.inputs if before == after + 1), "")


def _subagents(run: Run, children: Sequence[Child]) -> Iterator[dict[str, Any]]:
    for place, child in enumerate(children):
        if child.call is None:
            title = f"Subagent: {clip(clean(child.run.task or child.run.agent or child.run.run_id), 120)}"
            text = f"{count(child.run.n_steps, 'step')}. Which call started it is not on record."
            yield _row("subagent", _step_at(run, child), title, text, name=title, child=place)


def _step_at(run: Run, child: Child) -> int:
    """The last step that had begun when a subagent was started; the last one of all where times are not on record."""
    if child.step is not None:
        return child.step
    starts = [step.start_ms for step in run.steps]
    if child.start_ms is None or any(start is None for start in starts):
        return run.n_steps
    return sum(start is not None and start <= child.start_ms for start in starts)


def _compacted(kept_from: int) -> str:
    return f"Compaction: a summary took the place of all before step {kept_from:,}."


def _stop(run: Run, marks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rule = f", by {run.stop.rule}" if run.stop.rule else ""
    title = f"The run ended here: {run.stop_reason.replace('_', ' ')} {stop_place(run)}{rule}."
    last = run.wrap_up.text if run.wrap_up is not None else run.synthesis or ""
    sentinel = run.sentinel.text if run.sentinel is not None else ""
    details = "\n\n".join(dict.fromkeys(map(in_words, filter(None, (sentinel, last)))))  # each once: some are the same
    name = next((mark["limit"] for mark in marks if mark["own"]), run.stop.rule or run.stop_reason)
    return _row("stop", run.n_steps, title, in_words(run.error or ""), name=name, details=details)
