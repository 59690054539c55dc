"""Names, units and values of axes, as plots, widgets and reports write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from boolab.frames.dtypes import FLOAT, INT, Cell, is_missing

AXIS_NAMES: Final[Mapping[str, str]] = {
    "max_steps": "step cap",
    "tool_budget": "tool budget",
    "doom_loop": "doom-loop threshold",
    "max_tokens": "token budget",
    "max_cost": "cost budget",
    "max_time": "time budget",
    "error_streak": "error streak",
}
AXIS_UNITS: Final[Mapping[str, str]] = {
    "max_steps": "steps",
    "tool_budget": "tool calls",
    "doom_loop": "identical calls",
    "max_tokens": "tokens",
    "max_cost": "dollars",
    "max_time": "seconds",
    "error_streak": "failed calls",
}


def is_off(value: Cell) -> bool:
    """Whether a value of an axis means that it is off."""
    return is_missing(value)


def tick(name: str, value: Cell) -> str:
    """A value of an axis."""
    if is_off(value):
        return "off"
    number = f"{int(value):,}" if float(value).is_integer() else f"{float(value):g}"
    return f"${number}" if name == "max_cost" else number


def axis_dtype(name: str) -> str:
    """The type of an axis's column: dollars and seconds may be fractions."""
    return FLOAT if name in ("max_cost", "max_time") else INT
