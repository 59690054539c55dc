"""The agents to choose from, each with its data set and its number of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from boolab.agents.setting import ALL
from boolab.core.text import clean, count
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
    listed = [{"name": name, "title": clean(name) or "no name", "detail": _detail(by_agent[name])} for name in found]
    if tables.roots or len(found) == 1:
        return listed
    return [*listed, {"name": ALL, "title": "all together", "detail": count(len(runs), "run")}]


def _detail(runs: Sequence[Run]) -> str:
    data_set = data_set_of(runs)
    return f"{clean(data_set)}, {count(len(runs), 'run')}" if data_set else count(len(runs), "run")


def data_set_of(runs: Sequence[Run]) -> str:
    """What runs are of: the part before the slash that the names of all their tasks begin with; "" if there is none.

    Example:
        >>> import boolab as bl
        >>> data_set_of(bl.load_dataset("atlas/tau-airline"))
        'tau-airline'
    """
    begins = {run.task.partition("/")[0] if "/" in run.task else "" for run in runs}
    return begins.pop() if len(begins) == 1 else ""
