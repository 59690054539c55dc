"""Which files the user's git ignores, as patterns for a folder below the repository's top.

Git looks for `.gitignore` between the top of the working tree and each file. Where the kept folder is below the
repository's top, the files above it are not in the kept tree; so their patterns are rewritten for the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path


def patterns_for(folder: tuple[str, ...], sources: Iterable[tuple[int, bytes]]) -> bytes:
    r"""The patterns that hold in a folder, lowest precedence first.

    Args:
        folder: The names that lead from the repository's top to the folder.
        sources: How many of these names lead to a file of patterns, and what it holds; lowest precedence first.

    Example:
        >>> patterns_for(("src", "app"), [(0, b"*.log\n/src/app/out\n/docs\n"), (1, b"!keep.log\napp/tmp/")])
        b'*.log\n/out\n!keep.log\n/tmp/\n'
    """
    lines = []
    for depth, text in sources:
        for line in text.splitlines():
            kept = _rewritten(line, folder[depth:])
            if kept:
                lines.append(kept + b"\n")
    return b"".join(lines)


def pattern_files(top: Path, folder: tuple[str, ...]) -> list[tuple[int, bytes]]:
    """The `.gitignore` files above a folder, as `patterns_for` takes them.

    Args:
        top: The repository's top.
        folder: The names that lead from there to the folder.
    """
    return [(depth, read(top.joinpath(*folder[:depth], ".gitignore"))) for depth in range(len(folder))]


def read(file: Path) -> bytes:
    """A file of patterns; empty if there is none, or it cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _rewritten(line: bytes, names: tuple[str, ...]) -> bytes:
    """One line, for a folder that these names lead to; empty if it holds for nothing in there."""
    if not names:
        return line
    bare = re.sub(rb"(?<!\\)\s+$", b"", line)
    if not bare or bare.startswith(b"#"):
        return b""
    negated, pattern = (b"!", bare[1:]) if bare.startswith(b"!") else (b"", bare)
    if b"/" not in pattern.rstrip(b"/") or pattern.startswith(b"**/"):
        return bare  # it holds at any depth
    parts = pattern.strip(b"/").split(b"/")
    for place, name in enumerate(names):
        if place >= len(parts) - 1 and parts[-1] != b"**":
            return b""  # it names the folder itself, or one above it: the folder was chosen all the same
        if parts[place] == b"**":
            return negated + b"/".join(parts[place:]) + (b"/" if pattern.endswith(b"/") else b"")
        if not fnmatchcase(name, parts[place].decode("utf-8", "surrogateescape")):
            return b""
    rest = b"/".join(parts[len(names) :])
    return negated + b"/" + rest + (b"/" if pattern.endswith(b"/") else b"")
