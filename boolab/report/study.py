"""A question about logs, and its result as data; other modules write it as text."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, SupportsInt

import numpy as np
import pandas as pd

from boolab.core.axes import AXES
from boolab.core.text import clean, count
from boolab.core.types import Identities, Run, Scope, Step, Stop
from boolab.counterfactuals.evaluate import counterfactual
from boolab.counterfactuals.from_runs import ledger_of
from boolab.counterfactuals.grid import settings_of
from boolab.counterfactuals.scopes import scopes_of
from boolab.counterfactuals.step_table import LABEL, PROXY, TURN_PROXY
from boolab.errors import ReadWarning, SettingError
from boolab.frames.dtypes import is_missing, well_formed_cell
from boolab.frames.labels import label, labels_of
from boolab.frames.recording import is_final
from boolab.frames.runs import turns_of
from boolab.frames.tables import runs_df, tools_called
from boolab.harness.presets import get_policy
from boolab.logs.list_prices import needs_prices, prices_of
from boolab.logs.load import Reading, read_logs
from boolab.models.remote.pricing import installed
from boolab.rules.call_identity import check_tools
from boolab.stats.recommend.recommend import ORDER, Objective, Recommendation, axes_of, recommend

MEASURES: Final = ("steps", "tool_calls", "tokens", "cost_usd")

MAX_USUAL: Final = 1000  # the largest cap or budget that is evaluated, unless values are given
MIN_DOOM: Final = 10  # the doom-loop thresholds reach at least this value
MAX_ROWS: Final = 12  # of a table
_FEW: Final = 5  # so few values are all shown, even if most change nothing
_ROUND: Final = (*range(1, 7), 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 100, 125, 150, 200, 250, 300, 400, 500, 750)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is computed.

    Attributes:
        grid: Values by axis; None for all that make a difference, on the three usual axes.
        scope: Whether counters start at zero with each user message ("turn"), never ("run"), or as the harness of each
            source counts ("auto"); in a study "auto" stands only where both occur, and sources are kept apart.
        identity: What makes two calls the same.
        policy: The harness whose limits are evaluated: its order of precedence, its identity, and what else stops it.
        by: Columns that keep groups apart.
        keep: The share of successes to keep.
        confidence: That it is kept.
        objective: What to save.
        success: "label", "ended", or None for labels where there are any.
        labels: A file of labels.
        pooled: Whether several agents are taken together, if `by` is empty.
        prices: Whether costs that logs lack are filled in at list prices: see `boolab.logs.list_prices`.
    """

    grid: Mapping[str, Sequence[Any]] | None = None
    scope: Scope = "auto"
    identity: Identities | None = None
    policy: str | None = None
    by: tuple[str, ...] = ()
    keep: float = 0.95
    confidence: float = 0.95
    objective: Objective = "cost"
    success: Literal["label", "ended"] | None = None
    labels: str | None = None
    prices: bool = True
    pooled: bool = False

    @property
    def same(self) -> Identities | None:
        """What makes two calls the same; the policy's own where none is given."""
        given = self.identity is not None or self.policy is None
        return self.identity if given else get_policy(self.policy or "").detectors.identity

    @property
    def how(self) -> dict[str, Any]:
        """How limits are counted: arguments of `counterfactual` and `recommend`."""
        return {"scope": self.scope, "policy": self.policy, "identity": self.identity}


class Unit(NamedTuple):
    """What is counted as one: a run, or a turn of a run as a run of its own. `of` is its place in the runs."""

    run: Run
    of: int
    turn: int | None


class Maker(NamedTuple):
    """An agent of these runs: where its logs come from, how many runs there are, and how many are labelled."""

    source: str
    agent: str
    runs: int
    steps: int
    successes: int
    labelled: int


class Row(NamedTuple):
    """One value of an axis, the others off: what it keeps, stops and saves."""

    value: float | None
    kept: tuple[int, int]
    successes: int
    stopped: int
    undecided: int
    n: int
    saved: Mapping[str, tuple[float, float] | None]
    mark: Literal["recommended", "tightest", ""]

    @property
    def cut(self) -> int:
        """How many successes are stopped before they were done."""
        return self.successes - self.kept[0]


class Cut(NamedTuple):
    """A unit that a setting stops: where, and the smallest value that would not stop it (None: not known)."""

    unit: int
    turn: int | None
    step: int | None
    success: bool | None
    maybe: bool
    needed: int | None


@dataclass(frozen=True)
class Study:
    """The data, the question, and the results."""

    question: Question
    reading: Reading
    runs: list[Run]
    homes: list[str]
    units: list[Unit]
    found: Recommendation
    margins: Mapping[str, pd.DataFrame] = field(repr=False)

    @property
    def success_by(self) -> str:
        """What a success is: "label", or the proxy."""
        return str(next(iter(self.margins.values()))["success_by"].iloc[0])

    @cached_property
    def makers(self) -> list[Maker]:
        """The agents of these runs, those with most runs first."""
        counted: dict[tuple[str, str], list[int]] = {}
        for run in self.runs:
            sums = counted.setdefault((clean(run.source), clean(run.agent)), [0, 0, 0, 0])
            for place, more in enumerate((1, run.n_steps, run.success is True, run.success is not None)):
                sums[place] += more
        makers = [Maker(source, agent, *sums) for (source, agent), sums in counted.items()]
        return sorted(makers, key=lambda maker: -maker.runs)

    @property
    def proxy(self) -> bool:
        """Whether a proxy stands in for success."""
        return self.success_by != LABEL

    @property
    def searched(self) -> Mapping[str, Sequence[Any]] | None:
        """What the recommendation was chosen from; None for all values."""
        return _searched(self.question)

    @property
    def noun(self) -> str:
        """What a unit is called."""
        return "turn" if any(unit.turn is not None for unit in self.units) else "run"

    @property
    def qualifies(self) -> bool:
        """Whether there is one setting, for all."""
        return len(self.found.frame) == 1 and bool(self.found.frame["qualifies"].iloc[0])

    @cached_property
    def measure(self) -> str:
        """The column of what is to be saved: the objective, or else what the source records."""
        objective = str(self.found.frame["objective"].iloc[0]) if len(self.found.frame) else "steps"
        return "cost_usd" if objective == "cost" else objective

    def table(self) -> pd.DataFrame:
        """All combinations of the settings, a row for each and each group."""
        values = {axis: dict.fromkeys(frame[axis].tolist()) for axis, frame in self.margins.items()}
        grid = {axis: [None if is_missing(value) else value for value in some] for axis, some in values.items()}
        table = _aggregate([unit.run for unit in self.units], grid, self.question)
        for name in self.question.by:  # neither CSV nor Parquet can hold a lone surrogate
            table[name] = table[name].map(well_formed_cell)
        return table

    def groups(self, axis: str) -> Iterator[tuple[str, pd.DataFrame, Mapping[str, Any]]]:
        """Of each group: its name, the rows of an axis, and what is recommended to it."""
        frame, by = self.margins[axis], list(self.question.by)
        rows = self.found.frame.to_dict("records")
        if not by:
            yield "", frame, {str(k): v for k, v in rows[0].items()} if rows else {}
            return
        for values, part in frame.groupby(by, sort=False, dropna=False):
            names = values if isinstance(values, tuple) else (values,)
            mine = next((row for row in rows if all(_alike(row[k], v) for k, v in zip(by, names, strict=True))), {})
            yield _named(names), part, {str(k): v for k, v in mine.items()}

    @cached_property
    def group_names(self) -> list[str]:
        """Of each unit, the name of its group."""
        frame = runs_df(self.runs)[list(self.question.by)]
        names = [_named(row) for row in frame.itertuples(index=False, name=None)]
        return [names[unit.of] for unit in self.units]

    def shown(self, axis: str, part: pd.DataFrame, advice: Mapping[str, Any]) -> list[Row]:
        """A dozen informative rows of an axis: from tight to loose, off last."""
        ordered = part.assign(_off=part[axis].isna()).sort_values(["_off", axis], kind="stable")
        rows = [_row(entry, axis) for entry in ordered.to_dict("records")]
        best = advice.get(axis) if advice.get("qualifies") is True else None
        best = None if is_missing(best) else best
        on = [row for row in rows if row.value is not None]
        tight = _tightest(on)
        chosen = _informative([row.value for row in on if row.value is not None], on, [best, tight])
        out = [row._replace(mark=_mark(row.value, best, tight)) for row in on if row.value in chosen]
        return [*out, *(row for row in rows if row.value is None)]

    def cuts(self, axis: str, values: Sequence[Any]) -> dict[Any, list[Cut]]:
        """The units that each value stops, successes first; those that need most first."""
        given = sorted({value for value in values if value is not None})
        if not given or not self.units:
            return {}
        table = counterfactual([unit.run for unit in self.units], grid={axis: given}, **self.question.how)
        needed = self._needed(axis)
        out: dict[Any, list[Cut]] = {value: [] for value in given}
        table["_unit"] = np.repeat(np.arange(len(self.units)), len(given))
        for row in table[table["outcome"].isin(("truncated", "not_identified"))].to_dict("records"):
            unit = int(row["_unit"])
            turn = self.units[unit].turn or _known(row["stop_turn"])
            success = None if is_missing(row["success"]) else bool(row["success"])
            maybe = not is_missing(row["kept_upper"]) and bool(row["kept_upper"] == 1)
            out[row[axis]].append(Cut(unit, turn, _known(row["stop_step"]), success, maybe, needed[unit]))
        for cuts in out.values():
            cuts.sort(key=lambda cut: (cut.success is not True, -(cut.needed or 0)))
        return out

    def _needed(self, axis: str) -> list[int | None]:
        """Of each unit, the smallest value of an axis that does not stop it; None where it is not known."""
        question = self.question
        plain = settings_of({axis: [2]}, identity=question.same).axes[0].rules[0]
        under = settings_of({axis: [2]}, question.policy, question.identity)
        limit = next(one for one in under.axes if one.name == axis)
        watched = [rule.detector for rule in (*limit.rules, *limit.responses) if rule.detector is not None]
        ledger = ledger_of([unit.run for unit in self.units], watched, question.scope).kept()
        rules = [(rule, ledger) for rule in limit.rules] + [(rule, ledger.at_response()) for rule in limit.responses]
        most = np.iinfo(np.int64).max
        # A run goes past a value while the counter stays below its threshold, which may lie beyond the value itself.
        needed = np.zeros(ledger.n_runs, dtype=np.int64)
        for rule, there in rules:
            peak = there.peak(rule.counter)
            beyond = rule.threshold - plain.threshold
            needed = np.maximum(needed, np.where(peak == most, most, np.minimum(peak, most - 1) + 1 - beyond))
        return [None if least == most else least for least in needed.tolist()]


def study_of(
    logs: Sequence[str],
    question: Question,
    *,
    format: str | None = None,  # noqa: A002 - as in load_runs
    since: datetime | None = None,
    limit: int | None = None,
    progress: bool = False,
) -> Study:
    """Read logs, and compute the result.

    Args:
        logs: Files, folders, globs.
        question: What to compute.
        format: The name of the logs' format, if it is not to be detected.
        since: Only files that were changed at this time or later.
        limit: At most this many logs, the newest first.
        progress: Show a progress bar, if stderr is a terminal.

    Raises:
        RunFormatError: if nothing can be read.
        SettingError: if there is no run, or the question has something that is not accepted.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)  # the account of the files has them
        reading = read_logs(list(logs), format=format, since=since, limit=limit, progress=progress)
    if not reading.runs:
        raise SettingError(_why_no_run(reading))
    runs = list(reading.runs)
    if question.labels is not None:
        key, labels = labels_of(question.labels)
        runs = label(runs, labels, key=key)
    if question.success == "ended":
        runs = [replace(run, success=None) for run in runs]
    notes: tuple[str, ...] = ()
    if question.prices and needs_prices(runs):
        runs, notes = _with_prices(runs)
    study = study_of_runs(runs, question, reading)
    return replace(study, found=replace(study.found, notes=(*study.found.notes, *notes)))


def _with_prices(runs: list[Run]) -> tuple[list[Run], tuple[str, ...]]:
    """The runs with costs at list prices where the package is there, and the notes on it."""
    if not installed():
        return runs, ("Dollars need the list prices of the package genai-prices: pip install 'boolab[prices]'.",)
    found = prices_of(runs)
    return found.runs, found.notes()


def study_of_runs(runs: list[Run], question: Question, reading: Reading) -> Study:
    """The result for runs that were read."""
    check_tools(question.identity, tools_called(runs))
    homes = [row.path for row in reading.files for _ in range(row.runs)]
    scopes = scopes_of([run.source for run in runs], question.scope)
    if len(set(scopes)) == 1:
        question = replace(question, scope="run" if scopes[0] == "run" else "turn")
    elif "source" not in question.by:  # two meanings of a limit are never mixed
        question = replace(question, by=("source", *question.by))
    if not question.by and not question.pooled:  # a limit is for one agent
        question = replace(question, by=_makers_apart(runs))
    proxy = all(run.success is None for run in runs)
    pairs = zip(runs, scopes, strict=True)
    split = proxy and any(scope == "turn" and bool(run.steps) and run.steps[-1].turn > 1 for run, scope in pairs)
    units = [
        unit
        for of, run in enumerate(runs)
        for unit in (_turns(run, of) if split and scopes[of] == "turn" else [Unit(run, of, None)])
    ]
    grid = question.grid or _usual(runs, question)
    found = _advice(runs, question)
    if not question.by and "agent" in found.frame:  # each agent of a family has a setting of its own
        question = replace(question, by=("agent",))
    each = [unit.run for unit in units]
    on = {axis: [value for value in grid[axis] if value is not None] for axis in AXES if axis in grid}
    margins = {axis: _aggregate(each, {axis: [*values, None]}, question) for axis, values in on.items()}
    return Study(question, reading, runs, homes, units, found, margins)


def _makers_apart(runs: Sequence[Run]) -> tuple[str, ...]:
    """The columns that keep several agents apart."""
    makers = {(clean(run.source), clean(run.agent)) for run in runs}
    agents = {agent for _, agent in makers}
    if len(makers) < 2:  # noqa: PLR2004 - one agent
        return ()
    return ("agent",) if len(agents) == len(makers) else ("source", "agent") if len(agents) > 1 else ("source",)


def _advice(runs: list[Run], question: Question) -> Recommendation:
    """The recommendation; if a policy cannot be evaluated, the reason stands in its place."""
    try:
        return recommend(
            runs,
            question.keep,
            question.confidence,
            question.objective,
            by=list(question.by) or None,
            success=question.success,
            grid=_searched(question),
            **question.how,
        )
    except SettingError as error:
        if question.policy is None:
            raise
        why = (f"No recommendation. {error}.",)
        return Recommendation("No recommendation", pd.DataFrame(), why, verdict=why)


def _why_no_run(reading: Reading) -> str:
    if not reading.files:
        return "no log was found: docs/formats.md lists the formats that are read (is --since too recent?)"
    why = next((row.skipped for row in reading.files if row.skipped), "they are empty")
    return f"there is no run in {count(len(reading.files), 'file')}: {why}"


def _searched(question: Question) -> dict[str, list[Any]] | None:
    """The grid that a recommendation chooses from, in its fixed order; of the usual axes, those of the policy."""
    order = (*ORDER, *(axis for axis in AXES if axis not in ORDER))
    given = question.grid or {}
    on = {axis: [value for value in given[axis] if value is not None] for axis in order if axis in given}
    grid = {axis: values for axis, values in on.items() if values}
    if not grid or question.policy is None:
        return grid or None
    has = axes_of(get_policy(question.policy))
    return {axis: values for axis, values in grid.items() if axis in has or axis not in ORDER} or grid


def _usual(runs: Sequence[Run], question: Question) -> dict[str, list[int]]:
    """All values that can make a difference."""
    scopes = scopes_of([run.source for run in runs], question.scope)
    parts = [
        steps
        for run, scope in zip(runs, scopes, strict=True)
        for steps in ([list(run.steps)] if scope == "run" else [s for _, s in turns_of(run)])
    ]
    steps = max((len(part) for part in parts), default=0)
    calls = max((sum(r is not None for step in part for r in step.results) for part in parts), default=0)
    return {
        "max_steps": [*range(1, min(max(steps, 1), MAX_USUAL) + 1)],
        "tool_budget": [*range(1, min(calls + 1, MAX_USUAL) + 1)],
        "doom_loop": [*range(2, min(max(_longest_repeat(runs, question) + 1, MIN_DOOM), MAX_USUAL) + 1)],
    }


def _longest_repeat(runs: Sequence[Run], question: Question) -> int:
    """How often the same call comes in a row at most, as far as the source records it."""
    rule = settings_of({"doom_loop": [2]}, identity=question.same).axes[0].rules[0]
    assert rule.detector is not None  # noqa: S101 - repeats are what a detector counts
    peaks = ledger_of(runs, [rule.detector], question.scope).peak(rule.counter)
    known = peaks[peaks < np.iinfo(np.int64).max]
    return int(known.max(initial=0))


def _aggregate(runs: list[Run], grid: Mapping[str, Sequence[Any]], question: Question) -> pd.DataFrame:
    table = counterfactual(runs, grid=grid, by=list(question.by) or None, aggregate=True, **question.how)
    by_turn = (table["scope"] == "turn") & (table["success_by"] == PROXY)  # without labels each unit is a turn
    return table.assign(success_by=table["success_by"].mask(by_turn, TURN_PROXY))


def _turns(run: Run, of: int) -> Iterator[Unit]:
    """Each turn of a run as a run of its own, numbered from its own first step; see `Ledger.by_span`."""
    if not run.steps:
        return
    turns = list(turns_of(run))
    for place, (turn, steps) in enumerate(turns):
        start = (steps[0].start_ms or 0) if place else 0
        mine = tuple(_moved(step, number, start) for number, step in enumerate(steps, 1))
        stop = run.stop if place == len(turns) - 1 else _end(mine)
        yield Unit(replace(run, steps=mine, stop=stop, inputs=(), prompt=(), events=()), of, turn)


def _moved(step: Step, number: int, start: int) -> Step:
    return step._replace(index=number, start_ms=None if step.start_ms is None else step.start_ms - start)


def _end(steps: Sequence[Step]) -> Stop:
    """How a turn ended that another follows: by itself, if its last step called no tool."""
    last = steps[-1]
    if is_final(last):
        return Stop("finished", len(steps) - 1)
    return Stop("aborted", len(steps) - (not any(result is not None for result in last.results)))


# --- Rows -------------------------------------------------------------------------------------------------------------


def _row(entry: Mapping[Any, Any], column: str) -> Row:
    value = entry[column]
    return Row(
        None if is_missing(value) else value,
        (int(entry["kept_lower"]), int(entry["kept_upper"])),
        int(entry["successes"]),
        int(entry["n_truncated"]) + int(entry["n_not_identified"]),
        int(entry["n_unknown"]),
        int(entry["n_runs"]),
        {name: _saved(entry, name) for name in MEASURES},
        "",
    )


def _saved(entry: Mapping[Any, Any], name: str) -> tuple[float, float] | None:
    saved, spent = entry[f"saved_{name}"], entry[name]
    return None if is_missing(saved) or is_missing(spent) else (saved, saved + spent)


def _tightest(rows: Sequence[Row]) -> float | None:
    """The least value from which on no success is lost."""
    found = None
    for row in reversed(rows):
        if row.cut > 0 or row.undecided or not row.successes:
            break
        found = row.value
    return found


def _mark(value: float | None, best: object, tight: object) -> Literal["recommended", "tightest", ""]:
    return "" if value is None else "recommended" if value == best else "tightest" if value == tight else ""


def _informative(values: Sequence[float], rows: Sequence[Row], always: Sequence[Any]) -> set[float]:
    """The values to show: all of a few; else those marked, the first that changes nothing, and round ones."""
    if len(values) <= _FEW:
        return set(values)
    idle = next((row.value for row in rows if not (row.stopped or row.undecided)), None)
    end = values[-1] if idle is None else idle
    must = {value for value in (*always, values[0], end) if value is not None and value in values}
    below = [value for value in values if value < end and value not in must]
    if len(below) + len(must) <= MAX_ROWS:
        return must | set(below)
    nice = [value for value in below if value in _ROUND] or below
    room = max(MAX_ROWS - len(must), 0)
    picked: Any = np.unique(np.linspace(0, len(nice) - 1, room).round().astype(int)) if nice and room else []
    return must | {nice[place] for place in picked}


def _named(values: Sequence[Any]) -> str:
    return ", ".join("no name" if is_missing(value) or value == "" else str(value) for value in values)


def _known(value: SupportsInt) -> int | None:
    return None if is_missing(value) else int(value)


def _alike(one: object, two: object) -> bool:
    return is_missing(one) and is_missing(two) if is_missing(one) or is_missing(two) else bool(one == two)
