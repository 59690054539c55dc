"""Sample logs: small ones of our own in tests/data, by format; and real ones that are not part of this repository."""

from functools import cache
from pathlib import Path

import pytest

import boolab as bl
from tests.support.project import ROOT

OWN = ROOT / "tests" / "data"
FOLDER = ROOT.parent / "shared" / "data"


def own(name: str) -> Path:
    """A sample in tests/data, as `format/file`."""
    path = OWN / name
    assert path.exists(), path
    return path


@cache
def atlas(name: str) -> list[bl.Run]:
    """The runs of a set of the atlas, read once for all tests of a process: some sets take most of a second."""
    return bl.load_dataset(f"atlas/{name}")


def shared(name: str) -> Path:
    """A sample; the test is skipped where it is missing."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"the sample logs are not here: {path}")
    return path
