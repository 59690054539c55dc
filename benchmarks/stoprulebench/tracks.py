"""The tracks: what an entry may be chosen or fitted on, and on which runs it is judged.

| track    | trained on                                             | judged on                              |
|----------|--------------------------------------------------------|----------------------------------------|
| `within` | the other folds of the set                             | one fold, in turn                      |
| `model`  | the other models of the set, on the other folds        | one model on one fold, in turn         |
| `set`    | the other sets, without those that have the same tasks | one set, in turn                       |
| `none`   | nothing: thresholds are fixed beforehand               | everything                             |
| `hidden` | all open sets                                          | sets whose runs are not published      |

In each track each run is judged once, by what was trained without its task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from benchmarks.stoprulebench.recordings import Recordings
from boolab.whatif.step_table import Flags, Ints

Track: TypeAlias = Literal["within", "model", "set", "none", "hidden"]

TRACKS: Final[dict[Track, str]] = {
    "within": "within a set",
    "model": "new model",
    "set": "new set",
    "none": "no training",
}
"""The open tracks, and what they are called."""

HIDDEN: Final[Track] = "hidden"
TRACK_NAMES: Final[dict[Track, str]] = {**TRACKS, HIDDEN: "hidden sets"}
"""All tracks, and what they are called."""


class Part(NamedTuple):
    """One split: which cells are trained on, and which are judged. No cell is in both, and no task.

    `tune` are the cells among those of `train` that a threshold on a fitted score is chosen on: a fold of its own.
    """

    track: Track
    train: Flags
    test: Flags
    tune: Flags


def parts_of(data: Recordings, track: Track) -> Iterator[Part]:
    """The splits of a track; none where the data do not allow it, such as a new model where there is but one."""
    fold = np.array([cell.fold for cell in data.cells])
    if track == "none":
        nothing = np.zeros(len(data.cells), dtype=bool)
        yield Part(track, nothing, ~nothing, nothing)
    elif track == HIDDEN:
        judged = np.array([cell.set_name in data.hidden for cell in data.cells])
        if judged.any():
            yield Part(track, ~judged, judged, ~judged & (fold == data.fixed.folds - 1))
    else:
        yield from _by_set(data, track, fold)


def _by_set(data: Recordings, track: Track, fold: Ints) -> Iterator[Part]:
    set_of = data.set_of_cell
    model = np.array([cell.model for cell in data.cells], dtype=object)
    folds = data.fixed.folds
    for number, name in enumerate(data.sets):
        here = set_of == number
        if track == "set":
            near = data.fixed.sharing_tasks(name)
            others = np.array([cell.set_name not in near for cell in data.cells])
            if others.any():
                yield Part(track, others, here, others & (fold == folds - 1))
            continue
        models = sorted(set(model[here])) if track == "model" else [None]
        if track == "model" and len(models) < 2:
            continue
        for one in models:
            mine = here if one is None else here & (model == one)
            others = here if one is None else here & (model != one)
            for held in range(folds):
                test, train = mine & (fold == held), others & (fold != held)
                if test.any():
                    yield Part(track, train, test, train & (fold == (held + 1) % folds))
