"""The command `boolab demo`."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from boolab.cli.help import Command
from boolab.cli.program import runnable


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "-o",
        "--out",
        metavar="FOLDER",
        default="out/demo",
        help="the folder for figures and tables (default: %(default)s)",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="run every shipped agent on every shipped script under many limits too; print and write all tables",
    )
    parser.add_argument("--quick", action="store_true", help="the same on a smaller grid: fewer runs, the same report")


def run(args: argparse.Namespace) -> int:
    """Print the answer on recorded runs; with --full the report on all scripted runs."""
    if not (args.full or args.quick):
        from boolab.cli.demo.short import short_demo

        print(runnable(short_demo(args.out)))
        return 0
    from boolab.cli.demo.demo import GRID, QUICK_GRID, demo

    print(demo(args.out, grid=QUICK_GRID if args.quick else GRID, progress=sys.stderr.isatty()))
    return 0


COMMAND: Final = Command(
    run,
    add,
    "Recommends a step cap for 200 public runs that come with boolab, shows how to set it, and draws two figures. With "
    "--full, agents run under their own limits, a grid of limits and other policies, too; it shows three ways in which "
    "a loop can fail, and writes figures (.png) and tables (.csv). Those models are scripted: it costs nothing.",
    """
    examples:
      boolab demo
      boolab demo --full
      boolab demo --quick -o out/quick
    """,
)
