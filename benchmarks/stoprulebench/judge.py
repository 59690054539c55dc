"""Judges entries: after which step each stops the runs of each split, and the figures that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version

import numpy as np

from benchmarks.stoprulebench.entries import Entry, Prepared
from benchmarks.stoprulebench.first_stops import NEVER, RuleTables, Stops
from benchmarks.stoprulebench.metrics import Samples, SetWeights, mean_of
from benchmarks.stoprulebench.recordings import Floats, Recordings
from benchmarks.stoprulebench.submission import (
    N_SCORES,
    PER_SCORE,
    DataSource,
    Figures,
    FixedSplits,
    SetResult,
    Submission,
    TrackResult,
)
from benchmarks.stoprulebench.tracks import HIDDEN, TRACKS, Track, parts_of
from boolab.errors import SettingError


def judge(
    entries: Sequence[Entry],
    data: Recordings,
    *,
    progress: Callable[[str], None] = lambda _: None,
    failed: Callable[[str, Exception], object] | None = None,
) -> Iterator[Submission]:
    """The submission of each entry, one after the other: in all open tracks, or in the hidden one if a set is hidden.

    Args:
        entries: The entries. The detectors of all their rules are counted in one pass over the runs.
        data: The recordings.
        progress: Called with the name of each entry before it is judged.
        failed: Called with the name of an entry that raises an error, and the error; the others are judged all the
            same. By default the error is raised.

    Raises:
        SettingError: if an entry can be judged in no track, or a function gives something that is no answer.
    """
    tables = RuleTables(data.runs, [setting for entry in entries for setting in entry.settings])
    weights = [SetWeights(data, number) for number in range(len(data.sets))]
    splits = data.digest()
    tracks: Sequence[Track] = [HIDDEN] if data.hidden else list(TRACKS)
    for entry in entries:
        progress(entry.about.name)
        try:
            prepared = _prepare(entry, data, tables)
            found = {track: _track(prepared, data, weights, track) for track in tracks if prepared.enters(track)}
        except Exception as error:
            if failed is None:
                raise
            failed(entry.about.name, error)
            continue
        about = entry.about
        yield Submission(
            benchmark="StopRuleBench",
            version=data.fixed.version,
            boolab=version("boolab"),
            name=about.name,
            authors=about.authors,
            description=about.description,
            url=about.url,
            kind=entry.kind,
            definition=about.definition,
            keep=data.fixed.keep,
            data=DataSource(
                name=data.name,
                files={file.name: file.sha256 for file in data.files},
                n_runs=len(data.runs),
                n_steps=int(data.lengths.sum()),
            ),
            splits=FixedSplits(version=data.fixed.version, sha256=splits),
            tracks={track: result for track, result in found.items() if result is not None},
        )


def _prepare(entry: Entry, data: Recordings, tables: RuleTables) -> Prepared:
    if data.hidden and entry.kind == "csv":
        msg = f"{entry.about.name}: a list of stops needs the runs: hidden sets judge rules and functions"
        raise SettingError(msg)
    return entry.prepare(data, tables)


def held_out_stops(prepared: Prepared, data: Recordings, track: Track) -> tuple[Stops, np.ndarray]:
    """After which step an entry stops each run that a track judges, levels x R, and which runs it judges."""
    stops = np.full((1 + len(data.fixed.levels), len(data.runs)), NEVER, dtype=np.int32)
    judged = np.zeros(len(data.runs), dtype=bool)
    for part in parts_of(data, track):
        rows = part.test[data.cell]
        stops[:, rows] = prepared.stops(part)
        judged |= rows
    return stops, judged


def _track(prepared: Prepared, data: Recordings, weights: Sequence[SetWeights], track: Track) -> TrackResult | None:
    stops, judged = held_out_stops(prepared, data, track)
    samples: dict[str, Samples] = {}
    sets: dict[str, SetResult] = {}
    for name, kind, of_set in zip(data.sets, data.kinds, weights, strict=True):
        successes = int(data.success[of_set.rows].sum())
        if not judged[of_set.rows].all() or not successes:
            continue
        samples[name] = of_set.samples(stops[:, of_set.rows])
        sets[name] = SetResult(
            **samples[name].figures(),
            kind=kind,
            n_runs=len(of_set.rows),
            n_tasks=of_set.n_tasks,
            n_successes=successes,
            n_with_cost=int(data.has_cost[of_set.rows].sum()),
            scores=_parts(samples[name].values["score"][1 : 1 + N_SCORES]),
        )
    if not sets:
        return None
    kept = [one.kept.value for one in sets.values()]
    enough = sum(value is not None and value >= data.fixed.keep - 1e-9 for value in kept)
    mean = mean_of(samples.values(), data.fixed.seed_of_sets)
    return TrackResult(mean=Figures(**mean.figures()), sets_kept=enough, sets=sets)


def _parts(scores: Floats) -> tuple[int | None, ...]:
    return tuple(None if np.isnan(score) else round(score * PER_SCORE) for score in scores.tolist())
