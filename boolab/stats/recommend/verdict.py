"""The answer of a recommendation in at most three sentences: what to set, whether the trade is good, what else matters.

What is set is guaranteed to keep `keep` of future successes and no more: the share that is kept on record is that of a
setting that was chosen on this record, so a bound on it alone would promise too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from boolab.core.text import count
from boolab.core.types import MICRO
from boolab.display.numbers import level, percent, span
from boolab.display.text import joined
from boolab.limits.table import LIMITS
from boolab.stats.recommend.candidates import Group, PathFinding, used_in
from boolab.stats.recommend.fixed_sequence import JOINT
from boolab.stats.recommend.wording import Advice, plain_name, plural_of
from boolab.stats.trade import Trade
from boolab.stats.units import group_noun, short_names

NO_RUN: Final = "Nothing can be recommended: there is no run with a step on record."
MAX_GROUPS: Final = 3
"""So many groups are named one by one."""
Listed: TypeAlias = Callable[[Sequence[Group], Callable[[Group], str]], str]
"""Writes the names of some groups, each with a note."""


def verdict_of(advice: Advice, groups: Sequence[Group], keys: Sequence[str] = ()) -> tuple[str, ...]:
    """The answer: at most three sentences; `keys` are the columns that keep the groups apart."""
    if not groups or not any(group.units.n_steps for group in groups):
        return (NO_RUN,)
    sentences = _one(advice, groups[0]) if len(groups) == 1 else _several(advice, groups, keys)
    return tuple(sentence for sentence in sentences if sentence)


def trade_of_group(group: Group, measure: str) -> Trade:
    """What the recommended setting of a group saves, and what it may lose for that."""
    successes = group.choice.successes
    lost = successes - group.sums["kept_lower"]
    unit = MICRO if measure == "cost" else 1
    saved, whole = group.sums[f"saved_{measure}"] / unit, used_in(group.sums, measure) / unit
    return Trade(saved, lost, whole, successes, plural_of(measure))


def _one(advice: Advice, group: Group) -> Iterator[str]:
    if group.choice.best is None:
        yield _no_limit(advice, group)
        yield advice.loses_nothing(group) if not group.choice.qualifies else ""
        yield _labels([group])
        return
    trade = trade_of_group(group, advice.question.measure)
    under = f"Under {advice.question.policy.name}, " if advice.question.policy is not None else ""
    several = len(_on(group)) > 1
    if trade.is_poor:
        name = "limits" if several else f"the {plain_name(group.decisive)}"
        one = "the safe ones that save most" if several else "the tightest that is safe"
        first = f"leave {name} off: {one}, {_limits(group)}, {_kept_and_saved(advice, group, several=several)}"
    else:
        first = f"set {_limits(group)}: on record it {_kept_and_saved(advice, group)}"
    first = f"{under}{first}."
    yield f"{first[0].upper()}{first[1:]}"
    yield trade.sentence
    yield _labels([group]) or _other_limits(advice, group) or advice.not_tested(group)


def _limits(group: Group) -> str:
    return joined([LIMITS[name].with_value(value) for name, value in group.choice.setting.items() if value is not None])


def _kept_and_saved(advice: Advice, group: Group, *, several: bool = False) -> str:
    question, sums = advice.question, group.sums
    what = group.successes(group.choice.successes)
    return (
        f"{'keep' if several else 'keeps'} {span(sums['kept_lower'], sums['kept_upper'])} of {what} (at least "
        f"{level(question.keep)} of future ones, with {level(question.confidence)} confidence) and "
        f"{'save' if several else 'saves'} {advice.saved(sums)}"
    )


def _no_limit(advice: Advice, group: Group) -> str:
    """That nothing should be set, and what is missing."""
    question, choice = advice.question, group.choice
    shown = f"to keep {level(question.keep)} of the successes, with {level(question.confidence)} confidence"
    if choice.qualifies:
        runs, what = count(group.units.n_runs, group.noun), plural_of(question.measure)
        return f"Set no limit: of those that are shown {shown}, none would have saved any {what} in {runs}."
    if not choice.successes:
        needed = choice.needed_in_words(question.keep, question.confidence)
        return (
            f"Set no limit yet: there is no success on record. To show that a limit is sure {shown}, it takes {needed}."
        )
    if not choice.paths[0].lost:
        return (
            f"Set no limit yet: {advice.rests(group)} {_are(choice.successes)} too few to show that a limit is sure "
            f"{shown}. It takes {choice.missing_in_words}, if the limit stops none of their successes."
        )
    return f"Set no limit yet. {advice.nothing_qualifies(group)}"


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def _labels(groups: Sequence[Group], listed: Callable[[Sequence[Group]], str] | None = None) -> str:
    """That success is a proxy, and of which groups, where others have labels; `listed` writes their names."""
    without = [group for group in groups if not group.labelled]
    if not without:
        return ""
    whose = f" for {listed(without)}" if listed is not None and len(without) < len(groups) else ""
    return (
        f"No success label is used{whose}: a {without[0].noun} that ended by itself counts as a success, whether its "
        "work was good or not."
    )


def _other_limits(advice: Advice, group: Group) -> str:
    """The best limits of the other kinds, each by itself."""
    choice = group.choice
    single = [found for found in choice.paths if found.setting is not None and found.tests.path.name != JOINT]
    others = [found for found in single if found is not choice.best and found.saved > 0]
    if not others:
        return ""
    return f"By itself, {'; '.join(_by_itself(advice, group, found) for found in others)}."


def _by_itself(advice: Advice, group: Group, found: PathFinding) -> str:
    name, value = next(iter((found.setting or {}).items()))
    successes, measure = group.choice.successes, advice.question.measure
    saved = advice.saved({f"saved_{measure}": found.saved, measure: used_in(group.sums, measure) - found.saved})
    return f"{LIMITS[name].with_value(value)} keeps {successes - found.lost:,} of {successes:,} and saves {saved}"


def _several(advice: Advice, groups: Sequence[Group], keys: Sequence[str]) -> Iterator[str]:
    """Which groups to limit, for which of them the trade is poor, and which have too little on record."""
    having = [group for group in groups if group.choice.best is not None]
    having.sort(key=lambda group: -(group.saved_share(advice.question.measure) or 0))
    poor = [group for group in having if trade_of_group(group, advice.question.measure).is_poor]
    none = [group for group in groups if group.choice.best is None]
    of = f"of {count(len(groups), group_noun(keys))}"
    short = dict(
        zip((group.names for group in groups), short_names(keys, [group.names for group in groups]), strict=True)
    )

    def listed(some: Sequence[Group], note: Callable[[Group], str] | None = None) -> str:
        notes = ["" if note is None else f" ({note(group)})" for group in some[:MAX_GROUPS]]
        return "; ".join(f"{short[group.names]}{own}" for group, own in zip(some, notes, strict=False)) + _rest(some)

    yield _good(advice, [group for group in having if group not in poor], of, listed)
    trade = _poor(advice, poor, of, listed)
    without = _without(advice, none, of if len(none) < len(groups) else f"any {of}", listed)
    labels = _labels(groups, listed)
    yield from [trade, without] if not labels else [f"{trade} {without}".strip(), labels]


def _good(advice: Advice, groups: Sequence[Group], of: str, listed: Listed) -> str:
    """What to set, group by group, where the trade is not poor."""
    if not groups:
        return ""
    question = advice.question
    kept = (
        f"at least {level(question.keep)} of future {_kept_ones(groups)}, with {level(question.confidence)} confidence"
    )
    named = listed(groups, _in_short)
    return f"Set limits for {len(groups):,} {of}: {named}. They save {_shares(advice, groups)} and keep {kept}."


def _kept_ones(groups: Sequence[Group]) -> str:
    """What is kept, in the plural."""
    labelled = [group.labelled for group in groups]
    by_proxy = next((f"{group.noun}s that end by themselves" for group in groups if not group.labelled), "")
    return " or ".join(filter(None, ("successes" if any(labelled) else "", by_proxy)))


def _in_short(group: Group) -> str:
    limits = [
        f"{LIMITS[name].label.removesuffix(' threshold')} {value:,}"
        for name, value in group.choice.setting.items()
        if value is not None
    ]
    return " and ".join(limits)


def _shares(advice: Advice, groups: Sequence[Group]) -> str:
    """The least and the most that the limits of groups save."""
    measure = advice.question.measure
    shares = sorted(share for group in groups if (share := group.saved_share(measure)) is not None)
    if not shares:
        return "nothing that is on record"
    low, high = percent(shares[0]), percent(shares[-1])
    return f"{low if low == high else f'{low} to {high}'} of the {plural_of(measure)}"


def _poor(advice: Advice, groups: Sequence[Group], of: str, listed: Listed) -> str:
    """For which groups a larger share of the successes is lost than of what is to be saved is saved."""
    if not groups:
        return ""
    named = listed(groups, lambda group: f"tightest safe: {_in_short(group)}")
    measure = plural_of(advice.question.measure)
    whose = "for each of them " if len(groups) > 1 else ""
    return (
        f"Leave limits off for {len(groups):,} {of}: {named}. The trade is poor: a limit saves "
        f"{_shares(advice, groups)}, and {whose}that is a smaller share of the {measure} than it may lose of the "
        "successes."
    )


def _without(advice: Advice, groups: Sequence[Group], of: str, listed: Listed) -> str:
    """For which groups there is no limit, and what they lack."""
    if not groups:
        return ""
    whom = of if of.startswith("any") else f"{len(groups):,} {of}"
    return f"Set no limit yet for {whom}: {listed(groups, lambda group: _lacks(advice, group))}."


def _lacks(advice: Advice, group: Group) -> str:
    choice = group.choice
    if choice.qualifies:
        return f"none would have saved any {plural_of(advice.question.measure)}"
    what = group.successes(choice.successes)
    return f"{what}, {f'{choice.missing_in_words} needed' if choice.missing else 'none is sure'}"


def _rest(groups: Sequence[Group]) -> str:
    more = len(groups) - MAX_GROUPS
    return f"; and {more:,} more" if more > 0 else ""


def _on(group: Group) -> list[str]:
    return [name for name, value in group.choice.setting.items() if value is not None]
