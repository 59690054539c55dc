"""Run the released command-line harnesses and their presets on the same scripts, and say where they differ.

Writes what the programs did to `observed.json` and the comparison to `docs/cli_conformance.md`. Exits with 1 if a
preset differs from its program otherwise than `known.py` says. A program that cannot be installed is left out.

Usage: python -m benchmarks.conformance.clis.make [HARNESS ...] [--kept]
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.conformance.clis.cases import CASES
from benchmarks.conformance.clis.harnesses import HARNESSES
from benchmarks.conformance.clis.report import PAGE, compare, keep, page, read_kept
from benchmarks.conformance.clis.run import play
from benchmarks.environments import Skipped


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("harness", nargs="*", help=f"one of {', '.join(HARNESSES)}; all of them unless named")
    parser.add_argument("--kept", action="store_true", help="run no program: compare with what they did last time")
    asked = parser.parse_args()
    unknown = sorted(set(asked.harness) - set(HARNESSES))
    if unknown:
        parser.error(f"there is no harness {', '.join(unknown)}; expected some of {', '.join(HARNESSES)}")
    observed = read_kept()
    for name in () if asked.kept else asked.harness or HARNESSES:
        try:
            observed[name] = {}
            for case in (one for one in CASES if one.harness == name):
                played = play(HARNESSES[name], case.script, case.way, case.limit)
                observed[name][case.name] = played.outcome
                print(f"{name}: {case.name}: {tuple(played.outcome)}", file=sys.stderr)
        except Skipped as reason:
            observed.pop(name)
            print(f"skipped      {reason}", file=sys.stderr)
    rows = compare(observed)
    keep({name: observed[name] for name in HARNESSES if name in observed})
    PAGE.write_text(page(rows), encoding="utf-8")
    for row in rows:
        print(f"{row.verdict:13}{row.case.harness:13}{row.case.name:32}{tuple(row.theirs)}  here: {row.ours}")
    return 1 if any(row.verdict in ("differs", "outdated") for row in rows) or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
