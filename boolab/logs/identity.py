"""What makes two responses, and two runs, of logs the same: ids, and where there are none, content, place and time.

A run is compared by `RunDigests`: a few digests for each of its steps, which are all that is kept of it. Its texts are
not. Digests are those of this process.

- A response has the id of its provider. If that was made so that no other is like it, it decides. So do the ids of its
  calls, if all of them were. A shorter one, such as `msg_1`, decides with the content, if no times contradict.
- Without ids, responses are the same if their content is, at the same place of the run and at the same time. So are
  runs with ids of their own, if that holds for all of their steps.
- Without ids and times a copy and a repeat are alike: then only files with the same bytes hold the same runs.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from boolab.core.run import Run
from boolab.core.types import Step, ToolCall

_UNIQUE: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:[0-9]{10,}(?![A-Za-z0-9])|(?=[A-Za-z0-9]{8})(?=[0-9]*[A-Za-z])(?=[A-Za-z]*[0-9][A-Za-z]*[0-9]))"
)
"""The digits of a time, or at least eight letters and digits, two of them digits."""
_ABSENT: Final = 0
_UNKNOWN: Final = -1
_SOON: Final = 8
"""How many steps are the beginning of a run."""
_MAX_MS: Final = 2**60
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def is_unique(name: str) -> bool:
    """Whether an id was made so that no other is like it: it has a random part, or a time. A counter is none."""
    return _UNIQUE.search(name) is not None


class RunDigests(NamedTuple):
    """Digests of a run, with one entry for each step; 0 for an id that it does not have, -1 for an unknown time."""

    ids: array[int]  # of the ids that no other response has: its own, or those of its calls
    names: array[int]  # of other ids of the response
    contents: array[int]  # of the text and the calls
    starts: array[int]  # when it was requested, in milliseconds since 1970
    ends: array[int]  # when it was complete
    figures: int  # of all that facts keep of the steps: usage, times and numbers of calls
    prompt: int  # of the messages before the first step
    texts: int  # of all texts, where the steps have neither ids nor times; else 0
    began: int  # when the run began

    def began_with(self, other: RunDigests) -> bool | None:
        """Whether two runs began at the same time; None where it is not known."""
        return None if _UNKNOWN in (self.began, other.began) else self.began == other.began

    def is_at_times_of(self, other: RunDigests) -> bool:
        """Whether two runs have the same prompt and the same times, of which there are several."""
        times = {*self.starts, *self.ends} - {_UNKNOWN}
        same_times = self.starts == other.starts and self.ends == other.ends and self.began == other.began
        return len(times) > 1 and _UNKNOWN not in self.times and same_times and self.prompt == other.prompt

    def sought(self, keys: Sequence[int]) -> list[int]:
        """The keys by which an origin of the run is sought that no log names.

        Without unique ids a step with the same name and content is the same at the same time only, which has a key of
        its own, or where one of the two times is not known.
        """
        if not self.names or not self.names[0] or self.starts[0] == _UNKNOWN or any(self.ids):
            return [*keys]
        name = hash(("name", self.names[0], self.contents[0]))
        return [_untimed_key(key) if key == name else key for key in keys]

    def digest(self) -> int:
        """A digest of all of them."""
        return hash((*(values.tobytes() for values in self[:5]), *self[5:]))

    @property
    def n_steps(self) -> int:
        """How many steps the run has."""
        return len(self.ids)

    @property
    def times(self) -> list[int]:
        """The time of each step: when it was requested, else when it was complete."""
        return [start if start != _UNKNOWN else end for start, end in zip(self.starts, self.ends, strict=True)]

    def keys(self, step: int = 0) -> Iterator[int]:
        """What a copy of this step has too, at least one of them."""
        return _keys(self.ids[step], self.names[step], self.contents[step], self.starts[step], self.ends[step])


def first_keys(run: Run) -> list[int]:
    """The keys of a run's beginning: of its first step, and of the first one of the next few whose ids are unique."""
    began = None if run.started_at is None else _epoch_ms(run.started_at)
    keys: list[int] = []
    for index, step in enumerate(run.steps[:_SOON]):
        digests = _step_digests(step, began)
        if digests[0] or not index:
            keys += _keys(*digests)
        if digests[0]:
            break
    return keys


def _untimed_key(key: int) -> int:
    return hash(("untimed", key))


def _keys(unique: int, name: int, content: int, start: int, end: int) -> Iterator[int]:
    if unique:
        yield hash(("id", unique))
    if name:
        key = hash(("name", name, content))
        yield key
        if start == _UNKNOWN:
            yield _untimed_key(key)
    for time in (start, end):
        if time != _UNKNOWN:
            yield hash(("time", content, time))


def _step_digests(step: Step, began: int | None) -> tuple[int, int, int, int, int]:
    """The digests of one step: of its unique id, another id, and its content; its start and its end."""
    start, duration, response = step.start_ms, step.model_ms, step.response
    calls, id_ = response.tool_calls, response.id
    unique = name = _ABSENT
    if id_ and is_unique(id_):
        unique = hash(id_)
    else:
        unique = _calls_ids(calls) if calls else _ABSENT
        name = hash(id_) if id_ else _ABSENT
    content = hash((response.text, *[call[1:] for call in calls]) if calls else response.text)
    if began is None or start is None or abs(start) + abs(duration or 0) >= _MAX_MS:
        return unique, name, content, _UNKNOWN, _UNKNOWN
    return unique, name, content, began + start, _UNKNOWN if duration is None else began + start + duration


def digests_of(run: Run) -> RunDigests:
    """The digests of a run."""
    began = None if run.started_at is None else _epoch_ms(run.started_at)
    columns = zip(*[_step_digests(step, began) for step in run.steps], strict=True) if run.steps else [()] * 5
    ids, names, contents, starts, ends = [array("q", column) for column in columns]
    figures = [
        (step.start_ms, step.duration_ms, step.response.usage, len(step.response.tool_calls)) for step in run.steps
    ]
    prompt = hash(run.prompt)
    texts = _ABSENT
    if not any(ids) and not any(names) and starts.count(_UNKNOWN) == len(starts):
        results = [result and result.content for result in chain.from_iterable([step.results for step in run.steps])]
        texts = hash((prompt, run.inputs, *contents, *results))
    return RunDigests(
        ids,
        names,
        contents,
        starts,
        ends,
        hash(tuple(figures)),
        prompt,
        texts,
        _UNKNOWN if began is None else began,
    )


def _epoch_ms(time: datetime) -> int:
    return round(((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH).total_seconds() * 1000)


def _calls_ids(calls: Sequence[ToolCall]) -> int:
    """A digest of calls with their ids; 0 unless all of these are unique."""
    for call in calls:
        if not is_unique(call.id):
            return _ABSENT
    return hash(calls)


class Shared(NamedTuple):
    """How many steps two runs share, from a place of the one and from the beginning of the other.

    `certain` is whether unique ids show it, `known` whether ids or times do.
    """

    steps: int
    certain: bool = False
    known: bool = False


def shared_steps(
    digests: RunDigests, start: int, other: RunDigests, *, related: bool = False, grows: bool = False
) -> Shared:
    """How many steps from place `start` on are the first ones of the other run.

    `start`: the place, from 0. `related`: whether the log has it that one began with the history of the other: then its
    content is enough. `grows`: whether both are of one session: then the last response of the shorter one may be a part
    of the other's.
    """
    length = min(digests.n_steps - start, other.n_steps)
    rewritten = related or _times_are_rewritten(digests, start, other, length)
    certain = is_known = False
    for index in range(length):
        id_, other_id = digests.ids[start + index], other.ids[index]
        if id_ and other_id:
            if id_ != other_id:
                return Shared(index, certain, is_known)
            certain = is_known = True
            continue
        name, other_name = digests.names[start + index], other.names[index]
        if digests.contents[start + index] != other.contents[index]:
            same_start = _UNKNOWN != digests.starts[start + index] == other.starts[index]
            if not (grows and same_start and name == other_name and index == length - 1):
                return Shared(index, certain, is_known)
        if name and other_name and name != other_name:
            return Shared(index, certain, is_known)
        same_time = _same_time(digests, start + index, other, index)
        if same_time is False and not rewritten:
            return Shared(index, certain, is_known)
        is_known = is_known or related or same_time is True or (same_time is None and bool(name and other_name))
    return Shared(length, certain, is_known)


def _times_are_rewritten(digests: RunDigests, start: int, other: RunDigests, length: int) -> bool:
    """Whether a step that is the same by its ids has another time: then the harness wrote new ones into the copy."""
    matches = (index for index in range(length) if other.ids[index] and digests.ids[start + index] == other.ids[index])
    return any(_same_time(digests, start + index, other, index) is False for index in matches)


def _same_time(digests: RunDigests, index: int, other: RunDigests, other_index: int) -> bool | None:
    """Whether two steps have the same time; None where it is not known."""
    pairs = ((digests.starts[index], other.starts[other_index]), (digests.ends[index], other.ends[other_index]))
    comparisons = [time == other_time for time, other_time in pairs if _UNKNOWN not in (time, other_time)]
    return any(comparisons) if comparisons else None
