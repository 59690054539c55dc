"""Sample logs: small ones of our own in tests/data, by format; and real ones that are not part of this repository."""

from pathlib import Path

import pytest

from tests.support.project import ROOT

OWN = ROOT / "tests" / "data"
FOLDER = ROOT.parent / "shared" / "data"


def own(name: str) -> Path:
    """A sample in tests/data, as `format/file`."""
    path = OWN / name
    assert path.exists(), path
    return path


def shared(name: str) -> Path:
    """A sample; the test is skipped where it is missing."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"the sample logs are not here: {path}")
    return path
