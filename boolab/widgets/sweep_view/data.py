"""A sweep as it stands: counted cell by cell, and returned as plain data for the widget."""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, Final, Literal, TypeAlias

from boolab.core.text import count
from boolab.errors import describe
from boolab.frames.dtypes import NO_LIMIT
from boolab.io.resources import shared_path
from boolab.limits.table import LIMITS
from boolab.plots.palette import STOP_LOOKS
from boolab.sweeps.progress import CellResult, Notes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the runs of one setting came to.

    `share` is the share of successes, in which each task counts once; `cost` is the mean cost in dollars where it is
    known, `steps` the mean number of steps.
    """

    name: str
    successes: int
    labelled: int
    share: float
    steps: float
    cost: float | None

    @property
    def amount_spent(self) -> float:
        """What a run takes: its cost where that is known, else its steps."""
        return self.steps if self.cost is None else self.cost

    def spent_text(self) -> str:
        """What a run takes, in words."""
        return f"{self.steps:,.1f} steps" if self.cost is None else f"${self.cost:,.2f}"


def verdict_of(outcomes: Sequence[Outcome]) -> str:
    """The setting with the most successes, and the best of those that take less."""
    if len(outcomes) < 2:  # noqa: PLR2004 - nothing to compare
        return ""
    if any(outcome.cost is None for outcome in outcomes) and any(outcome.cost is not None for outcome in outcomes):
        return ""  # what a run takes cannot be compared
    best = max(outcomes, key=lambda outcome: (outcome.share, -outcome.amount_spent))
    if best.share == 0:
        cheapest = min(outcomes, key=lambda outcome: outcome.amount_spent)
        return f"No setting has a success; the least is spent with {cheapest.name}."
    share = f"{best.successes:,} of {count(best.labelled, 'run')}"
    head = f"Most successes: {best.name}, {share} for {best.spent_text()} a run."
    cheaper = [outcome for outcome in outcomes if outcome.amount_spent < best.amount_spent]
    if not cheaper:
        return f"{head} No other setting takes less."
    other = max(cheaper, key=lambda outcome: (outcome.share, -outcome.amount_spent))
    if other.share == 0:
        return f"{head} Settings that take less have no success."
    tail = f"{other.name}, {other.successes:,} of {other.labelled:,} for {other.spent_text()}."
    return f"{head} Next for less: {tail}"


State: TypeAlias = Literal["waiting", "running", "done", "interrupted", "failed", "snapshot"]

ROWS: Final = 200
"""How many settings a table shows at most."""
FAILURES: Final = 20
"""How many kinds of failure are named at most."""
MAX_LISTED: Final = 200
"""How many runs of a setting are listed at most, of all settings together `ALL_LISTED`."""
MAX_ALL_LISTED: Final = 2400
MAX_LISTED_RUNNING: Final = 12
"""How many of them while the sweep runs, when all is sent several times a second."""
MAX_ALL_LISTED_RUNNING: Final = 600
MAX_SPAN: Final = 4
"""How many values without effect are named in one cell."""
_RATE_S: Final = 20.0
MAX_ERROR_CHARS: Final = 300
MAX_TASK_CHARS: Final = 90
_NAME_COLUMNS: Final = ("agent", "model", "policy")


@dataclass(slots=True)
class _SettingCounts:
    """The counts of one setting."""

    runs: int = 0
    steps: int = 0
    cost: float = 0.0
    priced: int = 0
    tasks: dict[str, list[int]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    share: tuple[float | None, ...] | None = None
    first: list[CellResult] = field(default_factory=list)

    def add(self, result: CellResult) -> None:
        self.runs += 1
        self.steps += result.n_steps
        self.reasons[result.reason] += 1
        # By task and id: results come in another order from several processes.
        insort(self.first, result, key=lambda cell: (cell.task, cell.run_id))
        del self.first[MAX_LISTED:]
        if result.cost_usd is not None:
            self.cost += result.cost_usd
            self.priced += 1
        if result.success is not None:
            counts = self.tasks.setdefault(result.task, [0, 0])
            counts[0] += result.success
            counts[1] += 1
            self.share = None  # computed again when it is read

    @property
    def n_labelled(self) -> int:
        """How many runs have a label."""
        return sum(task_runs for _, task_runs in self.tasks.values())

    def success(self) -> tuple[float | None, ...]:
        """The share of successes and both ends of its interval: tasks are what repeats."""
        if self.share is None and self.tasks:
            from boolab.stats.intervals import ClusterBootstrap, clopper_pearson

            won, labelled = (list(numbers) for numbers in zip(*self.tasks.values(), strict=True))
            found = ClusterBootstrap(range(len(won))).share(won, labelled)
            # The runs of one task alone are what repeats.
            ends = clopper_pearson(won[0], labelled[0]) if len(won) == 1 else (float(found.low), float(found.high))
            self.share = (float(found.value), *ends)
        return self.share or (None,) * 3


@dataclass(slots=True)
class _Failure:
    """Runs that failed with the same error."""

    first: CellResult
    runs: int = 0


class SweepCounts:
    """Counts a sweep's cells as they are done. Each costs the same, however many there were.

    `total`: how many cells the sweep has; None if it is not known. `plan`: what it is made of: `agents`, `tasks`,
    `models`, `grid` and `repeats`, as far as known.
    """

    def __init__(self, total: int | None, plan: Mapping[str, Any], store: str = "") -> None:
        self.total = total
        self.store = store
        self._plan = plan
        self._rows: dict[tuple[Any, ...], _SettingCounts] = {}
        self._names: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._reasons: Counter[str] = Counter()
        self._failures: dict[str, _Failure] = {}
        self._done = 0
        self._before = 0
        self._pace: deque[tuple[float, int]] = deque()
        self._begun: float | None = None
        self._deciding = Notes(plan)

    @property
    def n_done(self) -> int:
        """How many cells are done."""
        return self._done

    def begin(self, time_s: float) -> None:
        """The sweep begins at this time in seconds, by any clock; what was added so far was done before."""
        self._begun = time_s
        self._before = self._done
        self._pace.append((time_s, self._done))

    def add(self, result: CellResult) -> None:
        """Count a cell."""
        self._done += 1
        self._reasons[result.reason] += 1
        self._deciding.add(result)
        key = (result.agent, result.model, result.policy, *map(repr, result.settings.items()))
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _SettingCounts()
            self._names[key] = _names_of(result)
        row.add(result)
        if result.reason == "error":
            error = (result.error or "no error was recorded")[:MAX_ERROR_CHARS]
            self._failures.setdefault(error, _Failure(result)).runs += 1

    def snapshot(self, state: State, time_s: float, error: BaseException | None = None) -> dict[str, Any]:
        """All that is shown, as plain data; None is unknown. `error` is what ended the sweep early."""
        elapsed = None if self._begun is None else time_s - self._begun
        rate = self._rate(time_s)
        cells_left = None if self.total is None else self.total - self._done
        columns, fixed = self._columns()
        ordered = sorted(self._rows, key=self._place(columns))
        cells_per_row = len(self._plan.get("tasks", ())) * int(self._plan.get("repeats", 0))  # 0: not known
        idle_columns = [] if state == "running" else [*self._limits_without_effect(columns)]
        rows = [self._row(key, columns, cells_per_row, running=state == "running") for key in ordered[:ROWS]]
        worst = sorted(self._failures, key=lambda text: -self._failures[text].runs)
        return {
            "state": state,
            "done": self._done,
            "before": self._before,
            "total": self.total,
            "elapsed_ms": None if elapsed is None else round(elapsed * 1000),
            "rate": rate,
            "left_ms": round(cells_left / rate * 1000) if state == "running" and rate and cells_left else None,
            "ended": "" if error is None else (str(describe(error)) or type(error).__name__),
            "store": shared_path(self.store),
            "reasons": [{"reason": name, "n": self._reasons[name]} for name in STOP_LOOKS if self._reasons[name]],
            "columns": columns,
            "heads": [head_of(name) for name in columns],
            "units": [LIMITS[name].unit if name in LIMITS else "" for name in columns],
            "fixed": [{"name": head_of(name), "value": _text_of(value)} for name, value in fixed.items()],
            "rows": _mark_copies(rows, [columns.index(name) for name in idle_columns]),
            "verdict": self._verdict(state, ordered, [name for name in columns if name not in idle_columns]),
            "n_rows": len(ordered),
            "planned_rows": None if not cells_per_row or self.total is None else self.total // cells_per_row,
            "failures": [self._failure(text, columns) for text in worst[:FAILURES]],
            "n_failures": len(self._failures),
            "failed": self._reasons["error"],
            "notes": [
                *self._notes(len(ordered)),
                *(self._deciding.sentences() if state != "running" else ()),
                *(f"Settings that differ only in the {head_of(name)} have the same numbers." for name in idle_columns),
            ],
        }

    def _rate(self, time_s: float) -> float | None:
        """Cells a second, over the last 20 seconds."""
        if self._begun is None:
            return None
        if self._pace and time_s > self._pace[-1][0]:
            self._pace.append((time_s, self._done))
        while len(self._pace) > 2 and time_s - self._pace[1][0] >= _RATE_S:  # noqa: PLR2004 - two moments give a rate
            self._pace.popleft()
        earlier_time, earlier_done = self._pace[0]
        return (
            (self._done - earlier_done) / (time_s - earlier_time)
            if time_s > earlier_time and self._done > earlier_done
            else None
        )

    def _columns(self) -> tuple[list[str], dict[str, Any]]:
        """What distinguishes the settings, and what is the same in all of them."""
        values: dict[str, dict[str, Any]] = {name: {} for name in _NAME_COLUMNS}
        for names in self._names.values():
            for name, value in names.items():
                values.setdefault(name, {})[repr(value)] = value
        grid = self._plan.get("grid", {})
        varying = {name for name, distinct in values.items() if len(distinct) > 1 or len(grid.get(name, ())) > 1}
        varying |= {name for name in ("agent", "model") if len(self._plan.get(f"{name}s", ())) > 1}
        fixed = {
            name: next(iter(distinct.values())) for name, distinct in values.items() if distinct and name not in varying
        }
        return [name for name in values if name in varying], fixed

    def _place(self, columns: list[str]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """Where a setting stands in the plan; settings that are not in the plan come last."""
        grid = self._plan.get("grid", {})
        plan_names = {"agent": self._plan.get("agents", ()), "model": self._plan.get("models", ())}
        orders = {
            name: {repr(value): sort_key for sort_key, value in enumerate(grid.get(name, plan_names.get(name, ())))}
            for name in columns
        }

        def sort_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
            names = self._names[key]
            texts = [repr(names.get(name)) for name in columns]
            return tuple((orders[name].get(text, math.inf), text) for name, text in zip(columns, texts, strict=True))

        return sort_key

    def _verdict(self, state: State, ordered: list[tuple[Any, ...]], columns: list[str]) -> str:
        """What the sweep has found, once all its runs are done. Settings are named by what makes a difference."""
        if state not in ("done", "snapshot") or self.total not in (None, self._done):
            return ""
        outcomes: dict[str, Outcome] = {}
        for key in ordered:
            row, names = self._rows[key], self._names[key]
            share = row.success()[0]
            if share is None:
                return ""
            name = ", ".join(_format_setting(name, _text_of(names.get(name))) for name in columns)
            counts = [sum(counts_of_tasks) for counts_of_tasks in zip(*row.tasks.values(), strict=True)]
            cost = row.cost / row.priced if row.priced else None
            outcomes.setdefault(name, Outcome(name, counts[0], counts[1], share, row.steps / row.runs, cost))
        return verdict_of([*outcomes.values()])

    def _row(self, key: tuple[Any, ...], columns: list[str], cells_per_row: int, *, running: bool) -> dict[str, Any]:
        row, names = self._rows[key], self._names[key]
        share, low, high = row.success()
        max_listed, of_all = (MAX_LISTED_RUNNING, MAX_ALL_LISTED_RUNNING) if running else (MAX_LISTED, MAX_ALL_LISTED)
        listed_count = max(1, min(max_listed, of_all // len(self._rows)))
        return {
            "values": [_text_of(names.get(name)) for name in columns],
            "runs": row.runs,
            "listed": [_run_row(result) for result in row.first[:listed_count]],
            "planned": cells_per_row or None,
            "labelled": row.n_labelled,
            "successes": sum(part for part, _ in row.tasks.values()),
            "tasks": len(row.tasks),
            "share": share,
            "low": low,
            "high": high,
            "steps": row.steps / row.runs,
            "cost": row.cost / row.priced if row.priced else None,
            "priced": row.priced,
            "reasons": [{"reason": name, "n": row.reasons[name]} for name in STOP_LOOKS if row.reasons[name]],
        }

    def _failure(self, text: str, columns: list[str]) -> dict[str, Any]:
        failure = self._failures[text]
        first = failure.first
        names = _names_of(first)
        setting_texts = [f"{head_of(name)} {_text_of(names.get(name)).lower()}" for name in columns]
        run_names = {"run_id": first.run_id, "task": first.task, "steps": first.n_steps}
        return {"error": text, "runs": failure.runs, **run_names, "where": setting_texts}

    def _notes(self, n_rows: int) -> Iterator[str]:
        """What is missing in the numbers."""
        rows = self._rows.values()
        labelled = sum(row.n_labelled for row in rows)
        if not self._done:
            return
        if not labelled:
            yield "No run has a label for success."
        else:
            yield "Successes with their 95% interval, for which runs of one task count as a cluster."
            if labelled < self._done:
                yield f"Left out there: {count(self._done - labelled, 'run')} without a label."
        priced = sum(row.priced for row in rows)
        if not priced:
            yield "The cost of no run is known."
        elif priced < self._done:
            yield f"Costs are means over {count(priced, 'run')} whose cost is known."
        if n_rows > ROWS:
            yield f"The first {ROWS} of {n_rows:,} settings; runs_df has all."

    def _limits_without_effect(self, columns: list[str]) -> Iterator[str]:
        """The limits that make no difference in the numbers of the table."""
        for name in columns:
            rows_by_others: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
            for key, row in self._rows.items():
                other_values = tuple(repr(self._names[key].get(other)) for other in columns if other != name)
                labels = [sum(task_counts) for task_counts in zip(*row.tasks.values(), strict=True)]
                amounts = (row.steps, round(row.cost, 6), row.priced)
                rows_by_others.setdefault(other_values, []).append(
                    (row.runs, *amounts, labels, sorted(row.reasons.items()))
                )
            if name in LIMITS and all(
                len(rows) > 1 and rows.count(rows[0]) == len(rows) for rows in rows_by_others.values()
            ):
                yield name


def _mark_copies(rows: list[dict[str, Any]], idle_indices: Sequence[int]) -> list[dict[str, Any]]:
    """Mark the rows that differ from an earlier one only in columns without effect, as copies of it."""
    firsts: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        values = row["values"]
        first = firsts.setdefault(tuple(cell_text for i, cell_text in enumerate(values) if i not in idle_indices), row)
        row["copy"] = first is not row
        if first is row:
            row["spans"] = [[value] for value in values]
        else:
            for span, value in zip(first["spans"], values, strict=True):
                span.extend([] if value in span else [value])
    for row in firsts.values():
        row["spans"] = [", ".join(span) if len(span) <= MAX_SPAN else "any of these" for span in row["spans"]]
    return rows


def first_runs(data: Mapping[str, Any]) -> list[str]:
    """The ids of the runs that a snapshot names: the first one of each setting, of each failure, then all others."""
    ids_by_row = [[run["id"] for run in row["listed"]] for row in data["rows"]]
    failed = [failure["run_id"] for failure in data["failures"]]
    first, *later_ids = zip_longest(*ids_by_row) if ids_by_row else [()]
    ids = chain(first, failed, *later_ids)
    return list(dict.fromkeys(run_id for run_id in ids if run_id is not None))


def _run_row(result: CellResult) -> dict[str, Any]:
    """A run of a setting."""
    task = result.task if len(result.task) <= MAX_TASK_CHARS else f"{result.task[: MAX_TASK_CHARS - 1]}…"
    names = {"id": result.run_id, "task": task, "reason": result.reason, "steps": result.n_steps}
    return names | {"success": result.success, "cost": result.cost_usd}


def _names_of(result: CellResult) -> dict[str, Any]:
    """What distinguishes the setting of a cell."""
    return {name: getattr(result, name) for name in _NAME_COLUMNS} | dict(result.settings)


def settings_of(data: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The rows of a snapshot, each with its setting in words."""
    for row in data["rows"]:
        pairs = zip(data["columns"], row["values"], strict=True)
        yield ", ".join(_format_setting(name, value) for name, value in pairs) or "all", row


def head_of(name: str) -> str:
    """What a column is called."""
    return LIMITS[name].label if name in LIMITS else name.replace("_", " ")


def _format_setting(name: str, value: str) -> str:
    return f"no {head_of(name)}" if name in LIMITS and value == NO_LIMIT else f"{head_of(name)} {value}"


def _text_of(value: object) -> str:
    if value is None:
        return NO_LIMIT
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
