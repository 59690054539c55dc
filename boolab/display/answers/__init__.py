"""The sentences of answers, as templates: a file for each answer, in plain text.

A template has a macro for each sentence. `sentence` fills one in: texts are not escaped, because each surface escapes
what it shows.
"""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.environment import TemplateModule

from boolab.core.text import count
from boolab.display.numbers import floor_percent, level, percent
from boolab.display.text import joined


@cache
def _macros(name: str) -> TemplateModule:
    environment = Environment(
        loader=PackageLoader("boolab.display", "answers"),
        autoescape=False,  # noqa: S701 - plain text, which each surface escapes
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": count,
        "joined": joined,
        "level": level,
        "percent": percent,
        "rounded_down": floor_percent,
    }
    return environment.get_template(f"{name}.jinja").module


def sentence(template: str, macro: str, *values: object) -> str:
    """One or more sentences of an answer in one line; "" if they do not apply.

    Args:
        template: The name of the answer: the file without its suffix.
        macro: The name of the macro in it.
        values: What the macro takes.

    Returns:
        The text.
    """
    text: str = getattr(_macros(template), macro)(*values)
    return re.sub(r"\s+", " ", text).strip()
