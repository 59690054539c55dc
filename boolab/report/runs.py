"""The runs behind the numbers: lists of those that a limit stops, and an excerpt of each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from boolab.frames import turns_of
from boolab.report.markup import Markup, code, el, join, safe, table
from boolab.report.study import Cut, Study
from boolab.stats.finding import clean, count, shorten
from boolab.types import Message, Run, Step, ToolCall, ToolResult

MOST_RUNS: Final = 50
MOST_ROWS: Final = 40
_LINES: Final = (14, 30)  # of an excerpt: from its beginning, from its end
_WIDTH: Final = 110


class RunBook:
    """The runs of a study that have an entry on the page, and links to them."""

    def __init__(self, study: Study, *, transcripts: bool) -> None:
        self._study = study
        self._transcripts = transcripts
        self._wanted: dict[int, None] = {}

    def want(self, units: Iterable[int]) -> None:
        """Give these units' runs an entry, as long as there is room."""
        for unit in units:
            if len(self._wanted) >= MOST_RUNS:
                return
            self._wanted.setdefault(self._study.units[unit].of)

    def link(self, unit: int) -> Markup:
        """The name of a unit's run, which leads to its entry."""
        of = self._study.units[unit].of
        name = el("code", shorten(self._study.runs[of].run_id, 28))
        return el("a", name, href=f"#run-{of}") if of in self._wanted else name

    def home(self, unit: int) -> str:
        """The file that a unit comes from."""
        homes = self._study.homes
        of = self._study.units[unit].of
        return "/".join(Path(homes[of]).parts[-2:]) if of < len(homes) else ""

    def cuts(self, cuts: Sequence[Cut], unit: str) -> Markup:
        """The units that a limit stops, as a table."""
        took = "that turn took" if self._study.question.scope == "turn" else "it took"
        head = ["run", self._what_head, "result", "stopped after", took, "needs"]
        rows = [self._cut(cut, unit) for cut in cuts[:MOST_ROWS]]
        last = len(head) - 1
        return Markup(table(head, rows, numbers=(last - 2, last - 1, last), class_="runs") + self._rest(cuts, rows))

    @property
    def _several(self) -> bool:
        """Whether there are several files, so that each run's is told."""
        return len(set(self._study.homes)) > 1

    @property
    def _what_head(self) -> str:
        return "task, file" if self._several else "task"

    def _what(self, unit: int) -> Markup:
        """What a unit was about, and where it is recorded."""
        task = shorten(self._study.units[unit].run.task, 40)
        return join([task, el("br"), el("small", self.home(unit))]) if self._several else safe(task)

    def _rest(self, some: Sequence[object], rows: Sequence[object]) -> Markup:
        more = len(some) - len(rows)
        return (
            el("p", f"{count(more, f'further {self._study.noun}')} not listed here.", class_="note")
            if more
            else Markup()
        )

    def _cut(self, cut: Cut, unit: str) -> list[str]:
        run = self._study.units[cut.unit].run
        many = len({step.turn for step in self._study.runs[self._study.units[cut.unit].of].steps}) > 1
        turn = f" of turn {cut.turn}" if many and cut.turn else ""
        steps = (
            sum(step.turn == cut.turn for step in run.steps) if self._study.question.scope == "turn" else run.n_steps
        )
        where = "" if cut.step is None else f"step {cut.step}{turn}"
        needed = "not known" if cut.needed is None else f"{cut.needed:,} {unit}"
        took = count(steps or run.n_steps, "step")
        return [self.link(cut.unit), self._what(cut.unit), self._result(cut), where, took, needed]

    def _result(self, cut: Cut) -> str:
        if cut.success is None:
            return "no label"
        if self._study.proxy:
            return "ended by itself" if cut.success else "did not end by itself"
        if not cut.success:
            return "failure"
        return "success (kept?)" if cut.maybe else "success"

    def units(self, units: Sequence[int]) -> Markup:
        """Some units as a table."""
        head = ["run", self._what_head, "ended by", "steps", "tool calls"]
        rows = []
        for unit in units[:MOST_ROWS]:
            run, turn = self._study.units[unit].run, self._study.units[unit].turn
            last = self._study.runs[self._study.units[unit].of].stop
            why = "interrupted" if turn and run.stop is not last and run.censored else run.stop_reason
            counts = [f"{run.n_steps:,}", f"{run.n_tool_calls:,}"]
            rows.append([self.link(unit), self._what(unit), why, *counts])
        last_column = len(head) - 1
        return Markup(
            table(head, rows, numbers=(last_column - 1, last_column), class_="runs") + self._rest(units, rows)
        )

    def entries(self) -> Iterator[Markup]:
        """The runs that have one, each folded."""
        for of in sorted(self._wanted):
            run = self._study.runs[of]
            success = {None: "no label", True: "success", False: "failure"}[run.success]
            facts = (
                f"{count(run.n_steps, 'step')}, {count(run.n_tool_calls, 'tool call')}, {run.stop_reason}, {success}"
            )
            head = el("summary", el("code", shorten(run.run_id, 60)), " ", shorten(run.task, 60), " ",
                      el("span", facts, class_="note"))  # fmt: skip
            home = self._study.homes[of] if of < len(self._study.homes) else ""
            body = excerpt(run) if self._transcripts else Markup()
            yield el("details", head, el("p", f"File: {home}", class_="note"), body, id=f"run-{of}", class_="run")


def excerpt(run: Run) -> Markup:
    """What was said and done in a run, a line each; of a long one, its beginning and its end."""
    lines = list(_lines(run))
    first, last = _LINES
    left = len(lines) - first - last
    if left > 1:
        lines = [*lines[:first], f"      … {left:,} lines left out …", *lines[-last:]]
    return code("\n".join(lines))


def _lines(run: Run) -> Iterator[str]:
    asked: dict[int, list[Message]] = {1: [message for message in run.prompt if message.role == "user"]}
    for before, message in run.inputs:
        asked.setdefault(before, []).append(message)
    many = len({step.turn for step in run.steps}) > 1
    for turn, steps in turns_of(run):
        if many:
            yield f"-- turn {turn}"
        for step in steps:
            for message in asked.get(step.index, ()):
                yield _short(f"      {message.role}: {message.text}")
            yield from _step(step)
    yield f"-- {run.stop_reason} after {count(run.n_steps, 'step')}"


def _step(step: Step) -> Iterator[str]:
    mark = f"{step.index:>4}  "
    if step.response.text or not step.results:
        yield _short(f"{mark}says: {step.response.text or '(nothing)'}")
        mark = "      "
    for call, result in zip(step.response.tool_calls, step.results, strict=False):
        yield _short(f"{mark}{_call(call, result)}")
        mark = "      "
    if step.error:
        yield _short(f"{mark}broke: {step.error}")


def _call(call: ToolCall, result: ToolResult | None) -> str:
    if result is None:
        status = "never executed"
    else:
        status = {True: "FAILED", False: "ok", None: "?"}[result.is_error] + f": {result.content[:_WIDTH]}"
    return f"{clean(call.name)[:32]} {clean(call.arguments[: 2 * _WIDTH])[:44]} -> {status}"


def _short(line: str) -> str:
    indent = len(line) - len(line.lstrip(" "))
    flat = line[:indent] + clean(line[: 4 * _WIDTH])
    return flat if len(flat) <= _WIDTH else f"{flat[: _WIDTH - 1]}…"
