"""The command `boolab lab`: JupyterLab on the notebooks of the checkout, or on copies of those that are installed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from boolab.cli.help import Command
from boolab.errors import SettingError, install
from boolab.io.files import user_path
from boolab.io.resources import data_path, is_installed

COPIES: Final = "boolab-notebooks"
"""The folder, in the current one, that gets the copies."""


def notebooks_to_work_in(into: Path | None = None) -> Path:
    """A folder with notebooks that can be changed: the checkout's, or copies of those that are installed."""
    shipped = data_path("notebooks")
    if not is_installed():
        return shipped
    folder = Path.cwd() / COPIES if into is None else into
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for notebook in sorted(shipped.glob("*.ipynb")):
            _copy(notebook, folder / notebook.name)
    except OSError as error:
        msg = f"the notebooks cannot be copied to {folder} ({error.strerror}); name what to open: boolab lab PATH"
        raise SettingError(msg) from error
    return folder


def _copy(source: Path, target: Path) -> None:
    """Make a new file, or none: an incomplete copy would be mistaken for the user's own."""
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


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "path", metavar="PATH", nargs="?", help="a folder or a notebook (default: the notebooks that come with boolab)"
    )
    parser.add_argument("options", metavar="-- OPTION", nargs="*", help="options of JupyterLab (default: none)")


def run(args: argparse.Namespace) -> int:
    """Become JupyterLab, with its own output and exit code."""
    if args.path is not None and args.path.startswith("-"):
        command = lab_command(None, [args.path, *args.options])
    else:
        command = lab_command(args.path, args.options)
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - this very Python


def lab_command(path: str | None = None, options: Sequence[str] = ()) -> list[str]:
    """The command line of JupyterLab, on `path` or the notebooks that come with boolab."""
    if find_spec("jupyterlab") is None:
        raise SettingError(f"JupyterLab is not installed for {sys.executable}: {install('jupyterlab')}")
    target = notebooks_to_work_in() if path is None else user_path(path)
    if not target.exists():
        raise SettingError(f"{target} does not exist")
    # JupyterLab refuses to start as root, the only user of most containers. It listens on loopback, behind a token.
    as_root = ["--allow-root"] if os.geteuid() == 0 else []
    return [sys.executable, "-m", "jupyterlab", str(target), *as_root, *options]


COMMAND: Final = Command(
    run,
    add,
    "Without a checkout, the notebooks that come with boolab are copied to ./boolab-notebooks first; files that are "
    "there already stay as they are. What follows -- goes to JupyterLab unchanged; the exit code is JupyterLab's.",
    """
    examples:
      boolab lab
      boolab lab my_notebooks
      boolab lab notebooks -- --no-browser --port=8899
    """,
    "[PATH] [-- OPTION ...]",
    {0: "JupyterLab was closed; its other codes are passed on"},
)
