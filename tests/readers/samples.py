"""Real logs that are not part of this repository."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"


def shared(name: str) -> Path:
    """A sample; the test is skipped where it is missing."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"the sample logs are not here: {path}")
    return path
