"""Finds the agents, scripts, profiles and notebooks of boolab: in the wheel, or beside the package in a checkout."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

SET_FOLDERS: Final = ("atlas", "local")
"""The folders of `datasets` that hold the sets of the atlas."""
_PACKAGE: Final = Path(str(files("boolab")))
_SHIPPED: Final = _PACKAGE / "_data"


def data_path(name: Literal["agents", "datasets", "notebooks"]) -> Path:
    """The folder of that name."""
    return (_SHIPPED if is_installed() else _PACKAGE.parent) / name


def shared_path(path: str) -> str:
    """A path as whoever does not have this machine may read it, in a page or in JSON.

    A set of the atlas has its name. What is below the current folder or the home folder begins there; of any other path
    the last part is left, since a folder may be the name of a user or a customer.
    """
    absolute = Path(path)
    if not absolute.is_absolute():
        return path
    home, current = Path.home(), Path.cwd()
    if any(absolute.is_relative_to(data_path("datasets") / folder) for folder in SET_FOLDERS):
        return f"atlas/{absolute.name.partition('.')[0]}"
    if absolute.is_relative_to(current) and not home.is_relative_to(current) and current != absolute:
        return str(absolute.relative_to(current))
    if absolute.is_relative_to(home):
        return str("~" / absolute.relative_to(home))
    return f"\u2026/{absolute.name}"


def is_installed() -> bool:
    """Whether boolab runs from a wheel, which holds its data, and not from a checkout."""
    return _SHIPPED.is_dir()


def checkout() -> Path:
    """The checkout that boolab runs from; without one, the package's own folder."""
    return _PACKAGE if is_installed() else _PACKAGE.parent
