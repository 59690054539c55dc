"""Reads untrusted YAML with PyYAML, within limits on size, depth and aliases, and with the line of each value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import yaml

from boolab.errors import FileError
from boolab.io.files import read_file

MAX_CHARS: Final = 4_000_000
"""The longest text. PyYAML takes about two seconds for a million characters."""
MAX_BYTES: Final = 4 * MAX_CHARS
"""The largest file, in bytes: UTF-8 has at most four for a character."""
MAX_WRITTEN: Final = 100_000
"""How many values a text may have. The slowest take some 70 microseconds each."""
MAX_NODES: Final = 1_000_000
"""How many values there may be after aliases are expanded."""
MAX_EXPANDED_CHARS: Final = 16 * MAX_CHARS
"""How many characters all texts may have after aliases are expanded."""
MAX_DIGITS: Final = 100
"""The longest number, in characters. PyYAML's time for one in base 60 (`1:1:1...`) is quadratic."""
MAX_DEPTH: Final = 100
"""How many brackets may be open at once. PyYAML's time is quadratic: ten seconds for 2,000."""

_TEXT: Final = "tag:yaml.org,2002:str"
_INT: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"


class DocumentError(ValueError):
    """A text that is not acceptable YAML, with the line of the fault, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, limited to `MAX_DEPTH`, `MAX_WRITTEN` and `MAX_DIGITS`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._written = 0

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:  # noqa: ANN401 - PyYAML's own
        self._written += 1
        if self._written > MAX_WRITTEN:
            problem = f"it holds more than {MAX_WRITTEN:,} values"
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, problem, mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def number(self, node: yaml.ScalarNode) -> int | float:
        if len(node.value) > MAX_DIGITS:
            problem = f"a number of {len(node.value):,} characters, more than the {MAX_DIGITS} that are read"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        is_int = node.tag == _INT
        value: int | float = (self.construct_yaml_int if is_int else self.construct_yaml_float)(node)
        return value

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: ANN401, N803 - PyYAML's own
        if self.flow_level >= MAX_DEPTH:
            raise RecursionError
        super().fetch_flow_collection_start(TokenClass)


_Loader.add_constructor(_INT, _Loader.number)
_Loader.add_constructor(_FLOAT, _Loader.number)


class YamlDocument(NamedTuple):
    """A parsed YAML text: its `data`, and with `line` the place of each value."""

    data: Any
    node: yaml.Node | None
    first_line: int

    def line(self, path: Sequence[object] = ()) -> int:
        """The line of the value at `path` (keys and indices), or of the nearest value that contains it."""
        node, line = self.node, self.first_line
        if node is not None:
            line += node.start_mark.line
        for key in path:
            if isinstance(node, yaml.MappingNode):
                pairs = [(k, v) for k, v in node.value if isinstance(k, yaml.ScalarNode) and k.value == str(key)]
                if not pairs:
                    return line
                line = self.first_line + pairs[0][0].start_mark.line
                node = pairs[0][1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                node = node.value[key]
                line = self.first_line + node.start_mark.line
        return line

    def key_lines(self) -> dict[str, int]:
        """The line of each key of the mapping that the text is; that of the text for a key that is merged into it."""
        pairs = self.node.value if isinstance(self.node, yaml.MappingNode) else []
        lines = {key.value: self.first_line + key.start_mark.line for key, _ in reversed(pairs)}
        return {str(key): lines.get(str(key), self.line()) for key in (self.data if pairs else ())}


def read_document(path: Path, fault: type[FileError], max_bytes: int = MAX_BYTES) -> YamlDocument:
    """Read a YAML file of at most `max_bytes`; whatever is wrong is a `fault` with its path and, if known, its line."""
    try:
        return read_yaml(read_file(path, max_bytes).decode())
    except OSError as error:
        msg = f"cannot be read: {error.strerror}"
        raise fault(msg, path=path) from error
    except UnicodeDecodeError as error:
        msg = "is not UTF-8 text"
        raise fault(msg, path=path) from error
    except DocumentError as error:
        raise fault(error.message, path=path, line=error.line) from error


def read_yaml(text: str, first_line: int = 1) -> YamlDocument:
    """Parse one YAML document, whose first line has this number in its file."""
    if len(text) > MAX_CHARS:
        msg = f"{len(text):,} characters of YAML, more than the {MAX_CHARS:,} that are read"
        raise DocumentError(msg, first_line)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is not None:
            _check(node, first_line, {}, set())
            _check_tags(node, loader, first_line, set())
        return YamlDocument(None if node is None else loader.construct_document(node), node, first_line)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DocumentError(f"not valid YAML: {error.problem}", first_line + (mark.line if mark else 0)) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: a code point that is too large
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"not valid YAML: {error}", first_line) from error
    except RecursionError:
        msg = f"the YAML is nested too deeply: at most {MAX_DEPTH} brackets may be open"
        raise DocumentError(msg, first_line) from None


def _check_tags(node: yaml.Node, loader: yaml.SafeLoader, first_line: int, node_ids: set[int]) -> None:
    """Refuse tags that do not fit their values, which PyYAML does not check."""
    if id(node) in node_ids:
        return
    node_ids.add(id(node))
    resolved = loader.resolve(type(node), node.value, (True, False))  # type: ignore[no-untyped-call]
    if node.tag not in (_TEXT, resolved):
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        msg = f"the tag {tag} is not accepted: expected plain values, lists and mappings"
        raise DocumentError(msg, first_line + node.start_mark.line)
    if node.tag in (_INT, _FLOAT):
        _check_number(node.value, first_line + node.start_mark.line)
    if isinstance(node, yaml.CollectionNode):
        for item in node.value:
            for inner in item if isinstance(item, tuple) else (item,):
                _check_tags(inner, loader, first_line, node_ids)


def _check_number(number: str, line: int) -> None:
    """Refuse numbers that YAML 1.1 reads in another way than YAML 1.2: `010` as 8, `1:30` as 90."""
    if len(number) > MAX_DIGITS:
        return  # refused where its value is made
    if ":" in number:
        hint = "as a number in base 60: write the number in digits alone"
    elif re.fullmatch(r"[-+]?0[0-7_]+", number) and number.strip("-+0_"):
        hint = f"as octal: write {number.lstrip('-+0_')} if that is meant"
    else:
        return
    msg = f"YAML would read {number} {hint}, or {number!r} in quotes if it is a text"
    raise DocumentError(msg, line)


def _check(
    node: yaml.Node, first_line: int, sizes: dict[int, tuple[int, int]], open_nodes: set[int]
) -> tuple[int, int]:
    """How many values and characters a node expands to. Refuses duplicate keys, circular aliases and large nodes."""
    if id(node) in sizes:
        return sizes[id(node)]
    line = first_line + node.start_mark.line
    if id(node) in open_nodes:
        msg = "a YAML alias contains itself"
        raise DocumentError(msg, line)
    open_nodes.add(id(node))
    size, chars = 1, len(node.value) if isinstance(node, yaml.ScalarNode) else 0
    inner: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        names = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge" else None
            if name is not None and name in names:
                msg = f"the key {name!r:.80} is here twice"
                raise DocumentError(msg, first_line + key.start_mark.line)
            names.add(name)
            inner += key, value
    elif isinstance(node, yaml.SequenceNode):
        inner = node.value
    for item in inner:
        item_size, item_chars = _check(item, first_line, sizes, open_nodes)
        size, chars = size + item_size, chars + item_chars
    if size > MAX_NODES:
        msg = f"the YAML expands to more than {MAX_NODES:,} values"
        raise DocumentError(msg, line)
    if chars > MAX_EXPANDED_CHARS:
        msg = f"the YAML expands to more than {MAX_EXPANDED_CHARS:,} characters"
        raise DocumentError(msg, line)
    open_nodes.discard(id(node))
    sizes[id(node)] = size, chars
    return size, chars


def accepted_keys(model: Any, location: Sequence[int | str]) -> str:  # noqa: ANN401 - a pydantic model, loaded late
    """The keys that a pydantic model accepts where the last part of `location` was not accepted."""
    for name in location[:-1]:
        field = model.model_fields.get(str(name))
        model = (field and _model_in(field.annotation)) or model
    return ", ".join(sorted(model.model_fields))


def _model_in(annotation: object) -> Any:  # noqa: ANN401 - likewise
    if hasattr(annotation, "model_fields"):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
