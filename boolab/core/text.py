"""Texts of others made safe and short, and counts of things: what messages, records and every display use."""

from __future__ import annotations

from collections.abc import Sequence

NAME_CHARS = 32

_FLAT_CHARS = 2_000
_CONTROLS = dict.fromkeys(
    (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "�"
)
"""What a text could do to a terminal: control characters, and marks that change the direction of what follows.

A lone surrogate is none of them, but no terminal accepts it: see `replace_controls`.
"""


# --- Untrusted text ---------------------------------------------------------------------------------------------------


def clean(text: object) -> str:
    """A text in one line, without control characters: escape sequences, line ends, reversals of direction."""
    return " ".join("".join(c if c.isprintable() else " " if c.isspace() else "" for c in str(text)).split())


def replace_controls(text: str) -> str:
    """A text that is safe for a terminal: without control characters other than tabs and line ends."""
    clean = text.replace("\r\n", "\n").translate(_CONTROLS)
    return clean if clean.isascii() else clean.encode("utf-8", "replace").decode()


def flatten(text: str) -> str:
    """The first 2,000 characters of a text on one line, safe for a terminal. Control characters become visible."""
    return " ".join(replace_controls(" ".join(text[:_FLAT_CHARS].split())).split())


# --- Long text --------------------------------------------------------------------------------------------------------


def clip(text: str, length: int) -> str:
    """A text of at most so many characters; an ellipsis stands for a missing end."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def shorten(text: object, length: int = NAME_CHARS) -> str:
    """A name in one line; of a long one, both ends, because names often start alike."""
    name = clean(text)
    tail = (length - 1) // 2
    return name if len(name) <= length else f"{name[: length - 1 - tail]}…{name[-tail:]}"


# --- Numbers ----------------------------------------------------------------------------------------------------------


def count(n: int, noun: str, plural: str = "") -> str:
    """A number of things. `plural` is for nouns that take more than an s."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def first_of(names: Sequence[str], n_names: int) -> str:
    """The first names of a list, and how many more there are."""
    rest_text = f" and {len(names) - n_names:,} more" if len(names) > n_names else ""
    return ", ".join(names[:n_names]) + rest_text
