"""Run a released command-line harness once with a scripted model, and print what it did as JSON.

What comes behind `--` are more arguments for the harness. FILES is a folder whose `home` and `work` are copied over the
run's own before it starts (settings, hooks, exported limits). A FOLDER that is kept can be used again: a second run
finds the home of the first.

Usage: python -m benchmarks.conformance.clis --harness claude-code --script different --limit 3 --keep FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.conformance.clis.harnesses import HARNESSES
from benchmarks.conformance.clis.run import play
from benchmarks.conformance.clis.scripts import SCRIPTS, script_named
from benchmarks.environments import Skipped


def main() -> int:
    """The command."""
    ways = "; ".join(f"{name}: {', '.join(one.ways)}" for name, one in HARNESSES.items())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harness", choices=list(HARNESSES), required=True)
    parser.add_argument("--script", default="different", help=f"one of {', '.join(SCRIPTS)}, or finish-N")
    parser.add_argument("--limit", type=float, help="in the harness's own unit; none unless given")
    parser.add_argument("--way", help=f"how the limit is set (default: the first; {ways})")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to leave the run")
    parser.add_argument("--files", type=Path, metavar="FILES", help="a folder with more files for home and work")
    parser.add_argument("arguments", nargs="*", help="more arguments for the harness, behind --")
    asked = parser.parse_args()
    harness = HARNESSES[asked.harness]
    way = asked.way or next(iter(harness.ways))
    if way not in harness.ways:
        parser.error(f"{harness.name} has no way {way!r} of setting a limit; it has {', '.join(harness.ways)}")
    try:
        script_named(asked.script)
    except ValueError as error:
        parser.error(str(error))
    try:
        played = play(
            harness,
            asked.script,
            way,
            asked.limit,
            keep=asked.keep,
            files=asked.files,
            arguments=asked.arguments,
        )
    except Skipped as reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return 1
    print(json.dumps(played.outcome._asdict() | {"refused": played.refused}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
