"""HTML by templates that escape everything which is no markup: text from logs is untrusted."""

from __future__ import annotations

import html
from collections.abc import Callable
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from boolab.core.text import clean
from boolab.display.colours import DARK, LIGHT


def text_of(value: object) -> object:
    """A value as a template shows it: text in one line without control characters, and markup as it is."""
    return value if isinstance(value, Markup) else clean(value)


@cache
def environment(package: str, finalize: Callable[[object], object] = text_of) -> Environment:
    """The templates of a package, in its folder `templates`: they clean and escape what is not `Markup`."""
    templates = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["code"] = code
    templates.globals |= {"light": LIGHT, "dark": DARK}
    return templates


def render_template(template: str, **data: object) -> str:
    """A template of this package, filled in."""
    return environment("boolab.display", _escape).get_template(template).render(data)


def _escape(value: object) -> Markup:
    """Quotes are named, as in all of boolab's fragments; markupsafe numbers them."""
    return value if isinstance(value, Markup) else Markup(html.escape(clean(value)))  # noqa: S704 - escaped here


def code(text: str) -> Markup:
    """Lines as they are; what is not printable becomes a visible character."""
    visible_text = "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
    return Markup("<pre>{}</pre>").format(visible_text)
