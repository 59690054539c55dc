"""The dialog of a person with the desk: the unit that is shown, the keys, and the sentences around it.

A terminal and a widget draw it; neither decides what is shown. An answer must not depend on evidence, or on why a unit
is asked about, so the dialog has neither before the answer, but for the reason where the person asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from boolab.core.text import count, flatten, shorten
from boolab.errors import SettingError
from boolab.logs.outcomes.label_file import OutcomeWord
from boolab.stats.desk.card import UnitCard, card_of
from boolab.stats.desk.state import OpenUnit
from boolab.stats.desk.words import more_in_words, value_in_words, why_in_words
from boolab.stats.recommend.desk_evidence import found_in_words, outcomes_in_words
from boolab.stats.recommend.desk_session import AskedUnit, Desk

OUTCOME_OF_KEY: Final[Mapping[str, OutcomeWord]] = {"s": "success", "f": "failure", "u": "unknown"}
KEYS: Final[Mapping[str, str]] = {
    "s": "success",
    "f": "failure",
    "u": "unsure",
    "z": "back",
    "n": "note",
    "o": "open",
    "e": "evidence",
    "w": "why",
    "q": "quit",
}
"""The keys, and what each does."""


class Dialog:
    """A desk that asks a person.

    Attributes:
        desk: The desk, which has started.
        question: The unit that is shown; None if nothing is open.
        card: What there is to see of it.
        note: What is written with its answer.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.note = ""
        self._message = ""
        self._last = ""
        self._answered: AskedUnit | None = None
        self._take_next()

    def press(self, key: str) -> None:
        """Do what a key does that answers, takes back, or shows a sentence."""
        self._message = ""
        if key in OUTCOME_OF_KEY:
            self.answer(OUTCOME_OF_KEY[key])
        elif key == "z":
            self.undo()
        elif key == "w" and self.question is not None:
            self._message = f"Why this one: {self._reason(self.question)}."
        elif key == "e" and self._answered is None:
            self._message = "Evidence is shown of the unit that was answered last, not before its answer."
        elif key == "e" and self._answered is not None:
            self._message = f"Of the last one: {' '.join(found_in_words(self.desk, self._answered))}"

    def answer(self, outcome: OutcomeWord) -> None:
        """Write the answer about the unit that is shown; then the next one is."""
        question = self.question
        if question is None:
            msg = "no question is open"
            raise SettingError(msg)
        reason = self._reason(question)
        self.desk.answer(question, outcome, **({"note": self.note} if self.note else {}))
        evidence = outcomes_in_words(self.desk, question)
        self._show_next(f"The last one, {outcome}: {reason}.{evidence and f' Evidence: {evidence}.'}", question)

    def undo(self) -> None:
        """Take back the last answer of this person."""
        is_undone = self.desk.undo() is not None
        text = "The last answer is taken back." if is_undone else "There is no answer to take back."
        self._show_next(text, None if is_undone else self._answered)

    def _show_next(self, last: str, answered: AskedUnit | None) -> None:
        self.note, self._message, self._last, self._answered = "", "", last, answered
        self._take_next()

    def _take_next(self) -> None:
        self.question: AskedUnit | None = self.desk.take_unit()
        self.card: UnitCard | None = self.question and card_of(self.question.run, self.question.unit)

    def _reason(self, question: AskedUnit) -> str:
        """Why a unit is asked about; one that comes again has the reason that it would have now."""
        unit = question.open_unit
        if unit is None:
            units, value = self.desk.units, self.desk.state.current
            position = units.prints.index(question.print)
            column = [*self.desk.design.values[value.axis]].index(value.value)
            is_long = bool(units.is_long[value.axis][position, column])
            unit = OpenUnit(position, question.print, value.axis, value.value, is_long)
        return why_in_words(unit, self.desk.design, self.desk.recorded.noun)

    @property
    def title(self) -> str:
        """Which unit is shown."""
        if self.question is None or self.card is None:
            return "No question is open"
        run, turn = shorten(self.question.run.run_id), self.question.unit.turn
        name = f"Run {run}" if turn is None else f"Turn {turn} of {run}"
        return f"{name}, {count(self.card.n_steps, 'step')}"

    @property
    def progress(self) -> str:
        """How many answers there are, and how many more it takes."""
        return f"{count(self.desk.state.n_answers, 'answer')}; {more_in_words(self.desk.state)}"

    @property
    def criterion(self) -> str:
        """What a success is."""
        return flatten(self.desk.criterion)

    @property
    def verdict(self) -> str:
        """What the answers show so far of the value that is asked about."""
        return value_in_words(self.desk.state.current, self.desk.design)

    @property
    def messages(self) -> list[str]:
        """What the last key showed, and what the last answer was."""
        return [flatten(text) for text in (self._message, self._last) if text]
