"""The refs that keep runs in a repository, one for each run."""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import Final

REFS: Final = "refs/boolab"
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


def name_of(run_id: str) -> str:
    """The id of a run as the last part of its ref: itself, or a digest if it has other characters.

    Example:
        >>> name_of("a1b2"), name_of("../a")
        ('a1b2', '3d795173f8c08b1b7c9f46a248ae2fcb')
    """
    return run_id if _SAFE_NAME.fullmatch(run_id) else blake2b(os.fsencode(run_id), digest_size=16).hexdigest()
