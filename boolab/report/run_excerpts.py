"""The runs behind the numbers: lists of those that a limit stops, and an excerpt of each run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from boolab.core.messages import Message
from boolab.core.run import Run, stop_place
from boolab.core.text import clean, clip, count, shorten
from boolab.core.types import Step, ToolCall, ToolResult
from boolab.frames.runs import turns_of
from boolab.report.html import PageCell, PageTable
from boolab.report.study import Cut, Study

MAX_RUNS: Final = 50
MAX_ROWS: Final = 40
_LINES: Final = (14, 30)  # of an excerpt: from its beginning, from its end
_WIDTH: Final = 110


class Entry(NamedTuple):
    """A run's entry on the page: its name there, and what it shows."""

    to: str
    name: str
    task: str
    facts: str
    home: str
    excerpt: str


class RunBook:
    """The runs of a study that have an entry on the page, and links to them."""

    def __init__(self, study: Study, *, transcripts: bool) -> None:
        self._study = study
        self._transcripts = transcripts
        self._wanted: dict[int, None] = {}
        self._names = _names_of(set(study.homes))

    def want(self, units: Iterable[int]) -> None:
        """Give these units' runs an entry, up to `MAX_RUNS`."""
        for unit in units:
            if len(self._wanted) >= MAX_RUNS:
                return
            self._wanted.setdefault(self._study.units[unit].of)

    def link(self, unit: int) -> PageCell:
        """The name of a unit's run, which links to its entry."""
        index = self._study.units[unit].of
        return PageCell(
            shorten(self._study.runs[index].run_id, 28), f"run-{index}" if index in self._wanted else "", code=True
        )

    def home(self, unit: int) -> str:
        """The name of the file that a unit comes from."""
        return self._name(self._study.units[unit].of)

    def _name(self, index: int) -> str:
        homes = self._study.homes
        return self._names[homes[index]] if index < len(homes) else ""

    def cuts(self, cuts: Sequence[Cut], unit: str) -> PageTable:
        """The units that a limit stops, as a table; `unit` is that of the limit, "" for several limits together."""
        length_head = "that turn took" if self._study.question.scope == "turn" else "it took"
        head = ["run", self._what_head, "result", "stopped after", length_head, *(["needs"] if unit else [])]
        rows = [self._cut(stop, unit) for stop in cuts[:MAX_ROWS]]
        return PageTable(head, rows, (3, 4, 5), "runs", note=self._rest(len(cuts) - len(rows)))

    @property
    def _several(self) -> bool:
        """Whether there are several files, so that each run's is named."""
        return len(set(self._study.homes)) > 1

    @property
    def _what_head(self) -> str:
        return "task, file" if self._several else "task"

    def _what(self, unit: int) -> PageCell:
        """The task of a unit, and the file that records it."""
        task = shorten(self._study.units[unit].run.task, 40)
        return PageCell(task, small=self.home(unit) if self._several else None)

    def _rest(self, n_left_out: int) -> str:
        noun, nouns = self._study.noun, self._study.nouns
        return f"{count(n_left_out, f'further {noun}', f'further {nouns}')} not listed here." if n_left_out else ""

    def _cut(self, stop: Cut, unit: str) -> list[str | PageCell]:
        run = self._study.units[stop.unit].run
        has_turns = len({step.turn for step in self._study.runs[self._study.units[stop.unit].of].steps}) > 1
        turn = f" of turn {stop.turn}" if has_turns and stop.turn else ""
        steps = (
            sum(step.turn == stop.turn for step in run.steps) if self._study.question.scope == "turn" else run.n_steps
        )
        position = "" if stop.step is None else f"step {stop.step}{turn}" if stop.step else "not started"
        need = "not known" if stop.needed is None else count(stop.needed, unit.removesuffix("s"))
        if stop.because != "itself":
            need = f"what its {stop.because} needs"
        total = count(steps or run.n_steps, "step")
        cells: list[str | PageCell] = [self.link(stop.unit), self._what(stop.unit), self._result(stop), position, total]
        return [*cells, need] if unit else cells

    def _result(self, stop: Cut) -> str:
        proxy = not self._study.by_label[self._study.units[stop.unit].of]
        if stop.success is None:  # the success of a family is that of its root
            return "that of its parent" if proxy else "no label"
        if proxy:
            return "ended by itself" if stop.success else "did not end by itself"
        if not stop.success:
            return "failure"
        return "success (kept?)" if stop.maybe else "success"

    def units(self, units: Sequence[int]) -> PageTable:
        """Some units as a table."""
        rows: list[list[str | PageCell]] = []
        for unit in units[:MAX_ROWS]:
            run, reason = self._study.units[unit].run, self._study.end_reason(unit)
            rows.append([self.link(unit), self._what(unit), reason, f"{run.n_steps:,}", f"{run.n_tool_calls:,}"])
        head = ["run", self._what_head, "ended by", "steps", "tool calls"]
        return PageTable(head, rows, (3, 4), "runs", note=self._rest(len(units) - len(rows)))

    def entries(self) -> Iterator[Entry]:
        """The runs that have an entry."""
        for index in sorted(self._wanted):
            run = self._study.runs[index]
            success = {None: "no label", True: "success", False: "failure"}[run.success]
            yield Entry(
                to=f"run-{index}",
                name=shorten(run.run_id, 60),
                task=shorten(run.task, 60),
                facts=f"{count(run.n_steps, 'step')}, {count(run.n_tool_calls, 'tool call')}, {run.stop_reason}, "
                f"{success}",
                home=self._name(index),
                excerpt=excerpt(run) if self._transcripts else "",
            )


def _names_of(paths: Collection[str]) -> dict[str, str]:
    """Each path by as few of its last parts as no other one ends in: a folder may be the name of a customer."""
    names: dict[str, str] = {}
    parts_by_path = {path: Path(path).parts for path in paths}
    depth = 1
    while parts_by_path:
        times = Counter(parts[-depth:] for parts in parts_by_path.values())
        for path, parts in [*parts_by_path.items()]:
            if times[parts[-depth:]] == 1 or depth >= len(parts):
                names[path] = str(Path(*parts[-depth:]))
                del parts_by_path[path]
        depth += 1
    return names


def excerpt(run: Run) -> str:
    """The messages and calls of a run, a line each; of a long one, its beginning and its end."""
    lines = list(_lines(run))
    first, last = _LINES
    n_left_out = len(lines) - first - last
    if n_left_out > 1:
        lines = [*lines[:first], f"      … {n_left_out:,} lines left out …", *lines[-last:]]
    return "\n".join(lines)


def _lines(run: Run) -> Iterator[str]:
    messages: dict[int, list[Message]] = {1: [message for message in run.prompt if message.role == "user"]}
    for step_index, message in run.inputs:
        messages.setdefault(step_index, []).append(message)
    has_turns = len({step.turn for step in run.steps}) > 1
    for turn, steps in turns_of(run):
        if has_turns:
            yield f"-- turn {turn}"
        for step in steps:
            for message in messages.get(step.index, ()):
                yield _shorten_line(f"      {message.role}: {message.text}")
            yield from _step(step)
    yield f"-- {run.stop_reason} {stop_place(run)}"


def _step(step: Step) -> Iterator[str]:
    mark = f"{step.index:>4}  "
    if step.response.text or not step.results:
        yield _shorten_line(f"{mark}text: {step.response.text or '(nothing)'}")
        mark = "      "
    for call, result in zip(step.response.tool_calls, step.results, strict=False):
        yield _shorten_line(f"{mark}{_call(call, result)}")
        mark = "      "
    if step.error:
        yield _shorten_line(f"{mark}error: {step.error}")


def _call(call: ToolCall, result: ToolResult | None) -> str:
    if result is None:
        status = "never executed"
    else:
        status = {True: "FAILED", False: "ok", None: "?"}[result.is_error] + f": {result.content[:_WIDTH]}"
    return f"{clean(call.name)[:32]} {clean(call.arguments[: 2 * _WIDTH])[:44]} -> {status}"


def _shorten_line(line: str) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return clip(line[:indent] + clean(line[: 4 * _WIDTH]), _WIDTH)
