"""The splits by task: written down once, in `splits.json` beside this module, so that everybody has the same.

The fold of a task is a hash of its set and its name. So a task has its fold whatever other runs there are, and two
people who have the same recordings have the same splits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("splits.json")


@dataclass(frozen=True, slots=True)
class Splits:
    """What is fixed about the benchmark.

    Attributes:
        benchmark: Its name.
        version: Its version: results of two versions are not comparable.
        folds: The number of folds.
        salt: What is hashed together with each task.
        seed: The seed of the bootstrap.
        repetitions: The number of its samples.
        keep: The share of successes that an entry is to keep.
        levels: Further shares for which entries are tuned, for the frontier.
        same_tasks: Sets that have tasks in common: where one of them is judged, the others are not trained on.
    """

    benchmark: str
    version: int
    folds: int
    salt: str
    seed: int
    repetitions: int
    keep: float
    levels: tuple[float, ...]
    same_tasks: tuple[tuple[str, ...], ...]

    def fold_of(self, set_name: str, task: str) -> int:
        """The fold of a task, from 0.

        Args:
            set_name: The set that it is in.
            task: Its name.

        Example:
            >>> [splits().fold_of("tau-airline", f"tau-airline/{n}") for n in range(5)]
            [0, 3, 2, 4, 4]
        """
        return int.from_bytes(_hash(self.salt, set_name, task)[:8]) % self.folds

    def seed_of(self, set_name: str) -> int:
        """The seed of the bootstrap in a set: the same, whatever other sets there are."""
        return int.from_bytes(_hash(str(self.seed), set_name)[:8])

    @property
    def seed_of_sets(self) -> int:
        """The seed of the samples of sets."""
        return int.from_bytes(_hash(str(self.seed), "sets")[:8])

    def sharing_tasks(self, set_name: str) -> frozenset[str]:
        """The set and all that have tasks in common with it.

        Example:
            >>> sorted(splits().sharing_tasks("tau-airline")), sorted(splits().sharing_tasks("mine"))
            (['tau-airline', 'tau2-airline'], ['mine'])
        """
        return frozenset({set_name}.union(*(group for group in self.same_tasks if set_name in group)))

    def digest(self, tasks: Iterable[tuple[str, str]]) -> str:
        """The SHA-256 of the folds of these tasks, each a set and a name, and of all other settings."""
        lines = sorted({f"{set_name}\t{task}\t{self.fold_of(set_name, task)}" for set_name, task in tasks})
        return sha256("\n".join([_FILE.read_text(encoding="utf-8"), *lines]).encode()).hexdigest()


@cache
def splits() -> Splits:
    """The splits of this version."""
    found = json.loads(_FILE.read_text(encoding="utf-8"))
    levels, same = tuple(found.pop("levels")), tuple(map(tuple, found.pop("same_tasks")))
    return Splits(**found, levels=levels, same_tasks=same)


def _hash(*parts: str) -> bytes:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
