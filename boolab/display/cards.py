"""The views of values, by type."""

from __future__ import annotations

from functools import singledispatch

from boolab.core.types import Run
from boolab.display.card import escaped
from boolab.display.run_card import run_card
from boolab.display.transcript import transcript


@singledispatch
def text_of(value: object) -> str:
    """A value as text to read."""
    return repr(value)


@singledispatch
def html_of(value: object) -> str:
    """A value as a fragment of HTML."""
    return escaped(value)


text_of.register(Run, transcript)
html_of.register(Run, run_card)
