"""The command `boolab import`: logs of any formats into one file."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Final

from boolab.cli.arguments import (
    FORMAT,
    LOGS,
    NEWEST,
    add_success_threshold,
    add_window,
    place_to_write,
    since_time,
    write_checked,
)
from boolab.cli.help import Command
from boolab.core.run import Run
from boolab.core.text import clean, count
from boolab.display.numbers import size
from boolab.display.text import align_columns
from boolab.errors import ReadWarning, SettingError
from boolab.io.files import user_path
from boolab.logs.load import FileRow, iterate_logs
from boolab.logs.problems import problems_of
from boolab.logs.save import Contents, check_replaceable, check_suffix, save_runs

SCHEMA: Final = "boolab/import/1"

_OUTPUT: Final = "the file that is written: what an earlier import wrote is replaced"
MAX_SHOWN: Final = 3  # files for each reason, and warnings


@dataclass
class Imported:
    """The account of an import, which grows while the logs are read."""

    files: list[FileRow] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    """Steps by format."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls that have a result, by format."""
    renamed: list[str] = field(default_factory=list)
    """The ids of runs whose id another run had already."""
    seconds: float = 0.0
    written: bool = False
    """Whether there was a run, and so a file."""

    @property
    def skipped_files(self) -> list[FileRow]:
        """The files that were not read."""
        return [row for row in self.files if row.skipped is not None]


def import_logs(
    logs: Iterable[tuple[FileRow, Sequence[Run]]], out: Path, contents: Contents = "everything"
) -> Imported:
    """Write the runs of logs to a `.parquet`, `.jsonl` or `.jsonl.bz2` file while they are read; without one, none."""
    account = Imported()
    start = time.perf_counter()
    output = out.resolve()
    check_suffix(out)
    runs = _renamed_runs(_skip_output(logs, output), account)
    first = next(runs, None)
    if first is not None:
        save_runs(chain([first], runs), out, contents)
        account.written = True
    account.seconds = time.perf_counter() - start
    return account


def _renamed_runs(logs: Iterable[tuple[FileRow, Sequence[Run]]], account: Imported) -> Iterator[Run]:
    id_counts: Counter[str] = Counter()
    for row, runs in logs:
        account.files.append(row)
        ids: dict[str, str] = {}  # of this log alone: a subagent's parent is in it, and not in a copy of it
        for run in runs:
            run_id = run.run_id
            while id_counts[run_id]:
                id_counts[run.run_id] += 1
                run_id = f"{run.run_id}#{id_counts[run.run_id]}"
            id_counts[run_id] += 1
            ids[run.run_id] = run_id
            account.renamed += [run_id] if run_id != run.run_id else []
            account.steps[str(row.format)] += run.n_steps
            account.calls[str(row.format)] += run.n_tool_calls
            parent = ids.get(run.parent_run_id or "", run.parent_run_id)
            is_unchanged = (run_id, parent) == (run.run_id, run.parent_run_id)
            yield run if is_unchanged else replace(run, run_id=run_id, parent_run_id=parent)


def _skip_output(logs: Iterable[tuple[FileRow, Sequence[Run]]], out: Path) -> Iterator[tuple[FileRow, Sequence[Run]]]:
    """The logs, with the file that is written as one that is skipped."""
    for row, runs in logs:
        if Path(row.path).resolve() == out:
            check_replaceable(out)
            yield row._replace(format=None, runs=0, skipped=_OUTPUT), ()
        else:
            yield row, runs


def text(account: Imported, out: Path) -> str:
    """What `boolab import` prints."""
    read = [row for row in account.files if row.skipped is None]
    runs = sum(row.runs for row in read)
    amounts = (
        f"{count(runs, 'run')}, {count(account.steps.total(), 'step')}, {count(account.calls.total(), 'tool call')}"
    )
    lines = [f"Read {len(read):,} of {count(len(account.files), 'file')} in {account.seconds:.1f} s: {amounts}.", ""]
    lines += _table(account, read) if read else ["  none"]
    lines += _skipped_lines(account.skipped_files)
    warned = problems_of(account.files).warnings
    if warned:
        lines += ["", f"{count(len(warned), 'warning')} about files that were read:"]
        lines += [f"  {clean(example)}" for example in warned[:MAX_SHOWN]]
        lines += [f"  and {len(warned) - MAX_SHOWN:,} more (--json has them all)"] if len(warned) > MAX_SHOWN else []
    if account.renamed:
        n_renamed, example = count(len(account.renamed), "run"), clean(account.renamed[0])
        lines += ["", f"{n_renamed} had the id of another run, which differs, and got a new one, such as {example}."]
    if account.written:
        lines += ["", f"Wrote {out} ({size(out.stat().st_size)})."]
    else:
        lines += ["", f"There is no run in these logs: {out} was not written."]
    return "\n".join(lines)


def _table(account: Imported, read: Sequence[FileRow]) -> list[str]:
    head = ["", "files", "runs", "steps", "calls", "size", "MB/s"]
    body = []
    for name, files in Counter(str(row.format) for row in read).most_common():
        rows = [row for row in read if row.format == name]
        bytes_, seconds = sum(row.bytes for row in rows), sum(row.seconds for row in rows)
        counts = (files, sum(row.runs for row in rows), account.steps[name], account.calls[name])
        speed = f"{bytes_ / 1e6 / seconds:,.0f}" if seconds > 0 else ""
        body.append([name, *(f"{n:,}" for n in counts), size(bytes_), speed])
    return [f"  {line}" for line in align_columns([head, *body])]


def _skipped_lines(rows: Sequence[FileRow]) -> list[str]:
    if not rows:
        return []
    lines = ["", f"Skipped {count(len(rows), 'file')}:"]
    for reason, n in Counter(str(row.skipped) for row in rows).most_common():
        paths = [clean(row.path) for row in rows if row.skipped == reason]
        lines += [f"  {clean(reason)}:", *(f"      {path}" for path in paths[:MAX_SHOWN])]
        lines += [f"      and {n - MAX_SHOWN:,} more (--json has them all)"] if n > MAX_SHOWN else []
    return lines


def as_json(account: Imported, out: Path) -> str:
    """What `boolab import --json` prints."""
    read = [row for row in account.files if row.skipped is None]
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "boolab": version("boolab"),
        "out": str(out) if account.written else None,
        "seconds": round(account.seconds, 3),
        "runs": sum(row.runs for row in read),
        "steps": dict(account.steps),
        "tool_calls": dict(account.calls),
        "renamed": account.renamed,
        "files": [
            {
                **row._asdict(),
                "warnings": list(row.warnings),
                "inconsistencies": [inconsistency._asdict() for inconsistency in row.inconsistencies],
            }
            for row in account.files
        ],
    }
    return json.dumps(data, indent=1, ensure_ascii=False)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("logs", metavar="LOGS", nargs="+", help=LOGS)
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        required=True,
        help="the file to write, .parquet, .jsonl or .jsonl.bz2 (required); an earlier one is replaced",
    )
    parser.add_argument(
        "--facts",
        action="store_true",
        help="write numbers and lengths in place of all texts, to share logs whose texts may not be shared",
    )
    parser.add_argument("--format", metavar="NAME", help=FORMAT)
    add_window(parser, NEWEST)
    add_success_threshold(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of text, with a row for each file"
    )


def run(args: argparse.Namespace) -> int:
    """Write the file, and print the account of it."""
    out = place_to_write(args.out)
    if out.exists() and any(user_path(log).is_file() and user_path(log).samefile(out) for log in args.logs):
        raise SettingError(f"{args.out}: it is one of the logs, and would be replaced: name another file to write")
    # What is kept is what the logs have: a price is computed when the file is read.
    logs = iterate_logs(
        args.logs,
        format=args.format,
        since=since_time(args),
        limit=args.limit,
        prices=False,
        success_threshold=args.success_threshold,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)  # the account of the files holds them
        account = write_checked(out, lambda: import_logs(logs, out, "facts" if args.facts else "everything"))
    print((as_json if args.json else text)(account, out))
    return 0 if account.written else 1


COMMAND: Final = Command(
    run,
    add,
    "The formats are detected from the files' content. The other commands and load_runs read the file like any log, "
    "but faster: .parquet (one row a step; needs pyarrow) is small and quick, .jsonl is ATIF, which other tools read "
    "too, and .jsonl.bz2 the same, compressed.",
    """
    examples:
      boolab import ~/.claude/projects -o runs.jsonl
      boolab import 'logs/**/*.eval' --since 30d -o runs.jsonl
      boolab import logs/ --facts -o facts.jsonl.bz2
      boolab import logs/ -o runs.parquet
      boolab import logs/ -o runs.jsonl --json | jq '.files[] | select(.skipped)'
    """,
    "LOGS [LOGS ...] -o FILE",
    codes={1: "an error, on stderr; or there is no run to write"},
)
