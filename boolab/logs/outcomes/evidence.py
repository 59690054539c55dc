"""`Evidence`: an outcome from a source other than a label, with its reason.

Evidence plans which runs are shown to a person, and stands beside labels. It is none: no count of successes uses it
unless the user trusts its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from boolab.logs.outcomes.label_file import OutcomeWord


class Evidence(NamedTuple):
    """An outcome of a turn or a run.

    Attributes:
        outcome: `success`, `failure` or `unknown`.
        source: Where it comes from: `tests`, `git`, `reaction`.
        why: The reason, as one sentence.
        detail: What it was found by: JSON values by name.
        at: When what decides it happened; None where that is not on record.
    """

    outcome: OutcomeWord
    source: str
    why: str
    detail: Mapping[str, Any] = {}
    at: datetime | None = None
