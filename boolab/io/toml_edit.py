"""Edits of TOML text: values change, and comments, order and line ends stay. `tomlkit` keeps them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from boolab.errors import ConfigFileError

_BOM = "\ufeff"


def with_toml(text: str, at: Sequence[str], value: object) -> str:
    r"""The text with another value at a place; tables that lead to it are made where they are missing.

    Args:
        text: The text.
        at: The keys that lead to the value.
        value: A text, number, truth value or list. An equal one leaves the text as it is.

    Returns:
        The text.

    Raises:
        ConfigFileError: if it is not TOML, with the line; if the place leads through something that is no table; if the
            edit would change more.

    Example:
        >>> with_toml('# mine\n[a]\nb = 1  # one\n', ["a", "b"], 2)
        '# mine\n[a]\nb = 2  # one\n'
    """
    bom, body = text[: text.startswith(_BOM)], text.removeprefix(_BOM)
    before = _read(body)
    if _get(before, at) is not None and repr(_get(before, at)) == repr(value):
        return text
    try:
        document = tomlkit.parse(body)
        table: Any = document
        for n, key in enumerate(at[:-1]):
            if key not in table:
                table[key] = tomlkit.table(is_super_table=n < len(at) - 2)
            table = table[key]
            if not isinstance(table, dict):
                msg = f"{'.'.join(at[: n + 1])} is {table!r}; expected a table"
                raise ConfigFileError(msg, line=_line(body, at[n]))
        table[at[-1]] = value
        changed = tomlkit.dumps(document)
    except TOMLKitError as error:
        raise ConfigFileError(f"cannot be changed: {error}") from error
    if "\r\n" in body:
        changed = changed.replace("\r\n", "\n").replace("\n", "\r\n")
    if repr(_sorted(_read(changed))) != repr(_sorted(_set(before, at, value))):
        msg = f"{'.'.join(at)} cannot be changed without changing more of the file: edit it by hand"
        raise ConfigFileError(msg, line=_line(body, at[-1]))
    return bom + changed


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = str(error).rpartition("line ")[2].split(",")[0]
        raise ConfigFileError(f"is not TOML: {error}", line=int(found) if found.isdecimal() else None) from error


def _get(data: Any, at: Sequence[str]) -> Any:  # noqa: ANN401 - TOML
    for key in at:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _set(data: dict[str, Any], at: Sequence[str], value: object) -> dict[str, Any]:
    inner = data.get(at[0])
    return data | {at[0]: value if len(at) == 1 else _set(inner if isinstance(inner, dict) else {}, at[1:], value)}


def _sorted(data: Any) -> Any:  # noqa: ANN401 - TOML
    return {key: _sorted(data[key]) for key in sorted(data)} if isinstance(data, dict) else data


def _line(text: str, key: str) -> int | None:
    return next((n for n, line in enumerate(text.splitlines(), 1) if key in line), None)
