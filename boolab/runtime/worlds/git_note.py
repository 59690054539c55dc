"""What a tree does not hold of a state, as the last line of its commit's text: empty folders, and what was left out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any


def note_text(folders: Iterable[bytes], left_out: Mapping[bytes, str]) -> str:
    """What a tree does not hold of a state, for the text of its commit: JSON, of ASCII alone."""
    listed = {os.fsdecode(name): why for name, why in sorted(left_out.items())}
    return json.dumps({"folders": [os.fsdecode(name) for name in folders], "left_out": listed})


def note_in(commit: bytes) -> dict[str, Any]:
    """The note in a commit; empty if the commit has none."""
    with suppress(ValueError, RecursionError):
        note = json.loads(commit.rstrip().rsplit(b"\n", 1)[-1])
        folders, left_out = (note.get(key) if isinstance(note, dict) else None for key in ("folders", "left_out"))
        if isinstance(folders, list) and isinstance(left_out, dict) and all(isinstance(name, str) for name in folders):
            return {"folders": folders, "left_out": left_out}
    return {}
