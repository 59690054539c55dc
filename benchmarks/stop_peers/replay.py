"""Feed recorded runs to a package; one that learns is given the training runs of each split of the benchmark first."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from benchmarks.environments import answer
from benchmarks.stop_peers.prefixes import Fed, without_results, write

ADAPTERS: Final = Path(__file__).parent / "adapters"
WITHIN_S: Final = 3_600.0

StopSteps: TypeAlias = dict[str, int | None]
"""After which step each run is stopped, by its id; None for one that is not stopped."""


class Part(NamedTuple):
    """One split: the runs that a package learns from, and those that it then watches."""

    training: Sequence[Fed]
    watched: Sequence[Fed]


def adapter_of(package: str) -> Path:
    """The script that feeds the package."""
    return ADAPTERS / f"{package.replace('-', '_')}_peer.py"


def replay(python: Path, adapter: Path, parts: Iterable[Part]) -> tuple[str, StopSteps]:
    """Replay runs.

    Args:
        python: The Python that has the package.
        adapter: The script that feeds it.
        parts: The splits. No run is watched twice.

    Returns:
        The version of the package, and the stops of all runs that were watched.

    Raises:
        Skipped: if the adapter fails or comes to no end.
    """
    version, stops = "", dict[str, int | None]()
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            asked = {
                "runs": str(write(part.watched, Path(folder) / "runs.jsonl")),
                "training": str(write(map(without_results, part.training), Path(folder) / "training.jsonl")),
            }
            answered = answer(python, adapter, asked, WITHIN_S)
        version = answered["version"]
        stops |= answered["stops"]
    return version, stops


def save(runs: Sequence[str], stops: dict[str, StopSteps], path: Path) -> None:
    """Write the list of stops that `boolab bench` reads: a row for each run and track.

    Args:
        runs: The ids of all runs. One that was not watched in a track is not stopped there.
        stops: The stops by track; the only track "" means that they hold for every track.
        path: The CSV file: `run_id`, `stop_step` and, where there are tracks, `track`.
    """
    tracks = list(stops) != [""]
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["run_id", "stop_step", "track"] if tracks else ["run_id", "stop_step"])
        for track, by_run in stops.items():
            for run in runs:
                step = by_run.get(run)
                rows.writerow([run, "" if step is None else step, *([track] if tracks else [])])
