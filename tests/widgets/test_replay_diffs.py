"""Diffs of Replay: what their rows say is true, and what the arguments of all editors become."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.widgets.replay.cards import card_of
from boolab.widgets.replay.diffs import MAX_LINES, diff_of, diff_rows
from boolab.widgets.replay.edits import Edit, edits_of
from tests.support.cases import cases

LINES = st.lists(st.sampled_from(["a = 1", "b = 2", "\tc", "", "d = a + b", "d = a - b"]), max_size=12)
TEXTS = st.tuples(LINES.map("\n".join), st.sampled_from(["", "\n"])).map("".join) | st.text(max_size=40)


@cases(500)
@given(TEXTS, TEXTS)
def test_the_rows_of_a_diff_are_the_old_text_and_the_new_one(old: str, new: str) -> None:
    rows = diff_rows(old, new)
    assert "\n".join(row.text for row in rows if row.sign != "+") == old
    assert "\n".join(row.text for row in rows if row.sign != "-") == new


@cases(240)
@given(TEXTS, TEXTS)
def test_diff_line_without_changed_parts_is_in_its_counterpart(old: str, new: str) -> None:
    rows = diff_rows(old, new)
    kept = {sign: {"".join(row.parts[::2]) for row in rows if row.sign == sign} for sign in "-+"}
    for row in rows:
        assert not row.parts[1:] or "".join(row.parts[::2]) in kept["+" if row.sign == "-" else "-"]


def test_texts_of_very_many_lines_are_compared_at_their_ends() -> None:
    old = [f"line {n}\n" for n in range(MAX_LINES)]
    new = [*old[:10], "other\n", *old[12:]]
    rows = diff_rows("".join(old), "".join(new))
    assert [row.sign for row in rows if row.sign != " "] == ["-", "-", "+"]


def test_a_last_line_is_the_same_with_and_without_its_end() -> None:
    assert [row.sign for row in diff_rows("a\nb", "a\nb\nc")] == [" ", " ", "+"]
    card = card_of("write", "write", "", {"path": "a", "content": "x\ny\n"})
    assert card["edits"][0]["rows"] == [["+", "x"], ["+", "y"]]


PATCH = """*** Begin Patch
*** Update File: src/a.py
@@ def f():
 one
-two
+2
*** Add File: b.py
+new
*** End Patch"""
IN_PATCH = [("src/a.py", "one\ntwo", "one\n2", None), ("b.py", "", "new", None)]
TWO = [{"old_string": "1", "new_string": "2"}, {"old_string": "3", "new_string": ""}]
UNIFIED = "--- a/x.py\n+++ b/x.py\n@@ -10,2 +10,2 @@\n same\n-old\n+new\n"
WINDOW = "[File: /src/main.py (3 lines total)]\n1:def f():\n2:    pass\n3:\n"


@pytest.mark.parametrize(
    ("kind", "value", "edits"),
    [
        ("write", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, [("a.py", "x", "y", None)]),
        ("write", {"path": "a.py", "oldText": "x", "newText": "y"}, [("a.py", "x", "y", None)]),
        ("write", {"path": "a.py", "old_text": "x", "new_text": "y"}, [("a.py", "x", "y", None)]),
        ("write", {"command": "str_replace", "path": "a", "old_str": "x", "new_str": ""}, [("a", "x", "", None)]),
        ("write", {"command": "create", "path": "a", "file_text": "x\n"}, [("a", "", "x\n", 1)]),
        ("write", {"command": "insert", "path": "a", "insert_line": 4, "new_str": "x"}, [("a", "", "x", 5)]),
        ("write", {"file_path": "a", "content": "x"}, [("a", "", "x", 1)]),
        ("read", {"file_path": "a", "content": "x"}, []),
        ("write", {"file_path": "a", "edits": TWO}, [("a", "1", "2", None), ("a", "3", "", None)]),
        ("write", {"search": "x", "replace": "y"}, [("/src/main.py", "x", "y", None)]),
        ("write", {"command": "edit 2:2\n    go\nend_of_edit\n"}, [("/src/main.py", "    pass", "    go", 2)]),
        ("write", {"command": "edit 7:8\nx\nend_of_edit"}, [("/src/main.py", "", "x", 7)]),
        ("write", {"input": PATCH}, IN_PATCH),
        ("write", PATCH, IN_PATCH),
        ("execute", {"command": ["apply_patch", PATCH]}, IN_PATCH),
        ("write", {"diff": UNIFIED}, [("x.py", "same\nold", "same\nnew", 10)]),
        (
            "write",
            {"path": "a", "diff": "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE"},
            [("a", "x", "y", None)],
        ),
        ("execute", {"command": "ls"}, []),
        ("write", ["x"], []),
        ("write", None, []),
    ],
)  # fmt: skip
def test_the_arguments_of_each_editor_are_old_and_new_texts(
    kind: str, value: object, edits: list[tuple[str, str, str, int | None]]
) -> None:
    assert [edit[:4] for edit in edits_of(kind, value, window=WINDOW)] == edits


def test_a_result_with_line_numbers_tells_where_the_new_text_is() -> None:
    value = {"path": "a.py", "old_str": "x", "new_str": "y\nz"}
    assert edits_of("write", value, "Edited:\n    11\tq\n    12\ty\n    13\tz\n")[0].first == 12
    assert edits_of("write", value, "    1\ty\n    2\tz\n    3\ty\n    4\tz")[0].first is None


def test_a_whole_file_and_all_occurrences_are_noted() -> None:
    assert Edit("a", "", "x", 1, ("content",), "the whole file") in edits_of("write", {"path": "a", "content": "x"})
    several = {"path": "a", "old_string": "x", "new_string": "y", "replace_all": True}
    assert edits_of("write", several)[0].note == "every occurrence"


@pytest.mark.parametrize(
    ("tool", "kind", "value", "about", "fields"),
    [
        ("bash", "execute", {"command": "pytest -q", "timeout": 9}, "pytest -q", [["timeout", "9"]]),
        ("bash", "execute", {"command": "cd a\nls"}, "cd a", [["command", "cd a\nls"]]),
        ("shell", "execute", {"command": ["bash", "-lc", "ls -a"]}, "ls -a", []),
        ("grep", "search", {"pattern": "x", "path": "src"}, "x", [["path", "src"]]),
        ("edit", "write", {"path": "a", "old_str": "x\n\ty", "new_str": "z"}, "a", []),
        ("edit", "write", {"command": "create", "path": "a", "file_text": "x"}, "a", []),
        ("find", "search", {"query": "x", "queries": ["x"]}, "x", []),
        ("goto", "read", {"command": "goto 73\n"}, "73", []),
        ("plan", "write", {"todos": [{"content": "do\n\tit", "done": True}]}, "",
         [["todos", "- content:\n    do\n    \tit\n  done: true"]]),
        ("click", "execute", {"id": 151}, "151", []),
        ("hum", "other", {}, "", []),
    ],
)  # fmt: skip
def test_call_card_shows_the_main_argument_and_other_fields(
    tool: str, kind: str, value: object, about: str, fields: list[list[str]]
) -> None:
    card = card_of(tool, kind, json.dumps(value), value)
    assert (card["about"], card["fields"]) == (about, fields)


def test_arguments_that_are_not_json_are_shown_as_they_are() -> None:
    assert card_of("ls", "read", '{"path": "a', None)["fields"] == [["arguments", '{"path": "a']]


def test_diff_marks_the_words_that_change() -> None:
    assert [tuple(line) for line in diff_of("a\nb: 1\n", "a\nb: 2\n")] == [
        (1, 1, ("a",)),
        (2, None, ("b: ", "1")),
        (None, 2, ("b: ", "2")),
    ]
