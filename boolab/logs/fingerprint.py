"""The fingerprint of a unit: what was asked and answered, without anything that a harness rewrites in a copy.

It is a chain of BLAKE2b with 80 bits over the messages of the user and, for each response, its text and its calls: a
call's name, and its arguments as canonical JSON. No id, time, path, usage or version is in it, no result and no message
of the system. So a copy of a session has the same fingerprints, a resumed or forked one has those of the session that
it began with, and later turns change none. It is the same whether history stands in a run's prompt or in its steps.

Who knows all of these texts can compute it: a fingerprint of facts confirms a guess of the whole conversation, and
nothing less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from boolab.core.messages import Message, Text
from boolab.core.run import Run
from boolab.core.types import ToolCall
from boolab.limits.call_identity import normalise_arguments

_BYTES: Final = 10
_PRINT: Final = re.compile(r"[0-9a-f]{20}|")
_SEPARATOR: Final = "\x1f"


class Fingerprint(NamedTuple):
    """The fingerprint of a conversation up to a response."""

    print: str  # 20 hexadecimal digits
    steps: int  # how many responses are in it, those in the prompt included


def fingerprint(run: Run, step: int | None = None) -> Fingerprint:
    """The fingerprint of a run, or of its beginning.

    `step`: the last of its steps that counts, from 1: that of a turn's last step makes it the turn's. By default all.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> fingerprint(run)
        Fingerprint(print='517ec73874cfab9eaceb', steps=1)
        >>> fingerprint(run) == fingerprint(bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."])))
        True
    """
    n_steps = len(run.steps) if step is None else step
    return Fingerprint(prints_of(run)[n_steps], responses_in(run.prompt) + n_steps)


def prints_of(run: Run) -> tuple[str, ...]:
    """The fingerprints of all beginnings of a run: before its first step, then after each."""
    has_prints = len(run.prints) == len(run.steps) + 1 and all(map(_PRINT.fullmatch, run.prints))
    return run.prints if has_prints else tuple(_chain(run))


def responses_in(prompt: Sequence[Message]) -> int:
    """How many responses are in the messages before the first step."""
    return sum(message.role == "assistant" for message in prompt)


def _chain(run: Run) -> Iterator[str]:
    chain = _Chain()
    for message in run.prompt:
        chain.take(message)
    waiting = list(reversed(run.inputs))
    yield chain.print
    for step in run.steps:
        while waiting and waiting[-1].before <= step.index:
            chain.take(waiting.pop().message)
        chain.respond(step.response.text, step.response.tool_calls)
        yield chain.print


class _Chain:
    """The fingerprint of a growing conversation."""

    def __init__(self) -> None:
        self._before = ""
        self._texts: list[str] = []
        """The texts of the user since the last response: copies may have them in fewer messages, or in more."""

    @property
    def print(self) -> str:
        return _hash_parts(self._before, "user", "\n".join(self._texts)) if self._texts else self._before

    def take(self, message: Message) -> None:
        text = "".join([part.text for part in message.parts if isinstance(part, Text)]).strip()
        if message.role == "user":
            self._texts.append(text)
        elif message.role == "assistant":
            self.respond(text, [part for part in message.parts if isinstance(part, ToolCall)])

    def respond(self, text: str, calls: Sequence[ToolCall]) -> None:
        parts = [self.print, "response", text.strip()]
        for call in calls:
            parts += (call.name, normalise_arguments(call.arguments, sort=True))
        self._before = _hash_parts(*parts)
        self._texts = []


def _hash_parts(*parts: str) -> str:
    lengths = ",".join([str(len(part)) for part in parts])  # no part can pass for two
    data = _SEPARATOR.join((lengths, *parts)).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=_BYTES).hexdigest()
