"""How a recommended setting is set: as text for the harness of the logs, and as a command for every other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from boolab.core.text import clean, count, shorten
from boolab.display.text import capitalize, wrap_text
from boolab.harnesses.exports.export import TARGET, as_command, export, target_of
from boolab.harnesses.exports.values import Export, Limits, Target
from boolab.harnesses.registry import TARGETS, target_of_source
from boolab.limits.table import LIMITS
from boolab.report.study import MAX_GROUPS, Study
from boolab.report.summary import summary_rows
from boolab.stats.trade import BETTER_OFF


class HowToSet(NamedTuple):
    """How the recommended setting of a group of runs is set."""

    group: str  # the name of the group; "" where there is one only
    limits: Limits
    target: str | None  # the export target that is the harness of the logs; None if they do not name one
    # whether the trade is poor: it may lose a larger share of the successes than it saves of the work
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
    targets = {target_of_source(agent.source) for agent in study.agent_counts}
    target = targets.pop() if len(targets) == 1 else None
    order = {row.name: index for index, row in enumerate(summary_rows(study))}
    limits = sorted(study.found.limits_by_group().items(), key=lambda item: order.get(item[0], len(order)))
    poor = study.found.better_off()
    return [HowToSet(group, item, target, poor=group in poor) for group, item in limits]


def how_to_set_text(study: Study, *, full: bool = False) -> str:
    """How the recommended settings are set, for a terminal; "" if no limit is recommended."""
    settings = how_to_set(study)
    return "\n\n".join(_blocks(settings, full=full)) if settings else ""


def _head(setting: HowToSet) -> str:
    """The line above the command of a group."""
    poor = BETTER_OFF if setting.poor else ""
    if not setting.group:
        return f"{capitalize(poor)}; to set it anyway:\n  " if poor else ""
    return f"{shorten(clean(setting.group))}{f' ({poor})' if poor else ''}:\n  "


def _in_harness(setting: HowToSet, target: Target) -> Iterator[str]:
    """The command that sets the limits in the harness of the logs, and why some cannot be set there."""
    result = export(target.name, setting.limits)
    lacks = [
        f"{target.title} cannot set {LIMITS[name].with_value(value)}: {target.lacks[name]}"
        for name, value in setting.limits.given.items()
        if name in target.lacks
    ]
    if len(lacks) < len(setting.limits.given):
        hooks = [line for part in result.parts for line in part.text.splitlines() if line.startswith("boolab hook ")]
        if not result.no_file:
            command, effect = f"{setting.command} --write", f"sets {'the rest' if lacks else 'that'} in its files, and"
            yield f"{_head(setting)}{command}\n  {effect} shows what changes."
        elif hooks:
            yield f"{_head(setting)}{hooks[0]}\n  sets that for all sessions, and shows what changes first."
            yield f"{setting.command}\n  shows the other ways."
        else:
            yield f"{_head(setting)}{setting.command}\n  prints the lines for your own program or command."
    for sentence in lacks:
        yield wrap_text(sentence)


def _blocks(settings: list[HowToSet], *, full: bool) -> Iterator[str]:
    good = [setting for setting in settings if full or not setting.poor or len(settings) == 1]
    hidden_settings = [setting for setting in settings if setting not in good]
    shown_settings = good[:MAX_GROUPS]
    if len(settings) == 1 and settings[0].target is not None:
        if full:
            yield str(settings[0].export)
        yield from _in_harness(settings[0], target_of(settings[0].target))
        yield f"For another harness: {as_command(settings[0].limits)}"
    else:
        if shown_settings:
            yield "\n".join(_head(setting) + setting.command for setting in shown_settings)
        if len(good) > len(shown_settings):
            yield f"{count(len(good) - len(shown_settings), 'further group')}: --json has them all."
        if hidden_settings:
            names = "; ".join(shorten(clean(setting.group)) for setting in hidden_settings[:MAX_GROUPS])
            rest = f"; and {len(hidden_settings) - MAX_GROUPS:,} more" if len(hidden_settings) > MAX_GROUPS else ""
            better = capitalize(BETTER_OFF)
            yield wrap_text(f"{better}, so not listed here: {names}{rest}. --full lists them too.")
    if shown_settings:
        yield wrap_text(f"TARGET is one of {', '.join(TARGETS)}.")
