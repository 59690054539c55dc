"""Regular expressions that strangers wrote, searched in time that grows with the text, at most some 7 us a character.

Python's `re` tries one way after another: `(a|a)*$` takes it twice as long for each further letter, without end.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

MEMORY: Final = 64 * 1024
"""Room for one compiled pattern, in bytes: a larger one is refused. It bounds the time for a character, too."""
END: Final = 100_000
"""How much of a longer text is searched at its beginning and at its end, in characters."""


class Pattern(NamedTuple):
    """A regular expression, compiled: see `compiled`."""

    regexp: Any  # re2 has no types

    def is_in(self, text: str) -> bool:
        """Whether some part of a text matches, or of the first and the last 100,000 characters of a longer one.

        Half of a surrogate pair counts as a question mark.
        """
        parts = [text] if len(text) <= 2 * END else [text[:END], text[-END:]]
        return any(self.regexp.search(part.encode(errors="replace")) is not None for part in parts)


def compiled(pattern: str) -> Pattern:
    r"""A pattern that is ready to search in linear time, by RE2.

    Its syntax is that of `re` without looking ahead or back and without references to groups:
    https://github.com/google/re2/wiki/Syntax. `\d`, `\s` and `\w` are those of ASCII.

    Args:
        pattern: What to look for, anywhere in a text.

    Raises:
        ValueError: if it is no regular expression, or too large a one.

    Example:
        >>> compiled(r"^(error|failed): \d+").is_in("failed: 3")
        True
    """
    import re2

    options = re2.Options()
    options.max_mem = MEMORY
    options.never_capture = True  # thousands of groups would take most of a gigabyte
    options.log_errors = False
    try:
        return Pattern(re2.compile(pattern.encode(), options))
    except UnicodeEncodeError as error:
        msg = "not a regular expression: half of a surrogate pair"
        raise ValueError(msg) from error
    except re2.error as error:
        told = error.args[0].decode("utf-8", "replace")
        msg = f"not a regular expression: {told[:100]}"
        raise ValueError(msg) from error
