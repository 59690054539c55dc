"""What is known of the outcomes: what each source of labels and of evidence reports, and where they differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

from boolab.core.run import Run
from boolab.core.run_labels import BENCHMARK, HAND, SCORE, USER, source_in_words, unit_label
from boolab.core.text import count, shorten
from boolab.display.numbers import percent
from boolab.logs.log_files import scope_of
from boolab.logs.outcomes.label_file import Line, time_order
from boolab.logs.outcomes.labels import UnitLines, verdict_of
from boolab.logs.outcomes.resolve import UNKNOWN, agreements, resolve
from boolab.logs.units import LabelUnit, units_of_run

MAX_DISAGREEMENTS: Final = 10
_LABELS: Final = (HAND, BENCHMARK, USER, SCORE)
"""The sources of labels, which are no evidence."""
_MAX_WHY: Final = 120


class SourceRow(NamedTuple):
    """How many units have which outcome by a source, and how often it has the outcome that a person gave."""

    words: str
    is_label: bool
    success: int
    failure: int
    unknown: int
    agreement: str


class Disagreement(NamedTuple):
    """A unit about which sources differ, the index of its run, and what each of them reports."""

    unit: LabelUnit
    run: int
    words: str


class OutcomeSources:
    """What labels and evidence report on the outcomes of runs.

    `unit_lines`: lines of files of labels, with the unit that each is about. `trust`: the sources that count as labels.
    `known`: how many units are labelled, by whom.
    """

    def __init__(
        self, runs: Sequence[Run], unit_lines: Sequence[UnitLines], trust: Collection[str] = (), known: str = ""
    ) -> None:
        self._runs, self._unit_lines, self._trust = runs, unit_lines, trust
        self.sentence = known or "No label is on record."
        lines = chain.from_iterable(of_unit.lines for of_unit in unit_lines)
        self._sources = {str(line.get("source", HAND)) for line in lines} - {BENCHMARK, USER, SCORE}

    @property
    def is_several(self) -> bool:
        """Whether there are sources beside the verdict of a benchmark, or of the user."""
        return bool(self._sources)

    @cached_property
    def _latest_lines(self) -> list[tuple[int, LabelUnit, dict[str, Line]]]:
        """The units with the last line of each source about them, by the source, and the index of their run."""
        lines_by_unit: defaultdict[tuple[str, int | None, str], list[Line]] = defaultdict(list)
        for unit, lines in self._unit_lines:
            lines_by_unit[unit.run_id, unit.turn, unit.print] += lines
        latest_lines = []
        for index, run in enumerate(self._runs):
            for unit in units_of_run(run, scope_of(run.source)):
                lines = [*verdict_of(unit_label(run, unit.turn)), *lines_by_unit[unit.run_id, unit.turn, unit.print]]
                latest_lines.append((index, unit, _find_latest(sorted(lines, key=time_order))))
        return latest_lines

    @property
    def _noun(self) -> str:
        """What a unit is called."""
        return "turn" if any(unit.turn is not None for _, unit, _ in self._latest_lines) else "run"

    @property
    def rows(self) -> list[SourceRow]:
        """A row for each source, labels first."""
        outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for source, line in chain.from_iterable(lines.items() for _, _, lines in self._latest_lines):
            outcomes[source][line["label"]] += 1
        all_agreements = agreements([*lines.values()] for _, _, lines in self._latest_lines)
        agreement_by_source = {agreement.source: agreement for agreement in all_agreements}
        rows = []
        for source in sorted(outcomes, key=lambda source: (source not in _LABELS, source != HAND, source)):
            is_label = source in _LABELS or source in self._trust
            agreement, n = agreement_by_source.get(source), outcomes[source]
            text = "" if source == HAND else f"no {self._noun} has both"
            if agreement is not None:
                n_alike, n_units = agreement.agreeing, agreement.units
                text = f"{n_alike:,} of {n_units:,} ({percent(n_alike / n_units)})"
            name = source_in_words(source) if is_label else f"evidence of {shorten(source)}"
            rows.append(SourceRow(name, is_label, n["success"], n["failure"], n[UNKNOWN], text))
        return rows

    @property
    def has_labels_by_hand(self) -> bool:
        """Whether a person judged some unit."""
        return HAND in self._sources

    @cached_property
    def disagreements(self) -> list[Disagreement]:
        """The units about which sources differ, those that a person judged first."""
        differing = [
            (HAND not in lines, Disagreement(unit, index, _format_lines(lines)))
            for index, unit, lines in self._latest_lines
            if len({line["label"] for line in lines.values()} - {UNKNOWN}) > 1 or _is_disputed(lines)
        ]
        return [disagreement for _, disagreement in sorted(differing, key=lambda pair: pair[0])]

    @property
    def title(self) -> str:
        """How many units sources differ about."""
        n = len(self.disagreements)
        if not n:
            return "No two sources differ."
        suffix = f"; {MAX_DISAGREEMENTS} of them:" if n > MAX_DISAGREEMENTS else ":"
        return f"Sources differ about {count(n, self._noun)}{suffix}"

    def notes(self) -> Iterator[str]:
        """What is to be known of the table."""
        if not all(row.is_label for row in self.rows):
            yield "Evidence is no label: no count of successes uses it, unless its source is trusted (--trust)."
        if not self.has_labels_by_hand:
            yield (
                f"No {self._noun} has a label by hand, so how good the evidence is here is not known: boolab label "
                "asks for some."
            )


def _find_latest(lines: Sequence[Line]) -> dict[str, Line]:
    """The last line of each source; of people, the one that counts."""
    line_by_source = {str(line.get("source", HAND)): line for line in lines}
    if HAND in line_by_source:
        label = resolve(lines)
        assert label is not None  # noqa: S101 - there is a label by hand
        line_by_source[HAND] = {
            "label": label.outcome, "source": HAND, "why": label.why, "disputed": label.disputed
        }  # fmt: skip
    return line_by_source


def _is_disputed(line_by_source: Mapping[str, Line]) -> bool:
    return HAND in line_by_source and bool(line_by_source[HAND].get("disputed"))


def _format_lines(line_by_source: Mapping[str, Line]) -> str:
    """What each source reports, a person first."""
    parts = []
    for source in sorted(line_by_source, key=lambda source: (source not in _LABELS, source != HAND, source)):
        line = line_by_source[source]
        if line["label"] != UNKNOWN or line.get("disputed"):
            name = source_in_words(source) if source in _LABELS else shorten(source)
            reason = f" ({shorten(str(line['why']), _MAX_WHY)})" if line.get("why") else ""
            parts.append(f"{name} {line['label']}{reason}")
    return "; ".join(parts)
