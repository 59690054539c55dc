"""How this command was started, so that the commands that it prints run as they stand."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from boolab.core.commands import with_program


def program() -> str:
    """What to type for boolab: its name if that finds the one that runs now, else its path, or Python with `-m`."""
    started, named = Path(sys.argv[0]), shutil.which("boolab")
    if started.parts[-2:] == ("boolab", "__main__.py"):
        return "boolab" if named is not None else shlex.join([_near(Path(sys.executable)), "-m", "boolab"])
    if started.name != "boolab" or (named is not None and Path(named).resolve() == started.resolve()):
        return "boolab"
    return shlex.quote(_near(started))


def runnable(text: str) -> str:
    """A text in which lines that are commands of boolab, and those that are to be typed, run as they stand."""
    return with_program(text, program())


def _near(path: Path) -> str:
    """A path, relative to the current folder if it is below it."""
    whole = path.absolute()
    return str(whole.relative_to(Path.cwd())) if whole.is_relative_to(Path.cwd()) else str(whole)
