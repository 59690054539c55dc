"""The command `boolab cost`: what runs cost, and who pays for what."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import TYPE_CHECKING, Final

from boolab.cli.arguments import FORMAT, LOGS, NEWEST, add_window, page_to_write, since_time, write_checked
from boolab.cli.help import Command
from boolab.core.text import clean
from boolab.errors import ReadWarning

if TYPE_CHECKING:
    from boolab.logs.load import Reading

EPILOG: Final = """
    Each token of a request is charged to what put it there: a call and its result to the tool, the system prompt and
    the list of tools to (base), what no line of the logs has, such as images, to (unseen). The causes add up to the
    bill to the micro-dollar; the widths of the parts of a prompt are measured, shared by characters, or estimated.

    columns of --by:
      kind, tool, step, turn, model, effort, harness_version, agent, tree (the root
      of a family of runs), task, path (the file that a call names), run_id

    examples:
      boolab cost ~/.claude/projects --since 7d
      boolab cost logs/ --by tool,model
      boolab cost logs/ --misses
      boolab cost logs/ --units
      boolab cost logs/ --by path --csv paths.csv
    """
_MAX_WARNINGS: Final = 3
"""Bills that differ from what the log states, on stderr; `bl.bills_df` has all."""


def column_names(text: str) -> list[str]:
    """The columns of --by, separated by commas.

    Example:
        >>> column_names("tool,model")
        ['tool', 'model']
    """
    from boolab.stats.cost.causes import KEYS

    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in KEYS]
    if wrong or not names:
        raise argparse.ArgumentTypeError(f"{text!r}: accepted are {', '.join(KEYS)}, several with commas")
    return names


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("logs", metavar="LOGS", nargs="+", help=LOGS)
    group = parser.add_argument_group("which logs")
    group.add_argument("--format", metavar="NAME", help=FORMAT)
    add_window(group, NEWEST)
    shown = parser.add_argument_group("what is printed")
    shown.add_argument(
        "--by",
        metavar="COLUMNS",
        type=column_names,
        help="print a row for each cause by these columns, the dearest first (default: the five dearest by tool)",
    )
    shown.add_argument("--misses", action="store_true", help="print a row for each miss of the provider's cache")
    shown.add_argument(
        "--units",
        action="store_true",
        help="print what budgets in cost, tokens, steps, context or minutes save, each of which stops 5%% of the turns",
    )
    shown.add_argument(
        "--csv",
        metavar="FILE",
        help="write the rows of --by, or else of --misses or --units, to this .csv file; by tool without them "
        "(default: none)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the bill, and write the table."""
    from boolab.io.csv_export import write_csv
    from boolab.report.cost_text import causes_text, misses_text, overview_text, units_text
    from boolab.stats.cost.allocated import allocate_runs
    from boolab.stats.cost.bills import bill_of
    from boolab.stats.cost.budgets import compare_units
    from boolab.stats.cost.causes import causes_frame
    from boolab.stats.cost.misses import misses_frame

    out = None if args.csv is None else page_to_write(args.csv, ".csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)  # the rows of the reading have them
        reading = _read(args)
    allocated = allocate_runs(reading.runs)
    causes = causes_frame(allocated, args.by or ["tool"])
    misses = misses_frame(allocated)
    if args.by is None and not args.misses and not args.units:
        print(overview_text(allocated, causes, misses))
        warnings_of_bills = [warning for row in allocated if (warning := bill_of(row.run).warning)]
        for warning in warnings_of_bills[:_MAX_WARNINGS]:
            print(f"boolab: {clean(warning)}", file=sys.stderr)
    if args.by is not None:
        print(causes_text(causes, args.by))
    if args.misses:
        print(misses_text(misses))
    units = compare_units(reading.runs) if args.units else None
    if units is not None:
        print(units_text(units))
    if out is not None:
        table = causes if args.by is not None else misses if args.misses else causes if units is None else units
        write_checked(out, lambda: write_csv(table, out))
        print(f"boolab: wrote {out}", file=sys.stderr)
    return 0


def _read(args: argparse.Namespace) -> Reading:
    from boolab.logs.load import read_logs
    from boolab.logs.problems import problems_of

    reading = read_logs(args.logs, format=args.format, since=since_time(args), limit=args.limit)
    problems = problems_of(reading.files)
    if str(problems):
        print(f"boolab: {problems}", file=sys.stderr)
    return reading


COMMAND: Final = Command(
    run,
    add,
    "The bill of recorded runs by cause: what the model wrote, what was sent the first time, and what was sent again, "
    "from the cache or because it missed. Without options: the bill, the five dearest causes, the misses with their "
    "causes, and what is not on record. Nothing is sent anywhere.",
    EPILOG,
    "LOGS [LOGS ...]",
)
