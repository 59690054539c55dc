"""The version of boolab."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version


@cache
def boolab_version() -> str:
    """The version that is installed, looked up once."""
    return version("boolab")
