"""Evidence beside the answers of a desk: it is found before the first question, and shown after each answer.

It has no part in what is asked or counted: the file has it under a source of its own, which counts if it is trusted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from boolab.core.run_labels import BENCHMARK, HAND
from boolab.core.text import count, flatten, shorten
from boolab.errors import SettingError
from boolab.logs.outcomes.evidence import Evidence
from boolab.logs.outcomes.frame import check_sources, find_evidence
from boolab.logs.outcomes.label_file import OUTCOMES
from boolab.logs.outcomes.resolve import UNKNOWN
from boolab.stats.desk.card import evidence_in_words
from boolab.stats.recommend.desk_session import AskedUnit, Desk

if TYPE_CHECKING:
    import pandas as pd

    from boolab.core.run import Run
    from boolab.logs.units import LabelUnit

_NEEDED: Final = ("print", "source", "outcome", "why")


def add_sources(
    desk: Desk,
    sources: Sequence[str],
    git: bool | str | Path = True,
    units: Sequence[tuple[Run, LabelUnit]] | None = None,
) -> None:
    """Look for evidence of units, and write it into the file.

    Args:
        desk: The desk.
        sources: Some of those in which evidence is looked for.
        git: The folder of the one repository; True for that of each run.
        units: The units, with their runs; by default those that may be asked about.

    Raises:
        SettingError: if a source is not known, or `git` is no folder.
    """
    check_sources(sources)
    looked_at = desk.asked_units if units is None else units
    runs = {id(run): run for run, _ in looked_at}
    evidence = find_evidence(
        [*runs.values()],
        git=git if "git" in sources else False,
        tests="tests" in sources,
        reaction="reaction" in sources,
        scope=desk.scope,
    )
    prints = {unit.print for _, unit in looked_at}
    desk.add_evidence([row for row in evidence if row.unit.print in prints])


def add_frame(desk: Desk, frame: pd.DataFrame) -> None:
    """Write the evidence of a frame, as `bl.outcomes` and `bl.judge` give it, about the units that may be asked about.

    Raises:
        SettingError: if it is another frame, or holds labels.
    """
    absent_columns = [name for name in _NEEDED if name not in frame.columns]
    if absent_columns:
        raise SettingError(f"evidence has no column {absent_columns[0]}: expected a frame of bl.outcomes or bl.judge")
    units = {unit.print: unit for _, unit in desk.asked_units}
    rows: list[Any] = [row for row in frame.to_dict("records") if row["print"] in units]
    desk.add_evidence([(units[row["print"]], _evidence_of(row)) for row in rows])


def _evidence_of(row: dict[str, Any]) -> Evidence:
    if row["outcome"] not in OUTCOMES or row["source"] in (HAND, BENCHMARK):
        raise SettingError(
            f"evidence has the outcome {row['outcome']!r} of the source {row['source']!r}: expected a frame of "
            "bl.outcomes or bl.judge"
        )
    detail = row.get("detail")
    return Evidence(
        row["outcome"], str(row["source"]), str(row["why"]), json.loads(detail) if isinstance(detail, str) else {}
    )


def found_in_words(desk: Desk, asked: AskedUnit) -> list[str]:
    """The evidence of a unit, a sentence for each source: that of the file; else that of the record alone."""
    lines = desk.evidence_of(asked.unit)
    if not lines:
        return evidence_in_words(asked.run, asked.unit)
    return [f"{flatten(line['source'])}: {line['label']}, {flatten(str(line.get('why', '')))}." for line in lines]


def outcomes_in_words(desk: Desk, asked: AskedUnit) -> str:
    """The outcome of each source of evidence in the file, such as "tests success, git unknown"."""
    return ", ".join(f"{flatten(line['source'])} {line['label']}" for line in desk.evidence_of(asked.unit))


def evidence_lines(desk: Desk) -> Iterator[str]:
    """A sentence for each source in the file: for how many units it knows an outcome, and how often that is the answer.

    The outcomes of units that have no answer yet are no part of it.
    """
    units = [unit for _, unit in desk.asked_units]
    answers = {
        desk.recorded.units[row].print: label.outcome
        for row, label in desk.labels.items()
        if label.source == HAND and label.outcome != UNKNOWN
    }
    lines = [line for unit in units for line in desk.evidence_of(unit)]
    for source in dict.fromkeys(line["source"] for line in lines):
        source_lines = [line for line in lines if line["source"] == source]
        outcome_of = {line["print"]: line["label"] for line in source_lines if line["label"] != UNKNOWN}
        text = f"Evidence of {shorten(source)} for {len(outcome_of):,} of {count(len(units), desk.recorded.noun)}"
        reasons = Counter(str(line.get("why")) for line in source_lines if line["label"] == UNKNOWN)
        for reason, n in reasons.most_common(1):
            text += f"; for {n:,} of the others: {flatten(reason)}"
        pairs = [(outcome, answers[print_]) for print_, outcome in outcome_of.items() if print_ in answers]
        if pairs:
            n_equal = sum(outcome == answer for outcome, answer in pairs)
            constant, n_constant = Counter(answer for _, answer in pairs).most_common(1)[0]
            text += f". It agrees with {n_equal:,} of {count(len(pairs), 'answer')} by hand; {constant} for all with "
            text += f"{n_constant:,}"
        yield f"{text}."
