"""Measure which baselines stop runs after a recorded fault: the track of faults, on atlas/sentinel-faults.

With `--write`, the tables go into `docs/faults.md`.

Usage: python -m benchmarks.faults [--write]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import boolab as bl
from benchmarks.environments import ROOT
from benchmarks.stoprulebench.baselines import baselines
from benchmarks.stoprulebench.faults import ALL, WAYS, FaultRow, FaultTrack, recordings_with_faults
from benchmarks.stoprulebench.metrics import Figure
from benchmarks.stoprulebench.terminal import percent_of, shown
from benchmarks.stoprulebench.tracks import Track

PAGE: Final = ROOT / "docs" / "faults.md"
DATA: Final = "atlas/sentinel-faults"
BY_CLASS: Final = ("error_streak(n)", "doom_loop(n)", "learn_stop, on average")
"""The entries that the page shows for each class of faults."""
_LEAST: Final = 0.01
_TABLE: Final = re.compile(r"(?<=<!-- made by python -m benchmarks.faults -->\n\n).*?(?=\n<!-- end -->)", re.DOTALL)

Results = Mapping[str, Mapping[Track, Sequence[FaultRow]]]


def measure() -> dict[str, dict[Track, list[FaultRow]]]:
    """The rows of all baselines but those for scale."""
    track = FaultTrack(recordings_with_faults(bl.load_dataset(DATA, progress=False), DATA))
    return {entry.about.name: track.judge(entry) for entry in baselines() if entry.kind != "scale"}


def tables_of(results: Results) -> str:
    """The table of all entries, and that of some by class of fault, as Markdown."""
    shares = sorted(
        ((name, track, rows[0]) for name, tracks in results.items() for track, rows in tracks.items()),
        key=lambda row: -_value(row[2].gain),
    )
    shown_rows = [row for row in _distinct(shares) if max(_value(row[2].caught), _value(row[2].matched)) >= _LEAST]
    lines = [
        "| entry | thresholds | early | caught | false stops | gain | delay | lead |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(f"| {name} | {WAYS[track]} | {' | '.join(_cells(row))} |" for name, track, row in shown_rows),
    ]
    others = sorted({name for name, _, _ in shares} - {name for name, _, _ in shown_rows})
    lines += ["", f"Less than 1% is caught, and less than 1% stopped falsely, by: {', '.join(others)}."]
    lines += ["", f"| fault | runs | matched | {' | '.join(f'gain of {name}' for name in BY_CLASS)} |"]
    lines += [f"| --- | {' | '.join(['---:'] * (2 + len(BY_CLASS)))} |"]
    by_class = [{row.fault: row for row in results[name]["within"]} for name in BY_CLASS]
    for fault, row in by_class[0].items():
        if fault != ALL:
            gains = " | ".join(shown(rows[fault].gain) for rows in by_class)
            lines.append(f"| {fault.replace('_', ' ')} | {row.n_faults} | {row.n_matched} | {gains} |")
    return "\n".join(lines) + "\n"


def _distinct(rows: Sequence[tuple[str, Track, FaultRow]]) -> Iterator[tuple[str, Track, FaultRow]]:
    """The rows, without that of a rule which has nothing to choose and so stops the same runs in both ways."""
    known: set[tuple[str, FaultRow]] = set()
    for name, track, row in rows:
        if (name, row) not in known:
            known.add((name, row))
            yield name, track, row


def _cells(row: FaultRow) -> list[str]:
    steps = ["" if value is None else f"{value:g}" for value in (row.delay, row.lead)]
    early = "" if row.early.value is None else percent_of(row.early.value)
    return [early, shown(row.caught), shown(row.matched), shown(row.gain), *steps]


def _value(figure: Figure) -> float:
    return -1.0 if figure.value is None else figure.value


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    given = parser.parse_args()
    text = tables_of(measure())
    if given.write:
        PAGE.write_text(_TABLE.sub(lambda _: text, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
