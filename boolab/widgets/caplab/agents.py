"""The agents to choose from, each with its data set and its number of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from boolab.agents.setting import ALL
from boolab.core.text import NO_NAME, clean, count
from boolab.core.types import Run

if TYPE_CHECKING:
    from boolab.widgets.caplab.data import CapTables


def agents_of(tables: CapTables) -> list[dict[str, str]]:
    """Each agent as its `name` in a setting, its `title`, and its `detail`: the one with most runs first.

    All agents together come last, where they can have a limit in common: not where there are runs of subagents.
    """
    runs = tables.runs
    by_agent: dict[str, list[Run]] = {}
    for run in runs:
        by_agent.setdefault(run.agent, []).append(run)
    found = sorted(by_agent, key=lambda name: -len(by_agent[name]))
    listed = [{"name": name, "title": clean(name) or NO_NAME, "detail": _detail(by_agent[name])} for name in found]
    if tables.roots or len(found) == 1:
        return listed
    return [*listed, {"name": ALL, "title": "all together", "detail": _detail(runs)}]


def _detail(runs: Sequence[Run]) -> str:
    data_sets = data_sets_of(runs)
    of = clean(data_sets[0]) if len(data_sets) == 1 else f"{len(data_sets)} data sets"
    return f"{of}, {count(len(runs), 'run')}" if data_sets else count(len(runs), "run")


def data_sets_of(runs: Sequence[Run]) -> list[str]:
    """What runs are of: the parts before the slash in the names of their tasks; none if a task has no such part.

    Example:
        >>> import boolab as bl
        >>> data_sets_of(bl.load_dataset("atlas/tau-airline"))
        ['tau-airline']
    """
    begins = dict.fromkeys(run.task.partition("/")[0] if "/" in run.task else "" for run in runs)
    return [] if "" in begins else [*begins]
