"""The command `boolab bench`: judges stop rules on recorded runs that they were not chosen on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from boolab.cli.arguments import FORMAT, written
from boolab.cli.help import Command
from boolab.errors import BoolabError
from boolab.io.files import user_path

if TYPE_CHECKING:
    from boolab.bench.submission import Submission

MORE: Final = """
    ENTRY:
      rules.yaml       rules; the run stops when one of them is true
      module:function  a function of a run's prefix, a stop rule, or an object
                       with a fit; also file.py:function
      stops.csv        the columns run_id and stop_step (empty: not stopped)
      baselines        the baselines of the leaderboard, or baseline:NAME for one

    examples:
      boolab bench rules.yaml
      boolab bench my_rules.py:stop_late --data atlas/tau-airline --name "Late"
      boolab bench stops.csv --data runs.jsonl --labels labels.csv -o late.json
      boolab bench baselines --data atlas/intercode-ctf -o out

    The score is the share of steps saved if the rule is on in so many runs only, chosen at random, that 95% of the
    successes are kept. All figures are means over sets, with 95% intervals over tasks.
    """


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("entries", metavar="ENTRY", nargs="+", help="what is judged: see below")
    data = parser.add_argument_group("on which runs")
    data.add_argument(
        "--data",
        metavar="RUNS",
        nargs="+",
        default=["atlas"],
        help="a shipped data set, or files and folders of labelled runs; a run's set is its setting `set`, or else the "
        "name of its file (default: atlas)",
    )
    data.add_argument("--format", metavar="NAME", help=FORMAT)
    data.add_argument(
        "--labels",
        metavar="FILE",
        help="which runs were successes: a .csv with the columns run_id (or task) and success, or a .json with a "
        "mapping or rows (default: the labels in the runs)",
    )
    about = parser.add_argument_group("how the submission describes the entry")
    about.add_argument("--name", metavar="TEXT", help="its name (default: that in the file, or of the file)")
    about.add_argument("--authors", metavar="TEXT", help="who made it (default: those in the file)")
    about.add_argument("--description", metavar="TEXT", help="one sentence (default: that in the file)")
    about.add_argument("--url", metavar="URL", help="where to read more (default: that in the file)")
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="write the submission to this .json file, or into this folder, which several entries need (default: none "
        "is written)",
    )


def run(args: argparse.Namespace) -> int:
    """Print a row for each track, and write the submissions."""
    from boolab.bench.judge import judge
    from boolab.bench.load import about_with, entries_of, recordings_from
    from boolab.bench.terminal import headline, lines_of

    about = {name: getattr(args, name) for name in ("name", "authors", "description", "url")}
    entries = [entry for text in args.entries for entry in entries_of(text)]
    entries = about_with(entries, {name: value for name, value in about.items() if value is not None})
    data = recordings_from(args.data, format=args.format, labels=args.labels)
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
    from boolab.bench.submission import as_json

    if out.is_dir() or not alone:
        written(out, lambda: out.mkdir(parents=True, exist_ok=True))
        out /= submission.file_name
    written(out, lambda: out.write_text(as_json(submission), encoding="utf-8"))
    print(f"boolab: wrote {out}", file=sys.stderr)


COMMAND: Final = Command(
    run,
    add,
    "A rule sees the steps of a run one after the other and decides after each whether to stop. It is chosen on some "
    "tasks and judged on others, in up to four tracks: within a set, on a new model, on a new set, and without any "
    "training. docs/stoprulebench.md explains the benchmark; make leaderboard makes a page of the submissions.",
    MORE,
    "ENTRY [ENTRY ...]",
)
