"""Which outcome a unit has, from all lines that are about it, and which lines are about which unit.

A person comes before the benchmark, and the benchmark before evidence that is trusted. Each person's last word counts.
People who disagree make the outcome unknown, until a line that `settles` it is there; so does one person who answered
differently when asked again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from boolab.core.text import count, shorten
from boolab.logs.outcomes.label_file import BENCHMARK, HAND, LabelFile, Line, OutcomeWord
from boolab.logs.units import LabelUnit

UNKNOWN: Final = "unknown"


class Label(NamedTuple):
    """An outcome that counts, and where it is from.

    `disputed` is whether people disagree about it, so that it is unknown.
    """

    outcome: OutcomeWord
    source: str
    why: str = ""
    disputed: bool = False

    @property
    def success(self) -> bool | None:
        """Whether it was a success; None if that is not known."""
        return None if self.outcome == UNKNOWN else self.outcome == "success"


def resolve(lines: Sequence[Line], trust: Sequence[str] = ()) -> Label | None:
    """The label of one unit from the lines about it, the earliest first; None if none of them counts.

    `trust`: the sources beside a person and the benchmark that count, the first one that has an outcome.

    Example:
        >>> by_hand = {"label": "failure", "source": "hand", "who": "ann"}
        >>> resolve([by_hand, {"label": "success", "source": "benchmark"}])
        Label(outcome='failure', source='hand', why='ann', disputed=False)
    """
    by_hand = [line for line in lines if line.get("source", HAND) == HAND]
    if by_hand:
        return _resolve_by_hand(by_hand)
    for source in (BENCHMARK, *trust):
        last = [line for line in lines if line.get("source") == source][-1:]
        if last and (source == BENCHMARK or last[0]["label"] != UNKNOWN):
            return Label(last[0]["label"], source, str(last[0].get("why", "")))
    return None


def _resolve_by_hand(lines: Sequence[Line]) -> Label:
    words: dict[str, Line] = {}
    changed: set[str] = set()
    for line in lines:
        person = str(line.get("who") or "")
        differs = person in words and words[person]["label"] != line["label"]
        changed = changed | {person} if line.get("again") and differs else changed - {person}
        words[person] = line
    settled = {person: line for person, line in words.items() if line.get("settles")}
    people = settled or words
    outcomes: set[OutcomeWord] = {line["label"] for line in people.values() if line["label"] != UNKNOWN}
    if len(outcomes) > 1 or (changed and not settled):
        answers = [f"{person or 'someone'} {line['label']}" for person, line in sorted(people.items())]
        answers += [f"{person or 'someone'} another answer before" for person in sorted(changed)]
        return Label("unknown", HAND, f"disagree: {', '.join(answers)}", disputed=True)
    outcome = outcomes.pop() if outcomes else UNKNOWN
    deciding = [line for line in people.values() if line["label"] == outcome]
    notes = [str(line["note"]) for line in deciding if line.get("note")]
    names = ", ".join(sorted({str(line["who"]) for line in deciding if line.get("who")}))
    return Label(outcome, HAND, ": ".join([text for text in (names, "; ".join(notes)) if text]))


class Agreement(NamedTuple):
    """How often a source has the outcome that a person gave, of the units where both have one."""

    source: str
    units: int
    agreeing: int

    def __str__(self) -> str:
        return f"{shorten(self.source)} agrees with {self.agreeing:,} of {count(self.units, 'label')} by hand"


def agreements(units: Iterable[Sequence[Line]]) -> list[Agreement]:
    """The agreement of each source with the labels by hand, from the lines about each unit; the most units first.

    Example:
        >>> lines = [{"label": "success", "source": "hand"}, {"label": "failure", "source": "tests"}]
        >>> print(*agreements([lines, lines[:1]]))
        tests agrees with 0 of 1 label by hand
    """
    known: Counter[str] = Counter()
    agreeing: Counter[str] = Counter()
    for lines in units:
        label = resolve(lines)
        if label is None or label.source != HAND or label.success is None:
            continue
        last = {str(line["source"]): line["label"] for line in lines if line.get("source", HAND) != HAND}
        for source, outcome in last.items():
            known[source] += outcome != UNKNOWN
            agreeing[source] += outcome == label.outcome
    return [Agreement(source, n, agreeing[source]) for source, n in known.most_common() if n]


# --- Which units lines are about


@dataclass(frozen=True)
class MatchedLines:
    """The lines about each unit.

    Attributes:
        lines: By the index of the unit, the lines about it, the earliest first.
        grown: By the index of the unit, the lines about what it was before it continued: its outcome is unknown.
        missing: The lines about units that are not there, such as deleted sessions.
        copies: The indices of units with the same fingerprint that share a line.
    """

    lines: Mapping[int, list[Line]] = field(default_factory=dict)
    grown: Mapping[int, list[Line]] = field(default_factory=dict)
    missing: Sequence[Line] = ()
    copies: Sequence[tuple[int, ...]] = ()


class UnitIndex:
    """Some units by their fingerprints, their beginnings and their ids."""

    def __init__(self, units: Sequence[LabelUnit]) -> None:
        self._by_print: defaultdict[str, list[int]] = defaultdict(list)
        self._by_beginning: defaultdict[str, list[int]] = defaultdict(list)
        self._by_run_id: defaultdict[str, list[int]] = defaultdict(list)
        self._units = units
        for index, unit in enumerate(units):
            self._by_print[unit.print].append(index)
            self._by_run_id[unit.run_id].append(index)
            for print_ in unit.beginnings:
                self._by_beginning[print_].append(index)

    def find(self, line: Line) -> list[int]:
        """The units that a line is about.

        Those with its fingerprint: one alone or several copies. A benchmark's verdict is about the run that it names,
        if that is one of them, because two attempts may have the same texts. A line without a fingerprint goes by id.
        """
        if "print" not in line:
            return self._find_by_id(line)
        indices = self._by_print.get(line["print"], [])
        if _is_verdict(line) and len(indices) > 1:
            return [index for index in indices if self._units[index].run_id == line.get("run_id")] or indices
        return indices

    def find_grown(self, line: Line) -> list[int]:
        """The units that began as the one that a line is about, which is not there any more."""
        return self._by_beginning.get(line.get("print", ""), [])

    def _find_by_id(self, line: Line) -> list[int]:
        indices, turn = self._by_run_id.get(line["run_id"], []), line.get("turn")
        if turn is None and len(indices) == 1:
            return indices
        return [index for index in indices if self._units[index].turn == turn]


def match_lines(lines: Iterable[Line], units: Sequence[LabelUnit]) -> MatchedLines:
    """Which of some units each line of a label or of evidence is about."""
    unit_index = UnitIndex(units)
    lines_by_unit: defaultdict[int, list[Line]] = defaultdict(list)
    grown_lines: defaultdict[int, list[Line]] = defaultdict(list)
    missing: list[Line] = []
    copies: dict[tuple[int, ...], None] = {}
    for line in lines:
        indices = unit_index.find(line)
        if len(indices) > 1:
            copies[tuple(indices)] = None
        for index in indices:
            lines_by_unit[index].append(line)
        grown_units = [] if indices else unit_index.find_grown(line)
        for index in grown_units:
            grown_lines[index].append(line)
        if not indices and not grown_units:
            missing.append(line)
    for index, of_unit in lines_by_unit.items():
        run_id = units[index].run_id
        if any(_is_verdict(line) and line.get("run_id") == run_id for line in of_unit):
            lines_by_unit[index] = [line for line in of_unit if not _is_verdict(line) or line.get("run_id") == run_id]
    return MatchedLines(
        lines_by_unit,
        {index: grown_lines[index] for index in grown_lines if index not in lines_by_unit},
        missing,
        [*copies],
    )


def _is_verdict(line: Line) -> bool:
    return line.get("source") == BENCHMARK


def match_units(units: Sequence[LabelUnit], order: Iterable[str]) -> list[str]:
    """The fingerprint by which a file's order has each unit: its own, or that of what it has grown from.

    So a unit that continued keeps its place and its coin. `order` is `LabelFile.order`.
    """
    listed_prints = set(order)
    prints = []
    for unit in units:
        candidates = [unit.print, *reversed([*unit.beginnings])]
        prints.append(next((print_ for print_ in candidates if print_ in listed_prints), unit.print))
    return prints


def resolve_units(file: LabelFile, units: Sequence[LabelUnit], trust: Sequence[str] = ()) -> dict[int, Label]:
    """The labels that a file has for some units, by the index of the unit."""
    matched = match_lines(file.labels, units)
    labels = {index: resolve(lines, trust) for index, lines in matched.lines.items()}
    return {index: label for index, label in labels.items() if label is not None}
