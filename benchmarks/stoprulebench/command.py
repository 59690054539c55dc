"""Judge the entries that `boolab bench` names: print a table for each, and write the submissions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.stoprulebench import faults
from benchmarks.stoprulebench.entries import Entry
from benchmarks.stoprulebench.faults import FaultTrack, recordings_with_faults
from benchmarks.stoprulebench.judge import judge
from benchmarks.stoprulebench.load import about_with, entries_of, recordings_from
from benchmarks.stoprulebench.submission import Submission, as_json
from benchmarks.stoprulebench.terminal import headline, lines_of
from boolab.cli.arguments import page_to_write, write_checked
from boolab.errors import BoolabError
from boolab.io.files import user_path, write_output
from boolab.logs.load import load_runs


def judge_entries(args: argparse.Namespace) -> int:
    """Print a row for each track, and write the submissions."""
    about = {name: getattr(args, name) for name in ("name", "authors", "description", "url")}
    entries = [entry for text in args.entries for entry in entries_of(text)]
    entries = about_with(entries, {name: value for name, value in about.items() if value is not None})
    if args.faults is not None:
        return _judge_by_faults(entries, args.faults, args.out)
    data = recordings_from(args.data, format=args.format, labels=args.labels, trust=args.trust, hidden=args.hidden)
    print("\n".join(headline(data)))
    shown = sys.stderr.isatty()
    failures: list[str] = []
    for submission in judge(
        entries,
        data,
        progress=_say if shown else lambda _: None,
        failed=lambda name, error: failures.append(_fault(name, error)),
    ):
        print("\n" + "\n".join(lines_of(submission)), flush=True)
        if args.out is not None:
            _write(submission, user_path(args.out), alone=len(entries) == 1)
    for failure in failures:
        print(f"boolab: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _judge_by_faults(entries: Sequence[Entry], data: str, out: str | None) -> int:
    """Print the rows of each entry in the track of faults, and write those of all into one file."""
    recordings = recordings_with_faults(load_runs(data), data)
    print("\n".join(faults.headline(recordings)))
    track = FaultTrack(recordings)
    results = {}
    for entry in entries:
        results[entry.about.name] = track.judge(entry)
        print("\n" + "\n".join(faults.lines_of(entry.about.name, results[entry.about.name])), flush=True)
    if out is not None:
        path = user_path(out)
        write_checked(path, lambda: write_output(page_to_write(str(path)), faults.as_json(recordings, results)))
        print(f"boolab: wrote {path}", file=sys.stderr)
    return 0


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
