"""Enter released packages into the stop benchmark: after which step would they stop each recorded run?

Each package runs in an environment of its own, with its defaults, and sees the steps of a run one by one. With
`--runs`, the packages are run: each list of stops goes to `out/stop_peers/PACKAGE.csv`, and how many successes are kept
and steps saved is printed. The runs need their texts: `python datasets/atlas/build.py CLONES RUNS --texts` makes them.
With `--write`, the lists are judged on the shipped atlas, the submissions written to `docs/leaderboard`, and the table
of `docs/stop_packages.md` is made anew. A package that cannot be installed is a line that names the reason.

Usage: python -m benchmarks.stop_peers [PACKAGE ...] [--runs FOLDER] [--write]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

import boolab as bl
from benchmarks.environments import ROOT, Skipped, environment
from benchmarks.stop_peers.entries import ENTRIES, Entry
from benchmarks.stop_peers.prefixes import fed
from benchmarks.stop_peers.replay import Part, StopSteps, adapter_of, replay, save
from benchmarks.stop_peers.submissions import PAGE, SUBMISSIONS, entered, with_table
from benchmarks.stoprulebench.judge import judge
from benchmarks.stoprulebench.load import recordings_from
from benchmarks.stoprulebench.recordings import Recordings, recordings_of
from benchmarks.stoprulebench.submission import as_json
from benchmarks.stoprulebench.tracks import Track, parts_of

LISTS: Final = ROOT / "out" / "stop_peers"
LEARNT: Final[tuple[Track, ...]] = ("within", "model", "set")
"""The tracks that have something to learn from."""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [entry.package for entry in ENTRIES]
    parser.add_argument("package", nargs="*", help=f"some of {', '.join(names)}; all of them unless named")
    parser.add_argument("--runs", type=Path, help="run the packages on this folder of recordings with texts, SET.jsonl")
    parser.add_argument("--write", action="store_true", help="judge the lists of stops, and write the submissions")
    asked = parser.parse_args()
    unknown = sorted(set(asked.package) - set(names))
    if unknown:
        parser.error(f"there is no package {', '.join(unknown)}; expected some of {', '.join(names)}")
    if asked.runs is None and not asked.write:
        parser.error("nothing to do: expected --runs FOLDER, --write, or both")
    files = sorted(asked.runs.glob("*.jsonl")) if asked.runs is not None else []
    if asked.runs is not None and not files:
        parser.error(f"{asked.runs} has no recordings (*.jsonl)")
    entries = [entry for entry in ENTRIES if not asked.package or entry.package in asked.package]
    if files:
        make_lists(entries, recordings_of((run for path in files for run in bl.load_runs(path)), asked.runs.name))
    if asked.write:
        write_submissions(entries)
    return 0


def make_lists(entries: Sequence[Entry], data: Recordings) -> None:
    """Run the packages, and write their lists of stops."""
    LISTS.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        try:
            version, stops = stops_of(entry, environment(entry.package), data)
        except Skipped as reason:
            print(f"{entry.package}: {reason}", file=sys.stderr)
            continue
        save([run.run_id for run in data.runs], stops, LISTS / f"{entry.package}.csv")
        for track, by_run in stops.items():
            for line in summary(data, by_run):
                print(" ".join(part for part in (entry.package, version, track, line) if part), flush=True)


def stops_of(entry: Entry, python: Path, data: Recordings) -> tuple[str, dict[str, StopSteps]]:
    """The version of a package, and its stops by track; those of a package that learns nothing are of the track ""."""
    runs = [fed(run) for run in data.runs]
    if not entry.learns:
        version, stops = replay(python, adapter_of(entry.package), [Part([], runs)])
        return version, {"": stops}

    def parts(track: Track) -> Iterator[Part]:
        for one in parts_of(data, track):
            train, test = (np.flatnonzero(cells[data.cell]).tolist() for cells in (one.train, one.test))
            yield Part([runs[row] for row in train], [runs[row] for row in test])

    version, found = "", dict[str, StopSteps]()
    for track in LEARNT:
        version, found[track] = replay(python, adapter_of(entry.package), parts(track))
    return version, found


def summary(data: Recordings, stops: StopSteps) -> Iterator[str]:
    """Successes kept and steps saved, a line for each set that was watched."""
    at = np.array([stops.get(run.run_id) or np.iinfo(np.int64).max for run in data.runs])
    watched = np.array([run.run_id in stops for run in data.runs])
    for number, name in enumerate(data.sets):
        here = data.set_of == number
        if not watched[here].any():
            continue
        good = here & data.success
        steps, saved = data.lengths[here].sum(), np.maximum(data.lengths - at, 0)[here].sum()
        kept = (at >= data.lengths)[good].sum()
        yield f"{name}: {kept:,} of {good.sum():,} successes kept, {saved / steps:.1%} of {steps:,} steps saved"


def write_submissions(entries: Sequence[Entry]) -> None:
    """Judge the lists of stops on the shipped atlas, and write the submissions."""
    SUBMISSIONS.mkdir(parents=True, exist_ok=True)
    lists = [entered(entry, LISTS / f"{entry.package}.csv") for entry in entries]
    for submission in judge(lists, recordings_from(["atlas"]), progress=print):
        (SUBMISSIONS / submission.file_name).write_text(as_json(submission), encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
