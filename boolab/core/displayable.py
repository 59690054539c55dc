"""How values are shown: `boolab/__init__.py` sets it from `boolab.display`, so that values import no view."""

from __future__ import annotations

from collections.abc import Callable

text_of: Callable[[object], str] = repr
"""A value as text to read."""
html_of: Callable[[object], str] = repr
"""A value as a fragment of HTML."""


class Displayable:
    """A value that a notebook shows: `boolab.display.cards` has its document."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html_of(self)
