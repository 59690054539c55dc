r"""What both wire formats do at the border: JSON out, JSON in, figures of usage, and text that comes in pieces.

Servers cut text into deltas wherever they like, half surrogates (`\ud83d` and its other half) included. Halves that
belong together are joined here; a half alone becomes U+FFFD, as it cannot be written in UTF-8 and providers refuse it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json

from boolab.core.surrogates import whole_text
from boolab.core.types import JSON, MICRO, ToolCall
from boolab.errors import SettingError

_MOST: Final = 2**63 - 1  # what a column of integers holds


def dumped(value: JSON) -> bytes:
    r"""The JSON of a value in UTF-8, whatever its texts hold.

    Raises:
        ValueError: if it is no JSON value.

    Example:
        >>> dumped({"text": "\u00e9\ud83d"}) == '{"text":"\u00e9\ufffd"}'.encode()
        True
    """
    try:
        return to_json(value, inf_nan_mode="null")
    except ValueError:  # a half surrogate, or no JSON value at all
        return whole_text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_refuse)).encode()


def _refuse(value: object) -> object:
    msg = f"{value!r} is no JSON value"
    raise ValueError(msg)


def parsed_object(text: str | bytes) -> dict[str, Any] | None:
    r"""The JSON object that a text is; None if it is none. Half surrogates in it stay as they are.

    Example:
        >>> parsed_object('{"a": 1}'), parsed_object("[1]"), parsed_object("{"), parsed_object('{"a": "\\ud83d"}')
        ({'a': 1}, None, None, {'a': '\ud83d'})
    """
    try:
        value = from_json(text)
    except (ValueError, TypeError):  # also where half a surrogate is in it, which Python's own parser takes
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def figure(value: object) -> int | None:
    """A figure of usage: an integer from 0 on that a table can hold; anything else is not known.

    Example:
        >>> [figure(value) for value in (3, -1, True, 3.0, "3", None, 2**63)]
        [3, None, None, None, None, None, None]
    """
    return value if type(value) is int and 0 <= value <= _MOST else None


def micro_dollars(value: object) -> int | None:
    """A cost that a provider gives in dollars, as integer micro-dollars; None if it is no amount of money.

    Example:
        >>> micro_dollars(0.00012), micro_dollars("0.1"), micro_dollars(-1), micro_dollars(float("nan"))
        (120, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * MICRO) if 0 <= value <= _MOST // MICRO else None


def checked_parameters(parameters: Mapping[str, Any], refused: Collection[str]) -> None:
    """Refuse request parameters that the wire format sets by itself, and those that are no JSON.

    Args:
        parameters: The parameters by name, as they go into the body of a request.
        refused: The names that the wire format sets.

    Raises:
        SettingError: naming the parameter.

    Example:
        >>> checked_parameters({"top_p": 0.9}, ("stream",))
    """
    for name, value in parameters.items():
        if name in refused:
            msg = f"parameter {name!r}: it is set by boolab for each request, so it cannot be one of the parameters"
            raise SettingError(msg)
        try:
            json.dumps(value, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            msg = f"parameter {name!r}: expected a JSON value, got {value!r} ({error})"
            raise SettingError(msg) from None


def with_ids(calls: Sequence[ToolCall], prefix: str) -> tuple[ToolCall, ...]:
    """Calls whose ids are all there, and no two alike: results name their call by it.

    Args:
        calls: The calls of one response, in their order; "" is the id of one that came without.
        prefix: How the ids begin of those.

    Example:
        >>> import boolab as bl
        >>> [call.id for call in with_ids([bl.models.ToolCall(id, "look", "{}") for id in ("a", "", "a")], "call_1")]
        ['a', 'call_1_2', 'a_3']
    """
    seen: set[str] = set()
    made = []
    for number, call in enumerate(calls, 1):
        unique = call.id or f"{prefix}_{number}"
        while unique in seen:
            unique += f"_{number}"
        seen.add(unique)
        made.append(call if unique == call.id else call._replace(id=unique))
    return tuple(made)


class Pieces:
    r"""A text that comes in pieces, joined once at its end.

    Example:
        >>> pieces = Pieces()
        >>> pieces.add("so \ud83d"), pieces.add("\ude00") == "\U0001f600", pieces.text() == "so \U0001f600"
        ('so ', True, True)
    """

    __slots__ = ("_half", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._half = ""

    def add(self, piece: str) -> str:
        """Take in one piece.

        Returns:
            What can be shown of it now: the first half of a pair waits for the second.
        """
        if not piece.isascii() or self._half:
            piece, self._half = self._half + piece, ""
            if "\ud800" <= piece[-1:] <= "\udbff":
                piece, self._half = piece[:-1], piece[-1]
            piece = whole_text(piece)
        if piece:
            self._pieces.append(piece)
        return piece

    def text(self) -> str:
        """All of it."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return "".join(self._pieces) + whole_text(self._half)
