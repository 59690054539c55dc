"""Recordings as columns: what each step used, and the counters at the boundary after it.

A `Ledger` is what counterfactuals read. It is made of runs, or of a frame with a row per step (`recording_df`), which
is also what a Parquet file of recordings larger than memory holds.

A counter is counted within its *scope*: anew in each turn (what an interactive harness's cap means), or through the
whole run (what a benchmark's means). `boundary` says after which steps rules are evaluated: within a turn after every
step but a final text; where the scope is the run after every step that another one follows. Unknown is -1 in here, and
NA outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate, chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.detectors import IDENTITIES, Detector, ErrorStreak, Identities, RepeatStreak
from boolab.endings import proxy_success, terminated, turn_proxy_success
from boolab.errors import SettingError
from boolab.families import Kin, Start, kin_of, starts_of
from boolab.frames import (
    FLAG,
    FLOAT,
    INT,
    TEXT,
    Column,
    Runs,
    as_runs,
    has_boundary,
    setting_columns,
    turns_of,
    well_formed,
)
from boolab.limits import at_response, watched_at_response
from boolab.policy import Policy
from boolab.sources import scope_of
from boolab.told import departures, speaks
from boolab.types import MICRO, Run, Step
from boolab.watch import Watch

Scope: TypeAlias = Literal["auto", "turn", "run"]
OwnLimits: TypeAlias = Literal["kept", "lifted"]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

UNKNOWN: Final = -1
PARENT: Final = "parent_run_id"
LABEL, PROXY, TURN_PROXY = "label", "run ended by itself", "turn ended by itself"
"""What a success is: a label that somebody gave, or, where nobody did, that the record ended by itself and its last
response came to its end: see `boolab.endings`."""

RUN_FIELDS = ("agent", "model", "policy", "task", "source", PARENT)
_NO_KEY: Final = 0
TOLD: Final = "told"
"""The counter of what a policy would have said or done otherwise than the recording: see `boolab.told`."""
SUBAGENTS: Final = "subagents"
"""The column of the runs that a step's calls started: their ids, "" for one that the record does not name."""
FRAME_COLUMNS: Final = (
    "run_id", "turn", "step", "boundary", "final", "answered", "n_tool_calls", "asked", "call_keys", "call_errors",
    "repeat_streak", "error_streak", "input_tokens", "output_tokens", "cost_usd", "start_ms", "duration_ms", "identity",
    "success", "censored", "stop_reason", "n_steps", SUBAGENTS, "parent_step", *RUN_FIELDS,
)  # fmt: skip
"""What is read of a frame with a row per step, beside the columns that groups are made by."""
CALL_TOOLS: Final = "call_tools"
"""The column of the calls' tools, which is read where detectors tell tools apart."""
_OF_STEPS: Final = (
    "turn", "step", "boundary", "final", "answered", "n_tool_calls", "asked", "call_keys", "call_errors", CALL_TOOLS,
    SUBAGENTS, "input_tokens", "output_tokens", "cost_usd", "start_ms", "duration_ms",
)  # fmt: skip
"""The columns of `recording_df` that are about a step, so that runs cannot be grouped by them."""
_OF_RUNS: Final = ("run_id", "identity", "success", "censored", "stop_reason")


@dataclass(frozen=True, slots=True)
class Ledger:
    """Recordings as columns. R runs, N steps, in order.

    Attributes:
        runs: R rows: `run_id` and whatever else groups them; `scope` is where the counters of the run start anew.
        first: R + 1 offsets: the steps of run r are `first[r]` to `first[r + 1]`.
        turn: N: the number of each step's turn.
        span: N: within what the step is counted: its turn, or 1 where the scope is the run.
        boundary: N: whether rules are evaluated after the step.
        complete: N: whether the step was completed: a boundary follows it, or its calls ended the run.
        final: N: whether the step asks for no tools, so that its turn ends with it if nothing follows.
        answered: N: whether a turn that ends with this step counts as a success where there is no label.
        ended: R: whether nothing follows the record: it terminated, or its own limits stay in force (see `kept`).
        terminated: R: whether it ended by itself, so that no looser limit would have gone on.
        success: R: 1, 0, or -1 where it is not known.
        reason: R: the recorded stop reason; None where it is not known.
        used: N each: `tool_calls`, `tokens` and `cost` (micro-dollars) of the step; -1 where unknown. `asked`, where
            the source tells: how many calls its response asked for, -1 if it did not come.
        counters: N each: the counters after the step, by name; -1 where unknown.
        success_by: What `success` is: `LABEL` or `PROXY`.
        starts: What each run, by its row, says that it has started; see `kin`.
        unit: R, or None: which runs are limited as one, because a stop of any of them loses what all of them are for.
    """

    runs: pd.DataFrame
    first: Ints
    turn: Ints
    span: Ints
    boundary: Flags
    complete: Flags
    final: Flags
    answered: Flags
    ended: Flags
    terminated: Flags
    success: Ints
    reason: npt.NDArray[np.object_]
    used: Mapping[str, Ints]
    counters: Mapping[str, Ints]
    success_by: str
    starts: Mapping[int, Sequence[Start]] = field(default_factory=dict)
    unit: Ints | None = None

    def kin(self) -> Kin | None:
        """Who among the runs started whom, and which subagents are not on record; None if there are none."""
        parents = self.runs.get(PARENT)
        if not self.starts and (parents is None or parents.isna().all()):
            return None
        ids = self.runs["run_id"].tolist()
        above = [None] * len(ids) if parents is None else parents.astype(object).where(parents.notna(), None).tolist()
        found = kin_of(ids, above, self.starts)
        return found if found.calls or found.missing else None

    def whole_families(self, kin: Kin, runs: int) -> Iterator[Ledger]:
        """The ledger in parts of about so many runs, each of whole families, those in the order of their first runs."""
        family = list(range(self.n_runs))  # of each run the first one of its family, or one nearer to it

        def first_of(run: int) -> int:
            while family[run] != run:
                family[run] = run = family[family[run]]
            return run

        for caller, _, child in kin.calls:
            one, other = sorted((first_of(caller), first_of(child)))
            family[other] = one
        order = np.argsort([first_of(run) for run in range(self.n_runs)], kind="stable")
        heads = np.array([first_of(run) for run in order.tolist()])
        start = 0
        while start < len(order):
            stop = min(start + runs, len(order))
            while stop < len(order) and heads[stop] == heads[stop - 1]:
                stop += 1
            yield self.take(order[start:stop])
            start = stop

    def kept(self) -> Ledger:
        """The same recordings with their own limits in force: what a setting is added to.

        A setting that fires no earlier than the recorded stop changes nothing. So no rule is evaluated after the last
        step of a span, nor at its response if its calls were not executed anyhow; and each record's end is its end.
        """
        closes = self._closes()
        some = np.diff(self.first) > 0
        by_itself = self.final.copy()
        by_itself[self.first[1:][some] - 1] = self.terminated[some]
        used = self.used
        if "asked" in used:
            unheard = closes & ~by_itself & (used["tool_calls"] == 0)
            used = {**used, "asked": np.where(unheard, UNKNOWN, used["asked"])}
        return replace(self, boundary=self.boundary & ~closes, ended=np.ones(self.n_runs, dtype=bool), used=used)

    def opens(self) -> Flags:
        """N: whether the step is the first of its span."""
        return _opens(self.span, self.first)

    def _closes(self) -> Flags:
        """N: whether the step is the last of its span."""
        return np.append(self.opens()[1:], True)[: self.n_steps]

    def spans(self) -> tuple[Ints, Ints]:
        """The offsets of the spans (one more than there are), and the run of each. A run without steps has one."""
        lengths = np.diff(self.first)
        run = np.repeat(np.arange(self.n_runs), lengths)
        starts = np.flatnonzero(self.opens())
        empty = np.flatnonzero(lengths == 0)
        at = np.concatenate((starts, self.first[empty]))
        owner = np.concatenate((run[starts], empty))
        order = np.lexsort((at, owner))
        return np.append(at[order], self.n_steps).astype(np.int64), owner[order]

    def peak(self, counter: str) -> Ints:
        """R: the largest value that a counter takes at a boundary; a very large one where it is unknown at one.

        Runs of one `unit` have the largest of all of them.
        """
        peak = np.zeros(self.n_runs, dtype=np.int64)
        inside = np.flatnonzero(self.boundary)
        counts = self.counters[counter][inside]
        run = np.searchsorted(self.first, inside, side="right") - 1
        np.maximum.at(peak, run, np.where(counts < 0, np.iinfo(np.int64).max, counts))
        if self.unit is not None:
            of_units = np.zeros(int(self.unit.max(initial=-1)) + 1, dtype=np.int64)
            np.maximum.at(of_units, self.unit, peak)
            peak = of_units[self.unit]
        return peak

    def at_response(self) -> Ledger:
        """The same recordings as they stand at each response, before its calls are executed.

        Counters are what they would be, were the response counted and all its calls executed, and `boundary` says
        whether a response came. There are `responses`, `tool_steps` and `supersteps` too: see `Policy.response_rule`.

        Raises:
            SettingError: if the source does not tell how many calls were asked for.
        """
        if "asked" not in self.used:
            msg = (
                "a limit that is evaluated at the response needs to know all calls of each response: pass runs, or a "
                "frame made by bl.recording_df(runs)"
            )
            raise SettingError(msg)
        asked, steps = self.used["asked"], self.counters["steps"]
        calls = np.maximum(asked, 0)
        some = (calls > 0).astype(np.int64)
        counters = {
            **self.counters,
            "tool_calls": self.counters["tool_calls"] - self.used["tool_calls"] + calls,
            "responses": steps,
            "tool_steps": steps - 1 + some,
            "supersteps": 2 * steps + some,
        }
        return replace(self, boundary=asked >= 0, counters=counters)

    @property
    def n_runs(self) -> int:
        """R."""
        return len(self.first) - 1

    @property
    def n_steps(self) -> int:
        """N."""
        return int(self.first[-1])

    @property
    def mixed(self) -> bool:
        """Whether the counters of some runs start anew in each turn, and those of others do not."""
        return len(set(self.runs["scope"])) > 1

    def _sliced(self, runs: slice | Flags | Ints, steps: slice | Flags | Ints, first: Ints) -> Ledger:
        """Some of the runs with their steps."""
        return Ledger(
            self.runs.iloc[runs].reset_index(drop=True),
            first,
            **{name: getattr(self, name)[steps] for name in _STEP_ARRAYS},
            **{name: getattr(self, name)[runs] for name in _RUN_ARRAYS},
            used={name: column[steps] for name, column in self.used.items()},
            counters={name: column[steps] for name, column in self.counters.items()},
            success_by=self.success_by,
            starts=self._starts_of(runs) if self.starts else {},
            unit=None if self.unit is None else self.unit[runs],
        )

    def _starts_of(self, runs: slice | Flags | Ints) -> dict[int, Sequence[Start]]:
        """What some of the runs have started, by their new rows."""
        rows = np.arange(self.n_runs)[runs].tolist()
        return {new: self.starts[old] for new, old in enumerate(rows) if old in self.starts}

    def take(self, runs: Ints) -> Ledger:
        """These runs, by their rows, in this order."""
        lengths = np.diff(self.first)[runs]
        first = np.concatenate(([0], np.cumsum(lengths)))
        steps = np.arange(first[-1]) + np.repeat(self.first[runs] - first[:-1], lengths)
        return self._sliced(runs, steps, first)

    def part(self, start: int, stop: int) -> Ledger:
        """The runs from `start` up to `stop`."""
        first = self.first[start : stop + 1] - self.first[start]
        return self._sliced(slice(start, stop), slice(self.first[start], self.first[stop]), first)

    def where(self, which: Flags) -> Ledger:
        """The runs that are true in `which` (R)."""
        lengths = np.diff(self.first)
        return self._sliced(which, np.repeat(which, lengths), np.concatenate(([0], np.cumsum(lengths[which]))))

    @classmethod
    def joined(cls, parts: Sequence[Ledger]) -> Ledger:
        """Several ledgers as one. There are labels if one of them has any."""
        if len(parts) == 1:
            return parts[0]
        labelled = LABEL in {part.success_by for part in parts}
        success = [
            np.full(part.n_runs, UNKNOWN) if labelled and part.success_by != LABEL else part.success for part in parts
        ]
        same = {name: np.concatenate([getattr(part, name) for part in parts]) for name in (*_STEP_ARRAYS, *_RUN_ARRAYS)}
        return cls(
            pd.concat([part.runs for part in parts], ignore_index=True),
            np.concatenate(([0], np.cumsum(np.concatenate([np.diff(part.first) for part in parts])))),
            **{**same, "success": np.concatenate(success)},
            used={name: np.concatenate([p.used[name] for p in parts]) for name in _common(p.used for p in parts)},
            counters={name: np.concatenate([part.counters[name] for part in parts]) for name in parts[0].counters},
            success_by=LABEL if labelled else PROXY,
            starts={
                row + before: starts
                for part, before in zip(parts, accumulate((p.n_runs for p in parts), initial=0), strict=False)
                for row, starts in part.starts.items()
            },
        )

    def by_span(self) -> Ledger:
        """Each span as a run of its own: each turn where counters start anew in each, else the run.

        Its success is the proxy, because a label judges the whole run. A run without steps has no spans. What is to
        keep its own limits is `kept` afterwards, so that a turn keeps to its own end as well.
        """
        first, run = self.spans()
        some = np.diff(first) > 0
        first, run = np.append(first[:-1][some], first[-1]), run[some]
        last = first[1:] - 1
        last_of_run = np.append(run[1:] != run[:-1], True) if len(run) else np.zeros(0, dtype=bool)
        several = bool((~last_of_run).any())
        return replace(
            self,
            runs=self.runs.iloc[run].reset_index(drop=True).assign(turn=self.turn[first[:-1]]),
            first=first,
            span=np.ones(self.n_steps, dtype=np.int64),
            ended=np.where(last_of_run, self.ended[run], self.final[last]),
            terminated=np.where(last_of_run, self.terminated[run], self.final[last]),
            success=self.answered[last].astype(np.int64),
            reason=np.where(last_of_run, self.reason[run], _finished_if(self.final[last])),
            success_by=TURN_PROXY if several or bool((self.runs["scope"] == "turn").any()) else PROXY,
            starts={},
        )

    def parts(self, steps: int) -> Iterator[Ledger]:
        """The ledger in parts of about so many steps, each of whole runs."""
        start = 0
        while start < self.n_runs:
            limit = self.first[start] + steps
            stop = max(start + 1, int(np.searchsorted(self.first, limit, side="right")) - 1)
            yield self if stop - start == self.n_runs else self.part(start, stop)
            start = stop


_STEP_ARRAYS: Final = ("turn", "span", "boundary", "complete", "final", "answered")
_RUN_ARRAYS: Final = ("ended", "terminated", "success", "reason")


def spanned(ledger: Ledger) -> Ledger:
    """The ledger with each span in the place of a run, to ask where settings stop each of them."""
    first, owner = ledger.spans()
    if len(owner) == ledger.n_runs:
        return ledger
    return replace(ledger, first=first, runs=ledger.runs.iloc[owner].reset_index(drop=True))


def _finished_if(flags: Flags) -> npt.NDArray[np.object_]:
    """The stop reason "finished" where a flag is set, else None."""
    return np.array([None, "finished"], dtype=object)[flags.astype(np.int64)]


def _common(maps: Iterable[Mapping[str, Ints]]) -> list[str]:
    """The names that all have."""
    first, *others = maps
    return [name for name in first if all(name in other for other in others)]


def ledger_of(
    runs: Runs,
    detectors: Iterable[Detector] = (),
    scope: Scope = "auto",
    policy: Policy | None = None,
    *,
    labelled: bool | None = None,
) -> Ledger:
    """The ledger of runs, with a counter for each detector. Labels are successes where any run has one, else a proxy.

    Its `ended` says which records terminated: `Ledger.kept` leaves the limits of the recording in force.

    Args:
        runs: A run, or runs.
        detectors: What is watched.
        scope: Where counters start anew: see `scopes_of`.
        policy: Whose words to the model are held against the recordings (the counter `told`: see `boolab.told`), and
            whose guards are asked at the response.
        labelled: Whether labels are successes, where the runs are a part of more; by default if there are any.

    Raises:
        SettingError: if the scope is not known.
    """
    check_scope(scope)
    rows = as_runs(runs)
    watched = tuple(dict.fromkeys(detectors))
    steps = _Steps(watched, policy)
    scopes = scopes_of([run.source for run in rows], scope)
    for run, its_scope in zip(rows, scopes, strict=True):
        steps.add(run, its_scope)
    counts = np.array([len(run.steps) for run in rows], dtype=np.int64)
    frame = pd.DataFrame({"run_id": text([run.run_id for run in rows])})
    for name in RUN_FIELDS:
        frame[name] = text([getattr(run, name) for run in rows])
    for column in setting_columns(rows, frame.columns):
        frame[column.name] = cells([column.get(run) for run in rows], column.dtype)
    raw = steps.columns()
    ends = _Ends(
        np.array([-1 if run.success is None else int(run.success) for run in rows], dtype=np.int64),
        np.array([proxy_success(run) for run in rows], dtype=bool),
        np.array([terminated(run) for run in rows], dtype=bool),
        np.array([run.stop_reason for run in rows], dtype=object),
        scopes,
    )
    first = np.concatenate(([0], np.cumsum(counts)))
    started = {row: found for row, run in enumerate(rows) if (found := starts_of(run))}
    ledger = _ledger(frame, first, raw, ends, watched, labelled=labelled, started=started)
    more = {name: raw[name] for name in steps.more}
    return replace(ledger, counters={**ledger.counters, **more}) if more else ledger


class _Steps:
    """The raw columns of steps, as they are collected from runs."""

    def __init__(self, detectors: Sequence[Detector], policy: Policy | None) -> None:
        self._detectors = detectors
        self._speaking = policy if policy is not None and speaks(policy) else None
        asks = policy is not None and watched_at_response(policy)
        self._at_response = {at_response(d.name): d.name for d in detectors} if asks else {}
        self.more: dict[str, list[int]] = {name: [] for name in self._at_response}
        if self._speaking is not None:
            self.more[TOLD] = []
        self._numbers: list[tuple[int, ...]] = []
        self._counts: list[list[int]] = [[] for _ in detectors]
        self._boundary: list[bool] = []
        self._final: list[bool] = []
        self._answered: list[bool] = []

    def add(self, run: Run, scope: str) -> None:
        """Take in a run. Detectors are folded over its calls in order, as the live loop does it."""
        last = len(run.steps)
        if self._speaking is not None:
            self.more[TOLD] += departures(self._speaking, run, turns=scope == "turn")
        watch, now = self._begin()
        for number, (turn, steps) in enumerate(turns_of(run)):
            if scope == "turn" and number:
                watch, now = self._begin()
            for step in steps:
                if self._at_response:
                    ahead = {**now, **watch.after(step.response)}
                    for name, counter in self._at_response.items():
                        self.more[name].append(_known(ahead[counter]))
                answered = watch.complete(step.response, step.results, now)
                usage = step.response.usage
                self._numbers.append(
                    (
                        turn,
                        answered,
                        _known(usage.input_tokens),
                        _known(usage.output_tokens),
                        _known(usage.cost),
                        _known(step.start_ms),
                        _known(step.duration_ms),
                        len(step.response.tool_calls) if was_heard(run, step) else UNKNOWN,
                    )
                )
                for counts, detector in zip(self._counts, self._detectors, strict=True):
                    counts.append(_known(now[detector.name]))
                follows = scope == "run" and step.index < last
                self._boundary.append(follows or has_boundary(run, step))
                self._final.append(is_final(step))
            self._answered += [turn_proxy_success(run, [step]) for step in steps]

    def _begin(self) -> tuple[Watch, dict[str, int | None]]:
        """The detectors at the start of a scope, and their counts there."""
        return Watch(self._detectors), {detector.name: 0 for detector in self._detectors}

    def columns(self) -> dict[str, Ints]:
        """The columns by name."""
        names = ("turn", "tool_calls", "input_tokens", "output_tokens", "cost", "start", "duration", "asked")
        numbers = np.array(self._numbers, dtype=np.int64).reshape(-1, len(names)).T.copy()
        columns = dict(zip(names, numbers, strict=True))
        columns["boundary"] = np.array(self._boundary, dtype=np.int64)
        columns["final"] = np.array(self._final, dtype=np.int64)
        columns["answered"] = np.array(self._answered, dtype=np.int64)
        for detector, counts in zip(self._detectors, self._counts, strict=True):
            columns[detector.name] = np.array(counts, dtype=np.int64)
        return columns | {name: np.array(values, dtype=np.int64) for name, values in self.more.items()}


def was_heard(run: Run, step: Step) -> bool:
    """Whether the response of a step came, and the policy under which it was recorded did not take it for a failure."""
    if any(step.results):
        return True
    failed = step.index == len(run.steps) and run.stop_reason == "error" and not has_boundary(run, step)
    return not (step.error or failed)


def text(values: Sequence[str | None] | npt.NDArray[Any]) -> Any:  # noqa: ANN401 - a pandas array
    """A column of text, as all frames have it."""
    return cells(values, TEXT)


def cells(values: Sequence[Any] | npt.NDArray[Any] | pd.Series[Any], dtype: str) -> Any:  # noqa: ANN401 - a pandas array
    """A column of such a type."""
    array: Callable[..., Any] = pd.array  # its stubs know no dtype that is only known at run time
    return array(values, dtype=dtype)


def _known(value: int | None) -> int:
    return UNKNOWN if value is None else value


def is_final(step: Step) -> bool:
    """Whether a step asks for no tools, so that its turn ends with it if nothing follows."""
    return not (step.response.tool_calls or step.error)


def check_scope(scope: str) -> None:
    """Raise `SettingError` unless `scope` is known."""
    if scope not in ("auto", "turn", "run"):
        msg = (
            f"scope={scope!r} is not known; accepted: turn (counters start anew at each user message), run, auto (as "
            "the harness of each source counts)"
        )
        raise SettingError(msg)


def check_own_limits(own_limits: str) -> None:
    """Raise `SettingError` unless `own_limits` is known."""
    if own_limits not in ("kept", "lifted"):
        msg = (
            f"own_limits={own_limits!r} is not known; accepted: kept (the limits of the recording stay in force), "
            "lifted (they are gone)"
        )
        raise SettingError(msg)


def scopes_of(sources: Sequence[str | None], scope: Scope) -> list[str]:
    """Where the counters of runs start anew: "turn", at each user message, or "run", never.

    Args:
        sources: The source of each run.
        scope: The same for all, or "auto": as the harness of each source counts (see `boolab.sources`).
    """
    if scope != "auto":
        return [scope] * len(sources)
    known = {source: scope_of(source) for source in set(sources)}
    return [known[source] for source in sources]


def one_scope(sources: Sequence[str | None], scope: Scope) -> str:
    """The scope of runs that are put into one answer, which must not blend two.

    Args:
        sources: The source of each run.
        scope: What was asked for.

    Returns:
        "turn" or "run".

    Raises:
        SettingError: if the harnesses of these runs count in both ways.
    """
    check_scope(scope)
    named: dict[str, dict[str, None]] = {"turn": {}, "run": {}}
    for source, one in zip(sources, scopes_of(sources, scope), strict=True):
        named[one][source or "unknown"] = None
    if named["turn"] and named["run"]:
        turn, run = (", ".join(names) for names in named.values())
        msg = (
            f"limits start anew in each turn in the harness of {turn}, and count through the run in that of {run}, so "
            'one answer for all of them would blend two meanings: expected by="source", one source at a time, or '
            'scope="turn" or scope="run" for all'
        )
        raise SettingError(msg)
    return "run" if named["run"] else "turn" if named["turn"] or scope == "auto" else scope


class _Ends(NamedTuple):
    """How each of R runs ended, and where its counters start anew.

    Attributes:
        labels: 1, 0, or -1 without a label.
        by_proxy: Whether it counts as a success by the proxy.
        terminated: Whether it ended by itself.
        reasons: The recorded stop reason; None where it is not known.
        scopes: "turn" or "run".
    """

    labels: Ints
    by_proxy: Flags
    terminated: Flags
    reasons: npt.NDArray[np.object_]
    scopes: Sequence[str]


def _ledger(
    frame: pd.DataFrame,
    first: Ints,
    raw: Mapping[str, Ints],
    ends: _Ends,
    detectors: Sequence[Detector],
    *,
    labelled: bool | None = None,
    started: Mapping[int, Sequence[Start]],
) -> Ledger:
    """A ledger from raw columns: adds up what is counted, within the scope.

    Without labels the success of a family is its root's: that of a subagent whose parent is on record is not known.
    """
    span = _spans(raw["turn"], first, ends.scopes)
    opens, new_run = _opens(span, first), _opens(np.zeros_like(span), first)
    starts = np.flatnonzero(opens)
    lengths = np.diff(np.append(starts, len(opens)))
    place = np.arange(len(opens)) - np.repeat(starts, lengths) + 1
    unknown = (raw["input_tokens"] < 0) | (raw["output_tokens"] < 0)
    tokens = np.where(unknown, UNKNOWN, raw["input_tokens"] + raw["output_tokens"])
    counters = {"steps": place, "elapsed": _elapsed(raw, starts, lengths, new_run)}
    for name in ("tool_calls", "input_tokens", "output_tokens", "cost"):
        counters[name] = _running_sum(raw[name], starts, lengths)
    counters["tokens"] = _running_sum(tokens, starts, lengths)
    for detector in detectors:
        counters[detector.name] = raw[detector.name]
    labelled = bool((ends.labels >= 0).any()) if labelled is None else labelled
    boundary = raw["boundary"].astype(bool)
    complete = boundary.copy()
    last = first[1:][np.diff(first) > 0] - 1
    complete[last] |= (raw["tool_calls"][last] > 0) & ends.terminated[np.diff(first) > 0]
    frame["scope"] = text(list(ends.scopes))
    ledger = Ledger(
        frame,
        first,
        raw["turn"],
        span,
        boundary,
        complete,
        raw["final"].astype(bool),
        raw["answered"].astype(bool),
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
    return (
        ledger if kin is None else replace(ledger, success=np.where(np.array(kin.parent) < 0, ledger.success, UNKNOWN))
    )


def _spans(turn: Ints, first: Ints, scopes: Sequence[str]) -> Ints:
    """N: within what each step is counted: its turn, or 1 in the runs whose counters never start anew."""
    by_run = np.repeat(np.array([scope == "run" for scope in scopes], dtype=bool), np.diff(first))
    return np.where(by_run, 1, turn)


def _opens(span: Ints, first: Ints) -> Flags:
    """N: whether a step is the first of its span."""
    opens = np.zeros(len(span), dtype=bool)
    opens[1:] = span[1:] != span[:-1]
    opens[first[:-1][np.diff(first) > 0]] = True
    return opens


def _running_sum(values: Ints, starts: Ints, lengths: Ints) -> Ints:
    """The sum within each segment up to and with each value; unknown from the first unknown value on."""
    unknown = values < 0
    some = bool(unknown.any())
    total = np.cumsum(np.where(unknown, 0, values) if some else values)
    before = np.concatenate(([0], total))[starts]
    total -= np.repeat(before, lengths)
    if some:
        total[_since(unknown, starts, lengths)] = UNKNOWN
    return total


def _since(flags: Flags, starts: Ints, lengths: Ints) -> Flags:
    """Whether a flag was set in the segment, here or before."""
    seen = np.cumsum(flags)
    before = np.concatenate(([0], seen))[starts]
    return np.asarray(seen > np.repeat(before, lengths))


def _elapsed(raw: Mapping[str, Ints], starts: Ints, lengths: Ints, new_run: Flags) -> Ints:
    """The time since the segment began: with the run, or with its own first step."""
    start, duration = raw["start"], raw["duration"]
    origin = np.where(new_run[starts], 0, start[starts])
    since = np.repeat(origin, lengths)
    return np.where((start < 0) | (duration < 0) | (since < 0), UNKNOWN, start + duration - since)


def ledger_of_columns(first: Ints, calls: Ints, keys: Ints, ended: Flags, *, tokens: Ints, cost: Ints) -> Ledger:
    """The ledger of runs that are columns already, of one turn each.

    Args:
        first: R + 1 offsets of the runs' steps.
        calls: N: how many calls each step has that got a result.
        keys: What each call is compared by, in order; 0 is the same as no other.
        ended: R: whether the run ended by itself, with a step without calls.
        tokens: N: of each step; -1 where unknown.
        cost: N: of each step, in micro-dollars; -1 where unknown.

    Returns:
        A ledger with the counters of steps, tool calls and repeats (under the identity canonical).
    """
    lengths = np.diff(first)
    opens = np.zeros(int(first[-1]), dtype=bool)
    opens[first[:-1][lengths > 0]] = True
    starts = np.flatnonzero(opens)
    counters = {
        "steps": np.arange(1, len(opens) + 1) - np.repeat(first[:-1], lengths),
        "tool_calls": _running_sum(calls, starts, lengths[lengths > 0]),
        RepeatStreak().name: repeats_of(keys, calls, opens),
    }
    boundary = np.ones(len(opens), dtype=bool)
    boundary[first[1:][ended & (lengths > 0)] - 1] = False
    turn = np.ones(len(opens), dtype=np.int64)
    return Ledger(
        pd.DataFrame({"run_id": np.arange(len(lengths)), "scope": text(["turn"] * len(lengths))}),
        first,
        turn,
        turn,
        boundary,
        boundary,
        ~boundary,
        ~boundary,
        ended,
        ended,
        ended.astype(np.int64),
        _finished_if(ended),
        {"tool_calls": calls, "tokens": tokens, "cost": cost},
        counters,
        PROXY,
    )


# --- Frames -----------------------------------------------------------------------------------------------------------


def recording_df(runs: Runs, identity: Identities = "canonical") -> pd.DataFrame:
    """One row for each step, with all that `counterfactual` reads: write it to Parquet, and it is read in batches.

    Args:
        runs: A run, or runs. A run without steps has no row.
        identity: What makes two calls the same, for all tools or by tool. It is part of the frame, and
            `counterfactual` refuses to ask under another one.

    Returns:
        run_id, turn, step; `boundary` (whether rules are evaluated after the step); `final` (whether it asks for no
        tools); `answered` (whether a turn that ends with it counts as a success where there is no label);
        n_tool_calls; `asked` (how many calls the response asked for, NA if it did not come); `call_keys`,
        `call_errors` and `call_tools`, a tuple each with one value for each call that has a result (a hash, 0 for a
        call that is the same as no other; 1 failed, 0 did not, -1 unknown; the tool's name); `subagents`, the ids of
        the runs that its calls started, "" for one that the record does not name, NA for none; input_tokens,
        output_tokens, cost_usd, start_ms, duration_ms; and, the same in all rows of a run, identity, agent, model,
        policy, task, source, parent_run_id, success, censored, stop_reason, and a column for each key of `Run.settings`
        that is not the name of one of these.

    Raises:
        SettingError: if two runs have the same id, or the identity is not known.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.runner import run_sync
        >>> run = run_sync(None, "Hello", model=ScriptedModel(["Hi."]))
        >>> recording_df(run)[["step", "boundary", "n_tool_calls"]].values.tolist()
        [[1, False, 0]]
    """
    listed = as_runs(runs)
    twice = [run_id for run_id, n in Counter(run.run_id for run in listed).items() if n > 1]
    if twice:
        msg = f"{len(twice)} run ids occur more than once, such as {twice[0]!r}: a frame could not tell the runs apart"
        raise SettingError(msg)
    return recording_table(listed, identity, recorded_settings(listed))


def recorded_settings(runs: Iterable[Run]) -> list[Column]:
    """The columns of settings that `recording_df` has for these runs."""
    return setting_columns(runs, {*_OF_STEPS, *_OF_RUNS, *RUN_FIELDS, "n_steps"})


def recording_table(listed: Sequence[Run], identity: Identities, settings: Sequence[Column]) -> pd.DataFrame:
    """The frame of `recording_df`, with the columns of settings that are given: those of more runs than these."""
    rows = [(run, step) for run in listed for step in run.steps]
    watch = RepeatStreak.of(identity)
    pairs = [[(c, r) for c, r in zip(s.response.tool_calls, s.results, strict=True) if r is not None] for _, s in rows]
    keys = [tuple(_hash(watch.key(c, r)) for c, r in answered) for answered in pairs]
    columns: dict[str, tuple[str, Callable[[Run, Step], Any]]] = {
        "run_id": (TEXT, lambda run, _: run.run_id),
        "turn": (INT, lambda _, step: step.turn),
        "step": (INT, lambda _, step: step.index),
        "boundary": (FLAG, has_boundary),
        "final": (FLAG, lambda _, step: is_final(step)),
        "answered": (FLAG, lambda run, step: turn_proxy_success(run, [step])),
        "n_tool_calls": (INT, lambda _, step: sum(result is not None for result in step.results)),
        "asked": (INT, lambda run, step: len(step.response.tool_calls) if was_heard(run, step) else None),
        "input_tokens": (INT, lambda _, step: step.response.usage.input_tokens),
        "output_tokens": (INT, lambda _, step: step.response.usage.output_tokens),
        "cost_usd": (FLOAT, lambda _, step: _dollars(step.response.usage.cost)),
        "start_ms": (INT, lambda _, step: step.start_ms),
        "duration_ms": (INT, lambda _, step: step.duration_ms),
        "identity": (TEXT, lambda *_: watch.identities),
        **{name: (TEXT, _field(name)) for name in RUN_FIELDS},
        "success": (FLAG, lambda run, _: run.success),
        "censored": (FLAG, lambda run, _: run.censored),
        "stop_reason": (TEXT, _field("stop_reason")),
    }
    columns |= {column.name: (column.dtype, _of_run(column.get)) for column in settings}
    frame = pd.DataFrame({name: cells([get(*row) for row in rows], of) for name, (of, get) in columns.items()})
    frame.insert(8, "call_keys", pd.Series(keys, dtype=object))
    errors = [tuple(-1 if r.is_error is None else int(r.is_error) for _, r in answered) for answered in pairs]
    frame.insert(9, "call_errors", pd.Series(errors, dtype=object))
    tools = [tuple(well_formed(call.name) for call, _ in answered) for answered in pairs]
    frame.insert(10, CALL_TOOLS, pd.Series(tools, dtype=object))
    named = {run.run_id: _named_by_step(run) for run in listed}
    started = [tuple(map(well_formed, named[run.run_id].get(step.index, ()))) or None for run, step in rows]
    frame.insert(11, SUBAGENTS, pd.Series(started, dtype=object))
    return frame


def _named_by_step(run: Run) -> dict[int, list[str]]:
    """The subagents that a run has started, by step; those of which it does not tell the step stand at the first."""
    found: dict[int, list[str]] = {}
    for step, run_id, _ in starts_of(run):
        found.setdefault(step or 1, []).append(run_id or "")
    return found


def frame_columns(detectors: Iterable[Detector], by: Iterable[str] = ()) -> list[str]:
    """What is to be read of a table in a file, for these detectors and groups."""
    tools = any(isinstance(d, RepeatStreak) and (d.by_tool or d.identity == "tool") for d in detectors)
    return [*dict.fromkeys([*FRAME_COLUMNS, *([CALL_TOOLS] if tools else []), *by])]


def ledger_of_frame(
    frame: pd.DataFrame, detectors: Iterable[Detector] = (), scope: Scope = "auto", *, labelled: bool | None = None
) -> Ledger:
    """The ledger of a frame with a row per step: one like `recording_df` makes, or `steps_df` joined with `runs_df`.

    Columns: `run_id`, `step`, and `censored` (whether the recording was cut), are needed; `n_tool_calls` for calls,
    tokens, cost and times where they are. Without `boundary`, rules are asked after every step of a turn but its last,
    and there too if the run was cut. A row whose `step` is NA stands for a run without steps. Repeats need
    `call_keys`, or `repeat_streak` as `steps_df` has it; under another identity by tool than the frame's, `call_tools`
    as well. `labelled` says whether labels are successes, where the frame is a part of more; by default they are if
    there are any.

    Raises:
        SettingError: if a column is missing, the frame has no row for each step, a run's rows are not together, or a
            detector cannot be had from a frame.
    """
    check_scope(scope)
    watched = tuple(dict.fromkeys(detectors))
    _check_columns(frame)
    codes, ids = pd.factorize(frame["run_id"])
    starts = np.flatnonzero(np.diff(codes, prepend=-1)) if len(codes) else np.zeros(0, dtype=np.int64)
    if len(starts) != len(ids):
        again = frame["run_id"].iloc[int(next(s for s, c in zip(starts, codes[starts], strict=True) if s > starts[c]))]
        msg = f"the rows of run {again!r} are not together: sort the frame by run_id and step"
        raise SettingError(msg)
    heads = frame.iloc[starts].reset_index(drop=True)
    if "step" in frame and frame["step"].isna().any():
        there = frame["step"].notna().to_numpy()
        frame, codes = frame[there].reset_index(drop=True), codes[there]
    first = np.append(0, np.cumsum(np.bincount(codes, minlength=len(ids)))).astype(np.int64)
    _check_rows(heads, np.diff(first))
    for name in heads.columns:
        if name in ("run_id", *RUN_FIELDS) or pd.api.types.infer_dtype(heads[name]) == "string":
            heads[name] = heads[name].astype(TEXT)
    raw = {
        "turn": _column(frame, "turn", 1),
        "tool_calls": _calls(frame),
        "input_tokens": _column(frame, "input_tokens", UNKNOWN),
        "output_tokens": _column(frame, "output_tokens", UNKNOWN),
        "cost": _column(frame, "cost_usd", UNKNOWN, MICRO),
        "start": _column(frame, "start_ms", UNKNOWN),
        "duration": _column(frame, "duration_ms", UNKNOWN),
    }
    if "asked" in frame:
        raw["asked"] = _column(frame, "asked", UNKNOWN)
    cut = _column(heads, "censored", 0).astype(bool)
    raw["final"] = _column(frame, "final", 0) if "final" in frame else (raw["tool_calls"] == 0).astype(np.int64)
    sources = heads["source"].tolist() if "source" in heads else [None] * len(heads)
    scopes = scopes_of([None if source is pd.NA else source for source in sources], scope)
    span = _spans(raw["turn"], first, scopes)
    raw["boundary"] = _boundaries(frame, raw["turn"], span, first, cut)
    segments = _opens(span, first)
    for detector in watched:
        raw[detector.name] = _detected(detector, frame, raw["tool_calls"], segments, by_run="run" in scopes)
    raw["answered"] = _answered(frame, raw["final"], first, cut)
    some = np.diff(first) > 0
    by_proxy = np.zeros(len(heads), dtype=bool)
    by_proxy[some] = raw["answered"][first[1:][some] - 1] > 0
    reasons = heads["stop_reason"].astype(object) if "stop_reason" in heads else pd.Series([None] * len(heads))
    recorded = np.where(reasons.isna(), _finished_if(~cut), reasons.to_numpy(dtype=object))
    ends = _Ends(_column(heads, "success", UNKNOWN), by_proxy, ~cut, recorded, scopes)
    groups = heads.drop(columns=[*_OF_STEPS, "scope"], errors="ignore")
    return _ledger(groups, first, raw, ends, watched, labelled=labelled, started=_started(frame, heads, first))


def _started(frame: pd.DataFrame, heads: pd.DataFrame, first: Ints) -> dict[int, list[Start]]:
    """What each run of a frame has started, by its row: by its own word, else by that of the runs which it started."""
    found: dict[int, list[Start]] = {}
    if SUBAGENTS in frame:
        named = frame[SUBAGENTS]
        some = np.flatnonzero(named.notna())
        runs = np.searchsorted(first, some, side="right") - 1
        for run, row in zip(runs.tolist(), some.tolist(), strict=True):
            step = row - int(first[run]) + 1
            found.setdefault(run, []).extend(Start(step, run_id or None) for run_id in named.iloc[row])
    elif "parent_step" in heads and PARENT in heads:
        rows = {run_id: row for row, run_id in enumerate(heads["run_id"])}
        steps = _column(heads, "parent_step", 0).tolist()
        for run_id, parent, step in zip(heads["run_id"], heads[PARENT], steps, strict=True):
            if parent is not pd.NA and parent in rows and step:
                found.setdefault(rows[parent], []).append(Start(step, run_id))
    return found


def _answered(frame: pd.DataFrame, final: Ints, first: Ints, cut: Flags) -> Ints:
    """Whether a turn that ends with a step counts as a success; without a word of it, one that terminated does."""
    if "answered" in frame:
        return _column(frame, "answered", 0)
    answered = final.copy()
    some = np.diff(first) > 0
    answered[first[1:][some] - 1] = ~cut[some]
    return answered


def _check_columns(frame: pd.DataFrame) -> None:
    """Raise `SettingError` if a frame lacks a column that is needed, or a value in one."""
    if "run_id" in frame and "step" not in frame and frame["run_id"].is_unique:
        msg = (
            "the frame has no column 'step', so that its rows are runs and not steps, and nobody knows where a limit "
            "would have stopped them: pass the runs themselves, or bl.recording_df(runs)"
        )
        raise SettingError(msg)
    for name in ("run_id", "censored"):
        if name not in frame:
            msg = (
                f"the frame has no column {name!r}: pass runs, a frame made by bl.recording_df(runs), or "
                "bl.steps_df(runs) joined with run_id, censored, stop_reason and success of bl.runs_df(runs)"
            )
            raise SettingError(msg)
        if frame[name].isna().any():
            msg = f"column {name!r} has no value in row {int(frame[name].isna().argmax())}: every row needs one"
            raise SettingError(msg)


def _check_rows(heads: pd.DataFrame, rows: Ints) -> None:
    """Raise `SettingError` if a run has more or fewer rows than it has steps, where the frame says how many it has."""
    if "n_steps" not in heads:
        return
    said = _column(heads, "n_steps", UNKNOWN)
    wrong = np.flatnonzero((said >= 0) & (said != rows))
    if len(wrong):
        run = int(wrong[0])
        msg = (
            f"run {heads['run_id'].iloc[run]!r} has {said[run]:,} steps by the column n_steps, and {rows[run]:,} "
            f"row{'' if rows[run] == 1 else 's'} in the frame: expected a row for each step, as bl.recording_df(runs) "
            "makes it"
        )
        raise SettingError(msg)


def _column(frame: pd.DataFrame, name: str, missing: int, in_one: int = 1) -> Ints:
    """A column as whole units; `missing` where there is no value or no column."""
    if name not in frame:
        return np.full(len(frame), missing, dtype=np.int64)
    values = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
    gone = np.isnan(values)
    return np.where(gone, missing, np.rint(np.where(gone, 0, values) * in_one)).astype(np.int64)


def _calls(frame: pd.DataFrame) -> Ints:
    """How many calls each step has that got a result."""
    if "n_tool_calls" not in frame and "call_keys" in frame:
        return np.array([len(keys) for keys in frame["call_keys"]], dtype=np.int64)
    return _column(frame, "n_tool_calls", 0)


def _boundaries(frame: pd.DataFrame, turn: Ints, span: Ints, first: Ints, cut: Flags) -> Ints:
    """Whether rules are evaluated after each step; in the midst of a span they always are."""
    last = np.zeros(len(frame), dtype=bool)
    some = first[:-1] < first[1:]
    ends = first[1:][some] - 1
    last[ends] = True
    if "boundary" in frame:
        boundary = _column(frame, "boundary", 0).astype(bool)
    else:
        boundary = ~last
        boundary[:-1] &= turn[1:] == turn[:-1]
        boundary[ends] = cut[some]
    boundary[:-1] |= ~last[:-1] & (span[1:] == span[:-1])
    return boundary.astype(np.int64)


def _detected(detector: Detector, frame: pd.DataFrame, calls: Ints, opens: Flags, *, by_run: bool) -> Ints:
    """A detector's counter after each step, from the numbers that the frame has for each call."""
    if isinstance(detector, RepeatStreak) and "call_keys" in frame:
        return repeats_of(_keys(frame, detector), calls, opens)
    if isinstance(detector, ErrorStreak) and "call_errors" in frame:
        return _error_streaks(_flat(frame["call_errors"]), calls, opens)
    kind = {RepeatStreak: "repeat_streak", ErrorStreak: "error_streak"}.get(type(detector))
    if kind is None:
        msg = f"{detector.name} cannot be had from a frame, which holds no calls: pass runs"
        raise SettingError(msg)
    if kind not in frame or by_run:
        msg = f"{detector.name} cannot be had from this frame: pass runs, or a frame made by bl.recording_df(runs)"
        raise SettingError(msg)
    after = np.append(_column(frame, kind, UNKNOWN)[1:], UNKNOWN)
    after[np.flatnonzero(np.append(opens[1:], True))] = UNKNOWN
    return after


def _keys(frame: pd.DataFrame, detector: RepeatStreak) -> Ints:
    """What a detector compares each call by.

    These are the frame's own keys, but for tools that the detector exempts or compares by their name alone.

    Raises:
        SettingError: if it compares calls by what the frame does not hold.
    """
    keys = _flat(frame["call_keys"])
    under = set(frame["identity"].dropna().unique()) if "identity" in frame else set()
    if not under - {detector.identities}:
        return keys
    its_own = next(iter(under)) if len(under) == 1 else ""
    missing = {detector.identities}
    if its_own in IDENTITIES and CALL_TOOLS in frame:
        codes, tools = pd.factorize(np.array([*chain.from_iterable(frame[CALL_TOOLS])], dtype=object))
        wanted = [detector.identity_for(tool) for tool in tools]
        missing = {identity for identity in wanted if identity not in (None, "tool", its_own)}
        if not missing:
            by_name = [_hash(None if of is None else (tool,)) for tool, of in zip(tools, wanted, strict=True)]
            own = np.array([of == its_own for of in wanted], dtype=bool)
            return np.where(own[codes], keys, np.array(by_name, dtype=np.int64)[codes]) if len(codes) else keys
    msg = (
        f"the frame's calls are compared by {', '.join(sorted(under))}, not by {', '.join(sorted(missing))}: make it "
        "with bl.recording_df(runs, identity=...), or ask under its identity"
    )
    raise SettingError(msg)


def _flat(lists: pd.Series[Any]) -> Ints:
    if lists.isna().any():
        row = int(lists.isna().argmax())
        msg = f"column {lists.name!r} has no value in row {row}: every step needs a list of numbers"
        raise SettingError(msg)
    parts = lists.tolist()
    if set(map(type, parts)) == {np.ndarray}:  # as they come from a file
        return np.concatenate(parts).astype(np.int64)
    return np.fromiter(chain.from_iterable(parts), dtype=np.int64)


def repeats_of(keys: Ints, calls: Ints, opens: Flags) -> Ints:
    """The repeat streak after each step, from the keys of all calls in order.

    Args:
        keys: One for each call; 0 is the same as no other.
        calls: N: how many calls each step has.
        opens: N: whether the step is the first of its scope.

    Returns:
        N numbers.

    Example:
        >>> repeats_of(np.array([7, 7, 7, 8]), np.array([1, 2, 0, 1]), np.array([True, False, False, False])).tolist()
        [1, 3, 3, 1]
    """
    end = np.cumsum(calls)
    same = np.zeros(len(keys) + 1, dtype=bool)
    np.equal(keys[1:], keys[:-1], out=same[1:-1])
    same[:-1][keys == _NO_KEY] = False
    same[(end - calls)[opens]] = False
    # Few calls repeat, so only they are looked at: how many in a row before each one were the same.
    again = np.flatnonzero(same)
    heads = np.flatnonzero(np.diff(again, prepend=-2) > 1)
    repeats = np.zeros(len(keys) + 1, dtype=np.int64)
    repeats[again] = again - np.repeat(again[heads], np.diff(np.append(heads, len(again)))) + 1
    repeats[:-1] += 1
    return _at_boundaries(repeats[:-1], calls, end, opens)


def _at_boundaries(after_call: Ints, calls: Ints, end: Ints, opens: Flags) -> Ints:
    """A counter after each call, as it stands after each step: 0 before the first call of a scope."""
    after: Ints = after_call[np.maximum(end, 1) - 1] if len(after_call) else np.zeros_like(end)
    starts = np.flatnonzero(opens)
    if not calls[starts].all():
        after[end == np.repeat((end - calls)[starts], np.diff(np.append(starts, len(calls))))] = 0
    return after


def _error_streaks(errors: Ints, calls: Ints, opens: Flags) -> Ints:
    end = np.cumsum(calls)
    first = set((end - calls)[opens].tolist())
    out, streak = np.empty(len(errors), dtype=np.int64), 0
    for place, error in enumerate(errors.tolist()):
        if place in first:
            streak = 0
        streak = UNKNOWN if error < 0 else 0 if error == 0 else streak + 1 if streak >= 0 else UNKNOWN
        out[place] = streak
    return _at_boundaries(out, calls, end, opens)


def _hash(key: tuple[str, ...] | None) -> int:
    """A call's key as a number; 0 only for None."""
    if key is None:
        return _NO_KEY
    text = "\x1f".join(key).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), signed=True) or 1


def _dollars(micro: int | None) -> float | None:
    return None if micro is None else micro / MICRO


def _field(name: str) -> Callable[[Run, Step], Any]:
    return lambda run, _: getattr(run, name)


def _of_run(get: Callable[[Run], Any]) -> Callable[[Run, Step], Any]:
    return lambda run, _: get(run)
