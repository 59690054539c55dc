"""The track of faults: whether an entry stops runs after a recorded fault, and not before it or without one.

The runs have the settings `fault`, the class of the fault, and `fault_step`, the first step that had it, from 1; runs
without a fault have neither. A run of n steps with a fault at step f is

- stopped *early* if an entry stops it after step k < f: the fault was not there yet,
- *caught* if f <= k < n; its *delay* is k - f steps, its *lead time* the n - k steps that were not taken.

A rule on length alone stops many runs after step f, whatever is in them. So each run with a fault is compared with the
runs without one of the same corpus, the same model and the same number of steps: the share of those that the entry
stops after a step from f to n - 1 is its share of *false stops at matched length*. The gain is the share caught less
that share. Runs with a fault that no such run matches are left out, and counted.

No outcome is used: a fault says that something went wrong, and not that the run failed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from benchmarks.stoprulebench.entries import Entry
from benchmarks.stoprulebench.first_stops import NEVER, RuleTables
from benchmarks.stoprulebench.judge import held_out_stops
from benchmarks.stoprulebench.metrics import Figure
from benchmarks.stoprulebench.recordings import Floats, Recordings, recordings_of
from benchmarks.stoprulebench.terminal import shown
from benchmarks.stoprulebench.tracks import Track
from boolab.core.run import Run
from boolab.core.text import clean, count
from boolab.display.text import align_columns
from boolab.errors import SettingError
from boolab.whatif.step_table import Flags, Ints

FAULT: Final = "fault"
FAULT_STEP: Final = "fault_step"
CORPUS: Final = "corpus"
ALL: Final = "all"
"""The row for all classes of faults together."""


class FaultRow(NamedTuple):
    """How an entry does on one class of faults; shares with 95% intervals over tasks.

    Attributes:
        fault: The class, or `all`.
        n_faults: Runs with such a fault.
        n_matched: Those that runs without a fault match: the shares are over these.
        early: The share that is stopped before the fault.
        caught: The share that is stopped after it.
        matched: The share of false stops at matched length.
        gain: `caught` less `matched`.
        delay: The median number of steps from the fault to the stop; None if none is caught.
        lead: The median number of steps that were not taken; None if none is caught.
    """

    fault: str
    n_faults: int
    n_matched: int
    early: Figure
    caught: Figure
    matched: Figure
    gain: Figure
    delay: float | None
    lead: float | None


def recordings_with_faults(runs: Sequence[Run], name: str) -> Recordings:
    """The recordings of runs with and without faults; one without is what an entry is to keep.

    Args:
        runs: The runs. Their outcomes, if they have any, are not used.
        name: What the data are called.

    Raises:
        SettingError: if no run has a fault, or all have one, or the step of a fault is none of its run's.
    """
    for run in runs:
        step = run.settings.get(FAULT_STEP)
        if has_fault(run) and not (isinstance(step, int) and 1 <= step <= len(run.steps)):
            raise SettingError(
                f"{name}: run {run.run_id!r} has the fault {run.settings[FAULT]!r} at step {step!r}: expected the "
                f"setting {FAULT_STEP!r} to be one of its steps, from 1 to {len(run.steps)}"
            )
    if not any(map(has_fault, runs)) or all(map(has_fault, runs)):
        what = "all have" if any(map(has_fault, runs)) else "none has"
        raise SettingError(
            f"{name}: of {count(len(runs), 'run')} {what} the setting {FAULT!r}: expected some with it and others "
            "without a fault to compare them with, such as atlas/sentinel-faults"
        )
    return recordings_of([replace(run, success=not has_fault(run)) for run in runs], name)


def has_fault(run: Run) -> bool:
    """Whether the run has a recorded fault."""
    return run.settings.get(FAULT) is not None


class FaultTrack:
    """Judges entries by recorded faults. All entries are judged on the same samples of tasks.

    Args:
        data: What `recordings_with_faults` returns.
    """

    def __init__(self, data: Recordings) -> None:
        self._data = data
        faulty = ~data.success
        self._faulty, self._sound = np.flatnonzero(faulty), np.flatnonzero(~faulty)
        self._step = np.array([data.runs[place].settings[FAULT_STEP] for place in self._faulty], dtype=np.int64)
        self._fault = np.array([str(data.runs[place].settings[FAULT]) for place in self._faulty], dtype=object)
        keys = [(run.settings.get(CORPUS), run.model, len(run.steps)) for run in data.runs]
        number = {key: n for n, key in enumerate(dict.fromkeys(keys))}
        cell = np.array([number[key] for key in keys])
        self._matches: Flags = cell[self._faulty][:, None] == cell[self._sound]
        self._weights = self._draw_tasks()

    def _draw_tasks(self) -> Floats:
        """How often each run is in each sample of tasks, runs x samples; the first sample has each run once."""
        data = self._data
        tasks, task = np.unique(data.task, return_inverse=True)
        rng = np.random.default_rng(data.fixed.seed)
        drawn = rng.multinomial(len(tasks), np.full(len(tasks), 1 / len(tasks)), size=data.fixed.repetitions)
        return np.vstack([np.ones(len(tasks)), drawn]).T[task]

    def judge(self, entry: Entry) -> dict[Track, list[FaultRow]]:
        """The rows of an entry without training, and chosen on other tasks, as far as it can be judged in these ways.

        Chosen means: so that 95% of the runs without a fault of the other tasks are kept.
        """
        data = self._data
        prepared = entry.prepare(data, RuleTables(data.runs, entry.settings))
        tracks: list[Track] = ["none", "within"]
        return {
            track: list(self._rows(held_out_stops(prepared, data, track)[0][0]))
            for track in tracks
            if prepared.enters(track)
        }

    def _rows(self, stops: Ints) -> Iterator[FaultRow]:
        stop, length, step = stops[self._faulty], self._data.lengths[self._faulty], self._step
        stopped = stop != NEVER
        early, caught = stopped & (stop < step), stopped & (stop >= step)
        sound_stop = stops[self._sound]
        within = (sound_stop != NEVER) & (sound_stop >= step[:, None])
        weight, of_sound = self._weights[self._faulty], self._weights[self._sound]
        n_matching = self._matches @ of_sound
        false_share = np.divide(
            (self._matches & within) @ of_sound, n_matching, out=np.zeros_like(n_matching), where=n_matching > 0
        )
        weight = weight * (n_matching > 0)
        counts = Counter(self._fault.tolist())
        for name in (ALL, *sorted(counts)):
            rows = np.ones(len(step), dtype=bool) if name == ALL else self._fault == name
            total = weight[rows].sum(axis=0)
            of_early, of_caught, of_false = [
                np.divide((weight * values)[rows].sum(axis=0), total, out=np.full(len(total), np.nan), where=total > 0)
                for values in (early[:, None], caught[:, None], false_share)
            ]
            hit = rows & caught & (n_matching[:, 0] > 0)
            yield FaultRow(
                fault=name,
                n_faults=int(rows.sum()),
                n_matched=int((n_matching[rows, 0] > 0).sum()),
                early=_figure(of_early),
                caught=_figure(of_caught),
                matched=_figure(of_false),
                gain=_figure(of_caught - of_false),
                delay=float(np.median((stop - step)[hit])) if hit.any() else None,
                lead=float(np.median((length - stop)[hit])) if hit.any() else None,
            )


def _figure(values: Floats) -> Figure:
    """The value, and its interval by the samples."""
    if np.isnan(values[0]):
        return Figure(None, None, None)
    low, high = np.nanpercentile(values[1:], (2.5, 97.5))
    return Figure(float(values[0]), float(low), float(high))


WAYS: Final[dict[str, str]] = {"none": "no training", "within": "chosen on other tasks"}
"""What the tracks in which entries are judged are called here."""


def headline(data: Recordings) -> Iterator[str]:
    """What is judged on."""
    n_faults = int((~data.success).sum())
    yield (
        f"{data.fixed.benchmark} {data.fixed.version}, faults, on {clean(data.name)}: {count(n_faults, 'run')} with a "
        f"recorded fault and {len(data.runs) - n_faults:,} without one"
    )


def lines_of(name: str, results: dict[Track, list[FaultRow]]) -> Iterator[str]:
    """The name of an entry, and a row for each class of faults, in percent of its matched runs."""
    shown_rows: list[list[FaultRow]] = []
    for track, rows in results.items():
        if rows in shown_rows:  # a rule without anything to choose stops the same runs in both
            continue
        shown_rows.append(rows)
        yield f"{clean(name)}, {WAYS[track]}"
        head = ["fault, in percent", "runs", "matched", "early", "caught", "false stops", "gain", "delay", "lead"]
        yield from align_columns([head, *map(_cells, rows)])


def as_json(data: Recordings, results: dict[str, dict[Track, list[FaultRow]]]) -> str:
    """The rows of all entries as a JSON document."""
    entries = {
        name: {track: [row._asdict() for row in rows] for track, rows in tracks.items()}
        for name, tracks in results.items()
    }
    about = {"benchmark": data.fixed.benchmark, "version": data.fixed.version, "track": "faults", "data": data.name}
    return json.dumps({**about, "entries": entries}, indent=1) + "\n"


def _cells(row: FaultRow) -> list[str]:
    steps = ["-" if value is None else f"{value:g}" for value in (row.delay, row.lead)]
    shares = map(shown, (row.early, row.caught, row.matched, row.gain))
    return [row.fault.replace("_", " "), f"{row.n_faults:,}", f"{row.n_matched:,}", *shares, *steps]
