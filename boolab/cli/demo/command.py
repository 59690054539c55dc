"""The command `boolab demo`."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from boolab.cli.help import Command


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "-o",
        "--out",
        metavar="FOLDER",
        default="out/demo",
        help="the folder for figures and tables (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="run a smaller grid: fewer runs, the same report")


def run(args: argparse.Namespace) -> int:
    """Make all runs, and print the report on them."""
    from boolab.cli.demo.demo import GRID, QUICK_GRID, demo

    print(demo(args.out, grid=QUICK_GRID if args.quick else GRID, progress=sys.stderr.isatty()))
    return 0


COMMAND: Final = Command(
    run,
    add,
    "Runs under each agent's own limits, under a grid of step caps, tool budgets and doom-loop thresholds, and under "
    "other policies; shows three ways in which a loop can fail; writes figures (.png) and tables (.csv). The models "
    "are scripted: it needs no network and no key, and costs nothing.",
    """
    examples:
      boolab demo
      boolab demo --quick -o out/quick
    """,
)
