"""The command `boolab bench`: judges stop rules on recorded runs that they were not chosen on.

The benchmark itself is in the repository, in `benchmarks/stoprulebench`, and not in the wheel.
"""

from __future__ import annotations

import argparse
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from boolab.cli.arguments import FORMAT, add_labels
from boolab.cli.help import Command
from boolab.errors import BoolabError

EPILOG: Final = """
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
      boolab bench rules.yaml --hidden ~/hidden_sets
      boolab bench rules.yaml --faults

    The score is the share of steps saved if the rule is on in so many runs only, chosen at random, that 95% of the
    successes are kept. All figures are means over sets, with 95% intervals over sets and the tasks in them.
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
    data.add_argument(
        "--hidden",
        metavar="FOLDER",
        help="judge on the sets in this folder, each a file or a folder KIND/SET, and choose and fit on --data "
        "(default: the open tracks of --data)",
    )
    data.add_argument(
        "--faults",
        metavar="RUNS",
        nargs="?",
        const="atlas/sentinel-faults",
        help="judge when entries stop runs with a recorded fault, and not on outcomes (default: the open tracks; "
        "without RUNS: atlas/sentinel-faults)",
    )
    data.add_argument("--format", metavar="NAME", help=FORMAT)
    add_labels(data, "runs")
    description = parser.add_argument_group("how the submission describes the entry")
    description.add_argument("--name", metavar="TEXT", help="its name (default: that in the file, or of the file)")
    description.add_argument("--authors", metavar="TEXT", help="who made it (default: those in the file)")
    description.add_argument("--description", metavar="TEXT", help="one sentence (default: that in the file)")
    description.add_argument("--url", metavar="URL", help="where to read more (default: that in the file)")
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="write the submission to this .json file, or into this folder, which several entries need (default: none "
        "is written)",
    )


def run(args: argparse.Namespace) -> int:
    """Judge the entries, where the benchmark lies beside the package."""
    benchmarks = find_spec("benchmarks")  # it imports nothing: the folder may be another project's
    folders = (benchmarks and benchmarks.submodule_search_locations) or ()
    if not any(Path(folder, "stoprulebench").is_dir() for folder in folders):
        raise BoolabError(
            "StopRuleBench is in boolab's repository, and not in the package: in a checkout of it, type python -m "
            f"benchmarks.stoprulebench {shlex.join(args.entries)}"
        )
    from benchmarks.stoprulebench.command import judge_entries

    return judge_entries(args)


COMMAND: Final = Command(
    run,
    add,
    "A rule sees the steps of a run one after the other and decides after each whether to stop. It is chosen on some "
    "tasks and judged on others, in up to four tracks: within a set, on a new model, on a new set, and without any "
    "training; or, with --hidden, on sets that its author never had. docs/stoprulebench.md explains the benchmark; "
    "make leaderboard makes a page of the submissions. "
    "The benchmark is not in the package: the command works in a checkout of the repository.",
    EPILOG,
    "ENTRY [ENTRY ...]",
)
