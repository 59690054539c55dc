"""The status of a desk: what its answers show of each value, where they are from, and what is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Final

from boolab.core.run_labels import BENCHMARK, HAND
from boolab.core.text import count, flatten
from boolab.frames.dtypes import FLOAT, INT, TEXT
from boolab.stats.desk.design import looser_value
from boolab.stats.desk.state import ValueState
from boolab.stats.desk.words import plan_in_words, value_in_words
from boolab.stats.finding import Finding, frame_of
from boolab.stats.recommend.desk_evidence import evidence_lines
from boolab.stats.recommend.desk_session import Desk

_COLUMNS: Final = {
    "axis": TEXT,
    "value": INT,
    "verdict": TEXT,
    "n_answers": INT,
    "successes": INT,
    "n_lost": INT,
    "kept_at_least": FLOAT,
    "expected_answers": INT,
    "max_answers": INT,
}
_PAUSE_S: Final = 600
"""A longer time between two answers is a pause."""
_WAITING: Final = ("axis", "value", "verdict")
"""What is known of a value that is not tested before a looser one."""


def finding_of(desk: Desk) -> Finding:
    """What the answers show: a row and a sentence for each value, and where the answers are from."""
    values = desk.state.values
    frame = frame_of([], [], _COLUMNS, [_row(value) for value in values])
    if not desk.has_started:
        return Finding("Answers of the desk", frame, notes=tuple(status_lines(desk)))
    sentences = tuple(value_in_words(value, desk.design) for value in values)
    return Finding("Answers of the desk", frame, sentences, tuple(source_lines(desk)))


def _row(value: ValueState) -> dict[str, object]:
    row = value._asdict()
    return row if value.verdict != "waiting" else {name: row[name] if name in _WAITING else None for name in _COLUMNS}


def status_lines(desk: Desk) -> Iterator[str]:
    """What the answers show, where they are from, and how much a person agrees with the own answers."""
    if not desk.file.header.get("question"):
        yield f"{desk.file.path}: there is no question yet. {open_in_words(desk)}."
        return
    for value in desk.state.values:
        yield value_in_words(value, desk.design)
    yield from source_lines(desk)


def source_lines(desk: Desk) -> Iterator[str]:
    """Where the answers are from, what is open, and how much a person agrees with the own answers."""
    sources = Counter(HAND for line in desk.file.labels if line.get("source", HAND) == HAND)
    sources.update(label.source for label in desk.labels.values() if label.source != HAND)
    words = {HAND: "hand", BENCHMARK: "the benchmark"}
    parts = [f"{n:,} by {words.get(source, f'evidence of {source}')}" for source, n in sources.most_common()]
    yield f"{desk.file.path}: {'; '.join(parts) or 'no answers'}. {open_in_words(desk)}."
    missing = len({*desk.file.order} - {*desk.units.prints})
    if missing:
        are = "is" if missing == 1 else "are"
        yield f"{count(missing, desk.recorded.noun)} of the order {are} not in the logs any more."
    n_disputed = sum(label.disputed for label in desk.labels.values())
    if n_disputed:
        yield f"{count(n_disputed, desk.recorded.noun)} with answers that differ, so the outcome is unknown."
    for who in desk.people:
        yield from _person_lines(desk, who)
    yield from evidence_lines(desk)


def _person_lines(desk: Desk, who: str) -> Iterator[str]:
    """How long the answers of a person took, and how much the person agrees with the own answers."""
    name = flatten(who) or "Someone"
    times = desk.answer_times(who)
    if seconds := [time for time in times if time <= _PAUSE_S]:
        sentence = f"{name}: {count(len(seconds), 'answer')} in {sum(seconds) / 60:,.1f} minutes, a median of "
        sentence += f"{median(seconds):,.0f} s each, from the times in the file"
        n_pauses = len(times) - len(seconds)
        yield sentence + (f"; {count(n_pauses, 'pause')} of over 10 minutes left out." if n_pauses else ".")
    n_alike, n_again = desk.own_agreement(who)
    if n_again:
        yield f"{name} answered {n_alike:,} of {n_again:,} alike when asked again."


def plan_lines(desk: Desk) -> Iterator[str]:
    """What the first question will take, once the order is drawn; nothing after the first answer."""
    if not desk.answers:
        axis = next(iter(desk.design.values))
        yield from plan_in_words(desk.plan, desk.design, desk.recorded.noun, looser_value(desk.recorded.lengths(axis)))
        yield f"One {desk.recorded.noun} of each task, or session, is asked about. Answers go to {desk.file.path}."


def open_in_words(desk: Desk) -> str:
    """How many questions are open."""
    if not desk.file.header.get("question"):
        return f"{count(len({*desk.recorded.clusters}), 'task or session', 'tasks or sessions')} to ask about"
    if desk.state.unit is None:
        return "No question is open"
    expected = f"about {desk.state.current.expected_answers:,} until the next verdict"
    return f"{count(desk.state.max_answers, 'question is', 'questions are')} open at most, {expected}"
