"""The tables of the page, and its template."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from boolab.display.html import environment


class PageCell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: Its text.
        to: The name on the page that it links to; empty for none.
        code: Whether it is set as code.
        small: A second line in small type; None for nothing.
    """

    text: str
    to: str = ""
    code: bool = False
    small: str | None = None


class PageTable(NamedTuple):
    """A table.

    Attributes:
        head: The names of its columns.
        rows: Its cells.
        numbers: The columns that are aligned to the right.
        look: Its class.
        looks: The class of each row; empty for none.
        note: A sentence below it; empty for none.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str | PageCell]]
    numbers: Collection[int] = ()
    look: str = ""
    looks: Sequence[str] = ()
    note: str = ""


def rendered(template: str, **data: object) -> str:
    """A file in `templates`, filled in. Text is cleaned of control characters and escaped; `Markup` stays as it is."""
    return environment("boolab.report").get_template(template).render(data)
