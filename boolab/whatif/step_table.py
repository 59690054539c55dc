"""Recordings as columns: what each step used, and the counters after it.

Counterfactuals read a `Ledger`. `from_runs` makes it of runs, `from_frame` of a frame with a row per step
(`recording_df`), which is also the content of a Parquet file of recordings larger than memory.

A counter is counted within its *scope*: again in each turn (as an interactive harness's cap), or through the whole run
(as a benchmark's). `boundary` marks the steps after which rules are evaluated: within a turn every step but a final
text; where the scope is the run, every step that another one follows. Unknown is -1 in here, and NA outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.core.run_tree import Kin, Start, kin_of
from boolab.core.types import Scope
from boolab.errors import SettingError
from boolab.frames.dtypes import text
from boolab.frames.recording import PARENT
from boolab.limits.detector import Detector
from boolab.logs.log_files import scope_of

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

UNKNOWN: Final = -1
ELAPSED: Final = "elapsed"
"""The counter of time, and what each step took where `with_time` adds it to what is used."""
UNKNOWN_PEAK: Final = np.iinfo(np.int64).max
"""The peak of a counter that is not known: see `Ledger.peak`."""
LABEL, PROXY, TURN_PROXY = "label", "run ended by itself", "turn ended by itself"
"""What a success is: a label, or, where a run has none, that the record ended by itself and its last response came to
its end: see `boolab.core.endings`."""
UnitNoun: TypeAlias = Literal["run", "turn"]
"""What is counted as one; the column `unit` of each frame has it."""


def unit_of(turns: npt.ArrayLike) -> UnitNoun:
    """What is counted as one: the turn, where some run has several of them; else the run, which is the same there.

    `turns`: the number of each unit's turn, or of each step's, within its run; 1 where turns are not counted.
    """
    return "turn" if np.any(np.asarray(turns) > 1) else "run"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Recordings as columns. R runs, N steps, in order."""

    runs: pd.DataFrame  # r rows: `run_id` and the columns that separate groups; `scope` is "turn" or "run"
    first: Ints  # r + 1 offsets: the steps of run r are `first[r]` to `first[r + 1]`
    turn: Ints  # N: the number of each step's turn
    span: Ints  # N: the part of the run within which the step is counted: its turn, or 1 where the scope is the run
    boundary: Flags  # N: whether rules are evaluated after the step
    complete: Flags  # N: whether the step was completed: a boundary follows it, or its calls ended the run
    counted: Flags  # N: whether limits count the step: see `Step.counted`
    final: Flags  # N: whether the step requests no tools, so that its turn ends with it if nothing follows
    answered: Flags  # N: whether a turn that ends with this step counts as a success where there is no label
    judged: Ints  # N: the label of the step's turn: 1, 0, or -1 where it has none of its own
    ended: Flags  # R: whether nothing follows: it terminated, or its own limits stay in force (see `apply_own_limits`)
    terminated: Flags  # R: whether it ended by itself, so that no looser limit would have changed it
    success: Ints  # R: 1, 0, or -1 where it is not known
    reason: npt.NDArray[np.object_]  # R: the recorded stop reason; None where it is not known
    # n each: `tool_calls`, `tokens` and `cost` (micro-dollars) of the step; -1 where unknown. `asked`, where the source
    # has it: how many calls its response requested, -1 if it did not arrive
    used: Mapping[str, Ints]
    # n each: the counters after the step, by name; -1 where unknown. What an unknown one is at most is another, see
    # `bound_counter`
    counters: Mapping[str, Ints]
    success_by: str  # what `success` is: `LABEL` or `PROXY`, of turns `TURN_PROXY`; or see `by_label`
    # the subagents that each run, by its row, has started; see `kin`
    starts: Mapping[int, Sequence[Start]] = field(default_factory=dict)
    unit: Ints | None = None  # R, or None: which runs share one success, so that a stop of any of them loses it
    # R, or None for all alike: whether the run's success is a label, where others have the proxy. See `with_proxy`
    by_label: Flags | None = None
    by_turn: bool = False  # whether its runs are turns: see `split_spans`

    def kin(self) -> Kin | None:
        """Which run started which, and which subagents are not on record; None if there are none."""
        parents = self.runs.get(PARENT)
        if not self.starts and (parents is None or parents.isna().all()):
            return None
        ids = self.runs["run_id"].tolist()
        above = [None] * len(ids) if parents is None else parents.astype(object).where(parents.notna(), None).tolist()
        family = kin_of(ids, above, self.starts)
        return family if family.calls or family.missing else None

    def apply_own_limits(self) -> Ledger:
        """The same recordings with their own limits in force, to which a setting is added.

        A setting that fires no earlier than the recorded stop changes nothing. So no rule is evaluated after the last
        step of a span, nor at its response if its calls were not executed; and each record ends where it ended.
        """
        closes = self._closes()
        has_steps, last = last_steps(self.first)
        by_itself = self.final.copy()
        by_itself[last] = self.terminated[has_steps]
        amounts = self.used
        if "asked" in amounts:
            rejected = closes & ~by_itself & (amounts["tool_calls"] == 0)
            amounts = {**amounts, "asked": np.where(rejected, UNKNOWN, amounts["asked"])}
        return replace(self, boundary=self.boundary & ~closes, ended=np.ones(self.n_runs, dtype=bool), used=amounts)

    def with_proxy(self, runs: Flags) -> Ledger:
        """The same recordings, where the success of some runs is the proxy, whatever labels others have.

        The success of a family is its root's: that of a subagent whose parent is on record is not known.
        """
        if not runs.any():
            return self
        has_steps, last = last_steps(self.first)
        by_proxy = (self.reason == "synthesis").astype(np.int64)
        by_proxy[has_steps] = self.answered[last]
        kin = self.kin()
        if kin is not None:
            by_proxy = np.where(np.array(kin.parent) < 0, by_proxy, UNKNOWN)
        success = np.where(runs, by_proxy, self.success)
        if runs.all():
            return replace(self, success=success, success_by=PROXY)
        return replace(self, success=success, by_label=~runs)

    def with_time(self) -> Ledger:
        """The same recordings, in which what a step used has its time too: milliseconds since the step before it."""
        after = self.counters[ELAPSED]
        elapsed_before = np.where(self.opens(), 0, np.append(0, after[:-1])[: self.n_steps])
        durations = np.where((after < 0) | (elapsed_before < 0), UNKNOWN, np.maximum(after - elapsed_before, 0))
        return replace(self, used={**self.used, ELAPSED: durations})

    def success_kinds(self) -> npt.NDArray[np.object_]:
        """R: what the success of each run is: `LABEL` or the proxy."""
        if self.by_label is None:
            return np.full(self.n_runs, self.success_by, dtype=object)
        proxy = TURN_PROXY if self.by_turn else PROXY
        return np.array([proxy, LABEL], dtype=object)[self.by_label.astype(np.int64)]

    def opens(self) -> Flags:
        """N: whether the step is the first of its span."""
        return first_of_spans(self.span, self.first)

    def _closes(self) -> Flags:
        """N: whether the step is the last of its span."""
        return np.append(self.opens()[1:], True)[: self.n_steps]

    def spans(self) -> tuple[Ints, Ints]:
        """The offsets of the spans (one more than there are), and the run of each. A run without steps has one."""
        lengths = np.diff(self.first)
        run = np.repeat(np.arange(self.n_runs), lengths)
        starts = np.flatnonzero(self.opens())
        empty = np.flatnonzero(lengths == 0)
        starts_and_empty = np.concatenate((starts, self.first[empty]))
        owner = np.concatenate((run[starts], empty))
        order = np.lexsort((starts_and_empty, owner))
        return np.append(starts_and_empty[order], self.n_steps).astype(np.int64), owner[order]

    def peak(self, counter: str) -> Ints:
        """R: the largest value of a counter at a boundary, or of all of one `unit`; `UNKNOWN_PEAK` if unknown."""
        peak = np.zeros(self.n_runs, dtype=np.int64)
        boundary_steps = np.flatnonzero(self.boundary)
        counts = self.counters[counter][boundary_steps]
        run = np.searchsorted(self.first, boundary_steps, side="right") - 1
        np.maximum.at(peak, run, np.where(counts < 0, UNKNOWN_PEAK, counts))
        if self.unit is not None:
            of_units = np.zeros(int(self.unit.max(initial=-1)) + 1, dtype=np.int64)
            np.maximum.at(of_units, self.unit, peak)
            peak = of_units[self.unit]
        return peak

    def response_ledger(self) -> Ledger:
        """The same recordings at each response, before its calls are executed.

        Counters are as if the response were counted and all its calls executed; `boundary` is whether a response
        arrived. There are also `responses`, `tool_steps` and `supersteps`: see `Policy.response_rule`.

        Raises:
            SettingError: if the source does not have the number of requested calls.
        """
        if "asked" not in self.used:
            msg = (
                "a limit that is evaluated at the response needs all calls of each response: pass runs, or a frame "
                "made by bl.recording_df(runs)"
            )
            raise SettingError(msg)
        requested_calls, steps = self.used["asked"], self.counters["steps"] + ~self.counted
        counted_calls = self.used["tool_calls"] * self.counted
        calls = np.maximum(requested_calls, 0)
        has_calls = (calls > 0).astype(np.int64)
        counters = {
            **self.counters,
            "tool_calls": self.counters["tool_calls"] - counted_calls + calls,
            "responses": steps,
            "tool_steps": steps - 1 + has_calls,
            "supersteps": 2 * steps + has_calls,
        }
        return replace(self, boundary=requested_calls >= 0, counters=counters)

    @property
    def n_runs(self) -> int:
        """R."""
        return len(self.first) - 1

    @property
    def n_units(self) -> int:
        """How many units there are: the runs, or the families of which a unit has several runs."""
        return self.n_runs if self.unit is None else len(np.unique(self.unit))

    @property
    def n_steps(self) -> int:
        """N."""
        return int(self.first[-1])

    @property
    def has_mixed_scopes(self) -> bool:
        """Whether the counters of some runs start anew in each turn, and those of others do not."""
        return len(set(self.runs["scope"])) > 1

    def take(self, runs: slice | Flags | Ints) -> Ledger:
        """Some of the runs with their steps: a slice (without a copy), R flags, or rows in the order wanted."""
        lengths = np.diff(self.first)
        first = np.concatenate(([0], np.cumsum(lengths[runs])))
        if isinstance(runs, slice):
            start, stop, _ = runs.indices(self.n_runs)
            steps: slice | npt.NDArray[np.bool_ | np.int64] = slice(self.first[start], self.first[max(start, stop)])
        elif runs.dtype == bool:
            steps = np.repeat(runs, lengths)
        else:
            steps = np.arange(first[-1]) + np.repeat(self.first[runs] - first[:-1], lengths[runs])
        rows = np.arange(self.n_runs)[runs].tolist() if self.starts else []
        return replace(
            self,
            runs=self.runs.iloc[runs].reset_index(drop=True),
            first=first,
            **{name: getattr(self, name)[steps] for name in _STEP_ARRAYS},
            **{name: getattr(self, name)[runs] for name in _RUN_ARRAYS},
            used={name: column[steps] for name, column in self.used.items()},
            counters={name: column[steps] for name, column in self.counters.items()},
            starts={new: self.starts[old] for new, old in enumerate(rows) if old in self.starts},
            unit=None if self.unit is None else self.unit[runs],
            by_label=None if self.by_label is None else self.by_label[runs],
        )

    @classmethod
    def concat(cls, parts: Sequence[Ledger]) -> Ledger:
        """Several ledgers as one. There are labels if one of them has any."""
        if len(parts) == 1:
            return parts[0]
        labelled = LABEL in {part.success_by for part in parts}
        used_names = [name for name in parts[0].used if all(name in part.used for part in parts)]
        counters = [name for name in parts[0].counters if all(name in part.counters for part in parts)]
        success = [
            np.full(part.n_runs, UNKNOWN) if labelled and part.success_by != LABEL else part.success for part in parts
        ]
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in (*_STEP_ARRAYS, *_RUN_ARRAYS)
        }
        starts: dict[int, Sequence[Start]] = {}
        runs_before = 0
        for part in parts:
            starts |= {runs_before + row: of_row for row, of_row in part.starts.items()}
            runs_before += part.n_runs
        return cls(
            pd.concat([part.runs for part in parts], ignore_index=True),
            np.concatenate(([0], np.cumsum(np.concatenate([np.diff(part.first) for part in parts])))),
            **{**arrays, "success": np.concatenate(success)},
            used={name: np.concatenate([p.used[name] for p in parts]) for name in used_names},
            counters={name: np.concatenate([part.counters[name] for part in parts]) for name in counters},
            success_by=LABEL if labelled else PROXY,
            starts=starts,
            by_turn=any(part.by_turn for part in parts),
        )

    @property
    def judges_turns(self) -> bool:
        """Whether turns have labels of their own, as those of a session do that a person judged."""
        return bool((self._turn_labels() >= 0).any())

    def _turn_labels(self) -> Ints:
        """N: the label of the step's turn, where limits count by turn."""
        by_turn = np.repeat(self.runs["scope"].eq("turn").to_numpy(dtype=bool), np.diff(self.first))
        return np.where(by_turn, self.judged, UNKNOWN)

    def labelled_runs(self) -> Flags:
        """R: whether the run, or one of its turns, has a label."""
        labelled = np.zeros(self.n_runs, dtype=bool)
        labelled[np.repeat(np.arange(self.n_runs), np.diff(self.first))[self._turn_labels() >= 0]] = True
        return labelled | (self.success >= 0) if self.success_by == LABEL else labelled

    def split_spans(self, *, by_label: bool = False) -> Ledger:
        """Each span as a run of its own: each turn where counters start again in each, else the run.

        Its success is the proxy, or with `by_label` the label of the turn: one of a session judges the whole session. A
        run without steps has no spans. Call `apply_own_limits` afterwards, not before, so that each turn keeps its own
        end as well.
        """
        first, run = self.spans()
        has_steps = np.diff(first) > 0
        first, run = np.append(first[:-1][has_steps], first[-1]), run[has_steps]
        last = first[1:] - 1
        last_of_run = np.append(run[1:] != run[:-1], True) if len(run) else np.zeros(0, dtype=bool)
        return replace(
            self,
            runs=self.runs.iloc[run].reset_index(drop=True).assign(turn=self.turn[first[:-1]]),
            first=first,
            span=np.ones(self.n_steps, dtype=np.int64),
            ended=np.where(last_of_run, self.ended[run], self.final[last]),
            terminated=np.where(last_of_run, self.terminated[run], self.final[last]),
            success=self._labels_of_spans(first, run) if by_label else self.answered[last].astype(np.int64),
            reason=np.where(last_of_run, self.reason[run], finished_reasons(self.final[last])),
            success_by=LABEL if by_label else TURN_PROXY if unit_of(self.span) == "turn" else PROXY,
            by_label=None,
            starts={},
            by_turn=unit_of(self.span) == "turn",
        )

    def split_judged(self) -> Ledger:
        """Each turn as a run of its own where turns have labels; itself where none has.

        Call `apply_own_limits` afterwards, as after `split_spans`. `SettingError` where subagents are on record.
        """
        if not self.judges_turns:
            return self
        if self.kin() is not None:
            msg = (
                "turns have labels of their own, and these runs have subagents, whose turns only recommend finds: use "
                "bl.recommend, or scope='run'"
            )
            raise SettingError(msg)
        return self.take(np.diff(self.first) > 0).split_spans(by_label=True)

    def _labels_of_spans(self, first: Ints, run: Ints) -> Ints:
        """The label of each span: of its turn, or, where it is its whole run, of the run."""
        of_run = self.success[run] if self.success_by == LABEL else np.full(len(run), UNKNOWN)
        is_run = np.bincount(run, minlength=self.n_runs)[run] == 1
        of_turn = self._turn_labels()[first[1:] - 1]
        return np.where(of_turn >= 0, of_turn, np.where(is_run, of_run, UNKNOWN)).astype(np.int64)

    def parts(self, steps: int) -> Iterator[Ledger]:
        """The ledger in parts of about `steps` steps, each of whole runs; itself if it has no runs."""
        if not self.n_runs:
            yield self
        start = 0
        while start < self.n_runs:
            limit = self.first[start] + steps
            stop = max(start + 1, int(np.searchsorted(self.first, limit, side="right")) - 1)
            yield self if stop - start == self.n_runs else self.take(slice(start, stop))
            start = stop


_STEP_ARRAYS: Final = ("turn", "span", "boundary", "complete", "counted", "final", "answered", "judged")
_RUN_ARRAYS: Final = ("ended", "terminated", "success", "reason")


def bound_counter(counter: str) -> str:
    """The name of the largest value that a counter may have where it is unknown; where it is known, its value."""
    return f"{counter} at most"


def split_for_stops(ledger: Ledger) -> Ledger:
    """The ledger with each span as a run, to find where settings stop each of them."""
    first, owner = ledger.spans()
    if len(owner) == ledger.n_runs:
        return ledger
    return replace(ledger, first=first, runs=ledger.runs.iloc[owner].reset_index(drop=True))


def finished_reasons(flags: Flags) -> npt.NDArray[np.object_]:
    """The stop reason "finished" where a flag is set, else None."""
    return np.array([None, "finished"], dtype=object)[flags.astype(np.int64)]


class Ends(NamedTuple):
    """How each of R runs ended, and its scope, "turn" or "run".

    `labels` are 1, 0, or -1 without a label; `by_proxy` is whether it counts as a success by the proxy; `terminated`
    whether it ended by itself; `reasons` are the recorded stop reasons, None where not known.
    """

    labels: Ints
    by_proxy: Flags
    terminated: Flags
    reasons: npt.NDArray[np.object_]
    scopes: Sequence[str]


def assemble(
    frame: pd.DataFrame,
    first: Ints,
    raw: Mapping[str, Ints],
    ends: Ends,
    detectors: Sequence[Detector],
    *,
    labelled: bool | None = None,
    started: Mapping[int, Sequence[Start]],
) -> Ledger:
    """A ledger from raw columns: adds up the counters within the scope.

    Without labels the success of a family is its root's: that of a subagent whose parent is on record is not known.
    """
    span = spans_of(raw["turn"], first, ends.scopes)
    opens, new_run = first_of_spans(span, first), first_of_spans(np.zeros_like(span), first)
    starts = np.flatnonzero(opens)
    lengths = np.diff(np.append(starts, len(opens)))
    is_counted = raw["counted"].astype(bool)
    unknown = (raw["input_tokens"] < 0) | (raw["output_tokens"] < 0)
    tokens = np.where(unknown, UNKNOWN, raw["input_tokens"] + raw["output_tokens"])
    amounts = {name: raw[name] for name in ("tool_calls", "input_tokens", "output_tokens", "cost")}
    amounts |= {"steps": np.ones(len(opens), dtype=np.int64), "tokens": tokens}
    if not is_counted.all():
        amounts = {name: np.where(is_counted, values, 0) for name, values in amounts.items()}
    counters = {name: running_sum(values, starts, lengths) for name, values in amounts.items()}
    counters[ELAPSED] = _elapsed(raw, starts, lengths, new_run)
    for detector in detectors:
        names = (detector.name, bound_counter(detector.name))
        counters |= {name: raw[name] for name in names if name in raw}
    labelled = bool((ends.labels >= 0).any()) if labelled is None else labelled
    boundary = raw["boundary"].astype(bool)
    complete = boundary.copy()
    has_steps, last = last_steps(first)
    complete[last] |= (raw["tool_calls"][last] > 0) & ends.terminated[has_steps]
    frame["scope"] = text(list(ends.scopes))
    ledger = Ledger(
        frame,
        first,
        raw["turn"],
        span,
        boundary,
        complete,
        is_counted,
        raw["final"].astype(bool),
        raw["answered"].astype(bool),
        raw["judged"] if "judged" in raw else np.full(len(opens), UNKNOWN),
        ends.terminated.copy(),
        ends.terminated,
        ends.labels if labelled else ends.by_proxy.astype(np.int64),
        ends.reasons,
        {"tool_calls": raw["tool_calls"], "tokens": tokens, "cost": raw["cost"]}
        | ({"asked": raw["asked"]} if "asked" in raw else {}),
        counters,
        LABEL if labelled else PROXY,
        started,
    )
    kin = None if labelled else ledger.kin()
    if kin is None:
        return ledger
    return replace(ledger, success=np.where(np.array(kin.parent) < 0, ledger.success, UNKNOWN))


def spans_of(turn: Ints, first: Ints, scopes: Sequence[str]) -> Ints:
    """N: the span of each step: its turn, or 1 in the runs whose counters never start again."""
    by_run = np.repeat(np.array([scope == "run" for scope in scopes], dtype=bool), np.diff(first))
    return np.where(by_run, 1, turn)


def last_steps(first: Ints) -> tuple[Flags, Ints]:
    """R: whether the run has steps; and the last step of each run that has."""
    has_steps = np.diff(first) > 0
    return has_steps, first[1:][has_steps] - 1


def first_of_spans(span: Ints, first: Ints) -> Flags:
    """N: whether a step is the first of its span."""
    opens = np.zeros(len(span), dtype=bool)
    opens[1:] = span[1:] != span[:-1]
    opens[first[:-1][np.diff(first) > 0]] = True
    return opens


def running_sum(values: Ints, starts: Ints, lengths: Ints) -> Ints:
    """The sum within each segment up to and with each value; unknown from the first unknown value on."""
    unknown = values < 0
    any_unknown = bool(unknown.any())
    total = np.cumsum(np.where(unknown, 0, values) if any_unknown else values)
    sum_before = np.concatenate(([0], total))[starts]
    total -= np.repeat(sum_before, lengths)
    if any_unknown:
        unknown_so_far = np.cumsum(unknown)
        total[unknown_so_far > np.repeat(np.concatenate(([0], unknown_so_far))[starts], lengths)] = UNKNOWN
    return total


def _elapsed(raw: Mapping[str, Ints], starts: Ints, lengths: Ints, new_run: Flags) -> Ints:
    """The time since the segment began: with the run, or with its own first step."""
    start, duration = raw["start"], raw["duration"]
    origin = np.where(new_run[starts], 0, start[starts])
    segment_start = np.repeat(origin, lengths)
    return np.where((start < 0) | (duration < 0) | (segment_start < 0), UNKNOWN, start + duration - segment_start)


# --- Scopes: where counters start again, at each user message (`turn`) or never (`run`)


def check_scope(scope: str) -> None:
    """Raise `SettingError` unless `scope` is known."""
    if scope not in ("auto", "turn", "run"):
        raise SettingError(
            f"scope={scope!r} is not known; accepted: turn (counters start anew at each user message), run, auto (as "
            "the harness of each source counts)"
        )


def scopes_of(sources: Sequence[str | None], scope: Scope) -> list[str]:
    """The scope of each run, "turn" or "run", by its source; "auto" is as the harness of each source counts."""
    if scope != "auto":
        return [scope] * len(sources)
    scope_by_source = {source: scope_of(source) for source in set(sources)}
    return [scope_by_source[source] for source in sources]


def one_scope(sources: Sequence[str | None], scope: Scope) -> str:
    """The scope of runs that have one answer, which must not mix two."""
    check_scope(scope)
    sources_by_scope: dict[str, dict[str, None]] = {"turn": {}, "run": {}}
    for source, run_scope in zip(sources, scopes_of(sources, scope), strict=True):
        sources_by_scope[run_scope][source or "unknown"] = None
    if sources_by_scope["turn"] and sources_by_scope["run"]:
        turn, run = (", ".join(names) for names in sources_by_scope.values())
        raise SettingError(
            f"limits start anew in each turn in the harness of {turn}, and count through the run in that of {run}, so "
            'one answer for all of them would blend two meanings: expected by="source", one source at a time, or '
            'scope="turn" or scope="run" for all'
        )
    return "run" if sources_by_scope["run"] else "turn" if sources_by_scope["turn"] or scope == "auto" else scope
