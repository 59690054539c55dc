"""The lists of stops as entries of the stop benchmark, with what a reader should know of each package."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.environments import REQUIREMENTS, ROOT
from benchmarks.stop_peers.entries import ENTRIES, Entry
from benchmarks.stoprulebench.entries import ListEntry
from benchmarks.stoprulebench.stop_list import read_stops
from benchmarks.stoprulebench.submission import Figures, Submission, file_stem, read_submission

SUBMISSIONS: Final = ROOT / "docs" / "leaderboard"
PAGE: Final = ROOT / "docs" / "stop_packages.md"
_TABLE: Final = re.compile(r"(?<=<!-- table: made by make stop-peers -->\n\n)(\|[^\n]*\n)*")


def pinned(package: str) -> str:
    """The version of a package that its environment has."""
    lines = (REQUIREMENTS / f"{package}.txt").read_text(encoding="utf-8").split()
    return next(line.split("==")[1] for line in lines if line.startswith(f"{package}=="))


def name_of(entry: Entry) -> str:
    """The name of a package's entry on the leaderboard."""
    return f"{entry.package} {pinned(entry.package)}"


def entered(entry: Entry, path: Path) -> ListEntry:
    """A package's list of stops as an entry.

    Args:
        entry: The package.
        path: Its list of stops.

    Raises:
        FileError: if the list is not there or not as it should be.
    """
    listed = read_stops(path)
    changed = f" Not as its default: {entry.changed}." if entry.changed else ""
    about = replace(
        listed.about,
        name=name_of(entry),
        authors=entry.authors,
        description=f"Stops a run after {entry.stops}.{changed}",
        url=entry.url,
    )
    return replace(listed, about=about)


def submission_of(entry: Entry) -> Submission:
    """The submission of a package.

    Raises:
        FileError: if it is not there or not as it should be.
    """
    return read_submission(SUBMISSIONS / f"{file_stem(name_of(entry))}.json")


def with_table(page: str) -> str:
    """The page with the table of the track within a set, made of the submissions."""
    tracks = [submission_of(entry).tracks["within"] for entry in ENTRIES]
    lines = [["set", *(name_of(entry) for entry in ENTRIES)], ["-"] * (1 + len(ENTRIES))]
    lines += [[name, *(_cell(track.sets[name]) for track in tracks)] for name in tracks[0].sets]
    lines.append(["mean of the sets", *(_cell(track.mean) for track in tracks)])
    lines.append(["score", *(f"{100 * (track.mean.score.value or 0):.1f}%" for track in tracks)])
    return _TABLE.sub("".join(f"| {' | '.join(line)} |\n" for line in lines), page)


def _cell(figures: Figures) -> str:
    return f"{100 * (figures.kept.value or 0):.1f}%, {100 * (figures.saved_steps.value or 0):.1f}%"
