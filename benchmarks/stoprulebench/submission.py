"""A submission: what `boolab bench` writes, and the leaderboard reads. Everything in it is checked when it is read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from benchmarks.stoprulebench.kinds import KINDS
from benchmarks.stoprulebench.metrics import FIGURES, Figure
from benchmarks.stoprulebench.tracks import TRACK_NAMES, Track
from boolab.errors import FileError
from boolab.io.files import read_file

MAX_BYTES: Final = 4 * 2**20
SCHEMA: Final = 2
N_SCORES: Final = 100
"""How many samples of the score of a set a submission has, for the intervals of ranks."""
PER_SCORE: Final = 100_000
"""Into how many parts a score is divided there."""

_Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Line = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataSource(_Strict):
    """The recordings: their name, their files with SHA-256, and how many runs and steps were judged."""

    name: _Name
    files: dict[_Name, _Hash]
    n_runs: _Count
    n_steps: _Count


class FixedSplits(_Strict):
    """The version of the splits, and the SHA-256 of the folds of the tasks."""

    version: _Count
    sha256: _Hash


class Figures(_Strict):
    """The figures of a set, or of a track: see `benchmarks.stoprulebench.metrics`."""

    score: Figure
    saved_steps: Figure
    saved_cost: Figure
    kept: Figure
    area: Figure

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        for name in FIGURES:
            figure: Figure = getattr(self, name)
            known = [value for value in figure if value is not None]
            if any(not 0 <= value <= 1 for value in known):
                msg = f"{name} is {list(figure)}: expected shares between 0 and 1"
                raise ValueError(msg)
        return self


class SetResult(Figures):
    """The figures of a set, and on how much they rest.

    `n_with_cost` is over how many runs `saved_cost` is. `scores` is the score in the first samples of the tasks, in
    parts of 100,000; null where a sample has no success. All submissions have the same samples.
    """

    kind: str
    n_runs: _Count
    n_tasks: _Count
    n_successes: _Count
    n_with_cost: _Count
    scores: Annotated[
        tuple[Annotated[int, Field(ge=0, le=PER_SCORE)] | None, ...], Field(min_length=N_SCORES, max_length=N_SCORES)
    ]

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.kind not in KINDS:
            msg = f"kind is {self.kind!r}: expected one of {', '.join(KINDS)}"
            raise ValueError(msg)
        return self


class TrackResult(_Strict):
    """The figures of a track: the means over its sets, and each set.

    `sets_kept` is in how many sets at least the share `keep` of the successes was kept.
    """

    mean: Figures
    sets_kept: _Count
    sets: Annotated[dict[_Name, SetResult], Field(min_length=1)]

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.sets_kept > len(self.sets):
            msg = f"sets_kept is {self.sets_kept}: expected at most the number of sets, {len(self.sets)}"
            raise ValueError(msg)
        return self


class Submission(_Strict):
    """One entry with its figures."""

    benchmark: Literal["StopRuleBench"]
    schema_version: Literal[2] = SCHEMA
    version: _Count
    boolab: _Name
    name: _Name
    authors: _Line = ""
    description: _Line = ""
    url: Annotated[str, StringConstraints(max_length=300, pattern=r"^(https?://[^\s<>\"'()]+)?$")] = ""
    kind: Literal["rules", "function", "csv", "scale"]
    definition: Annotated[str, StringConstraints(max_length=20_000)] = ""
    keep: Annotated[float, Field(gt=0, lt=1)]
    data: DataSource
    splits: FixedSplits
    tracks: Annotated[dict[Track, TrackResult], Field(min_length=1)]

    @property
    def file_name(self) -> str:
        """The name of its file: the name of the entry in small letters, digits and hyphens."""
        return f"{file_stem(self.name)}.json"


def file_stem(name: str) -> str:
    """A name as the beginning of a file name.

    Example:
        >>> file_stem("K95: a cap, chosen (Ü)")
        'k95-a-cap-chosen'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "entry"


def as_json(submission: Submission) -> str:
    """The text of a submission's file: the same for the same submission."""
    values = submission.model_dump(mode="json")
    values["tracks"] = {track: values["tracks"][track] for track in TRACK_NAMES if track in values["tracks"]}
    text = json.dumps(values, indent=1, ensure_ascii=False)
    # A figure takes one line: a value and its interval belong together, and a file is read by people too.
    return re.sub(r'\[\n([^][{}"]*)\]', lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def read_submission(path: str | Path) -> Submission:
    """Read and check a submission.

    Args:
        path: The file.

    Returns:
        The submission.

    Raises:
        FileError: if it cannot be read, or something in it is missing, unknown or out of range; the message names it.
    """
    try:
        return Submission.model_validate_json(read_file(path, MAX_BYTES))
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", path=path) from error
    except ValidationError as error:
        first, *more = error.errors(include_url=False)
        place = ".".join(map(str, first["loc"])) or "the file"
        others = f" (and {len(more)} more)" if more else ""
        raise FileError(f"{place}: {first['msg']}{others}; expected a file of `boolab bench`", path=path) from error
