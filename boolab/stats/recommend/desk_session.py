"""The desk of some runs and a file of labels: what a terminal and a widget ask, and where answers go.

The file holds the seed and the question before the first unit is shown, so the order and the coins cannot be drawn
again. Units that are new at a later start are appended to the order, in a line of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from boolab.core.run import Run
from boolab.core.run_labels import label_of, turn_label
from boolab.core.types import Identities, Scope
from boolab.errors import SettingError
from boolab.frames.tables import runs_df
from boolab.logs.fields import instant
from boolab.logs.outcomes.evidence import Evidence
from boolab.logs.outcomes.label_file import (
    BENCHMARK,
    HAND,
    HEADER,
    LabelFile,
    Line,
    OutcomeWord,
    append_lines,
    append_locked,
    check_question,
    coin_of,
    draw_of,
    locked,
    make_header,
    make_id,
    make_label,
    make_order,
    make_undo,
    new_units,
    place_of,
    read_labels,
)
from boolab.logs.outcomes.open_units import take_unit
from boolab.logs.outcomes.resolve import Label, match_units, resolve_units
from boolab.logs.units import LabelUnit
from boolab.stats.desk.design import (
    DeskDesign,
    DeskPlan,
    DeskUnits,
    check_order,
    choose_share,
    design_of,
    draw_units,
    plan_answers,
    propose_values,
)
from boolab.stats.desk.state import DeskState, OpenUnit, replay
from boolab.stats.recommend.groups import agent_columns
from boolab.stats.recommend.recorded_units import recorded_units

AXIS: Final = "max_steps"
_REPEAT_AFTER: Final = 20
_REPEATS: Final = 2
"""After so many answers of a person, so many units are asked again."""


class AskedUnit(NamedTuple):
    """A unit to ask about.

    Attributes:
        run: Its run.
        unit: The unit.
        print: The print by which the file knows it.
        open_unit: Why it is asked about; None for one that is asked again.
    """

    run: Run
    unit: LabelUnit
    print: str
    open_unit: OpenUnit | None


class Desk:
    """The desk of some runs and a file of labels.

    Args:
        runs: The runs.
        path: The file; it is made by `start` if there is none.
        values: The values of each axis, from loose to tight. By default those of the file; for a new file, step caps
            from the lengths of the units.
        keep: The share of successes to keep; by default that of the file, or 0.95.
        confidence: That of all verdicts together; by default that of the file, or 0.95.
        pi: The share of the short units to ask for; by default that of the file, or as `choose_share` has it.
        who: Who answers.
        trust: Sources of evidence that count as labels.
        scope: See `counterfactual`.
        identity: See `counterfactual`.

    Raises:
        SettingError: if the file has answers to another question, or its order is not that of its seed.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        path: str | Path,
        values: Mapping[str, Sequence[Any]] | None = None,
        *,
        keep: float | None = None,
        confidence: float | None = None,
        pi: float | None = None,
        who: str = "",
        trust: Sequence[str] = (),
        scope: Scope = "auto",
        identity: Identities | None = None,
    ) -> None:
        self.file = read_labels(path)
        self.who, self.trust = who, tuple(trust)
        self.runs, self.scope, self.identity = runs, scope, identity
        fixed = self.file.header.get("question")
        base = None if fixed is None else design_of(fixed)
        axes = [*(values or (base.values if base is not None else [AXIS]))]
        self.recorded = recorded_units(runs, axes, scope, identity)
        if values is None:
            values = {AXIS: propose_values(self.recorded.lengths(AXIS))} if base is None else base.values
        if base is None:
            base = DeskDesign(values, pi=choose_share(len({*self.recorded.clusters})))
        changes: dict[str, Any] = {"keep": keep, "confidence": confidence, "pi": pi, "values": values}
        self.design = replace(base, **{name: value for name, value in changes.items() if value is not None})
        self._is_long = self.recorded.is_long(self.design.values)
        self.question = self.design.question(self.recorded.noun)
        if fixed is not None:
            check_question(self.file, self.question)
        self._check_order()

    def start(self, criterion: str = "") -> None:
        """Write the question, the seed and the order, as far as they are not in the file yet; before the first unit.

        `criterion`: what a success is, in the user's words; it stays in the file, and is fixed once there are answers.
        """
        self.check_agents()
        with locked(self.file.path) as target:
            was_new = not self.file.header
            self.refresh()  # another person may have started meanwhile
            if was_new and self.file.header.get("question") is not None:
                if self.file.header["question"] != self.question:
                    raise SettingError(
                        f"{self.file.path}: another person has begun another question in it: start again"
                    )
                criterion = ""  # it is theirs
            check_question(self.file, self.question)
            self._start(target, criterion)

    def _start(self, target: Path, criterion: str) -> None:
        """Write what is missing into the locked file."""
        header, known = self.file.header, self.criterion
        is_new = criterion not in ("", known)
        if is_new and self.file.has_answers:
            raise SettingError(
                f"{self.file.path}: what a success is is fixed, because there are answers: {known!r}. Begin a new file "
                "for another criterion"
            )
        if header.get("question") is None or (not self.file.has_answers and header["question"] != self.question):
            is_new = True
        if is_new:
            append_locked(target, [make_header(criterion or known, self.question, header.get("seed"))])
            self.refresh()
        prints = self._new_prints()
        if prints:
            last = max((str(line["id"]) for line in self.file.lines if "id" in line), default="")
            line = make_order(prints, self._seed)
            append_locked(target, [{**line, "id": make_id(last)}])  # later than all others, also in one second
            self.refresh()

    @property
    def criterion(self) -> str:
        """What a success is, as the file has it."""
        return str(self.file.header.get("criterion") or "")

    @property
    def has_started(self) -> bool:
        """Whether the question, the seed and the order are in the file."""
        return self.file.header.get("question") == self.question and not self._new_prints()

    def check_agents(self) -> None:
        """Raise `SettingError` if the runs are of several agents: one answer for all shows nothing of each.

        The subagents of a run are no agents of their own here: a value holds for each run of a family.
        """
        keys = agent_columns(runs_df([run for run in self.runs if run.parent_run_id is None]), self.scope)
        if keys:
            names = " and ".join(keys)
            raise SettingError(
                f"the runs differ in {names}, and one answer for all shows nothing of each: give the logs of one, "
                "with a file of labels of its own"
            )

    def refresh(self) -> None:
        """Read the file anew: others may have answered."""
        self.file = read_labels(self.file.path)
        self._forget()

    @cached_property
    def prints(self) -> list[str]:
        """The print of each recorded unit, as the file knows it: one that has grown keeps its own."""
        return match_units(self.recorded.units, self.file.order)

    @cached_property
    def units(self) -> DeskUnits:
        """The units that are asked about, in the order of the file; those that are not on record are left out."""
        return self._units_of(self.file)

    @cached_property
    def answers(self) -> dict[str, OutcomeWord]:
        """The outcome of each unit that has one, by its print."""
        return self._answers_of(self.file)

    @cached_property
    def labels(self) -> dict[int, Label]:
        """The labels of the file, by the index of the recorded unit."""
        return self._labels_of(self.file)

    @cached_property
    def state(self) -> DeskState:
        """What the answers show, and what to ask next."""
        order_lines = sorted(self.file.order_lines, key=_time_of)
        steps = []
        for line in order_lines[1:]:  # the end is where the order ended when all had their answers
            lines = [other for other in self.file.lines if HEADER in other or _time_of(other) < _time_of(line)]
            earlier = replace(self.file, lines=tuple(lines))
            steps.append((self._units_of(earlier), self._answers_of(earlier)))
        return replay(self.design, [*steps, (self.units, self.answers)])

    @property
    def asked_units(self) -> list[tuple[Run, LabelUnit]]:
        """The units that may be asked about, in the order of the desk: all long ones, and those whose coin fell."""
        row_of = {print_: row for row, print_ in reversed([*enumerate(self.prints)])}
        is_asked = self.units.is_asked().tolist()
        rows = [row_of[print_] for print_, is_drawn in zip(self.units.prints, is_asked, strict=True) if is_drawn]
        return [(self.recorded.runs[row], self.recorded.units[row]) for row in rows]

    @property
    def all_units(self) -> list[tuple[Run, LabelUnit]]:
        """All units, in the order of the record."""
        return [*zip(self.recorded.runs, self.recorded.units, strict=True)]

    def add_evidence(self, units: Iterable[tuple[LabelUnit, Evidence]]) -> None:
        """Write evidence that is not in the file yet; nothing counts it unless its source is trusted."""
        lines = []
        for unit, evidence in units:
            line = self._evidence.get(unit.print, {}).get(evidence.source, {})
            if (line.get("label"), line.get("why"), line.get("detail")) != (
                evidence.outcome,
                evidence.why,
                dict(evidence.detail),
            ):
                facts = {"why": evidence.why, "detail": dict(evidence.detail)}
                lines.append(make_label(unit, evidence.outcome, evidence.source, facts, after=self.file.lines))
        if lines:
            append_lines(self.file.path, lines)
            self.refresh()

    def evidence_of(self, unit: LabelUnit) -> list[Line]:
        """The last line of each source of evidence about a unit."""
        return [*self._evidence.get(unit.print, {}).values()]

    @cached_property
    def _evidence(self) -> dict[str, dict[str, Line]]:
        """The last line of evidence by the print of the unit and by source."""
        lines: defaultdict[str, dict[str, Line]] = defaultdict(dict)
        for line in self.file.labels:
            if "print" in line and line.get("source", HAND) not in (HAND, BENCHMARK):
                lines[line["print"]][line["source"]] = line
        return dict(lines)

    @property
    def plan(self) -> DeskPlan:
        """How many answers it takes, before the first."""
        return plan_answers(self.design, self.units)

    @property
    def next_unit(self) -> AskedUnit | None:
        """The next unit to ask about; after 20 answers of a person two of them come again, without a word."""
        repeated = self._repeated()
        if repeated is not None:
            return repeated
        open_unit = self.state.unit
        return None if open_unit is None else self._asked(open_unit.print, open_unit)

    def take_unit(self) -> AskedUnit | None:
        """The next unit to ask this person about, which no other person looks at: of the next ten, in their order."""
        with locked(self.file.path) as target:
            self.refresh()
            question = self.next_unit
            if question is None or question.open_unit is None:
                return question
            open_units = {unit.print: unit for unit in self.state.units}
            print_ = take_unit(target, [*open_units], self.who)
            return self._asked(print_, open_units[print_])

    def answer(self, question: AskedUnit, outcome: OutcomeWord, **facts: Any) -> None:  # noqa: ANN401 - keys of a line
        """Write an answer; `facts` are further keys of its line, such as `note`."""
        repeat = {} if question.open_unit is not None else {"again": True}
        number = {"asked": 1 + len(self._own_lines())}
        line = make_label(
            question.unit, outcome, HAND, {"who": self.who, **number, **repeat, **facts}, after=self.file.lines
        )
        self._append(line)

    def undo(self) -> str | None:
        """Withdraw the last answer of this person; returns the print of its unit, None if there is none."""
        lines = self._own_lines()
        if not lines:
            return None
        self._append(make_undo(lines[-1]["id"], self.who))
        return str(lines[-1]["print"])

    @property
    def people(self) -> list[str]:
        """Who answered, in the order of their first answers."""
        return [*dict.fromkeys(_person_of(line) for line in self.file.labels if line.get("source", HAND) == HAND)]

    def own_agreement(self, who: str) -> tuple[int, int]:
        """How many units a person answered alike when they came again, and how many came again."""
        first: dict[str, str] = {}
        is_same: dict[str, bool] = {}
        for line in self._lines_of(who):
            if line.get("again"):
                is_same[line["print"]] = first.get(line["print"]) == line["label"]
            else:
                first[line["print"]] = line["label"]
        return sum(is_same.values()), len(is_same)

    def answer_times(self, who: str) -> list[float]:
        """The seconds from each answer of a person to the next one, also of those that were taken back."""
        lines = [line for line in self.file.lines if "label" in line and line.get("source", HAND) == HAND]
        moments = sorted(filter(None, [instant(line.get("at")) for line in lines if _person_of(line) == who]))
        return [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]

    def _own_lines(self) -> list[Line]:
        """The labels by this person, the earliest first."""
        return self._lines_of(self.who)

    def _lines_of(self, who: str) -> list[Line]:
        """The labels by a person, the earliest first, of units with a print."""
        by_hand = [line for line in self.file.labels if line.get("source", HAND) == HAND and "print" in line]
        return [line for line in by_hand if _person_of(line) == who]

    def _repeated(self) -> AskedUnit | None:
        """A unit of this person to ask again, if one is due."""
        lines = self._own_lines()
        first = {line["print"] for line in lines if not line.get("again")}
        repeated = {line["print"] for line in lines if line.get("again")}
        if len(repeated) >= len(first) // _REPEAT_AFTER * _REPEATS or self.state.unit is None:
            return None
        candidates = {*self.units.prints} & first - repeated
        if not candidates:
            return None
        return self._asked(min(candidates, key=lambda print_: draw_of(self._seed, print_, "again")), None)

    def _asked(self, print_: str, open_unit: OpenUnit | None) -> AskedUnit:
        row = self.prints.index(print_)
        return AskedUnit(self.recorded.runs[row], self.recorded.units[row], print_, open_unit)

    @property
    def _seed(self) -> str:
        return str(self.file.header.get("seed", ""))

    def _new_prints(self) -> list[str]:
        """The units to append to the order: one of each session, or task, that has none in it."""
        order = {*self.file.order}
        rows = {print_: row for row, print_ in reversed([*enumerate(self.prints)])}
        known_clusters = {self.recorded.clusters[row] for print_, row in rows.items() if print_ in order}
        prints = [print_ for print_ in rows if print_ not in order]
        clusters = [self.recorded.clusters[rows[print_]] for print_ in prints]
        drawn_rows = draw_units(clusters, [draw_of(self._seed, print_) for print_ in prints], known_clusters)
        return new_units(self.file, [prints[number] for number in drawn_rows.tolist()])

    def _units_of(self, file: LabelFile) -> DeskUnits:
        row_of = {print_: row for row, print_ in reversed([*enumerate(self.prints)])}
        prints = [print_ for print_ in file.order if print_ in row_of]
        rows = np.array([row_of[print_] for print_ in prints], dtype=np.int64)
        coin = np.array([coin_of(self._seed, print_) < self.design.pi for print_ in prints], dtype=bool)
        return DeskUnits(prints, {axis: long[rows] for axis, long in self._is_long.items()}, coin)

    def _answers_of(self, file: LabelFile) -> dict[str, OutcomeWord]:
        outcomes: dict[str, OutcomeWord] = {}
        for row, success in self._successes.items():
            outcomes[self.prints[row]] = "success" if success else "failure"
        labels = self.labels if file is self.file else self._labels_of(file)
        return outcomes | {self.prints[row]: label.outcome for row, label in labels.items()}

    @cached_property
    def _successes(self) -> dict[int, bool]:
        """The labels that are not from a file of labels, such as a benchmark's verdict, by the index of the unit."""
        successes: dict[int, bool] = {}
        for row, (run, unit) in enumerate(zip(self.recorded.runs, self.recorded.units, strict=True)):
            label = label_of(run) if self.recorded.is_run(row) else turn_label(run, unit.turn or 0)
            if label is not None and label.success is not None and label.source not in (HAND, *self.trust):
                successes[row] = label.success
        return successes

    def _labels_of(self, file: LabelFile) -> dict[int, Label]:
        """The labels of a file; evidence that is trusted comes after the labels that the logs have."""
        labels = resolve_units(file, self.recorded.units, self.trust)
        return {row: label for row, label in labels.items() if label.source == HAND or row not in self._successes}

    def _check_order(self) -> None:
        lines = [line["units"] for line in self.file.order_lines]
        positions = [place_of(self._seed, print_) for print_ in chain.from_iterable(lines)]
        check_order(positions, [len(prints) for prints in lines])

    def _append(self, line: Mapping[str, Any]) -> None:
        append_lines(self.file.path, [line])
        self.refresh()

    def _forget(self) -> None:
        for name in ("prints", "units", "answers", "labels", "state", "_evidence"):
            self.__dict__.pop(name, None)


def _person_of(line: Line) -> str:
    return str(line.get("who") or "")


def _time_of(line: Mapping[str, Any]) -> tuple[str, str]:
    return str(line.get("at", "")), str(line.get("id", ""))
