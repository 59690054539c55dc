"""How a statistical finding is told: the quality of its data first, then sentences, then a table.

Names in it come from logs, which anybody may have written: nothing of them is markup, and nothing of them moves a
terminal's cursor.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

WIDTH = 88  # columns of plain text
NO_MATH = "tex2jax_ignore mathjax_ignore"
"""The classes of HTML in which MathJax, 2 and 3, leaves dollars alone: notebooks typeset what they show."""

_ROWS = 20  # rows of a table that is shown
_NAME_CHARS = 32


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """What a statistical function found. Shown by itself in a notebook; `print` gives the same as text.

    `finding["column"]` is a column of its frame.

    Args:
        title: What it is about, in a few words.
        frame: All numbers, a row for each.
        sentences: What they say, in plain words.
        notes: The quality of the data and what limits the answer. They are shown first.
        table: What is shown of the numbers, where the whole frame would be too much.
        tests: Comparisons between groups, a row for each; empty where there are none.

    Example:
        >>> finding = Finding("Steps to finish", pd.DataFrame({"n_steps": [3, 5]}), ("Half end after 3 steps.",))
        >>> finding["n_steps"].tolist()
        [3, 5]
        >>> finding
        <Finding 'Steps to finish': 2 rows, 1 sentence>
    """

    title: str
    frame: pd.DataFrame
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    table: pd.DataFrame | None = None
    tests: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401 - as a DataFrame's
        return self.frame[key]

    def __repr__(self) -> str:
        """One short line; `print` tells all."""
        size = f"{count(len(self.frame), 'row')}, {count(len(self.sentences), 'sentence')}"
        return f"<Finding {clean(self.title)!r}: {size}>"

    def __str__(self) -> str:
        """Title, notes, sentences and table as plain text, wrapped."""
        blocks = ["\n".join(textwrap.wrap(clean(self.title), WIDTH))]
        if self.notes:
            blocks.append("\n".join(_wrapped(note, "- ") for note in self.notes))
        blocks += [_wrapped(sentence) for sentence in self.sentences]
        header, rows, rest = _cells(self._shown)
        if rows:
            blocks.append(_aligned(header, rows))
            blocks += [rest] if rest else []
        return "\n\n".join(blocks)

    def _repr_html_(self) -> str:
        """The same as a fragment of HTML: no script, nothing from elsewhere, the notebook's own colours."""
        parts = [f"<p><strong>{_escaped(self.title)}</strong></p>"]
        if self.notes:
            notes = "".join(f"<li>{_escaped(note)}</li>" for note in self.notes)
            parts.append(f'<ul style="opacity:.8;margin:.4em 0">{notes}</ul>')
        parts += [f'<p style="margin:.4em 0">{_escaped(sentence)}</p>' for sentence in self.sentences]
        header, rows, rest = _cells(self._shown)
        if rows:
            head = "".join(f'<th scope="col">{_escaped(name)}</th>' for name in header)
            body = "".join(f"<tr>{''.join(f'<td>{_escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
            parts += [f'<p style="opacity:.8">{_escaped(rest)}</p>'] if rest else []
        return f'<div class="{NO_MATH}" style="color:inherit;max-width:60em">{"".join(parts)}</div>'

    @property
    def _shown(self) -> pd.DataFrame:
        return self.frame if self.table is None else self.table


def clean(text: object) -> str:
    r"""A text in one line, without control characters: escape sequences, line ends, reversals of direction.

    Example:
        >>> clean("red \x1b[31m text")
        'red [31m text'
    """
    return " ".join("".join(c if c.isprintable() else " " if c.isspace() else "" for c in str(text)).split())


def shorten(text: object, most: int = _NAME_CHARS) -> str:
    """A name in one line; of a long one, its ends, because names often start alike.

    Example:
        >>> shorten("a" * 40 + "z", 9)
        'aaaa…aaaz'
    """
    name = clean(text)
    tail = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[-tail:]}"


def count(n: int, noun: str) -> str:
    """A number of things.

    Example:
        >>> count(1, "run"), count(1200, "run")
        ('1 run', '1,200 runs')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def percent(share: float) -> str:
    """A share in percent, with a decimal where it is close to an end.

    Example:
        >>> percent(0.421), percent(0.9961), percent(1.0)
        ('42%', '99.6%', '100%')
    """
    whole = 0.1 <= share <= 0.9 or share in (0, 1)  # noqa: PLR2004 - where a decimal tells nothing
    return f"{share:.0%}" if whole else f"{share:.1%}"


def level(share: float) -> str:
    """A share that was asked for in percent: one decimal, more only where it would read as nothing or all.

    Example:
        >>> level(0.95), level(187 / 190), level(0.9995)
        ('95%', '98.4%', '99.95%')
    """
    texts = (f"{100 * share:.{digits}f}".rstrip("0").rstrip(".") for digits in range(1, 17))
    return next((text for text in texts if share in (0, 1) or text not in ("0", "100")), "100") + "%"


def _wrapped(text: str, bullet: str = "") -> str:
    lines = textwrap.wrap(clean(text), WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet))
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - NaN
        return "NA"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - three digits tell enough
    return shorten(value)


def _cells(frame: pd.DataFrame) -> tuple[list[str], list[list[str]], str]:
    """Column names, rows, and what to say about rows that are not shown."""
    head = frame.head(_ROWS)
    columns = [[_cell(value) for value in head.iloc[:, place].tolist()] for place in range(head.shape[1])]
    hidden = len(frame) - len(head)
    rest = f"{count(hidden, 'further row')} not shown." if hidden else ""
    return [shorten(name) for name in frame.columns], [list(row) for row in zip(*columns, strict=True)], rest


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, as many as fit; those that do not are named below."""
    columns = [[name, *cells] for name, cells in zip(header, zip(*rows, strict=True), strict=True)]
    widths = [max(map(len, column)) for column in columns]
    fit, used = 0, 0
    while fit < len(widths) and (not fit or used + widths[fit] <= WIDTH):
        used += widths[fit] + 2
        fit += 1
    lines = []
    for row in zip(*columns[:fit], strict=True):
        cells = [
            cell.rjust(width) if _number(column[1]) else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=False)
        ]
        lines.append("  ".join(cells).rstrip())
    if fit < len(columns):
        lines += ["", _wrapped(f"Further columns: {', '.join(header[fit:])}.")]
    return "\n".join(lines)


def _number(cell: str) -> bool:
    return cell == "NA" or cell.lstrip("-")[:1].isdigit()


def _escaped(text: object) -> str:
    return html.escape(clean(text))
