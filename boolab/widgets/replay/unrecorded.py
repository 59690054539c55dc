"""Texts that are not on record: what Replay shows in place of a placeholder, which is only its size."""

from __future__ import annotations

from boolab.core.redacted import chars_of, is_redacted
from boolab.core.text import count


def shown(text: str) -> str:
    """A text as it is shown: empty if it is a placeholder.

    Example:
        >>> shown("Hello"), shown("<redacted text 5: 80 chars>")
        ('Hello', '')
    """
    return "" if is_redacted(text) else text


def sizes_of(**texts: str) -> dict[str, int]:
    """The characters of each text that is not on record, by its name.

    Example:
        >>> sizes_of(text="Hello", arguments="<redacted arguments 9: 340 chars>")
        {'arguments': 340}
    """
    return {name: chars_of(text) for name, text in texts.items() if is_redacted(text)}


def in_words(text: str) -> str:
    """A text, or how long it is where it is not on record.

    Example:
        >>> in_words("Hello"), in_words("<redacted text 5: 80 chars>")
        ('Hello', 'not on record, 80 characters')
    """
    return f"not on record, {count(chars_of(text), 'character')}" if is_redacted(text) else text
