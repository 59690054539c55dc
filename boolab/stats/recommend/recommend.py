"""Which cap, budget and threshold to set, and at which confidence.

A setting is recommended if the data show that it keeps at least `keep` of future successes: of those settings, the one
that saves most on record. `boolab.stats.recommend.fixed_sequence` explains why that stays valid although the data
choose the setting, and how runs that share a task count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, Literal

import pandas as pd

from boolab.core.run_tree import order_agents
from boolab.core.types import MICRO, Identities, Scope
from boolab.display.document import Document
from boolab.display.numbers import level, span
from boolab.errors import SettingError, near
from boolab.frames.dtypes import FLAG, FLOAT, INT, NO_LIMIT, TEXT, axis_dtype, cells, is_missing, well_formed_cell
from boolab.frames.recording import PARENT
from boolab.frames.runs import distinct_runs
from boolab.frames.tables import tools_called
from boolab.harnesses.exports.values import Export, Limits
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, identity_under
from boolab.limits.call_identity import uncalled_note
from boolab.limits.table import LIMITS, MEASURES, MeasureName
from boolab.logs.list_prices import price_notes
from boolab.stats.finding import Finding, pairs
from boolab.stats.intervals import check_confidence
from boolab.stats.recommend.candidates import (
    Candidates,
    Group,
    PathFinding,
    Question,
    axes_of,
    check_policy,
    measure_of,
    sums_of,
)
from boolab.stats.recommend.fixed_sequence import DEPENDENCE, JOINT_AXES, Dependence
from boolab.stats.recommend.show import as_document
from boolab.stats.recommend.units import clusters_of_ledger, grouped_units, noun_of, split_by_label, units_of_ledger
from boolab.stats.recommend.verdict import trade_of_group, verdict_of
from boolab.stats.recommend.wording import Advice, notes_by_kind
from boolab.stats.trade import BETTER_OFF
from boolab.stats.units import group_name, group_noun, keys_of, sources_of
from boolab.whatif.grid import Grid, settings_of
from boolab.whatif.recordings import Recorded, as_recorded, ledgers_of
from boolab.whatif.step_table import Ledger, one_scope, scopes_of

OBJECTIVES: Final = tuple(measure.name for measure in [*MEASURES.values()][::-1])
POOR: Final = (
    f"These limits are {BETTER_OFF}. The trade is poor: the share of the successes that they may lose is larger than "
    "the share of the work that they save."
)
_SMALLER_SHARES: Final = (0.9, 0.8, 0.7)
"""Shares of successes to keep that an error proposes."""


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation(Finding):
    """The result of `recommend`: a row for each group in `frame`, and for each path in `paths`.

    Args:
        title: What it is about, in a few words.
        frame: The recommended setting of each group, what it keeps and saves, and at which confidence.
        sentences: What they show, in plain words.
        notes: The quality of the data and what limits the answer.
        table: What is shown of the numbers, where the whole frame would be too much.
        tests: Comparisons between groups, a row for each; empty where there are none.
        paths: Group; path ("joint" tightens several limits together); error (its part of the allowed error; 0 if
            there were too few successes to test it); accepted (whether any value was); the value of each axis that
            saves most (NA is off); lost (how many successes it loses), kept_bound (the lower bound of the share that
            it keeps, by itself); saved, saved_share; recommended (whether it is the answer).
        counted: How the limits are counted: identity, scope and policy, with all limits off.
        verdict: The answer in at most three sentences: what to set, whether the trade is good, and what else matters.

    Example:
        >>> found = Recommendation("A cap", pd.DataFrame({"max_steps": pd.array([56], dtype="Int64")}))
        >>> found.setting
        {'max_steps': 56}
    """

    paths: pd.DataFrame = field(default_factory=pd.DataFrame)
    counted: Limits = field(default_factory=Limits)
    verdict: tuple[str, ...] = ()

    def _document_(self) -> Document:
        if not self.verdict:
            return super()._document_()
        return as_document(self, self.verdict, self.limits_by_group(), self.better_off())

    @property
    def setting(self) -> dict[str, Any]:
        """The recommended value of each axis, by its name in a grid; None is off.

        Raises:
            SettingError: if there are several groups, each with a setting of its own: see `frame`.
        """
        if len(self.frame) != 1:
            raise SettingError(f"there are {len(self.frame)} groups, each with a setting of its own: see .frame")
        return self._setting(0)

    def limits(self, agent: str | None = None) -> Limits:
        """The recommended limits of one group, with how they are counted.

        Args:
            agent: Which agent's, where each has a setting of its own; else the name of the agent that they are for.

        Returns:
            The limits.

        Raises:
            SettingError: if no limit is recommended, with the reason; if there are several groups and none is chosen.

        Example:
            >>> found = Recommendation("A cap", pd.DataFrame({"max_steps": pd.array([56], dtype="Int64")}))
            >>> found.limits("coder").max_steps
            56
        """
        row = self._place(agent)
        if not any(value is not None for value in self._setting(row).values()):
            raise SettingError(f"nothing can be exported. {self._why(row)} {self._try}")
        return self._limits(row, agent)

    def limits_by_group(self) -> dict[str, Limits]:
        """The recommended limits of each group that has some, by the name of the group; "" if there is one group only.

        Example:
            >>> found = Recommendation("A cap", pd.DataFrame({"max_steps": pd.array([56], dtype="Int64")}))
            >>> found.limits_by_group()[""].given
            {'max_steps': 56}
        """
        keys = self._keys()
        names = [group_name(self.frame[keys].iloc[row]) if keys else "" for row in range(len(self.frame))]
        limits = {name: self._limits(row) for row, name in enumerate(names)}
        return {name: group_limits for name, group_limits in limits.items() if group_limits.given}

    def better_off(self) -> frozenset[str]:
        """The groups, of `limits_by_group`, whose limits are better left off: the trade is poor.

        Example:
            >>> Recommendation("A cap", pd.DataFrame({"max_steps": pd.array([56], dtype="Int64")})).better_off()
            frozenset()
        """
        if "poor_trade" not in self.frame:
            return frozenset()
        poor = self.frame[self.frame["poor_trade"].fillna(value=False)]
        keys = self._keys()
        return frozenset(group_name(row) if keys else "" for row in poor[keys].itertuples(index=False, name=None))

    def export(self, target: str, agent: str | None = None) -> Export:
        """The recommended setting as the settings of a harness: what to paste where.

        Args:
            target: The harness, such as "claude-code": one of `boolab.harnesses.exports.export.TARGETS`.
            agent: Which agent's, where each has a setting of its own; else the name of the agent that it is for.

        Returns:
            The texts; `print` shows them, and their `write` sets them in files.

        Raises:
            SettingError: if no limit is recommended, with the reason; if there is no such target; if there are several
                groups and none is chosen.

        Example:
            >>> found = Recommendation("A cap", pd.DataFrame({"max_steps": pd.array([56], dtype="Int64")}))
            >>> found.export("boolab", agent="coder").parts[0].path
            'agents/coder.md'
        """
        from boolab.harnesses.exports.export import export

        export_text = export(target, self.limits(agent))
        row = self._place(agent)
        name = group_name(self.frame[self._keys()].iloc[row]) if self._keys() else ""
        return replace(export_text, notes=(*export_text.notes, POOR)) if name in self.better_off() else export_text

    def _keys(self) -> list[str]:
        """The columns by which groups are kept apart: those before the first limit."""
        names = [str(name) for name in self.frame.columns]
        return names[: next((n for n, name in enumerate(names) if name in LIMITS), 0)]

    def _place(self, agent: str | None) -> int:
        """The row of the group that is meant."""
        keys = self._keys()
        rows = range(len(self.frame))
        if agent is not None and "agent" in keys:
            rows = [n for n in rows if self.frame["agent"].iloc[n] == agent]  # type: ignore[assignment]
            if not rows:
                agents = list(dict.fromkeys(map(str, self.frame["agent"])))
                raise SettingError(f"agent={agent!r}: there is no group of that agent{near(agent, agents, 'agents')}")
        if len(rows) == 1:
            return rows[0]
        if not rows:
            raise SettingError(f"nothing can be exported. {' '.join(self.sentences)} {self._try}")
        names = [group_name(self.frame[keys].iloc[n]) for n in rows]
        advice = (
            "pass agent= (--agent in a terminal), one of them"
            if keys == ["agent"]
            else "give the runs of one of them alone"
        )
        msg = f"there are {len(rows)} groups, each with a setting of its own ({'; '.join(names)}): {advice}"
        raise SettingError(msg)

    def _setting(self, index: int) -> dict[str, Any]:
        row = self.frame.iloc[index]
        return {name: None if row[name] is pd.NA else row[name].item() for name in row.index if name in LIMITS}

    def _limits(self, row: int, agent: str | None = None) -> Limits:
        agent_name = self.frame["agent"].iloc[row] if "agent" in self._keys() else agent
        return replace(self.counted, **self._setting(row), agent=str(agent_name) if agent_name else None)

    @property
    def _try(self) -> str:
        """What to do where nothing is recommended; a smaller share to keep if the successes can show it."""
        smaller_share = None
        if {"keep", "keep_possible"} <= {*self.frame} and len(self.frame):
            worst = self.frame[["keep", "keep_possible"]].min()
            smaller = (share for share in _SMALLER_SHARES if share < worst["keep"])
            smaller_share = next((share for share in smaller if share <= worst["keep_possible"]), None)
        keep = (
            "" if smaller_share is None else f"keep less (keep={smaller_share}, in a terminal --keep {smaller_share}), "
        )
        return (
            f"You can {keep}add runs, or export limits of your own (boolab.harnesses.exports.export.export(target, "
            "Limits(max_steps=56)), in a terminal --max-steps 56)."
        )

    def _why(self, row: int) -> str:
        """The sentences on one group."""
        name = group_name(self.frame[self._keys()].iloc[row]) if self._keys() else ""
        group_sentences = (
            [text for text in self.sentences if text.startswith(f"{name}: ")] if name else list(self.sentences)
        )
        return group_sentences[0] if group_sentences else ""


_FRAME: Final = (
    "qualifies", "n_units", "successes", "tasks", "largest_task", "cluster", "kept_lower", "kept_upper", "kept_share",
    "kept_bound", "keep_possible", "poor_trade", "keep", "confidence", "dependence", "objective", "spent", "saved",
    "saved_share", "heldout_kept", "heldout_successes", "heldout_saved_share", "more_needed", "success_by", "path",
    "error", "accepted", "lost", "recommended",
)  # fmt: skip


def recommend(
    recorded: Recorded,
    keep: float = 0.95,
    confidence: float = 0.95,
    objective: MeasureName = "cost",
    *,
    by: str | Sequence[str] | None = None,
    success: Literal["label", "ended"] | None = None,
    grid: Grid | None = None,
    scope: Scope = "auto",
    policy: str | Policy | None = None,
    identity: Identities | None = None,
    exempt: Sequence[str] = (),
    dependence: Dependence = "tasks",
    seed: int = 0,
) -> Recommendation:
    """The setting that saves most of those that keep a share of the successes at some confidence, or why there is none.

    Four paths from loose to tight are tested: the step cap, the doom-loop threshold and the tool budget, each by
    itself, and the three tightened together. Half of the allowed error is the cap's. Every value that passes keeps at
    least `keep` of future successes, all of them at once with the given `confidence`; the answer is the one that saves
    most on record. That may be no limit. No more than `keep` is guaranteed: the share that is kept on record is that of
    a setting that was chosen on this record.

    Args:
        recorded: Runs, a frame with a row per step, or a Parquet path: see `counterfactual`.
        keep: The share of successes to keep, between 0 and 1.
        confidence: The one-sided probability that this share is kept, between 0 and 1.
        objective: What to save: "cost", "tokens", "tool_calls" or "steps". Where fewer than half of the steps have it,
            in all or in one of the groups, tokens or else steps; a note reports it.
        by: Columns of the runs; each group gets a setting of its own. With runs of subagents it is the agent by
            default: a lead and its scouts never share one setting without a note. The success of a
            family is its root's, and a limit on an agent loses it if it stops any of that agent's runs.
        success: "label", or "ended" for the proxy that the turn (under scope "run": the run) ended by itself. By
            default, each group by itself, labels where it has any. The two are never mixed in a group.
        grid: The values to choose from; its first axis has half of the error. By default all whole numbers of
            `max_steps`, `doom_loop` and `tool_budget`.
        scope: See `counterfactual`. With the proxy and scope "turn", each turn is a unit of its own.
        policy: The harness whose limits are to be set: only those that it has, evaluated and counted as it does,
            with its further limits and guards in force. Without one: at boundaries, each by itself.
        identity: See `counterfactual`. Under a policy its own by default.
        exempt: The tools whose repeats are no loop, such as one that polls.
        dependence: How runs of one task depend on each other. "tasks": in any way, so that the promise counts tasks,
            and holds for tasks like these, none of which has more successes than the largest on record. "same_tasks":
            they are independent, and the result holds for new runs of *these* tasks, not of others.
        seed: Of the split into folds.

    Returns:
        A finding. Its frame has a row for each group: the columns of `by`; one column for each axis (NA is off);
        qualifies; n_units (runs or turns), successes, tasks (clusters that hold them), largest_task (the most successes
        of one), cluster ("task", or "run" where no task is named); kept_lower, kept_upper; kept_share (on record);
        kept_bound (the lower bound of the share that is kept, of this setting by itself); keep_possible (the largest
        share that these tasks would show to be kept, if nothing was lost); poor_trade (whether the limits are better
        left off, as the trade is poor: see `better_off`); keep, confidence, dependence; objective, spent and saved (in
        its unit), saved_share; heldout_kept of heldout_successes and heldout_saved_share (chosen on four fifths of the
        tasks and tried on the other fifth, five times over); more_needed (tasks like these without a further loss,
        until there is a setting), success_by. Its `paths` has a row for each path.

    Raises:
        SettingError: if an argument is not one of those above, or a recording does not show what the policy's limits
            would do; it names the policy and why.

    Example:
        >>> import boolab as bl
        >>> runs = [bl.run_sync(None, f"Task {i}", model=bl.ScriptedModel(["Hi."])) for i in range(20)]
        >>> found = bl.recommend(runs, keep=0.9)
        >>> bool(found["qualifies"][0]), int(found["more_needed"][0])
        (False, 9)
    """
    check_confidence(confidence)
    check_confidence(keep, "keep")
    if objective not in OBJECTIVES:
        raise SettingError(f"objective={objective!r}: expected one of {', '.join(OBJECTIVES)}")
    if success not in (None, "label", "ended"):
        msg = f"success={success!r}: expected 'label', 'ended' (the proxy), or None (labels where there are any)"
        raise SettingError(msg)
    if dependence not in DEPENDENCE:
        raise SettingError(f"dependence={dependence!r}: expected one of {', '.join(map(repr, DEPENDENCE))}")
    keys = keys_of(by, {*_FRAME, *LIMITS})
    agent_axis = next((name for name in grid or () if "@" in name), None)
    if agent_axis is not None:
        suffix = agent_axis[agent_axis.index("@") :]
        raise SettingError(f"grid: {agent_axis!r}: each agent gets a setting of its own by itself: leave {suffix} out")
    harness = None if policy is None else get_policy(policy)
    identity = identity_under(harness, identity, exempt)
    order = tuple(grid) if grid is not None else JOINT_AXES if harness is None else axes_of(harness)
    chosen_from = None if grid is None else {name: list(values) for name, values in grid.items()}
    tested: Grid = {name: [2] for name in order} if chosen_from is None else chosen_from
    if harness is not None:
        check_policy(harness, tested)
    detectors = settings_of(tested, harness, identity).detectors()
    recorded = as_recorded(recorded)
    repeats: tuple[str, ...] = ()
    if isinstance(recorded, list):
        recorded, repeats = distinct_runs(recorded)
    runs = Ledger.concat(list(ledgers_of(recorded, detectors, scope, keys, harness)))
    kin = runs.kin()
    if harness is not None and kin is not None and kin.calls:
        msg = f"policy {harness.name}: its limits in families of subagents are not supported: leave policy out"
        raise SettingError(msg)
    if by is None and kin is not None and kin.calls and "agent" in runs.runs:
        keys = ["agent"]
    kinds = [(part, units_of_ledger(part, success, keys)) for part in split_by_label(runs, success, keys)]
    kinds = [kind for kind in kinds if kind[1].n_runs] or kinds[:1]  # by the proxy, a run without steps is no unit
    units = [units for _, units in kinds]
    measure = measure_of(
        (part for _, (_, part) in pairs(units, lambda kind_units: grouped_units(kind_units, keys))), objective
    )
    question = Question(keep, confidence, measure, order, chosen_from, identity, seed, dependence, harness)
    for _, part in grouped_units(runs, keys):
        one_scope(sources_of(part.runs), scope)
    advised = [
        (
            Advice(part, kind_units, question, objective, units),
            [
                _group(values, noun_of(part, kind_units), kind_groups, question)
                for values, kind_groups in grouped_units(kind_units, keys)
            ],
        )
        for part, kind_units in kinds
    ]
    advice = advised[0][0]
    notes = [
        ([group_name(group.names) for group in kind_groups], [*kind_advice.notes(kind_groups)])
        for kind_advice, kind_groups in advised
    ]
    groups = _order_groups(list(chain.from_iterable(kind_groups for _, kind_groups in advised)), runs, keys)
    frame = _frame(groups, keys, question)
    return Recommendation(
        title=f"What to set to keep {level(keep)} of the successes, at {level(confidence)} confidence",
        frame=frame,
        sentences=tuple(chain.from_iterable(advice.group(group, mixed=len(kinds) > 1) for group in groups)),
        notes=(*notes_by_kind(notes), *repeats, *_notes_of_runs(recorded, identity)),
        table=_table(frame, keys, question),
        paths=_paths(groups, keys, question),
        counted=_limits_of(runs, scope, harness, identity),
        verdict=verdict_of(advice, groups, keys),
    )


def _notes_of_runs(recorded: object, identity: Identities | None) -> Iterator[str]:
    """Notes that need the runs themselves: a frame and a file have none."""
    if isinstance(recorded, list):
        yield from uncalled_note(identity, tools_called(recorded))
        yield from price_notes(recorded)


def _limits_of(ledger: Ledger, scope: Scope, policy: Policy | None, identity: Identities | None) -> Limits:
    """How the limits of a recommendation are counted."""
    scopes = set(scopes_of(sources_of(ledger.runs), scope)) or {"turn"}
    default_identity = policy.detectors.identity if policy is not None else "canonical"
    return Limits(
        identity=identity or default_identity,
        scope="run" if scopes == {"run"} else "turn",
        policy=policy,
    )


def _order_groups(groups: Sequence[Group], ledger: Ledger, keys: Sequence[str]) -> list[Group]:
    """The groups in the order of their first runs; agents in that of `order_agents`."""
    if "agent" in keys and group_noun(keys) == "agent":
        names = [_name(values) for values in ledger.runs[list(keys)].itertuples(index=False, name=None)]
        main = ledger.runs[PARENT].isna().tolist() if PARENT in ledger.runs else [True] * ledger.n_runs
        order = {name: position for position, name in enumerate(order_agents(names, main))}
    else:
        order = {_name(values): position for position, (values, _) in enumerate(grouped_units(ledger, keys))}
    return sorted(groups, key=lambda group: order.get(_name(group.names), len(order)))


def _name(values: Iterable[object]) -> tuple[object, ...]:
    """The values of a group such that missing ones are equal."""
    return tuple(None if is_missing(value) else value for value in values)


def _group(values: tuple[Any, ...], noun: str, units: Ledger, question: Question) -> Group:
    clusters = clusters_of_ledger(units)
    candidates = Candidates(units, clusters, question)
    choice = candidates.choose()
    folds = candidates.held_out() if choice.qualifies else None
    return Group(values, noun, units, choice, sums_of(units, choice.setting, question), folds)


def _frame(groups: Sequence[Group], keys: Sequence[str], question: Question) -> pd.DataFrame:
    data: dict[str, Any] = {key: [well_formed_cell(group.names[n]) for group in groups] for n, key in enumerate(keys)}
    for name in question.order:
        settings = [group.choice.setting[name] for group in groups]
        data[name] = cells(settings, axis_dtype(name))
    columns: dict[str, tuple[str, Callable[[Group], Any]]] = {
        "qualifies": (FLAG, lambda g: g.choice.qualifies),
        "n_units": (INT, lambda g: g.units.n_runs),
        "successes": (INT, lambda g: g.choice.successes),
        "tasks": (INT, lambda g: g.choice.tasks),
        "largest_task": (INT, lambda g: g.choice.largest),
        "cluster": (TEXT, lambda g: g.choice.cluster),
        "kept_lower": (INT, lambda g: g.sums["kept_lower"]),
        "kept_upper": (INT, lambda g: g.sums["kept_upper"]),
        "kept_share": (FLOAT, lambda g: g.sums["kept_lower"] / g.choice.successes if g.choice.successes else None),
        "kept_bound": (FLOAT, lambda g: None if g.choice.best is None else g.choice.best.bound),
        "keep_possible": (FLOAT, lambda g: g.choice.keep_possible),
        "poor_trade": (FLAG, lambda g: g.choice.best is not None and trade_of_group(g, question.measure).is_poor),
        "keep": (FLOAT, lambda _: question.keep),
        "confidence": (FLOAT, lambda _: question.confidence),
        "dependence": (TEXT, lambda _: question.dependence),
        "objective": (TEXT, lambda _: question.measure),
        "spent": (FLOAT, lambda g: _convert_amount(g.sums[question.measure], question)),
        "saved": (FLOAT, lambda g: _convert_amount(g.sums[f"saved_{question.measure}"], question)),
        "saved_share": (FLOAT, lambda g: g.saved_share(question.measure)),
        "heldout_kept": (INT, lambda g: None if g.folds is None else g.folds["kept_lower"]),
        "heldout_successes": (INT, lambda g: None if g.folds is None else g.choice.successes),
        "heldout_saved_share": (FLOAT, lambda g: g.heldout_saved_share(question.measure)),
        "more_needed": (INT, lambda g: g.choice.missing),
        "success_by": (TEXT, lambda g: g.units.success_by),
    }  # fmt: skip
    data |= {name: cells([get(group) for group in groups], kind) for name, (kind, get) in columns.items()}
    return pd.DataFrame(data)


def _convert_amount(amount: int, question: Question) -> float:
    return amount / MICRO if question.measure == "cost" else float(amount)


def _table(frame: pd.DataFrame, keys: Sequence[str], question: Question) -> pd.DataFrame:
    """What is shown: the setting, the evidence for it, what it keeps and saves."""
    table = frame[[*keys, *question.order]].astype("object")
    table = table.where(table.notna(), NO_LIMIT if len(frame) else None)
    table["kept"] = [
        f"{span(low, high)} of {base:,}"
        for low, high, base in zip(frame["kept_lower"], frame["kept_upper"], frame["successes"], strict=True)
    ]
    table[f"{question.measure} saved"] = [
        "too few" if value is pd.NA else f"{value:.1%}" for value in frame["saved_share"]
    ]
    return table


def _paths(groups: Sequence[Group], keys: Sequence[str], question: Question) -> pd.DataFrame:
    """A row for each path of each group."""
    rows = list(pairs(groups, lambda group: group.choice.paths))
    data: dict[str, Any] = {key: [well_formed_cell(g.names[n]) for g, _ in rows] for n, key in enumerate(keys)}
    data["path"] = cells([path.tests.path.name for _, path in rows], TEXT)
    data["error"] = cells([path.tests.error for _, path in rows], FLOAT)
    data["accepted"] = cells([path.tests.accepted > 0 for _, path in rows], FLAG)
    for name in question.order:
        settings = [(path.setting or {}).get(name) for _, path in rows]
        data[name] = cells(settings, axis_dtype(name))
    columns: dict[str, tuple[str, Callable[[Group, PathFinding], Any]]] = {
        "lost": (INT, lambda _, path: path.lost),
        "kept_bound": (FLOAT, lambda _, path: path.bound if path.tests.accepted else None),
        "saved": (FLOAT, lambda _, path: _convert_amount(path.saved, question)),
        "saved_share": (FLOAT, lambda group, path: group.share_of(path, question.measure)),
        "recommended": (FLAG, lambda group, path: path is group.choice.best),
    }
    data |= {name: cells([get(*row) for row in rows], kind) for name, (kind, get) in columns.items()}
    return pd.DataFrame(data)
