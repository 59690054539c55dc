"""What each colour means, once for all: widgets, plots, pages and the displays of single values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TOOL_COLOURS: Final[Mapping[str, str]] = {
    "execute": "#46505c",
    "write": "#e69f00",
    "search": "#009e73",
    "read": "#56b4e9",
    "subagent": "#bd5f94",
}
"""The colours of the kinds of tools."""

LIGHT: Final[Mapping[str, str]] = {
    "bg": "#ffffff", "surface": "#f7f8fa", "sunk": "#eef1f4", "line": "#e0e4e9", "line2": "#bcc4cd",
    "ink": "#16202b", "ink2": "#4a5664", "ink3": "#667281",
    "kept": "#0072b2", "saved": "#c25100", "wrong": "#b5123e", "idle": "#a7b0bb",
    **{f"tool-{kind}": colour for kind, colour in TOOL_COLOURS.items()},
}  # fmt: skip
"""What each colour means, for a light background: ground, toolbar and track; rules and borders of controls; chosen
text, text and context; successes kept, added lines and the recommendation; steps saved and removed lines; errors and
lost successes, always with a mark beside the colour; model time and failed runs; and each kind of tool."""

DARK: Final[Mapping[str, str]] = {
    "bg": "#12161b", "surface": "#191f26", "sunk": "#0c1014", "line": "#2a323c", "line2": "#465260",
    "ink": "#e7ebf0", "ink2": "#b0bac6", "ink3": "#8d98a5",
    "kept": "#6f9bff", "saved": "#ff8f3d", "wrong": "#ff6b86", "idle": "#5c6875",
    "tool-execute": "#c3ccd6", "tool-write": "#e69f00", "tool-search": "#1fa67c", "tool-read": "#56b4e9",
    "tool-subagent": "#d184b0",
}  # fmt: skip
"""The same for a dark background."""
