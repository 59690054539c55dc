"""The template of the page, which escapes everything that is not markup: text from logs is untrusted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from boolab.core.text import clean


class Cell(NamedTuple):
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


class Table(NamedTuple):
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
    rows: Sequence[Sequence[str | Cell]]
    numbers: Collection[int] = ()
    look: str = ""
    looks: Sequence[str] = ()
    note: str = ""


def rendered(template: str, **data: object) -> str:
    """A file in `templates`, filled in. Text is cleaned of control characters and escaped; `Markup` stays as it is."""
    return _ENVIRONMENT.get_template(template).render(data)


def text_of(value: object) -> object:
    r"""A value as the template shows it: text in one line without control characters, and markup as it is.

    Example:
        >>> text_of("<i>\x1b\n\u202e"), text_of(Markup("<b>"))
        ('<i>', Markup('<b>'))
    """
    return value if isinstance(value, Markup) else clean(value)


def code(text: str) -> Markup:
    r"""Lines as they are; what is not printable becomes a visible character.

    Example:
        >>> code("a < b\n\x1b")
        Markup('<pre>a &lt; b\n\ufffd</pre>')
    """
    shown = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)
    return Markup("<pre>{}</pre>").format(shown)


_ENVIRONMENT = Environment(
    loader=PackageLoader("boolab.report"),
    autoescape=True,
    finalize=text_of,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["code"] = code
