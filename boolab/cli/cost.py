"""The command `boolab cost`: what runs cost, and who pays for what."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Final

from boolab.cli.arguments import (
    FORMAT,
    LOGS,
    NEWEST,
    add_window,
    page_to_write,
    parse_positive,
    parse_whole,
    since_time,
    write_checked,
)
from boolab.cli.help import Command
from boolab.core.text import clean
from boolab.errors import ReadWarning, SettingError

if TYPE_CHECKING:
    import pandas as pd

    from boolab.logs.load import Reading
    from boolab.stats.cost.allocated import AllocatedRun
    from boolab.stats.cost.context_policy import ContextPolicy

EPILOG: Final = """
    Each token of a request is charged to what put it there: a call and its result to the tool, the system prompt and
    the list of tools to (base), what no line of the logs has, such as reminders, to (unseen). The causes add up to the
    bill to the micro-dollar; the widths of the parts of a prompt are measured, shared by characters, or estimated.

    columns of --by:
      kind, tool, step, turn, model, effort, harness_version, agent, tree (the root
      of a family of runs), task, path (the file that a call names), run_id

    examples:
      boolab cost ~/.claude/projects --since 7d
      boolab cost logs/ --by tool,model
      boolab cost logs/ --misses
      boolab cost logs/ --tails
      boolab cost logs/ --units
      boolab cost logs/ --by path --csv paths.csv
      boolab cost logs/ --compact-at 60000 80000 100000 --keep 1
      boolab cost logs/ --clear-at 100000 --cache 1h
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
        "--tails",
        action="store_true",
        help="print how dear, long and slow the worst turns or runs are, with intervals that count whole tasks",
    )
    shown.add_argument(
        "--model",
        metavar="MODEL",
        help="print the recorded tokens at the list prices of this model: arithmetic, no forecast (default: none)",
    )
    shown.add_argument(
        "--csv",
        metavar="FILE",
        help="write the rows of the first table that is printed, in the order of these options, to this .csv file; by "
        "tool without one (default: none)",
    )
    policy = parser.add_argument_group("what another context policy would have cost, if the steps stay the same")
    policy.add_argument(
        "--compact-at",
        metavar="TOKENS",
        type=parse_positive,
        nargs="+",
        help="compact the history before a request with more tokens (default: as recorded)",
    )
    policy.add_argument(
        "--keep", metavar="STEPS", type=parse_whole, default=0,
        help="the latest steps that a compaction keeps (default: %(default)s)",
    )  # fmt: skip
    policy.add_argument(
        "--clear-at",
        metavar="TOKENS",
        type=parse_positive,
        nargs="+",
        help="clear all results but the last three before a request with more tokens (default: never)",
    )
    policy.add_argument("--cache", choices=("5m", "1h"), help="the lifetime of the cache (default: as recorded)")


def run(args: argparse.Namespace) -> int:
    """Print the bill, and write the table."""
    from boolab.io.csv_export import write_csv
    from boolab.report.context_text import threshold_sentence
    from boolab.report.cost_text import overview_text
    from boolab.stats.cost.allocated import allocate_runs
    from boolab.stats.cost.bills import bill_of
    from boolab.stats.cost.causes import causes_frame
    from boolab.stats.cost.misses import misses_frame
    from boolab.stats.cost.policy_costs import basis_of

    out = None if args.csv is None else page_to_write(args.csv, ".csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)  # the rows of the reading have them
        reading = _read(args)
    allocated = allocate_runs(reading.runs)
    tables = [*_tables(args, reading, allocated)]
    if not tables:
        tables = [("", causes_frame(allocated, ["tool"]))]
        print(overview_text(allocated, tables[0][1], misses_frame(allocated), threshold_sentence(basis_of(allocated))))
        warnings_of_bills = [warning for row in allocated if (warning := bill_of(row.run).warning)]
        for warning in warnings_of_bills[:_MAX_WARNINGS]:
            print(f"boolab: {clean(warning)}", file=sys.stderr)
    for text in [text for text, _ in tables if text]:
        print(text)
    if out is not None:
        write_checked(out, lambda: write_csv(tables[0][1], out))
        print(f"boolab: wrote {out}", file=sys.stderr)
    return 0


def _tables(
    args: argparse.Namespace, reading: Reading, allocated: Sequence[AllocatedRun]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables that are asked for, each as text and as a frame."""
    from boolab.report.context_text import policies_text
    from boolab.report.cost_text import causes_text, misses_text, units_text
    from boolab.report.tails_text import repriced_text, tails_text
    from boolab.stats.cost.budgets import compare_units
    from boolab.stats.cost.causes import causes_frame
    from boolab.stats.cost.context_costs import costs_frame
    from boolab.stats.cost.misses import misses_frame
    from boolab.stats.cost.policy_costs import basis_of, costs_under
    from boolab.stats.cost.repriced import repriced
    from boolab.stats.tails import tails_df

    if args.by is not None:
        causes = causes_frame(allocated, args.by)
        yield causes_text(causes, args.by), causes
    if args.misses:
        misses = misses_frame(allocated)
        yield misses_text(misses), misses
    if args.units:
        units = compare_units(reading.runs)
        yield units_text(units), units
    if args.tails:
        tails = tails_df(reading.runs)
        yield tails_text(tails, reading.runs), tails
    if args.model is not None:
        requests = repriced(reading.runs, args.model)
        yield repriced_text(requests), requests
    if policies := _policies(args):
        basis = basis_of(allocated)
        costs = [(policy, costs_under(basis, policy)) for policy in policies]
        yield policies_text(basis, costs), costs_frame(basis, costs)


def _policies(args: argparse.Namespace) -> list[ContextPolicy]:
    """The context policies that are asked for: each threshold of compaction with each of clearing."""
    from boolab.stats.cost.context_policy import ContextPolicy

    if args.keep and args.compact_at is None:
        msg = f"--keep {args.keep}: expected --compact-at too, whose steps it keeps"
        raise SettingError(msg)
    if args.compact_at is None and args.clear_at is None and args.cache is None:
        return []
    return [
        ContextPolicy(compact_at=compact_at, keep_steps=args.keep, clear_at=clear_at, cache=args.cache or "recorded")
        for compact_at, clear_at in product(args.compact_at or [None], args.clear_at or [None])
    ]


def _read(args: argparse.Namespace) -> Reading:
    from boolab.logs.load import no_log_message, read_logs
    from boolab.logs.problems import problems_of

    reading = read_logs(args.logs, format=args.format, since=since_time(args), limit=args.limit)
    problems = problems_of(reading.files)
    if str(problems):
        print(f"boolab: {problems}", file=sys.stderr)
    if not reading.runs:
        raise SettingError(no_log_message(args.logs, since_time(args), reading.files))
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
