"""From bytes to values."""

from pathlib import Path

import pytest

from boolab.errors import RunFormatError
from boolab.io import json_input
from boolab.io.json_input import Damage, json_document, json_lines, parse
from boolab.logs import fields
from boolab.logs.fields import content_text, epoch_ms, instant


def test_lines_know_their_numbers_and_empty_ones_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf1\n\n  \n[2]\r\n\n3")
    damage = Damage(path)
    assert list(json_lines(path, damage)) == [(1, 1), (4, [2]), (6, 3)]
    assert damage.first is None


def test_line_beyond_the_limit_is_skipped_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_input, "MAX_LINE", 100)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" + b"[" + b" " * 98 + b"]\n" + b'"' + b"x" * 5_000_000 + b'"\n2\n')
    damage = Damage(path)
    assert list(json_lines(path, damage)) == [(1, 1), (4, 2)]
    assert damage.first == (2, "a line of more than 100 bytes")


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"a":' * 1_000 + b"1" + b"}" * 1_000])
def test_deep_nesting_is_refused_and_no_crash(deep: bytes) -> None:
    with pytest.raises(ValueError, match="recursion limit"):
        parse(deep)


def test_half_surrogate_is_replaced_and_whole_pairs_are_kept() -> None:
    given = rb'["\ud83d\ude00", "\ud83d", "\ude00x", "\\ud83d", "\\\ud83d"]'
    assert parse(given) == ["😀", "\ufffd", "\ufffdx", r"\ud83d", "\\\ufffd"]


def test_of_much_damage_the_first_is_told_and_the_rest_counted() -> None:
    damage = Damage("a")
    for number in range(1, 26):
        damage.note(number, "broken")
    told: list[str] = []
    damage.report(told.append, readable=True)
    assert len(told) == 11
    assert told[-1] == "a:10: 15 more places after this one were skipped"


def test_a_document_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_input, "MAX_DOCUMENT", 10)
    path = tmp_path / "a.json"
    path.write_text("[1, 2, 3, 4, 5]")
    with pytest.raises(RunFormatError, match="15 bytes, more than the 10 that are read"):
        json_document(path, Damage(path))


def test_damage_in_a_document_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[\n {"a": 1},\n {"b": 2},\n {"c": oops},\n {"d": 4}]')
    damage = Damage(path)
    assert json_document(path, damage) == [{"a": 1}, {"b": 2}]
    assert damage.first is not None
    assert damage.first[0] == 4


def test_times_with_and_without_zones_are_utc() -> None:
    assert epoch_ms("1970-01-01T01:00:01+01:00") == epoch_ms("1970-01-01T00:00:01") == 1_000
    assert [instant(stamp) for stamp in ("soon", "", None, 17, "0001-01-01T00:00:00+14:00")] == [None] * 5


def test_what_is_not_text_is_named() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image"}, {}, 3, "b", {"type": "text", "text": None}]
    assert content_text(content) == "a\n[image]\n[unknown]\n3\nb\n[text]"
    assert content_text(None) == ""
    assert content_text({"a": 1}) == '{"a":1}'


def test_head_reads_values_of_lines_or_of_a_partial_document() -> None:
    def values(data: bytes) -> tuple[object, ...]:
        return fields.Head(data, Path("a")).values

    assert values(b"") == ()
    assert values(b'{"a": 1}\n\n{"b": 2}\n') == ({"a": 1}, {"b": 2})
    assert values(b'{broken\n{"b": 2}\n{"c": 3}\n') == ({"b": 2}, {"c": 3})
    assert values(b'{"a": "long te') == ({"a": "long te"},)
    assert values(b'{\n "a": [\n  {"b": 1},\n  {"b": 2') == ({"a": [{"b": 1}, {"b": 2}]},)
    assert values(b"\xef\xbb\xbf[1, 2]") == ([1, 2],)
    assert values(b"PK\x03\x04") == ()
    assert fields.Head(b"[1]", Path("a")).first == {}


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.json", b'{"a": 1}', [(1, {"a": 1})]),
        ("a.json", b'{\n"a": 1}', [(1, {"a": 1})]),
        ("a.json", b'{"a": 1}\n{"a": 2}', [(1, {"a": 1}), (2, {"a": 2})]),
        ("a.jsonl", b'\n{"a": 1}\n', [(2, {"a": 1})]),
        ("a.jsonl", b'{broken\n{"a": 2}\n', [(2, {"a": 2})]),
        ("a.jsonl", b'{\n"a": 1\n}', [(1, {"a": 1})]),
        ("a.jsonl", b"", []),
    ],
)
def test_values_are_those_of_the_lines_or_the_one_document(
    tmp_path: Path, name: str, data: bytes, expected: list[tuple[int, object]]
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert list(json_input.json_values(path, json_input.Damage(path))) == expected


def test_truncated_document_loses_only_the_entry_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    whole = '{"id": 1, "list": [{"a": [1, 2]}, {"a": [3]}, {"a": [4, 5]}], "end": true}'
    for size, kept in ((whole.index("4"), 2), (whole.index("3"), 1), (whole.index("}], ") + 1, 2)):
        path.write_text(whole[:size])
        damage = json_input.Damage(path)
        assert len(json_input.json_document(path, damage)["list"]) == kept
        assert damage.truncated
        assert damage.first is not None
    for more in (', "info": {"cost": 12', ', "more": [{"b": [3], "c', ', "note": "abc'):
        path.write_text(whole.partition(', "end"')[0] + more)
        document = json_input.json_document(path, json_input.Damage(path))
        assert len(document.pop("list")) == 3
        assert [value for value in document.values() if value] == [1]
    path.write_text(whole[: whole.index("2")])
    with pytest.raises(RunFormatError, match=r"a\.json:1: "):
        json_input.json_document(path, json_input.Damage(path))
