"""Measure boolab's loop beside those of released packages, and show what their limits leave.

Prints the tables and writes what was measured to `out/peers.json`; with `--write`, the page and its picture as well. A
package that cannot be installed or measured is a row that says so.

Usage: python -m benchmarks.peers [PACKAGE ...] [--repeats N] [--write] [--kept]
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from benchmarks.environments import ROOT
from benchmarks.peers.chart import PICTURE, save
from benchmarks.peers.measuring import measure
from benchmarks.peers.page import PAGE, cost_table, failures, limit_table, page
from benchmarks.peers.rows import PEERS, ROWS

KEPT: Final = ROOT / "out" / "peers.json"
"""What was measured last."""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [peer.package for peer in PEERS]
    parser.add_argument("package", nargs="*", help=f"some of {', '.join(names)}; all of them unless named")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each figure (3)")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} and its picture")
    parser.add_argument("--kept", action="store_true", help=f"measure nothing: take what is in {KEPT.name}")
    asked = parser.parse_args()
    unknown = sorted(set(asked.package) - set(names))
    if unknown:
        parser.error(f"there is no package {', '.join(unknown)}; expected some of {', '.join(names)}")
    if asked.write and asked.package:
        parser.error("--write makes a page of all packages: name none")

    if asked.kept:
        measured = json.loads(KEPT.read_text(encoding="utf-8"))
    else:
        rows = [row for row in ROWS if not asked.package or row.package in asked.package]
        KEPT.parent.mkdir(exist_ok=True)
        for measured in measure(rows, asked.repeats, lambda text: print(text, file=sys.stderr)):
            KEPT.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(cost_table(measured))
    print("\n".join(failures(measured)))
    print(limit_table(measured))
    if asked.write:
        save(measured)
        PAGE.write_text(page(measured, PICTURE.relative_to(PAGE.parent).as_posix()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
