"""Which cap, budget and threshold to set, at which confidence, and whether they are good for anything.

A setting is recommended if the data show three things: it keeps at least `keep` of future successes; each step of it
along the frontier saves more than it loses; and the runs that it stops fail more often than the others. See
`boolab.stats.recommend.fixed_sequence` for why the first stays valid although the data choose the setting.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Literal

import numpy as np

from boolab.core.run_tree import order_agents
from boolab.core.types import Identities, Scope
from boolab.display.numbers import level
from boolab.errors import SettingError
from boolab.frames.recording import PARENT
from boolab.frames.runs import distinct_runs
from boolab.frames.tables import tools_called
from boolab.harnesses.exports.values import Limits
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, identity_under
from boolab.limits.call_identity import uncalled_note
from boolab.limits.table import OBJECTIVES, MeasureName
from boolab.logs.list_prices import price_notes
from boolab.stats.cost.repriced import refuse_repriced
from boolab.stats.finding import pairs
from boolab.stats.intervals import check_confidence
from boolab.stats.recommend.budget import budget_of, order_for_budget
from boolab.stats.recommend.decide import GroupDecision, decide
from boolab.stats.recommend.decision import RESERVED, Decision, groups_frame, table_of_groups
from boolab.stats.recommend.desk_answer import desk_answer
from boolab.stats.recommend.fixed_sequence import DEPENDENCE, JOINT_AXES, Dependence
from boolab.stats.recommend.groups import Basis, default_keys, kinds_of, name_of, shared_errors, task_sizes
from boolab.stats.recommend.label_counts import count_labels
from boolab.stats.recommend.notes import DataNotes, notes_by_kind, shared_agent_notes
from boolab.stats.recommend.one_for_all import compare_with_one
from boolab.stats.recommend.question import DeskAnswer, Question, axes_of, check_policy, measure_of, title_of
from boolab.stats.recommend.units import group_numbers, unit_of_ledger
from boolab.stats.recommend.words import compared_in_words, sentences_of, verdict_of, words_of
from boolab.stats.units import group_name, group_noun, keys_of, sources_of
from boolab.whatif.grid import Grid, settings_of
from boolab.whatif.recordings import Recorded, as_recorded, ledgers_of
from boolab.whatif.step_table import Ledger, one_scope, scopes_of


def recommend(
    recorded: Recorded,
    keep: float = 0.95,
    confidence: float = 0.95,
    objective: MeasureName = "cost",
    *,
    by: str | Sequence[str] | None = None,
    success: Literal["label", "ended"] | None = None,
    labels: Literal["count", "desk"] = "count",
    unlabelled: Literal["bounds", "proxy"] = "bounds",
    grid: Grid | None = None,
    scope: Scope = "auto",
    policy: str | Policy | None = None,
    identity: Identities | None = None,
    exempt: Sequence[str] = (),
    dependence: Dependence = "tasks",
    success_value: float | None = None,
    budget: float | None = None,
    share: float = 0.95,
    seed: int = 0,
) -> Decision:
    """Decide which limits to set, to leave off, or not yet, and on what evidence.

    Four paths from loose to tight are tested: the step cap, the doom-loop threshold and the tool budget, each by
    itself, and the three tightened together. Half of the allowed error is the cap's. Every value that passes keeps at
    least `keep` of future successes, all of them at once, and in all groups together, with the given `confidence`. Of
    those the decision is the last one along the frontier whose step from the one before it saves more than it loses;
    it is to be set if the runs that it stops fail more often than the others (a permutation test at 5%). No more than
    `keep` is promised: the share that is kept on record is that of a setting that was chosen on this record.

    With a `budget` another question is answered: the loosest limit under which at least `share` of the units cost no
    more than so many dollars. Its values are tested from tight to loose, and the last one before the first that is not
    shown may be set; nothing is promised about successes (`boolab.stats.recommend.budget`).

    Args:
        recorded: Runs, a frame with a row per step, or a Parquet path: see `counterfactual`.
        keep: The share of successes to keep, between 0 and 1.
        confidence: The one-sided probability that this share is kept, between 0 and 1.
        objective: What to save: "cost", "tokens", "tool_calls" or "steps". Where fewer than half of the steps have it,
            in all or in one of the groups, tokens or else steps; a note reports it.
        by: Columns of the runs; each group gets a decision of its own, and the groups share the error. By default
            agents and data sets are separated, and models, efforts and versions of the harness whose runs differ in
            length: see `boolab.stats.recommend.groups`. [] takes all runs together. With runs of subagents it is the
            agent: a lead and its scouts never share one setting without a note. The success of a family is its
            root's, and a limit on an agent loses it if it stops any of that agent's runs.
        success: "label", or "ended" for the proxy that the turn (under scope "run": the run) ended by itself. By
            default, each group by itself, labels where it has any. The two are never mixed in a group.
        labels: "count" tests the labels that there are. "desk" takes what was shown at the desk of `boolab label`,
            whose file stands beside the logs: it has values, `keep` and `confidence` of its own, and needs fewer.
        unlabelled: What runs without a label are in groups that have some. "bounds": whatever they are, the promise
            holds: each that a limit stops counts as a lost success, so labels may be chosen in any way. "proxy": such
            a group takes the proxy, for all of its runs.
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
        success_value: What a lost success costs, in the unit of the objective (dollars for "cost"). By default what a
            success costs on record: the even trade.
        budget: Dollars that a unit may cost. The limit is the step cap, under a policy its first limit; a `grid` may
            have another one, with its values. Of the other arguments `keep`, `objective`, `success_value` and `seed`
            decide nothing then.
        share: The share of units that are to stay within the budget, between 0 and 1.
        seed: Of the split into folds, and of the permutations.

    Returns:
        A decision. Its frame has a row for each group: the columns of `by`; a column for each limit, with the value to
        set (NA is off); action ("set", "leave" or "not_yet") and reason. The other columns are about the candidate: the
        setting to set, else the one that comes closest to it. candidate (in words); unit ("run" or "turn"), n_units;
        success_by, successes, tasks (clusters that hold them), largest_task (the most successes of one), cluster
        ("task", or "run" where no task is named); keep, confidence, error (the group's part), dependence; kept_lower,
        kept_upper, kept_share (on record), kept_share_lower and kept_share_upper (the same, whatever the outcomes of
        units without a label are; NA where all have one), kept_bound (the lower bound of the share that is kept, of
        this setting by itself), keep_possible (the largest share that these tasks would show to be kept, if nothing was
        lost), rarest_kind (a kind of task that is rarer may not be on record); objective, spent and saved (in its
        unit), saved_share with its 95% interval; heldout_kept of heldout_successes, heldout_saved_share (chosen on four
        fifths of the tasks and tried on the other fifth, five times over); stopped, and of these failures, successes,
        unknown; expected_failures and p_value of the comparison with chance; margin_lost and margin_saved (what the
        last step along the frontier loses and saves), next_lost and next_saved (what the next one would); largest_run
        and largest_run_share, largest_task_share (of the saving); n_broken (groups that keep less than `keep` on
        record); newest_kept of newest_successes (in the newest third), older_setting_kept (there, under what the older
        two thirds alone would set); more_needed (tasks like these without a further loss, until there is a setting).
        With a budget the tasks are those of all units, and there are the columns budget, budget_share, over (units that
        cost more under the candidate), over_without (without a limit), n_unknown_cost (of both) and over_bound (at most
        this share of units to come costs more under it, by itself).

    Raises:
        SettingError: if an argument is not one of those above, the frame is that of `repriced`, or a recording does not
            show what the policy's limits would do; it names the policy and why.

    Example:
        >>> import boolab as bl
        >>> runs = [bl.run_sync(None, f"Task {i}", model=bl.ScriptedModel(["Hi."])) for i in range(20)]
        >>> decision = bl.recommend(runs, keep=0.9)
        >>> decision.action, decision.evidence["more_needed"]
        ('not_yet', 9)
    """
    _check(recorded, keep, confidence, objective, success, labels, unlabelled, dependence, grid, share)
    budget_asked = budget_of(budget, share, dependence)
    if labels == "desk":
        given = {"by": by, "success": success, "grid": grid, "policy": policy, "success_value": success_value}
        given["budget"] = budget
        return _recommend_by_desk(recorded, objective, given, scope, identity_under(None, identity, exempt), seed)
    keys = keys_of(by, RESERVED)
    harness = None if policy is None else get_policy(policy)
    identity = identity_under(harness, identity, exempt)
    order = tuple(grid) if grid is not None else JOINT_AXES if harness is None else axes_of(harness)
    chosen_from = None if grid is None else {name: list(values) for name, values in grid.items()}
    tested: Grid = {name: [2] for name in order} if chosen_from is None else chosen_from
    if budget_asked is not None:
        order, objective = order_for_budget(order, grid), "cost"
    to_show: tuple[float, Basis] = (keep, "successes") if budget_asked is None else (budget_asked.share, "units")
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
    if by is None:
        keys = default_keys(runs, scope, success, to_show[0], 1 - confidence, to_show[1])
    sources, number = np.array(sources_of(runs.runs), dtype=object), group_numbers(runs, keys)
    for group in range(int(number.max(initial=-1)) + 1):
        one_scope(sources[number == group].tolist(), scope)
    kinds = kinds_of(runs, keys, success, unlabelled)
    parts = list(pairs(kinds, lambda kind: kind.groups))
    measure = objective if budget_asked is not None else measure_of((part for _, (_, part) in parts), objective)
    question = Question(
        keep,
        confidence,
        measure,
        order,
        chosen_from,
        identity,
        seed,
        dependence,
        harness,
        1 - confidence,
        success_value,
        budget=budget_asked,
    )
    dates = _dates_of(recorded)
    sizes = [*chain(*(task_sizes(kind.units, keys, to_show[1]) for kind in kinds))]
    errors = shared_errors(sizes, to_show[0], 1 - confidence)
    decided = [
        (kind, decide(names, unit_of_ledger(kind.units), part, replace(question, error=error), dates))
        for (kind, (names, part)), error in zip(parts, errors, strict=True)
    ]
    every = [kind.units for kind in kinds]
    notes = []
    for kind in kinds:
        of_kind = [group for own, group in decided if own is kind]
        counts = count_labels([kind.units], recorded)
        data = DataNotes(kind.runs, kind.units, question, objective, every, counts, proxy=unlabelled == "proxy")
        notes.append(([group_name(group.names) for group in of_kind], [*data.notes(of_kind)]))
    one_for_all = None if budget_asked else compare_with_one(kinds, [group for _, group in decided], keys, question)
    groups = _order_groups([group for _, group in decided], runs, keys)
    words = [*map(words_of, groups)]
    frame = groups_frame(groups, keys, order)
    of_groups = [*chain.from_iterable(map(sentences_of, groups, words))]
    return Decision(
        title=title_of(question),
        frame=frame,
        sentences=tuple(filter(None, [compared_in_words(groups, keys, one_for_all), *of_groups])),
        notes=(*notes_by_kind(notes), *shared_agent_notes(groups, keys), *repeats, *_notes_of_runs(recorded, identity)),
        table=table_of_groups(frame, keys),
        groups=tuple(groups),
        keys=tuple(keys),
        counted=_limits_of(runs, scope, harness, identity),
        verdict=verdict_of(groups, words, keys, one_for_all),
        one_for_all=one_for_all,
        labels=count_labels(every, recorded),
    )


def _recommend_by_desk(
    recorded: Recorded,
    objective: MeasureName,
    given: Mapping[str, object],
    scope: Scope,
    identity: Identities | None,
    seed: int,
) -> Decision:
    """The decision among the values that the desk shows to keep enough; `given` are arguments that it cannot have."""
    fixed = [name for name, value in given.items() if value is not None]
    if fixed:
        raise SettingError(f"labels='desk': the question is that of its file: leave {' and '.join(fixed)} out")
    runs = as_recorded(recorded)
    if not isinstance(runs, list):
        msg = "labels='desk': a frame or a file of steps has no texts by which units are known: give the runs"
        raise SettingError(msg)
    return decide_at_desk(desk_answer(runs, scope, identity), objective, scope, identity, seed)


def decide_at_desk(
    answer: DeskAnswer,
    objective: MeasureName = "cost",
    scope: Scope = "auto",
    identity: Identities | None = None,
    seed: int = 0,
) -> Decision:
    """The decision among the values that a desk shows to keep enough; see `recommend`."""
    if not any(answer.shown.values()):
        title = f"No limit is shown to keep {level(answer.keep)} of the successes yet"
        return Decision(title, groups_frame([], [], JOINT_AXES), answer.sentences, verdict=answer.sentences)
    runs = list(answer.runs)
    grid: Grid = {axis: list(values) for axis, values in answer.values.items()}
    order, error = tuple(answer.values), 1 - answer.confidence
    settings = settings_of(grid, None, identity)
    ledger = Ledger.concat(list(ledgers_of(runs, settings.detectors(), scope)))
    (kind,) = kinds_of(ledger, [], None)
    (names, units), *_ = kind.groups
    question = Question(
        answer.keep,
        answer.confidence,
        measure_of([units], objective),
        order,
        grid,
        identity,
        seed,
        error=error,
        desk=answer,
    )
    group, counts = decide(names, unit_of_ledger(units), units, question, {}), count_labels([units], runs)
    frame, words = groups_frame([group], [], order), words_of(group)
    return Decision(
        title=title_of(question),
        frame=frame,
        sentences=tuple(sentences_of(group, words)),
        notes=tuple(DataNotes(kind.runs, units, question, objective, [units], counts).notes([group])),
        table=table_of_groups(frame, []),
        groups=(group,),
        counted=_limits_of(ledger, scope, None, identity),
        verdict=verdict_of([group], [words]),
        labels=counts,
    )


def _check(
    recorded: object,
    keep: float,
    confidence: float,
    objective: str,
    success: str | None,
    labels: str,
    unlabelled: str,
    dependence: str,
    grid: Grid | None,
    share: float,
) -> None:
    """Raise `SettingError` for an argument that is not accepted."""
    refuse_repriced(recorded)
    check_confidence(confidence)
    check_confidence(keep, "keep")
    check_confidence(share, "share")
    if objective not in OBJECTIVES:
        raise SettingError(f"objective={objective!r}: expected one of {', '.join(OBJECTIVES)}")
    if success not in (None, "label", "ended"):
        msg = f"success={success!r}: expected 'label', 'ended' (the proxy), or None (labels where there are any)"
        raise SettingError(msg)
    if labels not in ("count", "desk"):
        raise SettingError(f"labels={labels!r}: expected 'count' or 'desk'")
    if unlabelled not in ("bounds", "proxy"):
        raise SettingError(f"unlabelled={unlabelled!r}: expected 'bounds' or 'proxy'")
    if dependence not in DEPENDENCE:
        raise SettingError(f"dependence={dependence!r}: expected one of {', '.join(map(repr, DEPENDENCE))}")
    agent_axis = next((name for name in grid or () if "@" in name), None)
    if agent_axis is not None:
        suffix = agent_axis[agent_axis.index("@") :]
        raise SettingError(f"grid: {agent_axis!r}: each agent gets a setting of its own by itself: leave {suffix} out")


def _dates_of(recorded: object) -> Mapping[Hashable, datetime | None]:
    """When each run started, by its id: a frame and a file have no dates."""
    return {run.run_id: run.started_at for run in recorded} if isinstance(recorded, list) else {}


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


def _order_groups(groups: Sequence[GroupDecision], ledger: Ledger, keys: Sequence[str]) -> list[GroupDecision]:
    """The groups in the order of their first runs; agents in that of `order_agents`."""
    if "agent" in keys and group_noun(keys) == "agent":
        names = [name_of(values) for values in ledger.runs[list(keys)].itertuples(index=False, name=None)]
        main = ledger.runs[PARENT].isna().tolist() if PARENT in ledger.runs else [True] * ledger.n_runs
        order = {name: position for position, name in enumerate(order_agents(names, main))}
    else:
        values = ledger.runs[list(keys)].drop_duplicates().itertuples(index=False, name=None)
        order = {name_of(names): position for position, names in enumerate(values)}
    return sorted(groups, key=lambda group: order.get(name_of(group.names), len(order)))
