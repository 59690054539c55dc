"""Which files may hold parts or copies of the same runs, by their beginnings: they are read together.

A copy of a session begins with the same ids or times as the session, so that these are in the heads of both files. The
heads are read anyway, to detect the formats. Files that are not related are read one after the other, as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from boolab.logs.fields import Head

_NAMES: Final = frozenset((
    "call_id", "conversation_id", "created", "created_at", "forked_from_id", "id", "messageID", "parentSession",
    "projectID", "requestId", "sessionID", "sessionId", "session_id", "spanId", "startTimeUnixNano", "task_id",
    "timestamp", "tool_call_id", "traceId", "trajectory_id", "ts",
))  # fmt: skip
"""The keys of ids and times that copies have too."""

_NUMBER: Final = (int, float)  # a union would be made anew for each value
_MIN_CHARS: Final = 5
"""Shorter ids are counters."""
_MAX_OF_NAME: Final = 4
_MAX_DEPTH: Final = 6


def head_keys(head: Head) -> set[int]:
    """Digests of the first ids and times in a file."""
    keys: set[int] = set()
    _collect(head.values, _MAX_DEPTH, dict.fromkeys(_NAMES, _MAX_OF_NAME), keys)
    return keys


def _collect(value: Any, depth: int, quota: dict[str, int], keys: set[int]) -> bool:  # noqa: ANN401 - it is JSON
    """Add the digests of the ids and times in a value, up to the `quota` of each name. False once none is left."""
    pairs: Iterable[tuple[Any, Any]] = value.items() if value.__class__ is dict else enumerate(value)
    for name, item in pairs:
        kind = item.__class__
        if kind is dict or kind is list:
            if depth and item and name not in quota and not _collect(item, depth - 1, quota, keys):
                return False
        elif quota.get(name):
            key = item if kind is str else str(item) if isinstance(item, _NUMBER) else ""
            digest = hash(key)
            if len(key) >= _MIN_CHARS and digest not in keys:
                keys.add(digest)
                quota[name] -= 1
                if not quota[name] and not any(quota.values()):
                    return False
    return True


def group_keys(keys: Sequence[Iterable[Any]]) -> list[list[int]]:
    """The places of sets of keys, in groups of those that share keys, in the order of the first ones."""
    above = list(range(len(keys)))

    def top(index: int) -> int:
        while above[index] != index:
            above[index] = index = above[above[index]]
        return index

    first: dict[Any, int] = {}
    for index, key_set in enumerate(keys):
        for key in key_set:
            other = top(first.setdefault(key, index))
            root = top(index)
            above[max(root, other)] = min(root, other)
    groups: dict[int, list[int]] = {}
    for index in range(len(keys)):
        groups.setdefault(top(index), []).append(index)
    return list(groups.values())
