"""The file of labels: what is read, what is appended, and what a kill or a merge does to it."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.errors import SettingError
from boolab.logs.outcomes.label_file import (
    Line,
    append_lines,
    check_question,
    coin_of,
    make_header,
    make_id,
    make_label,
    make_order,
    make_undo,
    new_units,
    parse_labels,
    place_of,
    read_labels,
)
from boolab.logs.outcomes.resolve import resolve
from boolab.logs.units import LabelUnit

PATH = Path("labels.jsonl")
QUESTION = {"axis": "max_steps", "values": [60, 45], "keep": 0.95, "confidence": 0.95, "pi": 0.25, "unit": "turn"}


def unit(print_: str = "5be1", run_id: str = "r") -> LabelUnit:
    return LabelUnit(run_id, 3, print_, 41, {}, 41)


def answer(label: Any = "success", who: str = "ann", **facts: Any) -> Line:
    return make_label(unit(), label, facts={"who": who, **facts})


def written(*lines: Any) -> bytes:
    return b"".join([json.dumps(line).encode() + b"\n" for line in lines])


def lines_of(data: bytes) -> list[Line]:
    return [*parse_labels(data, PATH).lines]


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    header, first = make_header("it works", QUESTION), answer(note="zwölf\ud800\n", extra={"kept": [1]})
    append_lines(path, [header, make_order(["5be1", "77aa"])])
    append_lines(path, [first])
    file = read_labels(path)
    assert file.header == header
    assert file.order == ("5be1", "77aa")
    assert file.labels == (first,)
    assert {"boolab_labels", "criterion", "made", "seed", "question"} == {*header}
    assert [*first][:8] == ["id", "run_id", "turn", "print", "steps", "label", "source", "at"]
    assert path.read_bytes().count(b"\n") == 3


def test_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    file = read_labels(tmp_path / "labels.jsonl")
    assert (file.lines, file.labels, file.order, dict(file.header), file.torn) == ((), (), (), {}, None)


@pytest.fixture
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of appends, which need not be on the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.mark.usefixtures("fast_disk")
def test_an_append_that_is_killed_at_any_byte_loses_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    first, cut, last = [{"id": note, "print": "p", "label": "success", "note": note} for note in ("1", "2é\n", "3")]
    append_lines(path, [make_header("", QUESTION), first])
    whole = path.read_bytes()
    append_lines(path, [cut])
    added = path.read_bytes()[len(whole) :]
    for size in range(len(added) + 1):
        path.write_bytes(whole + added[:size])
        is_there = size >= len(added) - 1  # only its line end is missing
        file = read_labels(path)
        assert file.labels == ((first, cut) if is_there else (first,)), size
        assert (file.torn == 3) is (0 < size < len(added) - 1)
        append_lines(path, [last])
        assert read_labels(path).labels == ((first, cut, last) if is_there else (first, last)), size
        assert read_labels(path).torn is None


@pytest.mark.usefixtures("fast_disk")
def test_the_end_of_a_torn_line_may_be_torn_too(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    torn = written(answer())[:20]
    path.write_bytes(torn)
    append_lines(path, [{"undo": "x"}])
    ended = path.read_bytes()
    for size in range(len(torn), len(ended)):
        path.write_bytes(ended[:size])
        last = answer("unknown")
        append_lines(path, [last])
        assert last in read_labels(path).labels


def test_a_broken_line_elsewhere_is_an_error_with_its_number() -> None:
    data = written(answer()) + b'{"id": "01J", "la\n' + written(answer("failure"))
    with pytest.raises(SettingError, match=r"labels\.jsonl: line 2 is broken"):
        parse_labels(data, PATH)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ([1], "expected an object"),
        ({"print": "a", "label": "good"}, "accepted: success, failure, unknown"),
        ({"label": "success", "steps": 3}, "needs the print of a unit, or a run_id"),
        ({"boolab_labels": 2}, "this boolab reads version 1"),
        ({"units": [3]}, "'units' holds"),
        ({"id": 3, "print": "a", "label": "success"}, "'id' is 3"),
        ({"boolab_labels": 1, "seed": []}, "'seed' is"),
        ({"boolab_labels": 1, "question": [1]}, "'question' is"),
        ({"print": "a", "run_id": {}, "label": "success"}, "'run_id' is"),
    ],
)
def test_a_line_of_another_kind_is_an_error(line: Any, why: str) -> None:
    for end in (b"", written({"undo": "x"})):
        with pytest.raises(SettingError, match=why):
            parse_labels(written(line).rstrip(b"\n" if not end else b"") + end, PATH)


def test_conflict_marks_and_repeated_lines_are_skipped() -> None:
    first, second, undo = answer(), answer("failure"), make_undo("gone")
    data = b"<<<<<<< ours\n" + written(first, undo) + b"||||||| base\r\n=======\n" + written(first, second, undo)
    assert lines_of(data + b">>>>>>> theirs\n") == [first, undo, second]
    assert lines_of(written(first).rstrip(b"\n") + written(second)) == [first, second]  # joined by cat


def test_unknown_lines_and_keys_are_kept() -> None:
    line = {"later": True, "of": {"a": [1, None]}}
    assert lines_of(written(line, {**answer(), "mood": "calm"}))[0] == line
    assert lines_of(written({**answer(), "mood": "calm"}))[0]["mood"] == "calm"


def test_windows_line_ends_and_a_byte_order_mark_are_read() -> None:
    first = answer()
    assert lines_of(b"\xef\xbb\xbf" + written(first).replace(b"\n", b"\r\n") + b"\r\n") == [first]


def test_an_undone_line_does_not_count_wherever_it_stands() -> None:
    line = answer()
    for lines in permutations([line, make_undo(line["id"], "ann")]):
        assert parse_labels(written(*lines), PATH).labels == ()


ANSWERS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["success", "failure", "unknown"]),
        st.sampled_from(["", "undo", "settles"]),
    ),
    max_size=6,
)


@given(ANSWERS, ANSWERS, st.data())
def test_a_merge_gives_one_result_in_any_order(
    mine: list[tuple[str, str, str]], theirs: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    lines: list[Line] = [make_header("", QUESTION), make_order(["5be1"])]
    files: list[list[Line]] = []
    for answers in (mine, theirs):
        file = [*lines]
        for who, label, kind in answers:
            facts = {"who": who} | ({"settles": True} if kind == "settles" else {})
            made = make_label(unit(), label, facts=facts, after=file)  # type: ignore[arg-type]
            file += [made, make_undo(made["id"])] if kind == "undo" else [made]
        files.append([*file, make_order(["77aa", "88bb"] if answers is mine else ["88bb", "99cc"])])
    expected = parse_labels(written(*files[0], *files[1]), PATH)
    drawn = parse_labels(written(*data.draw(st.permutations([*files[0], *files[1]]))), PATH)
    assert (drawn.labels, drawn.header, drawn.order) == (expected.labels, expected.header, expected.order)
    assert resolve(drawn.labels) == resolve(expected.labels)


def test_a_later_line_stays_later_if_the_clock_is_set_back() -> None:
    first = {**answer(), "at": "2099-01-01T00:00:00Z", "id": make_id()}
    last = make_label(unit(), "failure", after=[first])
    assert parse_labels(written(last, first), PATH).labels == (first, last)


def test_the_draw_follows_from_seed_and_fingerprint() -> None:
    assert coin_of("9f2c", "5be1") == coin_of("9f2c", "5be1") != coin_of("9f2d", "5be1")
    for kind, draw in (("coin", coin_of), ("order", place_of)):
        digest = hashlib.blake2b(f"9f2c\x1f{kind}\x1f5be1".encode(), digest_size=7).hexdigest()
        assert draw("9f2c", "5be1") == int(digest, 16) / 2**56
    coins = [coin_of("seed", str(n)) for n in range(4000)]
    assert 0.22 < sum(coin < 0.25 for coin in coins) / 4000 < 0.28


def test_new_units_follow_those_that_are_listed() -> None:
    header = make_header("", QUESTION)
    file = parse_labels(written(header, make_order(["c", "a"])), PATH)
    fresh = new_units(file, ["a", "b", "c", "d", "b"])
    assert fresh == sorted("bd", key=lambda print_: place_of(header["seed"], print_))


def test_the_question_is_fixed_once_there_is_an_answer() -> None:
    header = make_header("", QUESTION)
    other = {**QUESTION, "pi": 0.1}
    check_question(parse_labels(written(header), PATH), other)
    file = parse_labels(written(header, answer()), PATH)
    check_question(file, QUESTION)
    with pytest.raises(SettingError, match=r"pi is 0\.25\. Begin a new file"):
        check_question(file, other)


def test_files_of_two_questions_are_no_one_desk() -> None:
    file = parse_labels(written(make_header("", QUESTION), answer(), make_header("", QUESTION)), PATH)
    assert len(file.labels) == 1
    with pytest.raises(SettingError, match="two questions"):
        _ = file.header
    first = make_header("", QUESTION)
    second = make_header("", {**QUESTION, "pi": 0.1}, replaces=first["seed"])
    for lines in permutations([first, second]):
        assert parse_labels(written(*lines), PATH).header == second


def append_many(path: str, who: str) -> None:
    for _ in range(20):
        append_lines(path, [answer(who=who)])


@pytest.mark.slow
def test_several_programs_append_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=append_many, args=(str(path), who)) for who in ("ann", "bob")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(read_labels(path).labels) == 40


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="there is no folder"):
        append_lines(tmp_path / "none" / "labels.jsonl", [answer()])
    with pytest.raises(SettingError):
        append_lines(tmp_path, [answer()])
