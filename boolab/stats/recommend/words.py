"""The words of a decision: what the templates of `boolab.display.answers.decision` fill in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from boolab.core.text import count, shorten
from boolab.core.types import MICRO
from boolab.display.answers import sentence
from boolab.display.numbers import floor_percent, level, money, percent, span
from boolab.display.text import joined
from boolab.limits.table import LIMITS, MEASURES
from boolab.stats.kept_share import tasks_missing
from boolab.stats.recommend.budget import BudgetFinding
from boolab.stats.recommend.candidates import FOLDS
from boolab.stats.recommend.choice import Margin, PathFinding
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.evidence import Broken, KeptShares, OneForAll
from boolab.stats.recommend.fixed_sequence import JOINT
from boolab.stats.recommend.groups import MEASURED
from boolab.stats.recommend.null_test import PERMUTATIONS
from boolab.stats.recommend.question import Budget, Question
from boolab.stats.recommend.units import base_of, open_units
from boolab.stats.units import group_name, group_noun, short_names
from boolab.whatif.step_table import UNKNOWN_PEAK

ANSWER: Final = "decision"
MAX_GROUPS: Final = 3
"""So many groups are named one by one."""
_NAMED: Final = 3
_ABOUT_GROUP: Final = (
    "answer", "whom", "promise", "unknown", "saving", "margin", "passed_over", "saves_less_elsewhere", "concentration",
    "broken", "recency", "held_out",
)  # fmt: skip
"""The sentences on a group, in their order."""
_ABOUT_BUDGET: Final = ("budget_answer", "budget_bound", "budget_kept", "budget_unknown")
"""Those on a group that is asked about a budget; the first is the verdict's, where there is one group."""
_IN_VERDICT: Final = ("answer", "whom", "saves_less_elsewhere", "concentration", "broken")
"""Those that the verdict has too, where there is one group."""
_FEW_STOPPED: Final = 5
"""Fewer stopped units than this are named as few."""
_CONCENTRATED: Final = 0.5
"""A unit or task that makes more than this share of the saving is named in the answer."""
_WHY: Final[Mapping[str, str]] = {
    "saves_nothing": "none would have saved anything",
    "poor_trade": "{limits} would keep enough, but lose a larger share of the successes than it saves",
    "stops_as_many_successes": "{limits} would keep enough, but what it stops is not shown to fail more often",
    "no_run": "no step on record",
    "no_success": "no success on record",
    "needs_no_limit": "it stays within the budget without one",
    "no_cost": "no cost on record",
}


def verdict_of(
    groups: Sequence[GroupDecision],
    words_by_group: Sequence[SimpleNamespace],
    keys: Sequence[str] = (),
    one_for_all: OneForAll | None = None,
) -> tuple[str, ...]:
    """The answer: what to do, whom it stops and for what, and what to know before it is set; at most three texts.

    `words_by_group`: the `words_of` each group.
    """
    if not groups or not any(group.units.n_steps for group in groups):
        return ("Nothing can be recommended: there is no run with a step on record.",)
    if len(groups) > 1:
        return tuple(filter(None, _several(groups, words_by_group, keys, one_for_all)))
    (group,), (words,) = groups, words_by_group
    if group.budget is not None:
        return tuple(filter(None, [_text(macro, group, words) for macro in ("budget_answer", "budget_kept")]))
    warned_of = ("saves_less_elsewhere", "concentration", "broken", "outdated", "proxy")
    warnings = [_text(name, group, words) for name in warned_of]
    lost_none = _text("nothing_lost", words) if group.action == "not_yet" else ""
    rest = " ".join(filter(None, [lost_none, *warnings]))
    texts = [_text("answer", group, words), _text("whom", group, words), rest or _text("untested", words)]
    return tuple(filter(None, texts))


def sentences_of(group: GroupDecision, words: SimpleNamespace) -> Iterator[str]:
    """What the answer for one group rests on, each with the name of the group where it has one."""
    name = group_name(group.names)
    prefix = f"{name}: " if name else ""
    if group.budget is not None:
        in_verdict = () if name else ("budget_answer", "budget_kept")
        texts = [_text(macro, group, words) for macro in _ABOUT_BUDGET if macro not in in_verdict]
        yield from (prefix + text for text in texts if text)
        return
    texts = [_text(macro, group, words) for macro in _ABOUT_GROUP if name or macro not in _IN_VERDICT]
    texts += [_text("by_itself", words), _text("untested", words)]
    yield from (prefix + text for text in texts if text)


def _text(macro: str, *values: object) -> str:
    return sentence(ANSWER, macro, *values)


def words_of(group: GroupDecision) -> SimpleNamespace:
    """What the templates say of one group: numbers with their units, limits in words."""
    if group.budget is not None and group.question.budget is not None:
        return _words_of_budget(group, group.budget, group.question.budget)
    question, choice, sums = group.question, group.choice, group.sums
    setting = {} if group.candidate is None else group.candidate.setting
    perhaps = sums["kept_upper"] - sums["kept_lower"]
    folds = group.folds
    source = "these same tasks" if question.dependence == "same_tasks" else "the same source"
    return SimpleNamespace(
        under=f"Under {question.policy.name}: " if question.policy is not None else "",
        limits=limits_in_words(setting),
        s="" if len(setting) > 1 else "s",
        kept=f"{span(sums['kept_lower'], sums['kept_upper'])} of {group.successes(choice.successes)}",
        keep=level(question.keep),
        confidence=level(question.confidence),
        saved=format_saved(question, group.saved, group.spent),
        share=percent(group.saving.share or 0.0),
        measure=question.plural,
        noun=group.noun,
        all_units=count(group.units.n_runs, group.noun),
        all_successes=group.successes(choice.successes),
        rests=rests_of(group),
        lost=f"{group.lost:,}" if group.lost else "none",
        unknown="" if group.kept_shares is None else count(group.kept_shares.unknown, group.noun),
        kept_shares="" if group.kept_shares is None else shares_in_words(group.kept_shares),
        perhaps=f", {perhaps:,} of them perhaps not" if perhaps else "",
        source=source if group.units.terminated.all() else f"{source} under the recorded limits",
        fail_more="fail more often" if group.labelled else "end by themselves less often",
        fail_as_often="fail as often" if group.labelled else "end by themselves as often",
        null="" if group.null is None else compare_in_words(group, group.null.failed, group.null.stopped),
        elsewhere=""
        if group.heldout_saved_share is None or not (folds and folds["chosen"])
        else f"Limits chosen on other tasks saved {percent(group.heldout_saved_share)}.",
        stopped_ones=_stopped_ones(group, setting),
        passed_over_ones="" if group.passed_over is None else _stopped_ones(group, group.passed_over.setting),
        few_stopped=count(group.null.stopped, group.noun)
        if group.null is not None and group.null.stopped < _FEW_STOPPED
        else "",
        passed_over="" if group.passed_over is None else limits_in_words(group.passed_over.setting),
        p_value="" if group.null is None else p_value_in_words(group.null.p_value),
        needed=choice.needed_in_words(question.keep, question.error),
        missing=choice.missing_in_words,
        unlabelled=unlabelled_in_words(group),
        runs_needed=_runs_needed(group),
        clusters=count(int(group.candidates.clusters.max(initial=-1)) + 1, choice.cluster),
        largest_run=shorten(group.saving.run),
        largest_task=shorten(group.saving.task),
        broken=joined([_broken_in_words(row) for row in group.broken[:_NAMED]] or [""]),
        broken_names=joined([f"{row.column} {shorten(row.value)}" for row in group.broken[:_NAMED]] or [""]),
        broken_column=group.broken[0].column if len({row.column for row in group.broken}) == 1 else "",
        newest_successes="" if group.recency is None else group.successes(group.recency.successes),
        newest_steps="" if group.recency is None else count_steps(group.recency.steps_newest),
        older_steps="" if group.recency is None else count_steps(group.recency.steps_older),
        older_setting="" if group.recency is None else limits_in_words(group.recency.older_setting) or "no limit",
        changes=""
        if group.recency is None
        else joined([f"{name} {shorten(value)}" for name, value in group.recency.changes] or [""]),
        concentrated=_CONCENTRATED,
        held_out_saving=_held_out_saving(group),
        some_folds=f"; {FOLDS - folds['chosen']} of {FOLDS} times four fifths were too few, and nothing was set"
        if folds is not None and folds["chosen"] < FOLDS
        else "",
        heldout_saved=""
        if group.heldout_saved_share is None
        else f" and saved {percent(group.heldout_saved_share)} of the {question.plural}",
        # Of the step from no limit, the answer has the numbers.
        last_step=_step(group, choice.last_step if choice.last_step and choice.last_step.looser.setting else None),
        next_step=_step(group, choice.next_step),
        tight=list(_tightest_without_loss(group)) if group.action == "not_yet" else [],
        singles=list(_singles(group)),
        **_loosest(group),
        **_untested(group),
    )


def _words_of_budget(group: GroupDecision, finding: BudgetFinding, budget: Budget) -> SimpleNamespace:
    """What the templates say of one group that is asked about a budget."""
    question, choice = group.question, group.choice
    name = question.order[0]
    setting = {} if group.candidate is None else group.candidate.setting
    kept = span(group.sums["kept_lower"], group.sums["kept_upper"])
    largest, largest_free = (
        "" if cost is None else money(cost / MICRO) for cost in (finding.largest, finding.largest_without)
    )
    return SimpleNamespace(
        under=f"Under {question.policy.name}: " if question.policy is not None else "",
        limits=limits_in_words(setting) or "no limit",
        confidence=level(question.confidence),
        budget=budget.in_words,
        rest=level(1 - budget.share),
        units=count(finding.n_units, group.noun),
        nouns=f"{group.noun}s",
        tasks=count(choice.tasks, choice.cluster),
        over=f"{finding.n_over:,} of {finding.n_units:,}",
        over_without=f"{finding.n_over_without:,} of {finding.n_units:,}",
        bound=percent(math.ceil(finding.bound * 1000) / 1000),
        largest=largest,
        largest_without=largest_free,
        next_limit="" if finding.next_value is None else LIMITS[name].with_value(finding.next_value),
        missing=count(choice.missing, f"more {choice.cluster}"),
        is_clustered=choice.largest > 1,
        largest_task=count(choice.largest, group.noun),
        kept=f"{kept} of {group.successes(choice.successes)}",
        kept_bound="" if finding.kept_bound is None else floor_percent(finding.kept_bound),
        unknown=count(finding.n_unknown, group.noun) if finding.n_unknown else "",
    )


def limits_in_words(setting: Mapping[str, Any]) -> str:
    """The limits that are on, such as "a step cap of 6"; "" if none is."""
    on = [LIMITS[name].with_value(value) for name, value in setting.items() if value is not None]
    return joined(on) if on else ""


def shares_in_words(shares: KeptShares) -> str:
    """The shares that a setting keeps whatever unknown outcomes are: "91 to 100%"."""
    low, high = floor_percent(shares.low), percent(shares.high)
    return high if low == high else f"{low.removesuffix('%')} to {high}"


def _stopped_ones(group: GroupDecision, setting: Mapping[str, Any]) -> str:
    """The units that a setting stops; a family is one, and the setting may stop only some of its runs."""
    stops = "it stops" if len(setting) == 1 else "they stop"
    unit = group.units.unit
    is_family = unit is not None and len(np.unique(unit)) < len(unit)
    return f"families with a {group.noun} that {stops}" if is_family else f"{group.noun}s that {stops}"


def plain_name(found: PathFinding) -> str:
    """What the limit of a path is called."""
    return LIMITS[found.tests.path.name].label


def count_steps(steps: float) -> str:
    """A median number of steps."""
    return f"{steps:g} step{'' if steps == 1 else 's'}"


def _rounded(n: float) -> str:
    """An expected number: with a decimal where it is small."""
    if n < 0.05:  # noqa: PLR2004 - it would be written as 0.0
        return "0" if n == 0 else "fewer than 0.1"
    return f"{n:.1f}" if n < 10 else f"{n:,.0f}"  # noqa: PLR2004 - two digits


def p_value_in_words(p_value: float) -> str:
    """A p-value of the permutation test, of which the least is 1 in all permutations and the record."""
    is_least = p_value * (PERMUTATIONS + 1) < 1.5  # noqa: PLR2004 - 1, with its rounding
    return f"p {'≤' if is_least else '='} {p_value:.2g}"


def _held_out_saving(group: GroupDecision) -> str:
    """What limits saved that were chosen on other tasks, where that is below the interval of what is saved on record.

    Where one unit or task makes most of the saving, the sentence on that has it.
    """
    is_tested = group.folds is not None and group.folds["chosen"]
    held_out, saving = group.heldout_saved_share, group.saving
    if group.action != "set" or not is_tested or held_out is None or saving.low is None or held_out >= saving.low:
        return ""
    is_said = max(saving.run_share, saving.task_share) > _CONCENTRATED
    return "" if is_said else f"{percent(held_out)} of the {group.question.plural}"


def _runs_needed(group: GroupDecision) -> str:
    """About how many units the missing successes take, at the rate on record: " (about 430 runs at this rate)"."""
    choice, n = group.choice, group.units.n_runs
    found = choice.tasks if choice.counts_tasks else choice.successes
    if not found or not choice.missing:
        return ""
    about = float(f"{choice.missing * n / found:.2g}")
    return f" (about {count(round(about), group.noun)} at the rate on record)"


def compare_in_words(group: GroupDecision, failed: int, stopped: int) -> str:
    """How many of the stopped units fail, and how many are expected: "97 of 100 fail, 87 expected"."""
    expected = None if group.null is None else group.null.expected
    n, verb, verbs = failed, "fail", "fails"
    if not group.labelled:  # by a proxy only its own end is known
        n, verb, verbs = stopped - failed, "end by themselves", "ends by itself"
        expected = None if expected is None else max(stopped - expected, 0.0)
    of = f"{n:,} of {stopped:,} {verbs if n == 1 else verb}"
    return of if expected is None else f"{of}, {_rounded(expected)} expected"


def rests_of(group: GroupDecision) -> str:
    """The number of successes, and of their tasks where some have several."""
    choice = group.choice
    successes = group.successes(choice.successes)
    return f"{successes} in {count(choice.tasks, choice.cluster)}" if choice.tasks < choice.successes else successes


def format_saved(question: Question, saved: int, spent: int) -> str:
    """What is saved, with its base and share."""
    share = f" ({percent(saved / spent)})" if spent else ""
    if question.measure == "cost":
        return f"${saved / MICRO:,.2f} of ${spent / MICRO:,.2f}{share}"
    return f"{saved:,} of {count(spent, MEASURES[question.measure].singular)}{share}"


def format_amount(question: Question, amount: float) -> str:
    """An amount of what is saved, with its unit."""
    if question.measure == "cost":
        return money(amount / MICRO)
    return count(round(amount), MEASURES[question.measure].singular)


def _broken_in_words(row: Broken) -> str:
    """A group that keeps too little, with its numbers."""
    return _kept_in_words(f"{row.column} {shorten(row.value)}", row)


def _kept_in_words(name: str, row: Broken) -> str:
    """What a group keeps: "gpt-4 (90 of 100, 90%)"."""
    return f"{name} ({row.kept:,} of {row.successes:,}, {percent(row.kept / row.successes)})"


def _step(group: GroupDecision, step: Margin | None) -> SimpleNamespace | None:
    """A step along the frontier in words."""
    if step is None:
        return None
    question = group.question
    each, costs = "", ""
    if step.lost and group.choice.successes:
        value = group.choice.spent / group.choice.successes
        if question.success_value is not None:
            value = question.success_value * question.per_unit
        each, costs = format_amount(question, step.saved / step.lost), format_amount(question, value)
    return SimpleNamespace(
        looser=limits_in_words(step.looser.setting) or "no limit",
        tighter=limits_in_words(step.tighter.setting),
        is_one=len(step.tighter.setting) == 1,
        lost=group.successes(step.lost) if step.lost else "no success",
        saved=format_amount(question, step.saved),
        each=f": {each} for each, and a success {'costs' if question.success_value is None else 'counts'} {costs}"
        if each
        else "",
    )


def _singles(group: GroupDecision) -> Iterator[str]:
    """The best limit of each kind by itself, where it is not the answer."""
    for found in group.choice.paths:
        if found.setting is None or found.tests.path.name == JOINT or found.saved <= 0:
            continue
        if group.candidate is not None and found.setting == group.candidate.setting:
            continue
        name, value = next(iter(found.setting.items()))
        kept = group.choice.successes - found.lost
        saved = format_saved(group.question, found.saved, group.choice.spent)
        yield f"{LIMITS[name].with_value(value)} keeps {kept:,} of {group.choice.successes:,} and saves {saved}"


def _untested(group: GroupDecision) -> dict[str, Any]:
    """Limits that were not tested, because there are too few successes to share the error."""
    question, choice = group.question, group.choice
    names = [plain_name(one) for one in choice.paths if not one.tests.error and one.tests.path.name != JOINT]
    if not names or group.action == "not_yet":
        return {"untested": [], "first_limit": "", "untested_needs": ""}
    error = question.error * choice.paths[-1].tests.path.share
    more = max(1, tasks_missing([], [], question.keep, error, largest=choice.largest) - choice.tasks)
    one, many = f"more {choice.cluster} with a success", f"more {choice.cluster}s with a success"
    unit = (one, many) if choice.counts_tasks else ("more success", "more successes")
    return {
        "untested": [f"{name}s" for name in names],
        "first_limit": plain_name(choice.paths[0]),
        "untested_needs": count(more, *unit),
    }


def _loosest(group: GroupDecision) -> dict[str, Any]:
    """The value that loses least, where each that was tried loses too many."""
    empty = {"loosest": "", "loosest_s": False, "loosest_lost": "", "way_on": ""}
    if group.reason != "loses_too_many":
        return empty
    question, choice = group.question, group.choice
    best = min((found for found in choice.paths if found.tests.error), key=lambda found: found.lost)
    way_on = f"Try looser values, or record {choice.missing_in_words}, of which the limit stops none."
    if unlabelled := unlabelled_in_words(group):
        way_on = f"Try looser values, or label first: {unlabelled}, and each that the limit stops counts as lost. "
        way_on += "boolab label LOGS asks about few of them."
    if question.policy is not None and question.grid is None:
        loosest, singular, way_on = f"the further limits of {question.policy.name} alone", False, ""
    elif best.tests.path.name == JOINT:
        loosest, singular = "limits of several kinds together", False
    else:
        name = best.tests.path.name
        axis = question.axis(name, list((question.grid or {})[name]))
        value = axis.values[-1]
        loosest, singular = f"the loosest value that was tried, {LIMITS[name].with_value(value)},", True
    return {"loosest": loosest, "loosest_s": singular, "loosest_lost": f"{best.lost:,}", "way_on": way_on}


def unlabelled_in_words(group: GroupDecision) -> str:
    """How many units have no label, such as "147 turns have no label"; "" if all have one, or none is used."""
    n_unlabelled = int(open_units(group.units).sum())
    if not n_unlabelled:
        return ""
    return f"{count(n_unlabelled, group.noun)} {'has' if n_unlabelled == 1 else 'have'} no label"


def _tightest_without_loss(group: GroupDecision) -> Iterator[str]:
    """The tightest values that lose nothing on record: a description, not a guarantee."""
    good, question = base_of(group.units), group.question
    if not good.any() or question.policy is not None:
        return
    for name in question.order:
        least = LIMITS[name].min_useful
        if LIMITS[name].fractions:
            continue
        peaks = group.units.peak(question.axis(name, [least]).counter)
        if (peak := int(peaks[good].max())) == UNKNOWN_PEAK:
            continue
        tight = _above(question, name, max(least, peak + 1))
        if tight is None:
            continue
        if (peaks >= tight)[peaks < UNKNOWN_PEAK].any():  # a limit that stops no run is no information
            yield LIMITS[name].with_value(tight)


def _above(question: Question, name: str, least: int) -> int | None:
    """The tightest value of an axis, of those in the grid if there is one, that is no less."""
    if question.grid is None:
        return least
    values = [value for value in question.grid.get(name, ()) if value is not None and value >= least]
    return min(values, default=None)


# --- Several groups ---------------------------------------------------------------------------------------------------


def compared_in_words(groups: Sequence[GroupDecision], keys: Sequence[str], compared: OneForAll | None) -> str:
    """What one limit for all saves and keeps, held out, beside a limit for each; "" if neither saves anything."""
    if compared is None or not (compared.saved or compared.each_saved):
        return ""
    question = groups[0].question
    words = SimpleNamespace(
        each="agent" if group_noun(keys) == "agent" else "group",
        may_share={*keys} <= {*MEASURED},
        measure=question.plural,
        saved=percent(compared.saved_share),
        each_saved=percent(compared.each_saved_share),
        kept=f"{compared.kept_successes:,}",
        each_kept=f"{compared.each_kept:,} of {groups[0].successes(compared.successes)}",
        limits=limits_in_words(compared.setting),
        keep=level(question.keep),
        broken=joined([_kept_in_words(row.value, row) for row in compared.broken_groups[:_NAMED]] or [""]),
    )
    return _text("one_for_all", compared, words)


def _several(
    groups: Sequence[GroupDecision],
    words_by_group: Sequence[SimpleNamespace],
    keys: Sequence[str],
    one_for_all: OneForAll | None,
) -> Iterator[str]:
    """What to do for which groups: those to limit, those for which a limit is not good, and those with too few data."""
    names = [group.names for group in groups]
    short = dict(zip(names, short_names(keys, names), strict=True))
    by_action = {
        action: [group for group in groups if group.action == action] for action in ("set", "leave", "not_yet")
    }
    by_action["set"].sort(key=lambda group: -(group.saving.share or 0))
    of = f"of {count(len(groups), group_noun(keys))}"

    def listed(some: Sequence[GroupDecision], note: Callable[[GroupDecision], str] | None = None) -> str:
        notes = ["" if note is None else f" ({note(group)})" for group in some[:MAX_GROUPS]]
        named = "; ".join(f"{short[group.names]}{own}" for group, own in zip(some, notes, strict=False))
        more = len(some) - MAX_GROUPS
        return named + (f"; and {more:,} more" if more > 0 else "")

    budget = groups[0].question.budget
    unlabelled = [group for group in groups if not group.labelled and budget is None]
    to_set, missing = by_action["set"], by_action["not_yet"]
    words = SimpleNamespace(
        of=of,
        keep=level(groups[0].question.keep),
        confidence=level(groups[0].question.confidence),
        budget=None if budget is None else budget.in_words,
        rest="" if budget is None else level(1 - budget.share),
        nouns=f"{groups[0].noun}s",
        set=_limited(to_set, listed(to_set, lambda group: limits_in_words(group.setting)) if to_set else ""),
        kept_ones=_kept_ones(to_set),
        left=SimpleNamespace(n=f"{len(by_action['leave']):,}", named=listed(by_action["leave"], reason_in_words))
        if by_action["leave"]
        else None,
        not_yet=SimpleNamespace(
            whom=f"any {of}" if len(missing) == len(groups) else f"{len(missing):,} {of}",
            named=listed(missing, reason_in_words),
        )
        if missing
        else None,
        proxy=SimpleNamespace(
            whose=f" for {listed(unlabelled)}" if len(unlabelled) < len(groups) else "", noun=unlabelled[0].noun
        )
        if unlabelled
        else None,
    )
    yield _text("several", words)
    yield " ".join(filter(None, [_text("several_left", words), _text("several_not_yet", words)]))
    warnings = [
        f"{short[group.names]}: {_text('broken', group, group_words)}"
        for group, group_words in zip(groups, words_by_group, strict=True)
        if group.action == "set" and group.broken
    ]
    saves_less = one_for_all is not None and one_for_all.each_saved < one_for_all.saved
    compared = compared_in_words(groups, keys, one_for_all) if saves_less and to_set else ""
    yield " ".join([*warnings[:MAX_GROUPS], *filter(None, [compared, _text("several_proxy", words)])])


def _limited(groups: Sequence[GroupDecision], named: str) -> SimpleNamespace | None:
    """The groups to limit in words, and what that saves, from the least to the most."""
    if not groups:
        return None
    shares = sorted(group.saving.share or 0.0 for group in groups)
    low, high = percent(shares[0]), percent(shares[-1])
    saved = f"{low if low == high else f'{low} to {high}'} of the {groups[0].question.plural}"
    return SimpleNamespace(n=f"{len(groups):,}", named=named, saved=saved)


def reason_in_words(group: GroupDecision) -> str:
    """Why nothing is set for a group, in a few words."""
    choice = group.choice
    if group.reason in _WHY:
        limits = "" if group.candidate is None else limits_in_words(group.candidate.setting)
        return _WHY[group.reason].format(limits=limits)
    if group.budget is not None:
        n_over = f"{group.budget.n_over:,} of {count(group.budget.n_units, group.noun)} cost more"
        return f"{n_over}, {count(choice.missing, f'more {choice.cluster}')} needed"
    what = group.successes(choice.successes)
    if unlabelled := unlabelled_in_words(group):
        return f"{what}, {unlabelled}"
    return f"{what}, {f'{choice.missing_in_words} needed' if choice.missing else 'none is sure'}"


def _kept_ones(groups: Sequence[GroupDecision]) -> str:
    """What is kept, in the plural."""
    by_proxy = next((f"{group.noun}s that end by themselves" for group in groups if not group.labelled), "")
    return " or ".join(filter(None, ("successes" if any(group.labelled for group in groups) else "", by_proxy)))
