"""What is tried: how bytes become a call of the public API, and what good bytes look like."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from tests.fuzz.mutation import MOST_BYTES, Grammar, mutated

Act: TypeAlias = Callable[[bytes], object]
"""Does something with an input. What it raises beside a `BoolabError` is a fault."""

_WORD: Final = re.compile(rb'"[^"\\\n]{1,24}"')
_MOST_WORDS: Final = 300


@dataclass(frozen=True)
class Target:
    """One thing that is tried."""

    name: str
    open: Callable[[Path], AbstractContextManager[Act]]
    make_seeds: Callable[[], list[bytes]]
    grammar: Grammar
    words: tuple[bytes, ...] = ()
    head: int = 0

    @cached_property
    def seeds(self) -> list[bytes]:
        """Good inputs, none longer than what is tried."""
        return [seed for seed in self.make_seeds() if len(seed) <= MOST_BYTES]

    @cached_property
    def tokens(self) -> tuple[bytes, ...]:
        """The words of the language: `words`, and what stands in quotes in the seeds."""
        found = dict.fromkeys(word for seed in self.seeds for word in _WORD.findall(seed))
        return (*self.words, *sorted(found)[:_MOST_WORDS])

    @cached_property
    def _contents(self) -> Sequence[bytes]:
        return [seed[self.head :] for seed in self.seeds]

    def mutated(self, data: bytes, chance: Random) -> bytes:
        """The input with some things in it changed."""
        head = bytearray(data[: self.head].ljust(self.head, b"\0"))
        if head and chance.random() < 0.1:
            head[chance.randrange(len(head))] = chance.randrange(256)
        return bytes(head) + mutated(data[self.head :], chance, self.grammar, self._contents, self.tokens)
