"""Puts the data of the checkout into the wheel, in `boolab/_data`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DATA: Final = ("agents", "datasets", "notebooks")


class DataFiles(BuildHookInterface[Any]):
    """Includes the data file by file.

    `force-include` would take whole folders, with what other programs leave in them, such as JupyterLab's
    `.ipynb_checkpoints`. An editable installation reads the checkout, and needs no copy.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, except hidden ones, to a wheel that is not editable."""
        if version == "editable":
            return
        for folder in DATA:
            for parent, folders, names in os.walk(Path(self.root, folder)):
                folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
                for name in sorted(names):
                    if not name.startswith("."):
                        path = Path(parent, name)
                        target = Path("boolab/_data", path.relative_to(self.root))
                        build_data["force_include"][str(path)] = target.as_posix()
