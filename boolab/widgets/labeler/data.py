"""What the desk's view draws, as plain data: the state always, the unit only where a kernel takes answers."""

from __future__ import annotations

from typing import Any, Final

from boolab.display.numbers import floor_percent, level
from boolab.limits.table import LIMITS
from boolab.stats.desk.state import ValueState
from boolab.stats.desk.words import more_in_words, value_in_words
from boolab.stats.recommend.desk_dialog import Dialog
from boolab.stats.recommend.desk_session import Desk
from boolab.stats.recommend.desk_status import open_in_words, source_lines

_SIGNS: Final = {"yes": "✓", "no": "✕"}
_WORDS: Final = {"yes": "keeps enough", "no": "keeps less", "undecided": "not shown", "waiting": "after the looser one"}
_BUTTONS: Final = {
    "s": "success",
    "f": "failure",
    "u": "unsure",
    "z": "back",
    "n": "note",
    "w": "why",
    "e": "evidence",
    "o": "Replay",
    "q": "pause",
}
"""The keys in the order of their buttons."""


def state_data(desk: Desk) -> dict[str, Any]:
    """The state of a desk, with no text of a run in it."""
    state, has_started = desk.state, desk.has_started
    return {
        "verdict": value_in_words(state.current, desk.design) if has_started else "No question has been asked yet.",
        "answers": state.n_answers,
        "more": more_in_words(state) if has_started else open_in_words(desk),
        "keep": desk.design.keep,
        "keepText": level(desk.design.keep),
        "confidence": level(desk.design.confidence),
        "values": [_value_data(value) for value in state.values],
        "sources": [*source_lines(desk)] if has_started else [],
        "criterion": desk.criterion,
        "who": desk.who,
        "file": desk.file.path.name,
        "noun": desk.recorded.noun,
    }


def _value_data(value: ValueState) -> dict[str, Any]:
    bound = value.kept_at_least
    if value.verdict == "waiting":
        word = _WORDS["waiting"]
    elif value.verdict == "open":
        word = f"at least {floor_percent(bound)}" if bound else "nothing shown yet"
    else:
        word = _WORDS[value.verdict]
    return {
        "label": f"{LIMITS[value.axis].label} {value.value}",
        "verdict": value.verdict,
        "sign": _SIGNS.get(value.verdict, ""),
        "word": word,
        "bound": bound,
        "successes": value.successes,
        "lost": value.n_lost,
        "expected": value.expected_answers,
    }


def dialog_data(dialog: Dialog) -> dict[str, Any] | None:
    """The unit that is shown, with the sentences beside it; None if nothing is open."""
    question, card = dialog.question, dialog.card
    if question is None or card is None:
        return None
    return {
        "id": question.print,
        "title": dialog.title,
        "task": card.prompt,
        "message": card.message,
        "files": list(card.files),
        "tests": card.test_output,
        "note": dialog.note,
        "keys": [*_BUTTONS.items()],
    }
