"""JSON values that can be changed in ways that no parser gives back: doubled keys, numbers of any size, raw words.

An object is a list of pairs; a `Raw` stands for itself when it is written.
"""

import json
from random import Random
from typing import Any, Final


class Object(list[list[Any]]):
    """The pairs of a JSON object, in their order."""


class Raw(str):
    """What is written as it is."""

    __slots__ = ()


DEEP: Final = 2_000
"""How deep the deepest nesting is that is tried: deeper than Python's stack."""

NASTY: Final = tuple(
    Raw(text)
    for text in (
        *("null", "true", "false", "0", "-0", "-1", "1", "2", "1.5", "-0.0", "1e5", "1e-400", "1e400", "-1e400"),
        *("NaN", "Infinity", "-Infinity", "9007199254740993", "2147483648", "9223372036854775807"),
        *("9223372036854775808", "-9223372036854775809", "18446744073709551616", "1e308", "1" + "0" * 400),
        *("1" + "0" * 5_000, "253402300800000", "-62135596800001", "1767225600", "0.1e1"),
        *(
            '""',
            '"\\ud800"',
            '"\\udc00x"',
            '"a\\u0000b"',
            '"\\u202e\\u2028"',
            '"NaN"',
            '"1"',
            '"-1"',
            '"none"',
            '"\\n"',
        ),
        *('"2026-01-01T00:00:00Z"', '"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59-23:59"', '"2026-01-01"'),
        *('"../../etc/passwd"', '"/"', '"C:\\\\x"', '"{\\"a\\": 1}"', '"[1"', '"\\ud83d\\ude00"', '"x\\r\\ny"'),
        *(
            "[]",
            "{}",
            "[[]]",
            "[null]",
            "[{}]",
            '{"":null}',
            '{"$tuple":[1]}',
            '{"$pairs":[[[1],2]]}',
            '{"a":{"b":[]}}',
        ),
        '"' + "x" * 5_000 + '"',
        '"' + "a b\\n" * 1_000 + '"',
        "[" * DEEP + "]" * DEEP,
        '{"a":' * DEEP + "1" + "}" * DEEP,
    )
)
"""Values that readers do not expect."""


def parsed(text: str) -> Any:
    """A JSON value as a tree."""
    return json.loads(text, object_pairs_hook=lambda pairs: Object([key, value] for key, value in pairs))


def written(tree: Any, *, ascii_only: bool = True) -> str:
    """A tree as JSON text, if nothing raw is in it that is none."""
    if isinstance(tree, Raw):
        return str(tree)
    if isinstance(tree, Object):
        pairs = (f"{_text(key, ascii_only)}:{written(value, ascii_only=ascii_only)}" for key, value in tree)
        return "{" + ",".join(pairs) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(written(item, ascii_only=ascii_only) for item in tree) + "]"
    return _text(tree, ascii_only)


def _text(value: Any, ascii_only: bool) -> str:
    return str(value) if isinstance(value, Raw) else json.dumps(value, ensure_ascii=ascii_only)


def changed(tree: Any, chance: Random, nasty: tuple[Raw, ...] = NASTY) -> Any:
    """The tree with one thing in it changed, in place; the tree itself may become another."""
    places = _places(tree, [])
    if not places:
        return chance.choice(nasty)
    holder, n = chance.choice(places)
    how = chance.randrange(12)
    if how < _REPLACED:
        _put(holder, n, _other_value(how, holder, n, places, chance, nasty))
    elif how == _REPLACED:
        del holder[n]
    elif how == _REPLACED + 1:
        holder.insert(chance.randrange(len(holder) + 1), [*holder[n]] if isinstance(holder, Object) else holder[n])
    elif how == _REPLACED + 2:
        chance.shuffle(holder)
    elif how == _REPLACED + 3:
        times = chance.choice((2, 40, 400))
        value = _at(holder, n)
        holder += [[f"k{i}", value] if isinstance(holder, Object) else value for i in range(times)]
    elif isinstance(holder, Object):
        holder[n][0] = chance.choice([pair[0] for pair in holder] + ["", "\ud800", "a\0", "__proto__", Raw("null")])
    return tree


_REPLACED: Final = 7
"""So many of the ways to change a tree put another value in the place of one."""


def _other_value(
    how: int,
    holder: list[Any],
    n: int,
    places: list[tuple[list[Any], int]],
    chance: Random,
    nasty: tuple[Raw, ...],
) -> Any:
    value = _at(holder, n)
    if how == 0:
        return _of_another_kind(value, chance)
    if how == 1:  # a copy, lest the tree hold itself
        return Raw(written(_at(*chance.choice(places))))
    if how == 2:
        return Raw("[" + written(value) + "]")
    return chance.choice(nasty)


def _at(holder: list[Any], n: int) -> Any:
    return holder[n][1] if isinstance(holder, Object) else holder[n]


def _put(holder: list[Any], n: int, value: Any) -> None:
    if isinstance(holder, Object):
        holder[n][1] = value
    else:
        holder[n] = value


def _places(tree: Any, found: list[tuple[list[Any], int]]) -> list[tuple[list[Any], int]]:
    if isinstance(tree, list):
        for n, item in enumerate(tree):
            found.append((tree, n))
            _places(item[1] if isinstance(tree, Object) else item, found)
    return found


def _of_another_kind(value: Any, chance: Random) -> Any:
    if isinstance(value, bool) or value is None:
        return chance.choice([0, 1, "", str(value).lower()])
    if isinstance(value, int | float):
        return chance.choice([str(value), -value, value + 0.5, value * 10**6, bool(value), [value]])
    if isinstance(value, str):
        return chance.choice(
            [[value], value * 3, value[: len(value) // 2], Object([["text", value]]), len(value), value.upper()]
        )
    return chance.choice([None, "", written(value), Object(), []])
