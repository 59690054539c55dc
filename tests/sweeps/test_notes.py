"""What decided the numbers of a sweep besides its grid is said."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.errors import SweepWarning
from boolab.runtime.models.simulated import SimulatedModel


@bl.tool
def search(query: str = "") -> str:
    """Search."""
    return f"nothing about {query}"


def look() -> bl.ScriptedModel:
    return bl.ScriptedModel([{"tool_calls": [{"name": "search"}], "repeat": "forever"}])


def noted(agents: Any, model: Any, grid: dict[str, Any], **options: Any) -> tuple[list[str], list[Run]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs = asyncio.run(bl.sweep(agents, ["one", "two"], model, grid=grid, **{"progress": False} | options))
    ours = [one for one in caught if one.category is SweepWarning]
    assert all(Path(one.filename) == Path(__file__) for one in ours)
    return [str(one.message) for one in ours], list(runs)


def test_sweep_notes_a_budget_outside_of_its_grid() -> None:
    notes, runs = noted(bl.Agent("a", tools=(search,)), look(), {"max_steps": [5, 20], "doom_loop": [None]})
    assert [run.n_steps for run in runs] == [5, 10] * 2
    assert notes == [
        '2 of 4 runs were stopped by a tool budget of 10, which is not in the grid: "tool_budget": [None] takes it off.'
    ]


def test_sweep_notes_the_limit_of_an_agent_and_a_ceiling() -> None:
    agent = bl.Agent("a", tools=(search,), doom_loop=7)
    notes, _ = noted(agent, look(), {"max_steps": [3, None], "tool_budget": [None]})
    assert [note.partition(", which")[0] for note in notes] == [
        "2 of 4 runs were stopped by a doom-loop threshold of 7"
    ]
    notes, runs = noted(agent, look(), {"max_steps": [None], "tool_budget": [None], "doom_loop": [None]})
    most = bl.policies["boocode"].cap.ceiling
    assert {run.n_steps for run in runs} == {most}
    assert notes[0].startswith(f"2 of 2 runs were stopped by the ceiling of {most} steps of policy boocode: ")


@pytest.mark.parametrize("grid", [{}, {"max_steps": [5, 8]}])
def test_sweep_without_other_limits_has_no_note(grid: dict[str, Any]) -> None:
    agent = bl.Agent("a", tools=(search,), doom_loop=None)
    assert (noted(agent, look(), grid))[0] == []


def test_sweep_notes_tools_that_are_never_called(tmp_path: Path) -> None:
    agents = [bl.Agent("a", tools=(search,)), bl.Agent("b")]
    grid = {"tool_budget": [None], "doom_loop": [None], "max_steps": [3]}
    notes, _ = noted(agents, SimulatedModel.load("coder"), grid, store=tmp_path / "s.db")
    assert [note.partition(", only")[0] for note in notes] == ["No tool of agent a (search) was called in its 2 runs"]
    assert "bash" in notes[0]
    shown = bl.SweepView(tmp_path / "s.db").data["notes"]
    assert notes[0] in shown
