"""The command `boolab`: one function for each subcommand, each of which returns the exit code.

Exit codes: 0 for success, 1 for an error that boolab explains in one line, 2 for a command line that it does not
understand, 130 for an interrupt from the keyboard.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from boolab.data import checkout
from boolab.errors import BoolabError, SettingError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no public name
Command: TypeAlias = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The arguments; those of the process by default.

    Returns:
        The exit code.

    Raises:
        SystemExit: after `--help` and `--version`, and with code 2 for arguments that are not understood.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if args.run is None:
        parser.print_help(sys.stderr)
        return 2
    return _exit_code(args.run, args)


def _exit_code(command: Command, args: argparse.Namespace) -> int:
    """Run a subcommand; what went wrong is one line on stderr."""
    try:
        code = command(args)
        sys.stdout.flush()
    except BoolabError as error:
        print(f"boolab: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output has left; Python would complain about that once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("boolab: interrupted", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="boolab",
        description="Step caps, tool budgets and doom-loop thresholds for LLM agents, compared.",
        epilog="Exit codes: 0 success, 1 error, 2 wrong usage, 130 interrupted. 'boolab COMMAND --help' says more.",
    )
    parser.add_argument("--version", action="version", version=f"boolab {version('boolab')}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in (_add_demo, _add_lab):
        add(commands)
    return parser


def _command(commands: Commands, name: str, run: Command, summary: str, text: str) -> argparse.ArgumentParser:
    """A subcommand; its summary stands in the list of commands, and opens its own help."""
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {text}")
    parser.set_defaults(run=run)
    return parser


def _add_demo(commands: Commands) -> None:
    parser = _command(
        commands,
        "demo",
        _demo,
        "run every shipped agent on every shipped script and report why the runs stop",
        "Runs under each agent's own limits, under a grid of step caps, tool budgets and doom-loop thresholds, and "
        "under other policies; shows three ways in which a loop can fail; writes figures (.png) and tables (.csv). "
        "The models are scripted: it needs no network and no key, and costs nothing.",
    )
    parser.add_argument(
        "-o", "--out", metavar="FOLDER", default="out/demo", help="where figures and tables go (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="a smaller grid: fewer runs, the same report")


def _demo(args: argparse.Namespace) -> int:
    from boolab.demo import GRID, QUICK_GRID, demo  # noqa: PLC0415 - slow to import

    print(demo(args.out, grid=QUICK_GRID if args.quick else GRID, progress=sys.stderr.isatty()))
    return 0


def _add_lab(commands: Commands) -> None:
    parser = _command(
        commands,
        "lab",
        _lab,
        "open JupyterLab on the notebooks",
        "What follows '--' goes to JupyterLab, such as: boolab lab notebooks -- --no-browser --port=8899",
    )
    parser.add_argument(
        "path", metavar="PATH", nargs="?", help="a folder or a notebook (default: notebooks/ of the checkout)"
    )
    parser.add_argument("options", metavar="-- OPTION", nargs="*", help="an option for JupyterLab")


def _lab(args: argparse.Namespace) -> int:
    if args.path is not None and args.path.startswith("-"):
        command = lab_command(None, [args.path, *args.options])
    else:
        command = lab_command(args.path, args.options)
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - it becomes JupyterLab, with its own output and exit code


def lab_command(path: str | None = None, options: Sequence[str] = ()) -> list[str]:
    """What `boolab lab` runs.

    Args:
        path: A folder or a notebook; by default the checkout's notebooks.
        options: Options for JupyterLab.

    Raises:
        SettingError: if there is nothing at `path`, or no JupyterLab.

    Example:
        >>> lab_command(".", ["--no-browser"])[1:]
        ['-m', 'jupyterlab', '.', '--no-browser']
    """
    place = checkout() / "notebooks" if path is None else Path(path).expanduser()
    if not place.exists():
        hint = "; say which folder to open: boolab lab PATH" if path is None else ""
        msg = f"{place} does not exist{hint}"
        raise SettingError(msg)
    if find_spec("jupyterlab") is None:
        msg = f"JupyterLab is not installed for {sys.executable}: pip install jupyterlab"
        raise SettingError(msg)
    return [sys.executable, "-m", "jupyterlab", str(place), *options]


if __name__ == "__main__":
    raise SystemExit(main())
