"""The agents, scripts, profiles and notebooks that come with boolab: in the wheel, or beside a checkout's package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal


def data_path(name: Literal["agents", "datasets", "notebooks"]) -> Path:
    """The folder of that name.

    Example:
        >>> (data_path("agents") / "AGENTS.md").is_file()
        True
    """
    return (_shipped() if is_installed() else _package().parent) / name


def is_installed() -> bool:
    """Whether boolab runs from a wheel, which holds its data, and not from a checkout, where they lie beside it.

    Example:
        >>> is_installed() == (data_path("datasets").parent.name == "_data")
        True
    """
    return _shipped().is_dir()


def checkout() -> Path:
    """The checkout that boolab runs from; without one, the package's own folder."""
    return _package() if is_installed() else _package().parent


def _package() -> Path:
    return Path(str(files("boolab")))


def _shipped() -> Path:
    return _package() / "_data"
