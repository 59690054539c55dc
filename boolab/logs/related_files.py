"""Which files may hold parts or copies of the same runs, by their beginnings: they are read together.

A copy of a session begins with the same ids or times as the session, so that these are in the heads of both files. The
heads are read anyway, to detect the formats. Files that are not related are read one after the other, as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from boolab.logs.fields import Head

_NAMES: Final = frozenset((
    "call_id", "conversation_id", "created", "created_at", "forked_from_id", "id", "messageID", "parentSession",
    "projectID", "requestId", "sessionID", "sessionId", "session_id", "spanId", "startTimeUnixNano", "task_id",
    "timestamp", "tool_call_id", "traceId", "trajectory_id", "ts",
))  # fmt: skip
"""The keys of ids and times that copies have too."""

_MIN_CHARS: Final = 5
"""Shorter ids are counters."""
_MAX_OF_NAME: Final = 4
_MAX_DEPTH: Final = 6


def head_keys(head: Head) -> set[int]:
    """Digests of the first ids and times in a file.

    Example:
        >>> from pathlib import Path
        >>> one = head_keys(Head(b'{"sessionId": "3a3a-new", "timestamp": "2026-02-01T10:00:00.250Z"}', Path("a")))
        >>> other = head_keys(Head(b'{"id": "5b5b-old", "timestamp": "2026-02-01T10:00:00.250Z"}', Path("b")))
        >>> len(one), len(one & other)
        (2, 1)
    """
    left = Counter(dict.fromkeys(_NAMES, _MAX_OF_NAME))
    found: set[int] = set()
    for name, value in _named(head.values, _MAX_DEPTH):
        digest = hash(value)
        if digest not in found and left[name]:
            left[name] -= 1
            found.add(digest)
    return found


def _named(value: object, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name in _NAMES:
                key = item if isinstance(item, str) else str(item) if isinstance(item, int | float) else ""
                if len(key) >= _MIN_CHARS:
                    yield name, key
            elif isinstance(item, dict | list) and depth:
                yield from _named(item, depth - 1)
    elif isinstance(value, list | tuple) and depth:
        for item in value:
            yield from _named(item, depth - 1)


def grouped(keys: Sequence[Iterable[Any]]) -> list[list[int]]:
    """The places of these sets of keys, in groups of those that are connected by keys, in the order of the first ones.

    Example:
        >>> grouped([{1, 2}, {3}, {2, 4}, {4}])
        [[0, 2, 3], [1]]
    """
    above = list(range(len(keys)))

    def top(place: int) -> int:
        while above[place] != place:
            above[place] = place = above[above[place]]
        return place

    first: dict[Any, int] = {}
    for place, of in enumerate(keys):
        for key in of:
            other = top(first.setdefault(key, place))
            mine = top(place)
            above[max(mine, other)] = min(mine, other)
    groups: dict[int, list[int]] = {}
    for place in range(len(keys)):
        groups.setdefault(top(place), []).append(place)
    return list(groups.values())
