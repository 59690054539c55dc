"""Makes the files of this folder out of the recordings of the study of live runs. See README.md beside this file.

The recordings are made first, by `python -m benchmarks.onpolicy` (docs/onpolicy.md); bits differ by machine, so other
recordings give other files.

Usage: python datasets/local/make_local.py out/onpolicy [OUT]
"""  # noqa: INP001 - a script beside its data

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from boolab import save_runs, stored_runs

NAMES = ("fix", "maze")
"""The families of tasks that have a set."""
MOST = 200
"""How many runs a set has at most."""


def main(arguments: Sequence[str]) -> None:
    """Make a file for each family."""
    folder, out = Path(arguments[0]), Path(arguments[1] if len(arguments) > 1 else Path(__file__).parent)
    for name in NAMES:
        runs = sorted(stored_runs(folder / f"{name}.db"), key=lambda run: run.seed or 0)[:MOST]
        settings = {"set": f"local-{name}", "ended_by": "agent"}
        save_runs([replace(run, settings=settings) for run in runs], out / f"local-{name}.jsonl.bz2")


if __name__ == "__main__":
    main(sys.argv[1:])
