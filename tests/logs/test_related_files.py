"""The ids and times at the beginning of a file, by which files that may hold the same runs are read together."""

from pathlib import Path
from typing import Any

from boolab.logs import related_files
from boolab.logs.fields import Head
from boolab.logs.related_files import group_keys, head_keys


class _Unread(list[Any]):
    """A list that must not be looked into."""

    __class__ = list  # type: ignore[assignment]

    def __iter__(self) -> Any:
        raise AssertionError


def test_walk_ends_when_each_name_has_its_count() -> None:
    names, most = sorted(related_files._NAMES), related_files._MAX_OF_NAME
    head = Head(b"", Path("a.jsonl"))
    head.__dict__["values"] = ([{name: f"{name}-{n:04}" for name in names} for n in range(most)], _Unread(["later"]))
    assert len(head_keys(head)) == most * len(names)


def test_name_without_its_count_is_sought_to_the_end() -> None:
    lines = b'{"id": "id-000"}\n' * 4 + b'{"a": [{"b": {"sessionId": "3a3a-new"}}]}\n'
    assert head_keys(Head(lines, Path("a.jsonl"))) == {hash("id-000"), hash("3a3a-new")}


def test_sets_that_share_keys_are_one_group() -> None:
    assert group_keys([{1, 2}, {3}, {2, 4}, {4}]) == [[0, 2, 3], [1]]
