"""Evidence from the user's reaction: the message after a turn, and turns that were interrupted. It is never a success.

- The next message asks to take the work back: by a command (`git checkout -- a.py`, `/rewind`), or in words.
- The next message is nearly the prompt again. A short one, such as "continue", is repeated by habit, and shows nothing.
- The turn was interrupted, and the one after it did not end by itself either. Work that was interrupted for a detail,
  and then finished, is unknown.

A user who is content, and one who gives up politely, write nothing that differs, so silence is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from boolab.core.messages import Message
from boolab.core.run import Run
from boolab.core.types import Step
from boolab.logs.harness_text import is_harness_message
from boolab.logs.outcomes.evidence import Evidence
from boolab.logs.outcomes.label_file import OutcomeWord

SOURCE: Final = "reaction"
SIMILAR: Final = 0.6
"""From this share of equal words on, two messages are nearly the same."""
MIN_WORDS: Final = 5
"""A message with fewer words is repeated by habit."""
MAX_CHARS: Final = 20_000
_WORD: Final = re.compile(r"\w+")
_COMMAND: Final = re.compile(
    r"\bgit[ ]+(?:checkout[ ]+(?:--|\.|HEAD\b|[^-\s]\S{0,200}\.\w{1,10}\b)"
    r"|restore\b|reset[ ]+(?:--hard|--merge)|revert\b)"
    r"|^\s{0,20}/(?:rewind|undo)\b",
    re.MULTILINE,
)
_WORDS: Final = re.compile(
    r"(?:^|[.!?\n][ ]*)(?:(?:please|no|ok|okay|wait|stop|sorry|hmm|now|just|can you|could you),?[ ]+){0,4}"
    r"(?:revert|undo|roll[ ]?back|discard|take back)[ ]+(?:\w+[ ]+){0,2}?"
    r"(?:that|this|it|these|those|your|all|everything|the|last|what)\b(?![ ]+(?:button|feature|command|endpoint))",
    re.IGNORECASE,
)


def evidence_of_reaction(run: Run) -> dict[int | None, Evidence]:
    """The evidence of the user's reaction for each turn of a run."""
    turns: dict[int, list[Step]] = {}
    for step in run.steps:
        turns.setdefault(step.turn, []).append(step)
    numbers = list(turns)
    evidence: dict[int | None, Evidence] = {}
    prompt = _first_prompt(run)
    for index, number in enumerate(numbers):
        steps = turns[number]
        after = turns[numbers[index + 1]] if index + 1 < len(numbers) else []
        message = _messages_before(run, steps[-1].index, after)
        outcome, reason = _reaction(prompt, message)
        if outcome == "unknown" and _is_interrupted(run, steps) and not (after and not _is_interrupted(run, after)):
            outcome, reason = "failure", "the user interrupted it, and it was not finished afterwards"
        time = _start_of(run, after) if after and outcome == "failure" else None
        evidence[number] = Evidence(outcome, SOURCE, reason, {}, time)
        prompt = message
    return evidence


def _first_prompt(run: Run) -> str:
    messages = [message for message in run.prompt if message.role == "user"]
    return _text_of(messages[-1:]) or run.task


def _messages_before(run: Run, last: int, after: Sequence[Step]) -> str:
    """The text of the user's messages between the last step of a turn and the next turn."""
    end = after[0].index if after else last + 1
    messages = [message for step, message in run.inputs if last < step <= end and message.role == "user"]
    return _text_of([message for message in messages if not is_harness_message(message.text)])


def _text_of(messages: Sequence[Message]) -> str:
    return "\n".join([message.text for message in messages])[:MAX_CHARS]


def _reaction(prompt: str, message: str) -> tuple[OutcomeWord, str]:
    if not message.strip():
        return "unknown", "no message of the user follows"
    if _COMMAND.search(message) or _WORDS.search(message):
        return "failure", "the next message asks to take the work back"
    words, next_words = set(_words_of(prompt)), _words_of(message)
    shared_words = words.intersection(next_words)
    if len(next_words) >= MIN_WORDS and len(shared_words) >= SIMILAR * len(words.union(next_words)):
        return "failure", "the next message is nearly the same as the prompt"
    return "unknown", "the next message shows nothing of the outcome"


def _words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _is_interrupted(run: Run, steps: Sequence[Step]) -> bool:
    """Whether the user broke a turn off: the record has it, or another turn follows calls that were never executed.

    A message that comes while an agent works opens a turn too, but the calls before it have their results. Where a
    message stands between the turn and the mark of the interruption, that message was broken off, before a response.
    """
    last = steps[-1]
    texts = [message.text for step, message in run.inputs if step > last.index and message.role == "user"]
    marks = [
        event.payload.get("what")
        for event in run.events
        if event.kind == "abort" and event.payload.get("after_step") == last.index
    ]
    if any(mark not in texts[1:] or texts[0] == mark for mark in marks):
        return True
    return last.index < len(run.steps) and (bool(last.error) or None in last.results)


def _start_of(run: Run, steps: Sequence[Step]) -> datetime | None:
    start = steps[0].start_ms
    return None if run.started_at is None or start is None else run.started_at + timedelta(milliseconds=start)
