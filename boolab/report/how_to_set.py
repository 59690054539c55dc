"""How a recommended setting is set: as text for the harness of the logs, and as a command for every other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from boolab.core.text import clean, count, shorten
from boolab.display.text import wrapped
from boolab.harnesses.exports.export import TARGET, as_command, export, target_of
from boolab.harnesses.exports.values import Export, Limits, Target
from boolab.harnesses.registry import TARGETS, target_of_source
from boolab.limits.table import LIMITS
from boolab.report.study import MAX_GROUPS, Study
from boolab.report.summary import summary_rows
from boolab.stats.trade import BETTER_OFF


class HowToSet(NamedTuple):
    """How the recommended setting of a group of runs is set.

    Attributes:
        group: The name of the group; "" where there is one only.
        limits: The limits.
        target: The export target that is the harness of the logs; None if they do not name one.
        poor: Whether the trade is poor: it may lose a larger share of the successes than it saves of the work.
    """

    group: str
    limits: Limits
    target: str | None
    poor: bool = False

    @property
    def command(self) -> str:
        """The command that prints it for the harness of the logs; if they do not name one, with the word `TARGET`."""
        return as_command(self.limits, self.target or TARGET)

    @property
    def export(self) -> Export | None:
        """The export for the harness of the logs; None if they do not name one."""
        return None if self.target is None else export(self.target, self.limits)

    @property
    def others(self) -> list[Export]:
        """The exports for all other harnesses."""
        return [export(name, self.limits) for name in TARGETS if name != self.target]


def how_to_set(study: Study) -> list[HowToSet]:
    """How the recommended settings are set, group by group as in the summary; empty if no limit is recommended."""
    targets = {target_of_source(maker.source) for maker in study.makers}
    target = targets.pop() if len(targets) == 1 else None
    places = {row.name: place for place, row in enumerate(summary_rows(study))}
    limits = sorted(study.found.limits_by_group().items(), key=lambda one: places.get(one[0], len(places)))
    poor = study.found.better_off()
    return [HowToSet(group, one, target, poor=group in poor) for group, one in limits]


def how_to_set_text(study: Study, *, full: bool = False) -> str:
    """How the recommended settings are set, for a terminal; "" if no limit is recommended."""
    ways = how_to_set(study)
    return "\n\n".join(_blocks(ways, full=full)) if ways else ""


def _head(way: HowToSet) -> str:
    """The line above the command of a group."""
    poor = BETTER_OFF if way.poor else ""
    if not way.group:
        return f"{poor[0].upper()}{poor[1:]}; to set it anyway:\n  " if poor else ""
    return f"{shorten(clean(way.group))}{f' ({poor})' if poor else ''}:\n  "


def _in_harness(way: HowToSet, target: Target) -> Iterator[str]:
    """The command that sets the limits in the harness of the logs, and why some cannot be set there."""
    made = export(target.name, way.limits)
    lacks = [
        f"{target.title} cannot set {LIMITS[name].with_value(value)}: {target.lacks[name]}"
        for name, value in way.limits.given.items()
        if name in target.lacks
    ]
    if len(lacks) < len(way.limits.given):
        hooks = [line for part in made.parts for line in part.text.splitlines() if line.startswith("boolab hook ")]
        if not made.no_file:
            command, effect = f"{way.command} --write", f"sets {'the rest' if lacks else 'that'} in its files, and"
            yield f"{_head(way)}{command}\n  {effect} shows what changes."
        elif hooks:
            yield f"{_head(way)}{hooks[0]}\n  sets that for all sessions, and shows what changes first."
            yield f"{way.command}\n  shows the other ways."
        else:
            yield f"{_head(way)}{way.command}\n  prints the lines for your own program or command."
    for sentence in lacks:
        yield wrapped(sentence)


def _blocks(ways: list[HowToSet], *, full: bool) -> Iterator[str]:
    good = [way for way in ways if full or not way.poor or len(ways) == 1]
    off = [way for way in ways if way not in good]
    shown = good[:MAX_GROUPS]
    if len(ways) == 1 and ways[0].target is not None:
        if full:
            yield str(ways[0].export)
        yield from _in_harness(ways[0], target_of(ways[0].target))
        yield f"For another harness: {as_command(ways[0].limits)}"
    else:
        if shown:
            yield "\n".join(_head(way) + way.command for way in shown)
        if len(good) > len(shown):
            yield f"{count(len(good) - len(shown), 'further group')}: --json has them all."
        if off:
            names = "; ".join(shorten(clean(way.group)) for way in off[:MAX_GROUPS])
            more = f"; and {len(off) - MAX_GROUPS:,} more" if len(off) > MAX_GROUPS else ""
            better = f"{BETTER_OFF[0].upper()}{BETTER_OFF[1:]}"
            yield wrapped(f"{better}, so not listed here: {names}{more}. --full lists them too.")
    if shown:
        yield wrapped(f"TARGET is one of {', '.join(TARGETS)}.")
