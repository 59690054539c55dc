"""Texts of others made safe and short, and counts of things: what messages, records and every display use."""

from __future__ import annotations

from collections.abc import Sequence

NAME_CHARS = 32

_FLAT_CHARS = 2_000
_CONTROLS = dict.fromkeys(
    (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "�"
)
"""What a text could do to a terminal: control characters, and marks that change the direction of what follows.

A lone surrogate is none of them, but no terminal accepts it: see `printable`.
"""


# --- Untrusted text ---------------------------------------------------------------------------------------------------


def clean(text: object) -> str:
    r"""A text in one line, without control characters: escape sequences, line ends, reversals of direction.

    Example:
        >>> clean("red \x1b[31m text")
        'red [31m text'
    """
    return " ".join("".join(c if c.isprintable() else " " if c.isspace() else "" for c in str(text)).split())


def printable(text: str) -> str:
    r"""A text that is safe for a terminal: without control characters other than tabs and line ends.

    Example:
        >>> printable("red: \x1b[31m\r\nend")
        'red: �[31m\nend'
    """
    clean = text.replace("\r\n", "\n").translate(_CONTROLS)
    return clean if clean.isascii() else clean.encode("utf-8", "replace").decode()


def flat(text: str) -> str:
    r"""The first 2,000 characters of a text on one line, safe for a terminal. Control characters become visible.

    Example:
        >>> flat("two\n  lines \x07")
        'two lines �'
    """
    return " ".join(printable(" ".join(text[:_FLAT_CHARS].split())).split())


# --- Long text --------------------------------------------------------------------------------------------------------


def clip(text: str, length: int) -> str:
    """A text of at most so many characters; an ellipsis stands for a missing end.

    Example:
        >>> clip("a long line", 7)
        'a long…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def shorten(text: object, length: int = NAME_CHARS) -> str:
    """A name in one line; of a long one, both ends, because names often start alike.

    Example:
        >>> shorten("a" * 40 + "z", 9)
        'aaaa…aaaz'
    """
    name = clean(text)
    tail = (length - 1) // 2
    return name if len(name) <= length else f"{name[: length - 1 - tail]}…{name[-tail:]}"


# --- Numbers ----------------------------------------------------------------------------------------------------------


def count(n: int, noun: str, plural: str = "") -> str:
    """A number of things. `plural` is for nouns that take more than an s.

    Example:
        >>> count(1, "run"), count(1200, "run"), count(2, "success", "successes")
        ('1 run', '1,200 runs', '2 successes')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def first_of(names: Sequence[str], n_names: int) -> str:
    """The first names of a list, and how many more there are.

    Example:
        >>> first_of(["a", "b"], 2), first_of(["a", "b", "c"], 2)
        ('a, b', 'a, b and 1 more')
    """
    rest_text = f" and {len(names) - n_names:,} more" if len(names) > n_names else ""
    return ", ".join(names[:n_names]) + rest_text
