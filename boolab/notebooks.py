"""The notebooks to work in: those of the checkout, or copies of those that an installed boolab brings along."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from boolab.data import data_path, is_installed
from boolab.errors import SettingError

COPIES: Final = "boolab-notebooks"
"""The folder, in the current one, that gets the copies."""


def notebooks_to_work_in(into: Path | None = None) -> Path:
    """A folder with the notebooks, which whoever opens them may change.

    What is installed is replaced by the next version, and may belong to somebody else: there, the notebooks are copied.
    A file that is in the way of a copy stays as it is, so that nobody loses what they wrote into one.

    Args:
        into: The folder that gets the copies; by default `boolab-notebooks` in the current folder. A checkout's
            notebooks are not copied.

    Returns:
        The folder.

    Raises:
        SettingError: if the copies cannot be written.

    Example:
        >>> folder = notebooks_to_work_in()
        >>> (folder / "01_first_run.ipynb").is_file()
        True
    """
    shipped = data_path("notebooks")
    if not is_installed():
        return shipped
    folder = Path.cwd() / COPIES if into is None else into
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for notebook in sorted(shipped.glob("*.ipynb")):
            _copy(notebook, folder / notebook.name)
    except OSError as error:
        msg = f"the notebooks cannot be copied to {folder} ({error.strerror}); say what to open: boolab lab PATH"
        raise SettingError(msg) from error
    return folder


def _copy(source: Path, target: Path) -> None:
    """Make a new file; half a copy would be taken for somebody's own the next time, so it is removed."""
    try:
        file = target.open("xb")
    except FileExistsError:
        return
    try:
        with file:
            file.write(source.read_bytes())
    except OSError:
        target.unlink()
        raise
