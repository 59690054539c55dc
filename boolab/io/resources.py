"""Finds the agents, scripts, profiles and notebooks of boolab: in the wheel, or beside the package in a checkout."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

_PACKAGE: Final = Path(str(files("boolab")))
_SHIPPED: Final = _PACKAGE / "_data"


def data_path(name: Literal["agents", "datasets", "notebooks"]) -> Path:
    """The folder of that name."""
    return (_SHIPPED if is_installed() else _PACKAGE.parent) / name


def is_installed() -> bool:
    """Whether boolab runs from a wheel, which holds its data, and not from a checkout."""
    return _SHIPPED.is_dir()


def checkout() -> Path:
    """The checkout that boolab runs from; without one, the package's own folder."""
    return _PACKAGE if is_installed() else _PACKAGE.parent
