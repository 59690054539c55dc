"""Sessions whose entries name the one before them: a file holds several branches, of which one was continued."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from boolab.core.run import Run
from boolab.io.json_input import Damage, filter_objects, text
from boolab.logs.fields import LineLog


class EntryTree:
    """The parents of the entries, by their places in the file, from 0."""

    def __init__(self, id_key: str = "id", parent_key: str = "parentId") -> None:
        self._keys = (id_key, parent_key)
        self._parents: list[int] = []
        self._places: dict[str, int] = {}
        self._left: set[int] | None = set()
        """The result of `skipped_entries`; None if an entry since then began a branch."""

    def grow(self, line: Mapping[str, Any]) -> int:
        """Add an entry, and return its place. One of the same id as the last entry continues that."""
        id_key, parent_key = self._keys
        index = len(self._parents)
        previous = index - 1
        parent = previous
        continues = id_key in line and self._places.get(text(line[id_key])) == previous
        if parent_key in line and not continues:
            above = line[parent_key]
            parent = -1 if above is None else self._places.get(text(above), previous)
        if id_key in line:
            self._places[text(line[id_key])] = index
        self._parents.append(parent)
        if parent != previous:
            self._left = None
        return index

    def skipped_entries(self) -> set[int]:
        """The places of the entries that are not on the branch of the last one."""
        if self._left is not None:
            return self._left
        off_branch = set(range(len(self._parents)))
        index = len(self._parents) - 1
        while index >= 0:
            off_branch.discard(index)
            index = self._parents[index]
        self._left = off_branch
        return off_branch


class BranchedSession(Protocol):
    """Builds the run of a session whose entries are on branches."""

    def take_non_entry(self, line: Mapping[str, Any]) -> bool:
        """Take a line if it is no entry, such as the header; whether it is none."""
        ...

    def leave(self, line: Mapping[str, Any]) -> None:
        """Note an entry on a branch that was left."""
        ...

    def take(self, line: Mapping[str, Any]) -> None:
        """Take the next entry."""
        ...

    def runs(self, path: Path) -> list[Run]:
        """The run by the entries so far; none if there is none."""
        ...


def follow_branches(
    path: Path,
    damage: Damage,
    begin: Callable[[Damage], BranchedSession],
    keys: tuple[str, str] = ("id", "parentId"),
    skipped: Collection[int] = frozenset(),
) -> LineLog:
    """A session without the entries on branches that were left, which is read again when another branch is continued.

    `keys`: where an entry has its id and that of the one before it. `skipped`: the places of the entries on the other
    branches.
    """
    session, tree = begin(damage), EntryTree(*keys)

    def take(number: int, value: object) -> None:
        for _, line in filter_objects([(number, value)], damage):
            if session.take_non_entry(line):
                continue
            if tree.grow(line) in skipped:
                session.leave(line)
            else:
                session.take(line)

    def read_again() -> LineLog | None:
        off_branch = tree.skipped_entries()
        return None if off_branch == skipped else follow_branches(path, Damage(path), begin, keys, off_branch)

    return LineLog(damage, take, lambda: session.runs(path), read_again)
