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
from boolab.io.text_edit import Replacement, edited, is_same
from boolab.io.yaml_loader import DocumentError, read_yaml
from boolab.limits.table import AGENT_LIMITS

Value: TypeAlias = str | int | float | Sequence[str] | None

FIELDS: Final = (
    "name", "description", "tools", "model", *AGENT_LIMITS, "identity", "exempt", "policy", "temperature",
)  # fmt: skip
"""The keys of an agent file, in the order in which new ones are inserted."""


class AgentText(NamedTuple):
    """One agent in a file.

    Attributes:
        data: Its front matter.
        prompt: Its prompt, without the blank lines around it.
        lines: The line of each key, from 1.
        first: The line of the `---` that opens it, from 1.
    """

    data: Mapping[Any, Any]
    prompt: str
    lines: Mapping[str, int]
    first: int

    def key_of(self, field: str, key: str | None = None) -> str | None:
        """The key of a field in the file, which may be an alias unless it must be `key`; None if it has none."""
        if key is not None:
            return key if key in self.data else None
        return next((key for key in self.data if isinstance(key, str) and ALIASES.get(key, key) == field), None)


def agents_in(text: str) -> list[AgentText]:
    r"""The agents in a file's text; an `AgentFileError` with the line if there is none, or one cannot be read.

    Example:
        >>> agents_in("---\nname: a\nmax_steps: 5\n---\nYou look.\n")[0].data
        {'name': 'a', 'max_steps': 5}
    """
    lines = _lines(text)
    return [_agent(lines, part) for part in _parts(lines)]


def with_field(text: str, place: int, field: str, value: Value, *, key: str | None = None) -> str:
    r"""The text with another value for one field of one agent.

    `place`: which of its agents, from 0. `field`: one of `FIELDS`, or another key, which is added at the end. Its key
    in the file may be an alias (`maxSteps`), which stays. `value`: the value; "none" is no limit. For `tools` a list of
    names. `key`: the key that a harness reads, where it reads no other (`maxTurns`).

    Example:
        >>> with_field("---\nname: a\nmax_steps: 5  # enough\n---\nYou look.\n", 0, "max_steps", 7)
        '---\nname: a\nmax_steps: 7  # enough\n---\nYou look.\n'
    """
    front = _Front(text, place)
    found = front.agent.key_of(field, key)
    if found is None:
        changed = front.inserted(key or field, value)
    else:
        old = front.agent.data[found]
        if old == value and type(old) is type(value):
            return text
        changed = front.replaced(found, value)
        if field in ("tools", "exempt") and isinstance(old, str) and isinstance(value, Sequence):
            value = _as_before(value, old)
    return _checked(text, changed, place, field, {**front.agent.data, found or key or field: value})


def without_field(text: str, place: int, field: str) -> str:
    r"""The text without one field of one agent; see `with_field`.

    Example:
        >>> without_field("---\nname: a\nmax_steps: 5  # enough\n---\nYou look.\n", 0, "max_steps")
        '---\nname: a\n---\nYou look.\n'
    """
    front = _Front(text, place)
    key = front.agent.key_of(field)
    if key is None:
        return text
    rest = {name: one for name, one in front.agent.data.items() if name != key}
    return _checked(text, front.removed(key), place, field, rest)


def with_prompt(text: str, place: int, prompt: str) -> str:
    r"""The text with another prompt for one agent; the blank lines around it stay. See `with_field`.

    A prompt that would be read as something else, such as another agent, is an `AgentFileError`.

    Example:
        >>> with_prompt("---\nname: a\n---\n\nYou look.\n", 0, "You listen.")
        '---\nname: a\n---\n\nYou listen.\n'
    """
    lines = _lines(text)
    part = _parts(lines)[place]
    body = "".join(lines[part.end + 1 : part.after])
    core = body.strip()
    written = _ends(text).join(prompt.strip().splitlines())
    lead = body[: len(body) - len(body.lstrip())] if core else ""
    tail = body[len(body.rstrip()) :] if core else body or (_ends(text) if written else "")
    start = sum(map(len, lines[: part.end + 1]))
    if written and not core and not text[:start].endswith(("\n", "\r")):
        lead = _ends(text) + lead
    change = Replacement(start, start + len(body), lead + written + tail)
    agent = agents_in(text)[place]
    return _checked(text, change, place, "prompt", agent.data, "\n".join(prompt.strip().splitlines()).strip())


class _Front:
    """The front matter of one agent: its text with plain line ends, and the YAML nodes with their places."""

    def __init__(self, text: str, place: int) -> None:
        self._ends = _ends(text)
        self._lines = _lines(text)
        self._part = _parts(self._lines)[place]
        self.agent = _agent(self._lines, self._part)
        self._yaml = _yaml_of(self._lines, self._part)
        root = yaml.compose(self._yaml, Loader=yaml.SafeLoader)
        self._root = root if isinstance(root, yaml.MappingNode) else None

    def replaced(self, key: str, value: Value) -> Replacement | None:
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
        written = _written(value, node, " " * (node.start_mark.column if node.start_mark else 0))
        space = " " if self._yaml[:start].endswith(":") else ""
        lines = self._yaml[:start].count("\n"), self._yaml[:end].count("\n") + 1
        return self._with(self._yaml[:start] + space + written + self._yaml[end:], lines)

    def inserted(self, key: str, value: Value) -> Replacement | None:
        """The file with one more key: after those that precede it in `FIELDS` (all, if it is not there), else first."""
        pairs = [] if self._root is None else self._root.value
        if self._root is not None and self._root.flow_style:
            return None
        field = ALIASES.get(key, key)
        wanted = FIELDS[: FIELDS.index(field)] if field in FIELDS else None
        before = [pair for pair in pairs if wanted is None or ALIASES.get(pair[0].value, pair[0].value) in wanted]
        indent = " " * (pairs[0][0].start_mark.column if pairs else 0)
        line = f"{indent}{key}: {_written(value, None, indent)}"
        if before:
            name, node = before[-1]
            at = self._yaml[: max(_span(node)[1], name.end_mark.index)].count("\n") + 1
        else:
            at = pairs[0][0].start_mark.line if pairs else 0
        lines = self._yaml.split("\n") if self._yaml else []
        return self._with("\n".join([*lines[:at], line, *lines[at:]]), (at, at))

    def removed(self, key: str) -> Replacement | None:
        pair = self._pair(key)
        if pair is None or self._root is None or self._root.flow_style or _span(pair[1])[0] < pair[0].start_mark.index:
            return None
        name, node = pair
        first, last = name.start_mark.line, self._yaml[: _span(node)[1]].count("\n")
        lines = self._yaml.split("\n")
        rest = [*lines[:first], *lines[max(first, last) + 1 :]]
        return self._with("\n".join(rest), (first, max(first, last) + 1), empty=len(lines) == last - first + 1)

    def _pair(self, key: str) -> tuple[yaml.Node, yaml.Node] | None:
        """The nodes of a key and its value; None for a key that is merged from elsewhere."""
        pairs: list[tuple[yaml.Node, yaml.Node]] = [] if self._root is None else self._root.value
        return next(((name, node) for name, node in pairs if name.value == key), None)

    def _with(self, front: str, lines: tuple[int, int], *, empty: bool = False) -> Replacement | None:
        """Another front matter, if it differs in these lines alone; equal lines keep their own line ends."""
        start, end, _ = self._part
        old = self._lines[start + 1 : end]
        new = [] if empty or not front else front.split("\n")
        bare = [_bare(line) for line in old]
        head = 0
        while head < min(len(bare), len(new)) and bare[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(bare), len(new)) - head and bare[-1 - tail] == new[-1 - tail]:
            tail += 1
        if new != bare and (head < lines[0] or len(old) - tail > lines[1]):
            return None
        place = sum(map(len, self._lines[: start + 1 + head]))
        gone = old[head : len(old) - tail]
        ends = [line[len(_bare(line)) :] for line in gone] or [self._ends]
        made = new[head : len(new) - tail]
        changed = "".join(line + ends[min(n, len(ends) - 1)] for n, line in enumerate(made))
        return Replacement(place, place + sum(map(len, gone)), changed)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _ends(text: str) -> str:
    """The line end of a text: that of its first line."""
    first = next(io.StringIO(text, newline=""), "\n")
    return "\r\n" if first.endswith("\r\n") else "\n"


def _bare(line: str) -> str:
    return "".join(line.splitlines())


def _parts(lines: Sequence[str]) -> list[FrontMatter]:
    return [*front_matters([_bare(line).removeprefix("" if place else "\ufeff") for place, line in enumerate(lines)])]


def _yaml_of(lines: Sequence[str], part: FrontMatter) -> str:
    return "\n".join(map(_bare, lines[part.start + 1 : part.end]))


def _agent(lines: Sequence[str], part: FrontMatter) -> AgentText:
    try:
        document = read_yaml(_yaml_of(lines, part), first_line=part.start + 2)
    except DocumentError as error:
        raise AgentFileError(error.message, line=error.line) from error
    data = {} if document.data is None else document.data
    if not isinstance(data, dict):
        msg = "expected YAML keys such as 'name: explorer'"
        raise AgentFileError(msg, line=document.line())
    body = "\n".join(map(_bare, lines[part.end + 1 : part.after]))
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


def _written(value: Value, node: yaml.Node | None, indent: str) -> str:
    """A value as YAML, with the quotes or the form of a list of the old value."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        if isinstance(node, yaml.SequenceNode) and not node.flow_style and value:
            return f"\n{indent}".join(f"- {_scalar(one, None)}" for one in value)
        if (
            isinstance(node, yaml.ScalarNode)
            and node.value
            and isinstance(written := _as_before(value, node.value), str)
        ):
            return _scalar(written, node)
        return f"[{', '.join(_scalar(one, None) for one in value)}]"
    return _scalar(value, node)


def _as_before(names: Sequence[str], before: str) -> str | Sequence[str]:
    """Names as one text with commas, if the old value was one and no name has a comma or space."""
    plain = before and names and not any(re.search(r"[,\s]", one) for one in names)
    return ", ".join(names) if plain else names


def _scalar(value: str | float | None, node: yaml.Node | None) -> str:
    style = node.style if isinstance(node, yaml.ScalarNode) and node.style in ("'", '"') else None
    if isinstance(value, str) and not value.isprintable():
        style = '"'  # with escapes it stays on its line
    elif not isinstance(value, str):
        style = None
    listed = yaml.safe_dump(
        [value], default_flow_style=True, default_style=style, width=float("inf"), allow_unicode=True
    )
    return listed.strip()[1:-1]


def _checked(
    text: str, change: Replacement | None, place: int, field: str, data: Mapping[Any, Any], prompt: str | None = None
) -> str:
    """An edited text, if it has the new values and nothing else has changed; else an `AgentFileError`."""
    old = agents_in(text)
    line = old[place].lines.get(old[place].key_of(field) or "", old[place].first)
    listed = {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()}
    old[place] = old[place]._replace(data=listed, prompt=old[place].prompt if prompt is None else prompt)
    values = [[one.data, one.prompt] for one in old]

    def is_expected(agents: list[AgentText]) -> bool:
        return is_same([[one.data, one.prompt] for one in agents], values)

    found = None if change is None else edited(text, [change], agents_in, is_expected)
    if found is None:
        msg = f"{field} cannot be changed here without changing more of the file: edit it by hand"
        raise AgentFileError(msg, line=line)
    return found[0]
