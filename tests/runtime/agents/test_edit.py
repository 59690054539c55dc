"""Edits of an agent file: one field changes, and no other byte."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.errors import AgentFileError
from boolab.harnesses.agent_edit import read_agents, remove_field, set_field, set_prompt
from boolab.io.resources import data_path
from tests.support.cases import cases

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=30)
NAMES = st.text("abcxyz_-.:# '\"[]{}", min_size=1, max_size=8).map(str.strip).filter(bool)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": NAMES,
    "description": WORDS | st.sampled_from(["yes", "1", "null", "a: b", "# no", "- x", "", "two\nlines"]),
    "tools": st.lists(NAMES, max_size=4),
    "model": NAMES,
    "max_steps": st.integers(0, 99) | st.just("none"),
    "tool_budget": st.integers(0, 99) | st.just("none"),
    "doom_loop": st.integers(2, 99) | st.just("none"),
    "identity": st.sampled_from(["canonical", "call+result"]),
    "exempt": st.lists(NAMES, max_size=4),
    "policy": st.sampled_from(["boocode", "opencode_v2"]),
    "temperature": st.floats(0, 2) | st.integers(0, 2),
}
FRONTS = {
    "name": ["name: scout", "'name':   \"scout\"   # who", "name: scout # it"],
    "description": ["description: Looks.", "description: >\n  Looks\n  around.\n",
        "description: |-\n  Looks", "description: 'Looks: it''s'"],
    "tools": ["tools: [ls,  grep]  # two",
        "tools:\n  - ls   # lists\n  # and\n  - grep", "tools:\n- ls\n- grep",
        "tools: ls, grep", "tools:", "tools: []"],
    "exempt": ["exempt: [poll]  # waits", "exempt: poll, wait"],
    "max_steps": ["steps: 5  # enough", "maxSteps: 5", "steps:", "max_steps: none", 'steps:   "5"'],
    "policy": ["policy: boocode", 'policy: "boocode"'],
    "mode": ["mode: {a: [1, 2], b: x}   # kept", "mode:\n  a: 1\n\n  b: 2", "mode: primary"],
}  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> str:
    parts = []
    for number in range(draw(st.integers(1, 3))):
        keys = draw(st.permutations([key for key in FRONTS if key == "name" or draw(st.booleans())]))
        front = [draw(st.sampled_from(FRONTS[key])).replace("scout", f"scout{number}") for key in keys]
        comments = [draw(st.sampled_from(["", "# a note\n", "\n"])) for _ in front]
        lines = "".join(f"{comment}{text}\n" for comment, text in zip(comments, front, strict=True))
        body = draw(st.sampled_from(["You look.\n", "\nYou look.\n\n---\n\nA rule.\n\n", "", "Tabs\tand  \n  more\n"]))
        end = draw(st.sampled_from(["", "# the end\n"]))
        parts.append(f"---\n{lines}{end}---\n{body}")
    text = "".join(parts)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    return draw(st.sampled_from(["", "\ufeff"])) + text


def field_lines(text: str, place: int, field: str) -> tuple[list[str], list[str]]:
    """The lines before a field's, and those after them: found without the parser, from the next line at its margin."""
    lines = text.splitlines(keepends=True)
    agent = read_agents(text)[place]
    key = agent.key_of(field)
    assert key is not None
    first = agent.lines[key] - 1
    after = first + 1
    while not lines[after].strip() or lines[after][0] in " \t" or lines[after].startswith(("- ", "# and")):
        after += 1
    while after > first + 1 and not lines[after - 1].strip():
        after -= 1
    return lines[:first], lines[after:]


@cases(240)
@given(files(), st.data())
def test_edit_of_one_field_changes_its_lines_alone(text: str, data: Any) -> None:
    agents = read_agents(text)
    place = data.draw(st.integers(0, len(agents) - 1))
    field = data.draw(st.sampled_from(sorted(VALUES)))
    value = data.draw(VALUES[field])
    changed = set_field(text, place, field, value)
    new = read_agents(changed)
    key = agents[place].key_of(field) or field
    said = new[place].data[key]
    if field in ("tools", "exempt") and isinstance(said, str):
        said = [one.strip() for one in said.split(",")]
    assert (said, type(said)) == (value, type(value))
    if agents[place].key_of(field) is None:
        added = changed.splitlines(keepends=True)
        inserted = new[place].lines[field] - 1
        del added[inserted]
        assert "".join(added) == text
    else:
        assert [line for part in field_lines(changed, place, field) for line in part] == [
            line for part in field_lines(text, place, field) for line in part
        ]
    for number, (before, after) in enumerate(zip(agents, new, strict=True)):
        assert after.prompt == before.prompt
        if number != place:
            assert after.data == before.data


@cases(120)
@given(files(), st.data())
def test_remove_field_deletes_the_lines_of_that_field_only(text: str, data: Any) -> None:
    agents = read_agents(text)
    place = data.draw(st.integers(0, len(agents) - 1))
    fields = [field for field in ("description", "tools", "max_steps", "policy") if agents[place].key_of(field)]
    if not fields:
        return
    field = data.draw(st.sampled_from(fields))
    changed = remove_field(text, place, field)
    before, after = field_lines(text, place, field)
    assert changed == "".join([*before, *after])
    assert remove_field(changed, place, field) == changed


@cases(120)
@given(files(), st.data())
def test_another_prompt_changes_the_body_alone(text: str, data: Any) -> None:
    place = data.draw(st.integers(0, len(read_agents(text)) - 1))
    prompt = data.draw(st.sampled_from(["You listen.", "Two\n\nparts", "", "---"]))
    changed = set_prompt(text, place, prompt)
    assert [one.data for one in read_agents(changed)] == [one.data for one in read_agents(text)]
    assert read_agents(changed)[place].prompt == prompt
    if read_agents(text)[place].prompt:
        assert set_prompt(changed, place, read_agents(text)[place].prompt).replace("\r\n", "\n").split() == text.split()


@pytest.mark.parametrize("name", ["AGENTS.md", "scout.md"])
def test_saying_again_what_the_shipped_files_say_changes_no_byte(name: str) -> None:
    text = (data_path("agents") / name).read_bytes().decode()
    for place, agent in enumerate(read_agents(text)):
        for field, value in agent.data.items():
            assert set_field(text, place, field, value) == text
        assert set_prompt(text, place, agent.prompt) == text


@pytest.mark.parametrize(
    ("front", "field"),
    [("{name: a, steps: 5}", "policy"), ("name: &n a\nmodel: *n", "name"), ("<<: {model: m}\nname: a", "model")],
)
def test_what_cannot_be_changed_alone_is_refused(front: str, field: str) -> None:
    with pytest.raises(AgentFileError, match=f"{field} cannot be changed here"):
        set_field(f"---\n{front}\n---\nYou look.\n", 0, field, "b")


def test_an_alias_is_replaced_where_it_stands() -> None:
    text = "---\nname: &n a\nmodel: *n  # the same\n---\nYou look.\n"
    assert set_field(text, 0, "model", "b") == text.replace("*n ", "b ")


def test_a_prompt_that_would_be_another_agent_is_refused() -> None:
    with pytest.raises(AgentFileError, match="prompt cannot be changed here"):
        set_prompt("---\nname: a\n---\nYou look.\n", 0, "x\n\n---\nname: b\n---\n")


def test_an_edit_that_was_made_changes_nothing_again() -> None:
    text = '---\r\nname: a\r\ntools: "a\\u00e9\\n"\n# mine\r\n---\r\n'
    changed = set_field(text, 0, "tools", ["A", "B"])
    assert changed == text.replace('"a\\u00e9\\n"', '"A, B"')
    assert set_field(changed, 0, "tools", ["A", "B"]) == changed
