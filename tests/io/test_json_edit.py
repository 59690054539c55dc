"""Edits of JSON text with comments: the value changes, and nothing else does."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.errors import ConfigFileError
from boolab.io.json_edit import line_of, read_json, with_json, without_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 1e9]) | st.text('aé"\\/*\n😀', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc//"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "//", "/*"]), VALUES, max_size=4)
BLANKS = ["", "", " ", "\n", "\n\t", "\r\n  ", " // c, {\n", "/* } , */", " /* [\n */ "]


@st.composite
def texts(draw: st.DrawFn, value: object) -> tuple[str, list[str]]:
    """JSON text of a value with comments and trailing commas, and its comments."""
    comments: list[str] = []

    def blank() -> str:
        chosen: str = draw(st.sampled_from(BLANKS))
        if "#" in chosen:
            chosen = chosen.replace("#", f"#{len(comments)}")
            comments.append(chosen.strip())
        return chosen

    def written(one: Any) -> str:
        if isinstance(one, dict):
            inner = [f"{blank()}{json.dumps(k)}{blank()}:{blank()}{written(v)}{blank()}" for k, v in one.items()]
        elif isinstance(one, list):
            inner = [f"{blank()}{written(v)}{blank()}" for v in one]
        else:
            return json.dumps(one, ensure_ascii=bool(draw(st.integers(0, 1))))
        more = "," if bool(inner) and draw(st.booleans()) else ""
        left, right = "{}" if isinstance(one, dict) else "[]"
        return f"{left}{','.join(inner)}{more}{blank()}{right}"

    text = f"{blank()}{written(value)}{blank()}"
    return draw(st.sampled_from(["", "\ufeff"])) + text, sorted(comments, key=text.find)


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, list[str], Any, list[str | int]]:
    """A text, its comments, its value, and the place of a value in it or of a new one."""
    value = draw(OBJECTS)
    text, comments = draw(texts(value))
    at: list[str | int] = []
    inner: Any = value
    while True:
        if isinstance(inner, dict):
            at.append(draw(st.sampled_from([*inner, "new", "new"])))
            inner = inner.get(at[-1])
        elif isinstance(inner, list):
            place = draw(st.integers(0, len(inner)))
            at.append(place)
            inner = inner[place] if place < len(inner) else None
        if not isinstance(inner, dict | list) or draw(st.booleans()):
            return text, comments, value, at


def expected(value: Any, at: list[str | int], new: object) -> Any:
    holder = value
    for step in at[:-1]:
        holder = holder[step]
    if isinstance(holder, list) and at[-1] == len(holder):
        holder.append(new)
    else:
        holder[at[-1]] = new
    return value


@given(edits(), VALUES)
def test_only_the_value_changes(edit: tuple[str, list[str], Any, list[str | int]], new: object) -> None:
    text, comments, value, at = edit
    inside = json.dumps(value)
    changed = with_json(text, at, new)
    assert json.dumps(read_json(changed)) == json.dumps(expected(json.loads(inside), at, new))
    assert with_json(changed, at, new) == changed  # a second edit changes nothing
    assert changed.startswith("\ufeff") == text.startswith("\ufeff")
    old: Any = value
    for step in at:
        places = range(len(old)) if isinstance(old, list) else old
        old = old[step] if step in places else None
    if not isinstance(old, dict | list):  # what is in a value that is replaced goes with it
        found = [changed.find(comment) for comment in comments]
        assert -1 not in found
        assert found == sorted(found)
    holder: Any = value
    for step in at[:-1]:
        holder = holder[step]
    if at[-1] not in holder if isinstance(holder, dict) else at[-1] == len(holder):
        rest = iter(changed)  # but for blanks in an empty object
        assert all(char in rest for char in text if not char.isspace())


@given(edits())
def test_what_is_set_can_be_removed(edit: tuple[str, list[str], Any, list[str | int]]) -> None:
    text, _, value, at = edit
    changed = with_json(text, at, "new")
    kept = expected(json.loads(json.dumps(value)), at, "new")
    holder = kept
    for step in at[:-1]:
        holder = holder[step]
    del holder[at[-1]]
    assert json.dumps(read_json(without_json(changed, at))) == json.dumps(kept)


@pytest.mark.parametrize(
    ("text", "at", "value", "changed"),
    [
        ('{\n  "a": 1 // one\n}\n', ["b"], 2, '{\n  "a": 1, // one\n  "b": 2\n}\n'),
        ('{\n\t"a": 1, // one\n}\n', ["b", "c"], 2, '{\n\t"a": 1, // one\n\t"b": {\n\t\t"c": 2\n\t},\n}\n'),
        ("{}", ["a"], 1, '{\n  "a": 1\n}'),
        ("", ["a"], 1, '{\n  "a": 1\n}\n'),
        ("{ // none\n}\n", ["a"], 1, '{ // none\n  "a": 1\n}\n'),
        ('{"a":1}', ["b"], [1, 2], '{"a":1, "b": [1, 2]}'),
        ('{\r\n    "a": {}\r\n}\r\n', ["a", "b"], 1, '{\r\n    "a": {\r\n        "b": 1\r\n    }\r\n}\r\n'),
        ('{\n  "a": [\n    1\n  ]\n}', ["a", 1], {"x": 1}, '{\n  "a": [\n    1,\n    {\n      "x": 1\n    }\n  ]\n}'),
        ('\ufeff{"a": 1}', ["a"], "é", '\ufeff{"a": "é"}'),
        ('{"a": true}', ["a"], 1, '{"a": 1}'),
        ("{ // one \n}", ["a"], 1, '{ // one \n  "a": 1\n}'),
        ("{ /* one */ \n }", ["a"], 1, '{ /* one */\n  "a": 1\n}'),
        ('{"a": 1 /* one */ }', ["b"], 2, '{"a": 1, /* one */ "b": 2 }'),
        ("\ufeff \n", ["a"], 1, '\ufeff{\n  "a": 1\n}\n'),
    ],
)
def test_the_format_stays(text: str, at: list[str | int], value: object, changed: str) -> None:
    assert with_json(text, at, value) == changed


@pytest.mark.parametrize(
    ("text", "at", "left"),
    [
        ('{\n  "a": 1, // one\n  "b": 2\n}', ["a"], '{\n  "b": 2\n}'),
        ('{\n  "a": 1, // one\n  "b": 2\n}', ["b"], '{\n  "a": 1 // one\n}'),
        ('{"a": 1, "b": 2}', ["a"], '{"b": 2}'),
        ('{"a": 1, "b": 2}', ["b"], '{"a": 1}'),
        ('{"a": [1, 2]}', ["a", 0], '{"a": [2]}'),
        ('{"a": 1}', ["b"], '{"a": 1}'),
        ('{"a": 1, // one \n"b": 2}', ["b"], '{"a": 1 // one \n}'),
        (" \n", ["a"], " \n"),
    ],
)
def test_a_value_is_removed_with_its_line(text: str, at: list[str | int], left: str) -> None:
    assert without_json(text, at) == left


@pytest.mark.parametrize(
    ("text", "at", "line", "problem"),
    [
        ('{\n  "a": 1\n}', ["a", "b"], 2, "a is 1; expected an object"),
        ('{\n  "a": {}\n}', ["a", 0], 2, "a is an object; expected a list"),
        ('{\n  "a": []\n}', ["a", 3], 2, "has 0 items: there is no place 3"),
        ('{\n  "a": 1,\n  "a": 2\n}', ["a"], 3, "the key a is there twice"),
        ('{\n  "a": 1\n  "b": 2\n}', ["a"], 3, "expected ',' or '}'"),
        ("{\n  a: 1\n}", ["a"], 2, "expected a key in double quotes"),
        ('{\n  "a" 1\n}', ["a"], 2, "expected ':' after the key 'a'"),
        ('{\n  "a": nul\n}', ["a"], 2, "expected a JSON value here, not 'n'"),
        ('{\n  "a": "x\n"}', ["a"], 2, "this string cannot be read"),
        ("{\n /* no end", ["a"], 2, "has no end"),
        ('{"a": 1}\n}', ["a"], 2, "expected the end of the text"),
        ("[" * 200, [0], 1, "nested more than 100 deep"),
        ('{"a": ' + "9" * 5000 + "}", ["a"], 1, "too long"),
        ("[1]", ["a"], 1, "the whole text is a list; expected an object"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(
    text: str, at: list[str | int], line: int, problem: str
) -> None:
    with pytest.raises(ConfigFileError) as refused:
        with_json(text, at, 1)
    assert problem in str(refused.value)
    assert refused.value.line == line


def test_the_line_of_a_value_or_of_what_is_around_it_is_found() -> None:
    text = '// top\n{\n  "a": {\n    "b": 1\n  }\n}\n'
    assert [line_of(text, at) for at in (["a"], ["a", "b"], ["a", "c"], ["x"])] == [3, 4, 3, 2]
