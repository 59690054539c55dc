"""Warnings that point to the code of the user, however deep in the package their cause is."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Final

_SKIPPED: Final = (f"{Path(__file__).parents[1]}{os.sep}", f"{Path(os.__file__).with_name('asyncio')}{os.sep}")
"""This package, and the event loop that may be between it and its caller."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn about the line of the user's code that called this package."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - `inspect` reads files for each frame
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
