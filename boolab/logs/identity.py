"""What makes two records of logs the same: ids, and where there are none, content, place and time."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_PIECE: Final = re.compile(r"[A-Za-z0-9]{8,}")
_MIN_DIGITS: Final = 2
_MIN_TIME_DIGITS: Final = 10


@lru_cache(maxsize=4096)
def is_unique(name: str) -> bool:
    """Whether an id was made so that no other is like it: it has a random part, or a time. A counter is none.

    Example:
        >>> [is_unique(name) for name in ("toolu_01A09q90qw90", "chatcmpl-1a2b3c4d", "call_1", "functions.bash:12")]
        [True, True, False, False]
    """
    for piece in _PIECE.findall(name):
        digits = sum(map(str.isdigit, piece))
        if digits >= (_MIN_TIME_DIGITS if digits == len(piece) else _MIN_DIGITS):
            return True
    return False
