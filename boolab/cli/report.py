"""The command `boolab report`: the answers of `boolab whatif`, with figures and runs, as one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from boolab.cli.arguments import (
    add_budget,
    add_evidence,
    add_logs,
    add_question,
    page_to_write,
    study_from,
    write_checked,
)
from boolab.cli.help import Command
from boolab.errors import SettingError
from boolab.io.files import write_output
from boolab.io.resources import shared_path

EPILOG: Final = """
    VALUES:
      20 (one), 2,3,4,5 (several), 1:200 (a range with its end), 1:200:5 (every
      fifth of it), 5,10,none (none is off)

    examples:
      boolab report ~/.claude/projects --since 30d -o report.html
      boolab report logs/ --scope run --no-transcripts -o to_share.html
      boolab report ~/.claude/projects --evidence git,tests
    """


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_logs(parser)
    add_question(parser)
    add_budget(parser)
    add_evidence(parser.add_argument_group("what is known of the outcomes"))
    parser.add_argument("--title", metavar="TEXT", help="the title of the page (default: its answer)")
    parser.add_argument(
        "--full",
        action="store_true",
        help="show all agents, and CapLab for each, however large the page becomes (default: at most 20 agents, and "
        "CapLab for as many as a page below 10 MB holds)",
    )
    parser.add_argument("--no-transcripts", action="store_true", help="leave out the runs' messages and calls")
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        default="report.html",
        help="the page to write, .html (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    from boolab.report.html_page import page_of
    from boolab.report.snippets import LogInputs

    if Path(args.out).suffix.lower() == ".pdf":
        name = Path(args.out).with_suffix(".html")
        msg = f"{args.out}: a page is written as HTML: write {name}, open it in a browser, and print it to a PDF"
        raise SettingError(msg)
    out = page_to_write(args.out, ".html", ".htm")
    inputs = LogInputs([*map(shared_path, args.logs)], args.format, args.since, args.limit)
    page = page_of(
        study_from(args),
        title=args.title,
        transcripts=not args.no_transcripts,
        inputs=inputs,
        full=args.full,
        progress=True,
    )
    write_checked(out, lambda: write_output(out, page))
    print(f"Wrote {out} ({len(page.encode()) / 1000:,.0f} kB): open it in a browser")
    return 0


COMMAND: Final = Command(
    run,
    add,
    "The page needs no network: it can be mailed, opened from a disk, or printed. Its first screen has the answer for "
    "each agent; CapLab is in it, with the runs that a setting stops. It shows the logs' texts: read it before you "
    "share it, or leave them out with --no-transcripts.",
    EPILOG,
    "LOGS [LOGS ...]",
)
