"""The answer of a recommendation in at most three sentences: what to set, whether the trade is good, what else matters.

What is set is guaranteed to keep `keep` of future successes and no more: the share that is kept on record is that of a
setting that was chosen on this record, so a bound on it alone would promise too much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from boolab.core.axes import AXES
from boolab.core.text import count, level, span
from boolab.core.types import MICRO
from boolab.counterfactuals.step_table import LABEL
from boolab.stats.intervals import runs_needed
from boolab.stats.recommend.candidates import Found
from boolab.stats.recommend.fixed_sequence import JOINT
from boolab.stats.recommend.wording import Advice, Group, joined, plural_of, successes_of, used_in
from boolab.stats.trade import Trade
from boolab.stats.units import group_name

NO_RUN: Final = "Nothing can be recommended: there is no run with a step on record."
MAX_GROUPS: Final = 3
"""So many groups are named one by one."""


def verdict_of(advice: Advice, groups: Sequence[Group]) -> tuple[str, ...]:
    """The answer: at most three sentences."""
    if not groups or not any(group.units.n_steps for group in groups):
        return (NO_RUN,)
    sentences = _one(advice, groups[0]) if len(groups) == 1 else _several(advice, groups)
    return tuple(sentence for sentence in sentences if sentence)


def trade_of_group(advice: Advice, group: Group) -> Trade:
    """What the recommended setting of a group saves, and what it may lose for that."""
    measure, successes = advice.question.measure, group.choice.successes
    lost = successes - group.sums["kept_lower"]
    unit = MICRO if measure == "cost" else 1
    saved, whole = group.sums[f"saved_{measure}"] / unit, used_in(group.sums, measure) / unit
    return Trade(saved, lost, whole, successes, plural_of(measure))


def _one(advice: Advice, group: Group) -> Iterator[str]:
    if group.choice.best is None:
        yield _no_limit(advice, group)
        yield advice.loses_nothing(group) if not group.choice.qualifies else ""
        yield _labels(advice)
        return
    under = f"Under {advice.question.policy.name}, set" if advice.question.policy is not None else "Set"
    yield f"{under} {_limits(group)}: on record it {_kept_and_saved(advice, group)}."
    yield trade_of_group(advice, group).sentence
    yield _labels(advice) or _other_limits(advice, group) or advice.not_tested(group)


def _limits(group: Group) -> str:
    return joined([AXES[name].with_value(value) for name, value in group.choice.setting.items() if value is not None])


def _kept_and_saved(advice: Advice, group: Group) -> str:
    question, sums = advice.question, group.sums
    what = successes_of(group.choice.successes) if _labelled(advice) else _proxies(advice, group)
    return (
        f"keeps {span(sums['kept_lower'], sums['kept_upper'])} of {what} (at least {level(question.keep)} of future "
        f"ones, with {level(question.confidence)} confidence) and saves {advice.saved(sums)}"
    )


def _no_limit(advice: Advice, group: Group) -> str:
    """That nothing should be set, and what is missing."""
    question, choice = advice.question, group.choice
    shown = f"to keep {level(question.keep)} of the successes, with {level(question.confidence)} confidence"
    if choice.qualifies:
        runs, what = count(group.units.n_runs, advice.noun), plural_of(question.measure)
        return f"Set no limit: of those that are shown {shown}, none would have saved any {what} in {runs}."
    if not choice.successes:
        whole = runs_needed(question.keep, question.confidence)
        return (
            f"Set no limit yet: there is no success on record, and {whole:,} of them without a loss are needed to show "
            f"that a limit is sure {shown}."
        )
    like = ", in tasks like these" if choice.tasks < choice.successes else ""
    if choice.paths[0].tests.may_lose < 0:
        return (
            f"Set no limit yet: {successes_of(choice.successes)} on record {_are(choice.successes)} too few to show "
            f"that one is sure {shown}; {choice.missing:,} more are needed, of which it loses none{like}."
        )
    return f"Set no limit yet. {advice.nothing_qualifies(group)}"


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def _labelled(advice: Advice) -> bool:
    return advice.success_by == LABEL


def _proxies(advice: Advice, group: Group) -> str:
    return f"{count(group.choice.successes, advice.noun)} that ended by themselves"


def _labels(advice: Advice) -> str:
    """That success is a proxy."""
    if _labelled(advice):
        return ""
    return (
        f"No success label is used: a {advice.noun} that ended by itself counts as a success, whether its work was "
        "good or not."
    )


def _other_limits(advice: Advice, group: Group) -> str:
    """The best limits of the other kinds, each by itself."""
    choice = group.choice
    single = [found for found in choice.paths if found.setting is not None and found.tests.path.name != JOINT]
    others = [found for found in single if found is not choice.best and found.saved > 0]
    if not others:
        return ""
    return f"By itself, {'; '.join(_by_itself(advice, group, found) for found in others)}."


def _by_itself(advice: Advice, group: Group, found: Found) -> str:
    name, value = next(iter((found.setting or {}).items()))
    successes, measure = group.choice.successes, advice.question.measure
    saved = advice.saved({f"saved_{measure}": found.saved, measure: used_in(group.sums, measure) - found.saved})
    return f"{AXES[name].with_value(value)} keeps {successes - found.lost:,} of {successes:,} and saves {saved}"


def _several(advice: Advice, groups: Sequence[Group]) -> Iterator[str]:
    """What to set for each of several groups."""
    having = [group for group in groups if group.choice.best is not None]
    if not having:
        few = "; ".join(
            f"{group_name(group.names)}: {successes_of(group.choice.successes)}" for group in groups[:MAX_GROUPS]
        )
        more = f"; {len(groups) - MAX_GROUPS:,} more groups" if len(groups) > MAX_GROUPS else ""
        yield f"Set no limit yet for any of {len(groups):,} groups: none is shown to pay off ({few}{more} on record)."
        yield ""
        yield _labels(advice)
        return
    named = [
        f"{group_name(group.names)}: {_limits(group)}, which {_kept_and_saved(advice, group)}"
        for group in having[:MAX_GROUPS]
    ]
    rest = f"; the table has {len(having) - MAX_GROUPS:,} more" if len(having) > MAX_GROUPS else ""
    none = len(groups) - len(having)
    others = f"; no limit yet for {count(none, 'other group')}" if none else ""
    yield f"Set limits group by group. {'; '.join(named)}{rest}{others}."
    poor = [group for group in having if trade_of_group(advice, group).is_poor]
    names = joined([group_name(group.names) for group in poor[:MAX_GROUPS]]) if poor else ""
    if poor:
        more = f" and {len(poor) - MAX_GROUPS:,} more" if len(poor) > MAX_GROUPS else ""
        yield (
            f"The trade is poor for {names}{more}: a larger share of the successes is lost than of the "
            f"{plural_of(advice.question.measure)} is saved."
        )
    else:
        yield "For none of them is a larger share of the successes lost than of what is saved."
    yield _labels(advice)
