"""Untrusted regular expressions, searched in linear time by RE2: some 7 us a character at most.

Python's `re` backtracks: for `(a|a)*$`, each further letter doubles the time.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

MEMORY: Final = 64 * 1024
"""The memory of one compiled pattern, in bytes. It bounds the time for a character, too."""
END: Final = 100_000
"""Of a longer text, so many characters are searched at its beginning and at its end."""


class Pattern(NamedTuple):
    """A regular expression, compiled: see `compile_pattern`."""

    regexp: Any  # re2 has no types

    def is_in(self, text: str) -> bool:
        """Whether the pattern is found in a text, or in the first or last 100,000 characters of a longer one.

        A lone surrogate is searched as a question mark.
        """
        parts = [text] if len(text) <= 2 * END else [text[:END], text[-END:]]
        return any(self.regexp.search(part.encode(errors="replace")) is not None for part in parts)


def compile_pattern(pattern: str) -> Pattern:
    r"""Compile a pattern.

    Its syntax is that of `re` without lookaround and backreferences: https://github.com/google/re2/wiki/Syntax. `\d`,
    `\s` and `\w` match ASCII only.
    """
    import re2

    options = re2.Options()
    options.max_mem = MEMORY
    options.never_capture = True  # thousands of groups would take most of a gigabyte
    options.log_errors = False
    try:
        return Pattern(re2.compile(pattern.encode(), options))
    except UnicodeEncodeError as error:
        msg = "not a regular expression: a lone surrogate"
        raise ValueError(msg) from error
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace")
        msg = f"not a regular expression: {reason[:100]}"
        raise ValueError(msg) from error
