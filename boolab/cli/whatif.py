"""The command `boolab whatif`: what limits would have kept and saved in recorded runs, as text or JSON."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from boolab.cli.arguments import (
    add_budget,
    add_logs,
    add_question,
    option_of,
    page_to_write,
    study_from,
    table_file,
    write_checked,
)
from boolab.cli.help import Command
from boolab.core.commands import insert_program

if TYPE_CHECKING:
    from pathlib import Path

    from boolab.report.study import Study

EPILOG: Final = """
    VALUES:
      20          one value; without any values for any setting, all step caps,
                  tool budgets and doom-loop thresholds that make a difference
      2,3,4,5     several
      1:200       a range with its end; 1:200:5 is every fifth of it
      5,10,none   none is off

    examples:
      boolab whatif ~/.claude/projects --since 30d
      boolab whatif atlas/swebench-verified
      boolab whatif runs/*.json --scope run --max-steps 1:200 --doom-loop 2,3,4,5
      boolab whatif runs.jsonl --labels labels.csv --keep 0.9 --by agent
      boolab whatif logs/ --budget 0.50
      boolab whatif datasets/runs --exempt wait_for_build --json
      boolab whatif logs/ --max-steps 5:50:5,none --max-cost 0.1,0.5 -o table.csv

    --json prints one object: schema, boolab, made_at, question, data (files, runs, labels by their source, what was
    skipped and what is missing), axes (by axis a row for each value and group: kept_lower and kept_upper of successes,
    what is spent and saved_, the others off), recommendation (verdict, the answer; sentences; groups, a row each with
    action and all that it rests on, with --budget also how many are over it; paths, the result for each kind of limit;
    one_for_all, what one limit for all groups saves and keeps, held out, beside a limit for each, or null), how_to_set
    (a row for each group with limits to set: limits, the command boolab export, and for the harness of the logs its
    text, and what is lost by what it lacks).
    """


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_logs(parser)
    add_question(parser)
    add_budget(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text, and nothing else")
    parser.add_argument("--full", action="store_true", help="print all values, all tables and the text of each setting")
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        type=table_file,
        help="write all combinations of the settings to this .csv or .parquet file, one row each; without values for "
        "any setting, some of each (default: none is written)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the answers, and write the table."""
    from boolab.report.snippets import LogInputs
    from boolab.report.text import as_json, text

    out = None if args.out is None else page_to_write(args.out)
    study = study_from(args)
    if out is not None:
        _write_table(study, out)
    inputs = LogInputs(args.logs, args.format, args.since, args.limit)
    print(as_json(study) if args.json else insert_program(text(study, inputs, full=args.full)))
    if out is not None:
        print(f"boolab: wrote {out}", file=sys.stderr)
    return 0


def _write_table(study: Study, out: Path) -> None:
    from boolab.io.csv_export import write_csv, write_parquet
    from boolab.whatif.step_files import check_pyarrow

    if out.suffix == ".parquet":
        check_pyarrow()
    table = study.table()
    for axis, (n_values, total) in study.left_out_of_table().items():
        option = option_of(axis)
        print(
            f"boolab: the table has {n_values:,} of {total:,} values of {axis}, as all combinations are too many; "
            f"to choose them: {option} 1:200:5",
            file=sys.stderr,
        )
    write_checked(out, lambda: write_parquet(table, out) if out.suffix == ".parquet" else write_csv(table, out))


COMMAND: Final = Command(
    run,
    add,
    "Reads logs and recommends a setting, or reports how many successes that takes; then shows how to set it, what "
    "each limit would have kept of the successes and saved of the steps, and what the logs lack. Nothing is run again "
    "and nothing is sent anywhere.",
    EPILOG,
    "LOGS [LOGS ...]",
)
