"""The tables of the page, and its template."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from boolab.display.html import environment


class PageCell(NamedTuple):
    """A cell of a table."""

    text: str
    to: str = ""  # the name on the page that it links to; empty for none
    code: bool = False  # whether it is set as code
    small: str | None = None  # a second line in small type; None for nothing


class PageTable(NamedTuple):
    """A table."""

    head: Sequence[str]  # the names of its columns
    rows: Sequence[Sequence[str | PageCell]]  # its cells
    numbers: Collection[int] = ()  # the columns that are aligned to the right
    look: str = ""  # its class
    looks: Sequence[str] = ()  # the class of each row; empty for none
    note: str = ""  # a sentence below it; empty for none


def render_template(template: str, **data: object) -> str:
    """A file in `templates`, filled in. Text is cleaned of control characters and escaped; `Markup` stays as it is."""
    return environment("boolab.report").get_template(template).render(data)
