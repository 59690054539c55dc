"""The runs behind the numbers: lists of those that a limit stops, and an excerpt of each run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from boolab.core.text import clean, clip, count, shorten
from boolab.core.types import Message, Run, Step, ToolCall, ToolResult, stop_place
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
        of = self._study.units[unit].of
        return PageCell(shorten(self._study.runs[of].run_id, 28), f"run-{of}" if of in self._wanted else "", code=True)

    def home(self, unit: int) -> str:
        """The name of the file that a unit comes from."""
        return self._name(self._study.units[unit].of)

    def _name(self, of: int) -> str:
        homes = self._study.homes
        return self._names[homes[of]] if of < len(homes) else ""

    def cuts(self, cuts: Sequence[Cut], unit: str) -> PageTable:
        """The units that a limit stops, as a table; `unit` is that of the limit, "" for several limits together."""
        took = "that turn took" if self._study.question.scope == "turn" else "it took"
        head = ["run", self._what_head, "result", "stopped after", took, *(["needs"] if unit else [])]
        rows = [self._cut(cut, unit) for cut in cuts[:MAX_ROWS]]
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

    def _rest(self, more: int) -> str:
        noun, nouns = self._study.noun, self._study.nouns
        return f"{count(more, f'further {noun}', f'further {nouns}')} not listed here." if more else ""

    def _cut(self, cut: Cut, unit: str) -> list[str | PageCell]:
        run = self._study.units[cut.unit].run
        many = len({step.turn for step in self._study.runs[self._study.units[cut.unit].of].steps}) > 1
        turn = f" of turn {cut.turn}" if many and cut.turn else ""
        steps = (
            sum(step.turn == cut.turn for step in run.steps) if self._study.question.scope == "turn" else run.n_steps
        )
        where = "" if cut.step is None else f"step {cut.step}{turn}" if cut.step else "not started"
        needed = "not known" if cut.needed is None else count(cut.needed, unit.removesuffix("s"))
        if cut.because != "itself":
            needed = f"what its {cut.because} needs"
        took = count(steps or run.n_steps, "step")
        cells: list[str | PageCell] = [self.link(cut.unit), self._what(cut.unit), self._result(cut), where, took]
        return [*cells, needed] if unit else cells

    def _result(self, cut: Cut) -> str:
        proxy = not self._study.by_label[self._study.units[cut.unit].of]
        if cut.success is None:  # the success of a family is that of its root
            return "that of its parent" if proxy else "no label"
        if proxy:
            return "ended by itself" if cut.success else "did not end by itself"
        if not cut.success:
            return "failure"
        return "success (kept?)" if cut.maybe else "success"

    def units(self, units: Sequence[int]) -> PageTable:
        """Some units as a table."""
        rows: list[list[str | PageCell]] = []
        for unit in units[:MAX_ROWS]:
            run, why = self._study.units[unit].run, self._study.ended_by(unit)
            rows.append([self.link(unit), self._what(unit), why, f"{run.n_steps:,}", f"{run.n_tool_calls:,}"])
        head = ["run", self._what_head, "ended by", "steps", "tool calls"]
        return PageTable(head, rows, (3, 4), "runs", note=self._rest(len(units) - len(rows)))

    def entries(self) -> Iterator[Entry]:
        """The runs that have an entry."""
        for of in sorted(self._wanted):
            run = self._study.runs[of]
            success = {None: "no label", True: "success", False: "failure"}[run.success]
            yield Entry(
                to=f"run-{of}",
                name=shorten(run.run_id, 60),
                task=shorten(run.task, 60),
                facts=f"{count(run.n_steps, 'step')}, {count(run.n_tool_calls, 'tool call')}, {run.stop_reason}, "
                f"{success}",
                home=self._name(of),
                excerpt=excerpt(run) if self._transcripts else "",
            )


def _names_of(paths: Collection[str]) -> dict[str, str]:
    """Each path by as few of its last parts as no other one ends in: a folder may be the name of a customer.

    Example:
        >>> _names_of({"/home/alice/acme/a.jsonl", "/home/alice/acme/b.jsonl"})["/home/alice/acme/a.jsonl"]
        'a.jsonl'
    """
    names: dict[str, str] = {}
    left = {path: Path(path).parts for path in paths}
    depth = 1
    while left:
        times = Counter(parts[-depth:] for parts in left.values())
        for path, parts in [*left.items()]:
            if times[parts[-depth:]] == 1 or depth >= len(parts):
                names[path] = str(Path(*parts[-depth:]))
                del left[path]
        depth += 1
    return names


def excerpt(run: Run) -> str:
    """The messages and calls of a run, a line each; of a long one, its beginning and its end."""
    lines = list(_lines(run))
    first, last = _LINES
    left = len(lines) - first - last
    if left > 1:
        lines = [*lines[:first], f"      … {left:,} lines left out …", *lines[-last:]]
    return "\n".join(lines)


def _lines(run: Run) -> Iterator[str]:
    messages: dict[int, list[Message]] = {1: [message for message in run.prompt if message.role == "user"]}
    for before, message in run.inputs:
        messages.setdefault(before, []).append(message)
    many = len({step.turn for step in run.steps}) > 1
    for turn, steps in turns_of(run):
        if many:
            yield f"-- turn {turn}"
        for step in steps:
            for message in messages.get(step.index, ()):
                yield _short(f"      {message.role}: {message.text}")
            yield from _step(step)
    yield f"-- {run.stop_reason} {stop_place(run)}"


def _step(step: Step) -> Iterator[str]:
    mark = f"{step.index:>4}  "
    if step.response.text or not step.results:
        yield _short(f"{mark}text: {step.response.text or '(nothing)'}")
        mark = "      "
    for call, result in zip(step.response.tool_calls, step.results, strict=False):
        yield _short(f"{mark}{_call(call, result)}")
        mark = "      "
    if step.error:
        yield _short(f"{mark}error: {step.error}")


def _call(call: ToolCall, result: ToolResult | None) -> str:
    if result is None:
        status = "never executed"
    else:
        status = {True: "FAILED", False: "ok", None: "?"}[result.is_error] + f": {result.content[:_WIDTH]}"
    return f"{clean(call.name)[:32]} {clean(call.arguments[: 2 * _WIDTH])[:44]} -> {status}"


def _short(line: str) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return clip(line[:indent] + clean(line[: 4 * _WIDTH]), _WIDTH)
