"""Differences that are known and left: by harness and case, each with its reason.

A difference that is not here fails the comparison, and so does one that is here and no longer is one.
"""

from __future__ import annotations

from typing import Final

GRACE: Final = "the calls of the grace turn are executed, though it forbids them; their results are dropped"

KNOWN: Final[dict[tuple[str, str], str]] = {
    ("claude-code", "finish-3 budget 0.0024"): "an answer that reaches the budget is reported as an error",
    ("gemini-cli", "same"): "the run that loop detection ended has an empty response and exit code 0",
    ("gemini-cli", "delegate subagent 1"): GRACE,
    ("gemini-cli", "delegate subagent 3"): GRACE,
    ("gemini-cli", "delegate subagent 10"): GRACE,
    ("gemini-cli", "delegate overrides 3"): GRACE,
}
