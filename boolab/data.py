"""The agents, scripts and profiles that come with boolab: in the wheel, or beside the package in a checkout."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal


def data_path(name: Literal["agents", "datasets"]) -> Path:
    """The folder of that name.

    Example:
        >>> (data_path("agents") / "AGENTS.md").is_file()
        True
    """
    package = Path(str(files("boolab")))
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name


def checkout() -> Path:
    """The checkout that boolab runs from; without one, the package's own folder."""
    package = Path(str(files("boolab")))
    return package.parent if (package.parent / "pyproject.toml").is_file() else package
