"""Edits of TOML: the value changes, and no other byte."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.errors import ConfigFileError
from boolab.io.toml_edit import with_toml

CODEX = """# mine
model = "gpt-5"

[mcp_servers.a] # first
command = "x"

[projects."/home/u/p1"]
trust_level = "trusted"

# about the agents
[agents]
max_depth = 2 # deep

[projects."/home/u/p2"]
trust_level = "trusted"
"""


@pytest.mark.parametrize(
    ("text", "at", "changed"),
    [
        ("", "a.b", "[a]\nb = 5\n"),
        ("\ufeff", "b", "\ufeffb = 5\n"),
        ("\ufeffa = 1\n", "b", "\ufeffa = 1\nb = 5\n"),
        ("a = 1", "b", "a = 1\nb = 5"),
        ("[a]\nb = 1\n# end", "a.c", "[a]\nb = 1\nc = 5\n# end"),
        ("[a]", "a.b", "[a]\nb = 5"),
        ("[a]\r\n", "a.b.c", "[a]\r\n\r\n[a.b]\r\nc = 5\r\n"),
        ("[a]\nb = 1", "c.d", "[a]\nb = 1\n\n[c]\nd = 5\n"),
        ("#:schema x\n\n[a]\n", "b", "#:schema x\nb = 5\n\n[a]\n"),
        ("# of a\n[a]\n", "b", "b = 5\n# of a\n[a]\n"),
        ("a = 1\n# unix\nb = 2\r\n[t]\nc = 3\n", "b", "a = 1\n# unix\nb = 5\r\n[t]\nc = 3\n"),
        ("a = '''x\ny\r\nz'''\nb = 2\r\n", "c", "a = '''x\ny\r\nz'''\nb = 2\r\nc = 5\r\n"),
        ("b = '''x\ny\r\nz''' # one\r\n", "b", "b = 5 # one\r\n"),
        ('b = """\n[t]\n\\"""" # one\n[t]\n', "t.c", 'b = """\n[t]\n\\"""" # one\n[t]\nc = 5\n'),
        ("[c.a]\n[[x]]\n[c.b]\nd = 1", "c.b.d", "[c.a]\n[[x]]\n[c.b]\nd = 5"),
        ("[c.a]\n[[x]]\n[c.b]\n", "c.e", "[c.a]\n[[x]]\n[c.b]\n\n[c]\ne = 5\n"),
        ("[[x]]\n[x.y]\nb = 1\n[y]\n", "y.b", "[[x]]\n[x.y]\nb = 1\n[y]\nb = 5\n"),
        ("a = { b = true } # c\n", "a.c.d", "a = { b = true, c.d = 5 } # c\n"),
        ("a = {}\n", "a.b", "a = { b = 5 }\n"),
        ("a = {b = {c = 1}, d.e = 2}\n", "a.b.c", "a = {b = {c = 5}, d.e = 2}\n"),
        ("a = {b = {c = 1}, d.e = 2}\n", "a.d.f", "a = {b = {c = 1}, d.e = 2, d.f = 5}\n"),
        ("a.b = 1 # c\na.c = 2\n", "a.b", "a.b = 5 # c\na.c = 2\n"),
        ("a.b = 1 # c\nx = 1\n[t]\n", "a.c", "a.b = 1 # c\na.c = 5\nx = 1\n[t]\n"),
        ("[t]\na.b = 1\nx = 1\n", "t.a.c", "[t]\na.b = 1\na.c = 5\nx = 1\n"),
        ("[a]\n  b = 1 \n\n# of t\n[t]\n", "a.c", "[a]\n  b = 1 \n  c = 5\n\n# of t\n[t]\n"),
        ("[ a . 'b c' ] # x\n\"d\\u00e9\" = 1\n", "a.b c.dé", "[ a . 'b c' ] # x\n\"d\\u00e9\" = 5\n"),
        ("a = [ # one\n  1, # two\n]\nb = 1979-05-27 07:32:00Z # t\n", "b", "a = [ # one\n  1, # two\n]\nb = 5 # t\n"),
        (CODEX, "agents.max_depth", CODEX.replace("= 2", "= 5")),
        (CODEX, "projects./home/u/p2.x", f"{CODEX}x = 5\n"),
        (CODEX, "x", CODEX.replace('"gpt-5"\n', '"gpt-5"\nx = 5\n')),
    ],
)
def test_one_value_changes_and_no_other_byte(text: str, at: str, changed: str) -> None:
    keys = at.split(".")
    assert with_toml(text, keys, 5) == changed
    assert with_toml(changed, keys, 5) == changed


KEYS = st.sampled_from(["a", "b", "c d", "é", "1"])
VALUES = st.sampled_from(
    ["1", "0x1F", "-1e5", "true", '"s # no"', r"'lit\'", "1979-05-27T07:32:00Z", '"""\nx # y\r\n"""', "'''\n[a]\n'''",
     "[1, 2,]", "[ # c\n  1, # one\n  2 # two\n]", "{a = 1, b.c = 2}", "[{a = 1}]", '""', "inf"]
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\n", "\r\n"])


def key_text(key: str) -> str:
    return key if key.isalnum() and key.isascii() else f'"{key}"'


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    """TOML text with comments, mixed line ends, and all kinds of tables and keys; now and then it is no TOML."""
    lines: list[str] = []
    for number in range(draw(st.integers(0, 4))):
        if number:
            path = ".".join(map(key_text, draw(st.lists(KEYS, min_size=1, max_size=2))))
            lines.append(draw(st.sampled_from(["[{}]", "[{}] # t", "  [ {} ]", "[[{}]]"])).format(path))
        for key in draw(st.lists(KEYS, unique=True, max_size=2)):
            more = draw(st.sampled_from(["", "", ".x"]))
            lead, trail = draw(st.sampled_from([("", ""), ("\t", " # one"), ("# c\n", "  ")]))
            lines.append(f"{lead}{key_text(key)}{more} = {draw(VALUES)}{trail}")
    text = "".join(line + draw(ENDS) for line in lines)
    return draw(st.sampled_from(["", "", "\ufeff"])) + (text if draw(st.booleans()) else text.rstrip("\r\n"))


def changed_part(before: str, after: str) -> str:
    """What an edit took away: the text between what both begin with and what both end with."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return before[start : len(before) - end]


@given(toml_texts(), st.lists(KEYS, min_size=1, max_size=3), st.sampled_from([5, True, 'x\n"é"', ["a"], 0.5]))
def test_any_toml_keeps_all_but_the_value(text: str, at: list[str], new: Any) -> None:
    try:
        before = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        with pytest.raises(ConfigFileError, match="is not TOML"):
            with_toml(text, at, new)
        return
    old: Any = before
    for key in at:
        if not isinstance(old, dict):
            with pytest.raises(ConfigFileError, match="expected a table"):
                with_toml(text, at, new)
            return
        old = old.get(key)
        if old is None:
            break
    try:
        changed = with_toml(text, at, new)
    except ConfigFileError:
        if isinstance(old, dict | list):  # a table, or several, that are to become a value
            return
        raise
    inner = before
    for key in at[:-1]:
        inner = inner.setdefault(key, {})
    inner[at[-1]] = new
    assert tomllib.loads(changed.removeprefix("\ufeff")) == before
    assert with_toml(changed, at, new) == changed
    gone = changed_part(text, changed)
    if old is None:
        assert not gone.strip(" \t")  # but for blanks in empty braces
    elif not isinstance(old, dict | list):
        assert gone in text
        assert "#" not in gone.replace("s # no", "").replace("x # y", "")


@pytest.mark.parametrize(
    ("text", "at", "line", "problem"),
    [
        ("a = 1\n[b\n", "b", 2, "is not TOML"),
        ("a = " + "9" * 5000, "b", None, "is not TOML"),
        ("a = " + "[" * 3000 + "]" * 3000, "b", None, "deep"),
        ("\n[[a]]\nb = 1\n", "a.b", 2, "a is a list; expected a table"),
        ("b = 1\na = 'x'\n", "a.b", 2, "a is 'x'; expected a table"),
        ("x = 1\n[a.b]\n", "a", 2, "edit it by hand"),
    ],
)
def test_toml_that_is_not_understood_is_refused(text: str, at: str, line: int | None, problem: str) -> None:
    with pytest.raises(ConfigFileError, match=problem) as refused:
        with_toml(text, at.split("."), 5)
    assert refused.value.line == line


@pytest.mark.parametrize("value", ["\ud800", ["\ud800"]])
def test_text_that_toml_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ConfigFileError, match="no lone surrogates"):
        with_toml("", ["a"], value)


@pytest.mark.parametrize("value", ['"\\\n\t\x7f\x00é', True, -3, 1e16, [1, ["x"]], ("a",)])
def test_values_are_written_as_toml_reads_them(value: Any) -> None:
    read = tomllib.loads(with_toml("", ["a b"], value))["a b"]
    assert read == ([*value] if isinstance(value, tuple) else value)
