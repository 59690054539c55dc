"""Edits of an agent file's text: one field of one agent changes, and no other byte.

The YAML parser gives the place of a value, and only the text there is replaced. So comments, the order of keys, quotes,
line ends, a byte-order mark and all other agents stay as they are. Each edited text is read again: if anything else has
changed, the edit is refused.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from boolab.errors import AgentFileError
from boolab.harnesses.front_matter import ALIASES, FrontMatter, front_matters
from boolab.io.text_edit import Replacement, edit_text, is_same
from boolab.io.yaml_loader import DocumentError, read_yaml
from boolab.limits.table import AGENT_LIMITS

Value: TypeAlias = str | int | float | Sequence[str] | None

FIELDS: Final = (
    "name", "description", "tools", "model", *AGENT_LIMITS, "identity", "exempt", "policy", "temperature",
)  # fmt: skip
"""The keys of an agent file, in the order in which new ones are inserted."""


class AgentText(NamedTuple):
    """One agent in a file."""

    data: Mapping[Any, Any]  # its front matter
    prompt: str  # its prompt, without the blank lines around it
    lines: Mapping[str, int]  # the line of each key, from 1
    first: int  # the line of the `---` that opens it, from 1

    def key_of(self, field: str, key: str | None = None) -> str | None:
        """The key of a field in the file, which may be an alias unless it must be `key`; None if it has none."""
        if key is not None:
            return key if key in self.data else None
        return next((key for key in self.data if isinstance(key, str) and ALIASES.get(key, key) == field), None)


def read_agents(text: str) -> list[AgentText]:
    """The agents in a file's text; an `AgentFileError` with the line if there is none, or one cannot be read."""
    lines = _split_lines(text)
    return [_read_agent(lines, part) for part in _find_parts(lines)]


def set_field(text: str, index: int, field: str, value: Value, *, key: str | None = None) -> str:
    """The text with another value for one field of an agent, also by an alias or as the `key` that a harness reads."""
    front = _Front(text, index)
    file_key = front.agent.key_of(field, key)
    if file_key is None:
        changed = front.insert_key(key or field, value)
    else:
        old = front.agent.data[file_key]
        if old == value and type(old) is type(value):
            return text
        changed = front.replace_value(file_key, value)
        if field in ("tools", "exempt") and isinstance(old, str) and isinstance(value, Sequence):
            value = _join_as_before(value, old)
    return _check_edit(text, changed, index, field, {**front.agent.data, file_key or key or field: value})


def remove_field(text: str, index: int, field: str) -> str:
    """The text without one field of one agent; see `with_field`."""
    front = _Front(text, index)
    key = front.agent.key_of(field)
    if key is None:
        return text
    rest = {name: value for name, value in front.agent.data.items() if name != key}
    return _check_edit(text, front.remove_key(key), index, field, rest)


def set_prompt(text: str, index: int, prompt: str) -> str:
    """The text with another prompt for one agent; an `AgentFileError` if it would be read as something else."""
    lines = _split_lines(text)
    part = _find_parts(lines)[index]
    body = "".join(lines[part.end + 1 : part.after])
    core = body.strip()
    new_body = _line_end(text).join(prompt.strip().splitlines())
    lead = body[: len(body) - len(body.lstrip())] if core else ""
    tail = body[len(body.rstrip()) :] if core else body or (_line_end(text) if new_body else "")
    start = sum(map(len, lines[: part.end + 1]))
    if new_body and not core and not text[:start].endswith(("\n", "\r")):
        lead = _line_end(text) + lead
    change = Replacement(start, start + len(body), lead + new_body + tail)
    agent = read_agents(text)[index]
    return _check_edit(text, change, index, "prompt", agent.data, "\n".join(prompt.strip().splitlines()).strip())


class _Front:
    """The front matter of one agent: its text with plain line ends, and the YAML nodes with their places."""

    def __init__(self, text: str, index: int) -> None:
        self._ends = _line_end(text)
        self._lines = _split_lines(text)
        self._part = _find_parts(self._lines)[index]
        self.agent = _read_agent(self._lines, self._part)
        self._yaml = _yaml_of(self._lines, self._part)
        root = yaml.compose(self._yaml, Loader=yaml.SafeLoader)
        self._root = root if isinstance(root, yaml.MappingNode) else None

    def replace_value(self, key: str, value: Value) -> Replacement | None:
        pair = self._pair(key)
        if pair is None:
            return None
        name, node = pair
        start, end = _span(node)
        if start < name.end_mark.index:  # an alias: the node is elsewhere
            alias = re.compile(r"\s*:\s*(\*[^\s,\]}]+)").match(self._yaml, name.end_mark.index)
            if alias is None:
                return None
            start, end = alias.span(1)
            node = yaml.ScalarNode("", "")
        if isinstance(node, yaml.SequenceNode) and not node.flow_style and not value:
            start = self._yaml.index(":", name.end_mark.index) + 1  # "[]" needs an indentation, unlike "-"
        new_text = _format_value(value, node, " " * (node.start_mark.column if node.start_mark else 0))
        space = " " if self._yaml[:start].endswith(":") else ""
        lines = self._yaml[:start].count("\n"), self._yaml[:end].count("\n") + 1
        return self._replace_lines(self._yaml[:start] + space + new_text + self._yaml[end:], lines)

    def insert_key(self, key: str, value: Value) -> Replacement | None:
        """The file with one more key: after those that precede it in `FIELDS` (all, if it is not there), else first."""
        pairs = [] if self._root is None else self._root.value
        if self._root is not None and self._root.flow_style:
            return None
        field = ALIASES.get(key, key)
        earlier = FIELDS[: FIELDS.index(field)] if field in FIELDS else None
        previous = [pair for pair in pairs if earlier is None or ALIASES.get(pair[0].value, pair[0].value) in earlier]
        indent = " " * (pairs[0][0].start_mark.column if pairs else 0)
        line = f"{indent}{key}: {_format_value(value, None, indent)}"
        if previous:
            name, node = previous[-1]
            row = self._yaml[: max(_span(node)[1], name.end_mark.index)].count("\n") + 1
        else:
            row = pairs[0][0].start_mark.line if pairs else 0
        lines = self._yaml.split("\n") if self._yaml else []
        return self._replace_lines("\n".join([*lines[:row], line, *lines[row:]]), (row, row))

    def remove_key(self, key: str) -> Replacement | None:
        pair = self._pair(key)
        if pair is None or self._root is None or self._root.flow_style or _span(pair[1])[0] < pair[0].start_mark.index:
            return None
        name, node = pair
        first, last = name.start_mark.line, self._yaml[: _span(node)[1]].count("\n")
        lines = self._yaml.split("\n")
        rest = [*lines[:first], *lines[max(first, last) + 1 :]]
        return self._replace_lines("\n".join(rest), (first, max(first, last) + 1), empty=len(lines) == last - first + 1)

    def _pair(self, key: str) -> tuple[yaml.Node, yaml.Node] | None:
        """The nodes of a key and its value; None for a key that is merged from elsewhere."""
        pairs: list[tuple[yaml.Node, yaml.Node]] = [] if self._root is None else self._root.value
        return next(((name, node) for name, node in pairs if name.value == key), None)

    def _replace_lines(self, front: str, lines: tuple[int, int], *, empty: bool = False) -> Replacement | None:
        """Another front matter, if it differs in these lines alone; equal lines keep their own line ends."""
        start, end, _ = self._part
        old = self._lines[start + 1 : end]
        new = [] if empty or not front else front.split("\n")
        bare = [_strip_end(line) for line in old]
        head = 0
        while head < min(len(bare), len(new)) and bare[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(bare), len(new)) - head and bare[-1 - tail] == new[-1 - tail]:
            tail += 1
        if new != bare and (head < lines[0] or len(old) - tail > lines[1]):
            return None
        offset = sum(map(len, self._lines[: start + 1 + head]))
        old_lines = old[head : len(old) - tail]
        ends = [line[len(_strip_end(line)) :] for line in old_lines] or [self._ends]
        new_lines = new[head : len(new) - tail]
        changed = "".join(line + ends[min(n, len(ends) - 1)] for n, line in enumerate(new_lines))
        return Replacement(offset, offset + sum(map(len, old_lines)), changed)


def _split_lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _line_end(text: str) -> str:
    """The line end of a text: that of its first line."""
    first = next(io.StringIO(text, newline=""), "\n")
    return "\r\n" if first.endswith("\r\n") else "\n"


def _strip_end(line: str) -> str:
    return "".join(line.splitlines())


def _find_parts(lines: Sequence[str]) -> list[FrontMatter]:
    bare_lines = [_strip_end(line) for line in lines]
    return [*front_matters([line.removeprefix("\ufeff") for line in bare_lines[:1]] + bare_lines[1:])]


def _yaml_of(lines: Sequence[str], part: FrontMatter) -> str:
    return "\n".join(map(_strip_end, lines[part.start + 1 : part.end]))


def _read_agent(lines: Sequence[str], part: FrontMatter) -> AgentText:
    try:
        document = read_yaml(_yaml_of(lines, part), first_line=part.start + 2)
    except DocumentError as error:
        raise AgentFileError(error.message, line=error.line) from error
    data = {} if document.data is None else document.data
    if not isinstance(data, dict):
        msg = "expected YAML keys such as 'name: explorer'"
        raise AgentFileError(msg, line=document.line())
    body = "\n".join(map(_strip_end, lines[part.end + 1 : part.after]))
    return AgentText(data, body.strip(), document.key_lines(), part.start + 1)


def _span(node: yaml.Node) -> tuple[int, int]:
    """The offsets of a value, without the comments and blank lines that follow it."""
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        end = max(start, _span(last[1] if isinstance(last, tuple) else last)[1])
    elif isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        end = start + len(node.start_mark.buffer[start:end].rstrip()) if node.start_mark.buffer else end
    return start, end


def _format_value(value: Value, node: yaml.Node | None, indent: str) -> str:
    """A value as YAML, with the quotes or the form of a list of the old value."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        if isinstance(node, yaml.SequenceNode) and not node.flow_style and value:
            return f"\n{indent}".join(f"- {_format_scalar(item, None)}" for item in value)
        if (
            isinstance(node, yaml.ScalarNode)
            and node.value
            and isinstance(joined_names := _join_as_before(value, node.value), str)
        ):
            return _format_scalar(joined_names, node)
        return f"[{', '.join(_format_scalar(item, None) for item in value)}]"
    return _format_scalar(value, node)


def _join_as_before(names: Sequence[str], old_text: str) -> str | Sequence[str]:
    """Names as one text with commas, if the old value was one and no name has a comma or space."""
    plain = old_text and names and not any(re.search(r"[,\s]", name) for name in names)
    return ", ".join(names) if plain else names


def _format_scalar(value: str | float | None, node: yaml.Node | None) -> str:
    style = node.style if isinstance(node, yaml.ScalarNode) and node.style in ("'", '"') else None
    if isinstance(value, str) and not value.isprintable():
        style = '"'  # with escapes it stays on its line
    elif not isinstance(value, str):
        style = None
    yaml_list = yaml.safe_dump(
        [value], default_flow_style=True, default_style=style, width=float("inf"), allow_unicode=True
    )
    return yaml_list.strip()[1:-1]


def _check_edit(
    text: str, change: Replacement | None, index: int, field: str, data: Mapping[Any, Any], prompt: str | None = None
) -> str:
    """An edited text, if it has the new values and nothing else has changed; else an `AgentFileError`."""
    old = read_agents(text)
    line = old[index].lines.get(old[index].key_of(field) or "", old[index].first)
    plain_data = {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()}
    old[index] = old[index]._replace(data=plain_data, prompt=old[index].prompt if prompt is None else prompt)
    values = [[agent.data, agent.prompt] for agent in old]

    def is_expected(agents: list[AgentText]) -> bool:
        return is_same([[agent.data, agent.prompt] for agent in agents], values)

    edit_result = None if change is None else edit_text(text, [change], read_agents, is_expected)
    if edit_result is None:
        msg = f"{field} cannot be changed here without changing more of the file: edit it by hand"
        raise AgentFileError(msg, line=line)
    return edit_result[0]
