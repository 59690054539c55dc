"""Run the released packages and their presets on the same scripts, and say where they differ.

Writes what the packages did to `observed.json` and the comparison to `docs/conformance.md`. Exits with 1 if a preset
differs from its package otherwise than `known.py` says, or if nothing could be compared. A package that cannot be
installed is a row that says so.

Usage: python -m benchmarks.conformance [PACKAGE ...] [--kept]
"""

from __future__ import annotations

import argparse
import sys
from typing import get_args

from benchmarks.conformance.observation import keep, read_kept
from benchmarks.conformance.released import observe
from benchmarks.conformance.report import PAGE, Verdict, compare, page, table
from benchmarks.conformance.scenarios import PACKAGES, SCENARIOS
from benchmarks.environments import Skipped, environment


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", nargs="*", help=f"one of {', '.join(PACKAGES)}; all of them unless named")
    parser.add_argument("--kept", action="store_true", help="run no package: compare with what they did last time")
    asked = parser.parse_args()
    unknown = sorted(set(asked.package) - set(PACKAGES))
    if unknown:
        parser.error(f"there is no package {', '.join(unknown)}; expected some of {', '.join(PACKAGES)}")
    wanted = asked.package or list(PACKAGES)

    released = {package: one for package, one in read_kept().items() if package in PACKAGES}
    skipped: dict[str, str] = {}
    for package in () if asked.kept else wanted:
        print(f"{package}: making its environment and running it", file=sys.stderr)
        try:
            python = environment(package)
            released[package] = observe(python, package, [one for one in SCENARIOS if one.package == package])
        except Skipped as reason:
            skipped[package] = str(reason)
    rows = compare(released)
    keep(released)
    PAGE.write_text(page(rows, released), encoding="utf-8")
    shown = [row for row in rows if row.scenario.package in wanted and row.scenario.package not in skipped]
    print(table(shown))
    for package, why in skipped.items():
        print(f"skipped      {package}: {why}")
    count = {verdict: sum(row.verdict == verdict for row in shown) for verdict in get_args(Verdict)}
    print(", ".join(f"{verdict}: {n}" for verdict, n in count.items()))
    return 1 if count["differs"] or count["outdated"] or not count["agrees"] else 0


if __name__ == "__main__":
    sys.exit(main())
