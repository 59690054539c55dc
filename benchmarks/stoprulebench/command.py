"""Judge the entries that `boolab bench` names: print a table for each, and write the submissions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.stoprulebench.judge import judge
from benchmarks.stoprulebench.load import about_with, entries_of, recordings_from
from benchmarks.stoprulebench.submission import Submission, as_json
from benchmarks.stoprulebench.terminal import headline, lines_of
from boolab.cli.arguments import page_to_write, write_checked
from boolab.errors import BoolabError
from boolab.io.files import user_path, write_output


def judge_entries(args: argparse.Namespace) -> int:
    """Print a row for each track, and write the submissions."""
    about = {name: getattr(args, name) for name in ("name", "authors", "description", "url")}
    entries = [entry for text in args.entries for entry in entries_of(text)]
    entries = about_with(entries, {name: value for name, value in about.items() if value is not None})
    data = recordings_from(args.data, format=args.format, labels=args.labels, hidden=args.hidden)
    print("\n".join(headline(data)))
    shown = sys.stderr.isatty()
    faults: list[str] = []
    for submission in judge(
        entries,
        data,
        progress=_say if shown else lambda _: None,
        failed=lambda name, error: faults.append(_fault(name, error)),
    ):
        print("\n" + "\n".join(lines_of(submission)), flush=True)
        if args.out is not None:
            _write(submission, user_path(args.out), alone=len(entries) == 1)
    for fault in faults:
        print(f"boolab: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _fault(name: str, error: Exception) -> str:
    """The error of an entry in a line: those of a user's function may be of any type."""
    known = isinstance(error, BoolabError) and str(error).startswith(name)
    return str(error) if known else f"{name} cannot be judged: {type(error).__name__}: {error}"


def _say(name: str) -> None:
    print(f"boolab: judging {name}", file=sys.stderr)


def _write(submission: Submission, out: Path, *, alone: bool) -> None:
    if out.is_dir() or not alone:
        write_checked(out, lambda: out.mkdir(parents=True, exist_ok=True))
        out /= submission.file_name
    write_checked(out, lambda: write_output(page_to_write(str(out)), as_json(submission)))
    print(f"boolab: wrote {out}", file=sys.stderr)
