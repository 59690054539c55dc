"""How the limits to set are set: as text for the harness of the logs, and as a command for every other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from boolab.core.text import clean, count, shorten
from boolab.display.text import wrap_text
from boolab.harnesses.exports.export import TARGET, as_command, export, target_of
from boolab.harnesses.exports.values import Export, Limits
from boolab.harnesses.registry import TARGETS, target_of_source
from boolab.limits.table import LIMITS
from boolab.report.study import MAX_GROUPS, Study
from boolab.report.summary import summary_rows
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.decision import Decision


class HowToSet(NamedTuple):
    """How the limits of a group of runs are set."""

    group: str  # the name of the group; "" where there is one only
    limits: Limits
    target: str | None  # the export target that is the harness of the logs; None if they do not name one
    found: Decision
    decision: GroupDecision

    def held(self, target: str) -> tuple[Limits, str]:
        """The limits as a harness can hold them, and what is lost by that."""
        return self.found.limits_for(target, self.decision)

    @property
    def command(self) -> str:
        """The command that prints them for the harness of the logs; if they do not name one, with the word `TARGET`."""
        if self.target is None:
            return as_command(self.limits, TARGET)
        limits, _ = self.held(self.target)
        return as_command(limits, self.target)

    @property
    def export(self) -> Export | None:
        """The export for the harness of the logs; None if they do not name one."""
        return None if self.target is None else self._export(self.target)

    @property
    def others(self) -> list[Export]:
        """The exports for all other harnesses."""
        return [self._export(name) for name in TARGETS if name != self.target]

    def _export(self, target: str) -> Export:
        limits, note = self.held(target)
        return replace(export(target, limits), lost=note)


def how_to_set(study: Study) -> list[HowToSet]:
    """How limits are set, group by group as in the summary; empty if none is to be set."""
    targets = {target_of_source(agent.source) for agent in study.agent_counts}
    target = targets.pop() if len(targets) == 1 else None
    limits = study.found.limits_by_group()
    rows = [row for row in summary_rows(study) if row.is_set]
    names = [row.name if study.keys else "" for row in rows]
    return [HowToSet(name, limits[name], target, study.found, row.group) for name, row in zip(names, rows, strict=True)]


def how_to_set_text(study: Study, *, full: bool = False) -> str:
    """How limits are set, for a terminal; "" if none is to be set."""
    settings = how_to_set(study)
    return "\n\n".join(_blocks(settings, full=full)) if settings else ""


def _head(setting: HowToSet) -> str:
    """The line above the command of a group."""
    return f"{shorten(clean(setting.group))}:\n  " if setting.group else ""


def _in_harness(setting: HowToSet, name: str) -> Iterator[str]:
    """The command that sets the limits in the harness of the logs, and what is lost by what it lacks."""
    target = target_of(name)
    limits, note = setting.held(name)
    result = export(name, limits)
    lacks = [limit for limit in limits.given if limit in target.lacks]
    if len(lacks) < len(limits.given):
        hooks = [line for part in result.parts for line in part.text.splitlines() if line.startswith("boolab hook ")]
        if not result.no_file:
            command, effect = f"{setting.command} --write", f"sets {'the rest' if lacks else 'that'} in its files, and"
            yield f"{_head(setting)}{command}\n  {effect} shows what changes."
        elif hooks:
            yield f"{_head(setting)}{hooks[0]}\n  sets that for all sessions, and shows what changes first."
            yield f"{setting.command}\n  shows the other ways."
        else:
            yield f"{_head(setting)}{setting.command}\n  prints the lines for your own program or command."
    if note:
        yield wrap_text(note)
    for limit in lacks:
        what = LIMITS[limit].with_value(limits.given[limit])
        yield wrap_text(f"{target.title} cannot set {what}: {target.lacks[limit]}")


def _blocks(settings: list[HowToSet], *, full: bool) -> Iterator[str]:
    shown_settings = settings[:MAX_GROUPS]
    if len(settings) == 1 and settings[0].target is not None:
        if full:
            yield str(settings[0].export)
        yield from _in_harness(settings[0], settings[0].target)
        yield f"For another harness: {as_command(settings[0].limits)}"
    else:
        yield "\n".join(_head(setting) + setting.command for setting in shown_settings)
        if len(settings) > len(shown_settings):
            yield f"{count(len(settings) - len(shown_settings), 'further group')}: --json has them all."
    yield wrap_text(f"TARGET is one of {', '.join(TARGETS)}.")
