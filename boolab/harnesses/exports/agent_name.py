"""The name of an agent as the name of its file."""

from __future__ import annotations

from boolab.core.text import clean


def agent_name(text: str) -> str:
    """The name without what a path could misread; "agent" if nothing is left.

    Example:
        >>> agent_name("../code reviewer"), agent_name("")
        ('code-reviewer', 'agent')
    """
    kept = "".join(char if char.isalnum() or char in "-_" else "-" for char in clean(text))
    return "-".join(part for part in kept.split("-") if part) or "agent"
