"""A widget of each kind, on the runs that are in the repository."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import boolab as bl
from boolab.data import checkout
from boolab.widgets.shown import Shown


@cache
def runs() -> list[bl.Run]:
    """Some of the runs of a simulated agent."""
    return list(bl.load_runs(checkout() / "datasets/runs"))[:50]


def failing() -> bl.Run:
    """One with many failed calls."""
    return max(runs(), key=lambda run: sum(bool(one and one.is_error) for step in run.steps for one in step.results))


def heatmap() -> Shown:
    """Caps and budgets."""
    grid = {"steps": [4, 8, 12, 16, None], "tool_budget": [6, 12, None]}
    some = runs()[:12]  # as many as a page holds
    return bl.Heatmap(bl.counterfactual(some, grid=grid, tally=True, progress=False), some)


EXAMPLES: Final[dict[str, Callable[[], Shown]]] = {
    "Replay": lambda: bl.Replay(failing()),
    "CapLab": lambda: bl.CapLab(runs()),
    "Heatmap": heatmap,
}


@cache
def page_with(name: str) -> str:
    """The page of an example, made once."""
    return EXAMPLES[name]().to_html()
