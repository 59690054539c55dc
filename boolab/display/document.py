"""A document: the contents of a value in parts, before they are text, HTML or JSON.

`Document.text` writes it for a terminal, `html` for a notebook or a page, and `json` for a program. The sentences on a
value are written once, where the value or its answer is. How a part looks is defined here for text, and for HTML in
`templates/document.html`.

Texts may come from logs, which are untrusted: each is made safe where it is written, none before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

from boolab.core.commands import insert_program
from boolab.core.text import NAME_CHARS, clean, count, replace_controls
from boolab.display.text import WIDTH, align_columns, columns_of, wrap_text


class Facts(NamedTuple):
    """Short facts in one quiet line; empty ones are left out."""

    facts: Sequence[str]


class Code(NamedTuple):
    """Lines to copy, as they are, under a sentence; `path` is the file that they belong into."""

    code: str
    caption: str
    path: str | None = None


class Mark(NamedTuple):
    """A mark of a strip: its colour, one of `boolab.display.colours` ("" is hollow), and whether it failed."""

    colour: str
    failed: bool


class Strip(NamedTuple):
    """A row of marks, such as the steps of a run; the label is for those who do not see it."""

    label: str
    marks: Sequence[Mark]


class Status(NamedTuple):
    """How what is shown has ended; `success` is None where that is not known."""

    text: str
    success: bool | None


class Heading(NamedTuple):
    """A row of a table that names the rows below it."""

    heading: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts."""

    columns: Sequence[str]  # the names of its columns; none for a table without a head
    rows: Sequence[Sequence[str] | Heading]  # its cells, the first of each row being its name; or a heading
    # the columns that are aligned to the left; all others, which hold numbers, to the right. None: as the notebook
    # aligns them
    left: Sequence[int] | None = None
    hints: Sequence[str] = ()  # what the first cell of each row shows under the pointer
    note: str = ""  # a sentence below it
    # the columns whose texts are never cut: in plain text what they have beyond a name's length is no reason to leave a
    # column out
    whole: Sequence[int] = ()
    wide: bool = False  # whether plain text has all columns, however long its lines are

    @property
    def width(self) -> int:
        """The number of its columns."""
        return len(self.columns) or max((len(row) for row in self.rows), default=0)

    def lines(self) -> Iterator[str]:
        """Columns side by side, as many as fit into a line; a sentence below names the others."""
        rows = [[*map(clean, row)] for row in (self.columns, *self.rows) if not isinstance(row, Heading)]
        widths = [max(map(columns_of, cells)) for cells in zip(*rows, strict=True)]
        room = WIDTH + sum(max(0, widths[index] - NAME_CHARS) for index in self.whole)
        n_columns, width = 0, 0
        while n_columns < len(widths) and (self.wide or not n_columns or width + widths[n_columns] <= room):
            width += widths[n_columns] + 2
            n_columns += 1
        yield from align_columns([row[:n_columns] for row in rows], left=self.left or ())
        if n_columns < len(widths):
            yield from ("", wrap_text(f"Further columns: {', '.join(rows[0][n_columns:])}."))


Paragraph: TypeAlias = str | Facts | Code | Strip | Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The contents of a value, from top to bottom."""

    title: str = ""  # what it is about, or the answer
    status: Status | None = None  # a word before the title: how it has ended
    subtitles: Sequence[str] = ()  # sentences that belong to the title
    lead: Sequence[Paragraph] = ()  # what comes before the table
    table: Table | None = None  # the numbers
    paragraphs: Sequence[Paragraph] = ()  # what they show
    notes: Sequence[str] = ()  # what limits the answer
    fold: str = ""  # the name under which paragraphs and notes are folded, where they can be; empty: they are not
    footer: str = ""  # the last line: a source, or what to do next
    card: bool = False  # whether it is a card: a value by itself, in boolab's own colours

    def text(self) -> str:
        """As plain text, wrapped to the terminal."""
        parts = [
            "\n".join(map(wrap_text, (self.title, *self.subtitles))).strip(),
            *map(_text_of, self.lead),
            _text_of(self.table) if self.table else "",
            *map(_text_of, self.paragraphs),
            "\n".join(wrap_text(note, first="- ") for note in self.notes),
            wrap_text(self.footer),
        ]
        return "\n\n".join(filter(None, parts))

    def html(self) -> str:
        """As a fragment of HTML: no script, nothing from elsewhere, in the notebook's own colours."""
        from boolab.display.html import render_template

        return render_template("document.html", document=self)

    def json(self) -> dict[str, Any]:
        """As what JSON can hold; parts that are empty are left out."""
        return {f.name: _as_plain(value) for f in fields(self) if (value := getattr(self, f.name))}


def _as_plain(value: object) -> object:
    """A part as dicts, lists and texts."""
    if isinstance(value, Table):
        return {f.name: _as_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Facts | Code | Strip | Mark | Status | Heading):
        return {name: _as_plain(item) for name, item in value._asdict().items()}
    return [_as_plain(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _text_of(part: Paragraph) -> str:
    match part:
        case Facts(facts):
            return wrap_text(" · ".join(filter(None, facts)))
        case Code(code, caption, path):
            head = f"{path}: {caption}" if path else caption
            lines = insert_program(replace_controls(code)).splitlines()
            return "\n".join([wrap_text(head), *(f"  {line}" for line in lines)])
        case Strip(label, marks):
            return wrap_text(f"{label}: {count(len(marks), 'mark')}")
        case Table(note=note):
            return "\n\n".join(filter(None, ["\n".join(part.lines()), wrap_text(note)]))
        case _:
            return wrap_text(part)
