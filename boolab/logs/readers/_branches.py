"""Sessions whose entries name the one before them: a file holds several branches, of which one was continued."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boolab.io.json_input import text


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
