"""Sweeps: agents x tasks x models x settings x repeats, in one event loop."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from boolab.agents import Agent
from boolab.errors import SettingError
from boolab.models.base import Model
from boolab.policy import DEFAULT, SETTINGS, Policy
from boolab.presets import get_policy
from boolab.runner import drive
from boolab.setup import Score, Setup
from boolab.stop import is_whole
from boolab.subagents import family
from boolab.tools import ToolSpec, as_tools
from boolab.turn import Turn
from boolab.types import Run

AXES: Final = (*SETTINGS, "policy", "temperature")

Models: TypeAlias = Model | Mapping[str, Model] | Callable[["Cell"], Model]


@dataclass(frozen=True, slots=True)
class Cell:
    """One run to be made. `settings` holds the axes of the grid, None where the cell's policy has no such setting."""

    agent: Agent
    task: str
    model_name: str | None
    policy: Policy
    settings: Mapping[str, Any] = field(default_factory=dict)
    repeat: int = 0

    @property
    def seed(self) -> int:
        """A seed that depends on the cell alone, not on where or when it runs."""
        settings = sorted((name, str(value)) for name, value in self.settings.items())
        text = repr((self.agent.name, self.task, self.model_name, self.policy.name, settings, self.repeat))
        return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big")


async def sweep(
    agents: Agent | Iterable[Agent] | Mapping[str, Agent],
    tasks: str | Sequence[str],
    model: Models | None = None,
    *,
    grid: Mapping[str, Iterable[Any]] | None = None,
    repeats: int = 1,
    tools: Sequence[ToolSpec | Callable[..., Any]] | None = None,
    root: str | Path | None = None,
    score: Score | None = None,
    concurrency: int = 16,
    progress: bool = True,
) -> list[Run]:
    """Run every agent on every task, with every model, under every setting.

    All cells are checked before the first one runs. A setting that a cell's policy does not have is None there, and
    cells that thereby become equal run once. A run that fails is a row with stop reason `error`, not the end; an
    interrupt from the keyboard, or cancelling the task, ends the sweep.

    Args:
        agents: An agent, agents, or what `load_agents` gives.
        tasks: The tasks.
        model: A model, models by name, or a function from a `Cell` to a model (called once to check the cell and once
            to run it); the agents' own if left out.
        grid: Values by axis: `steps`, `tool_budget`, `doom_loop`, `policy`, `temperature`.
        repeats: How often each cell runs, each time with another seed.
        tools: As for `run`.
        root: As for `run`.
        score: As for `run`.
        concurrency: How many runs are under way at once.
        progress: Whether to show a progress bar.

    Returns:
        The runs in the order of the cells, each followed by those of its subagents; `Run.settings` holds the axes.

    Raises:
        SettingError: if a cell is not acceptable; then nothing was run.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> stuck = ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}])
        >>> runs = asyncio.run(sweep(Agent("a"), "go", stuck, grid={"doom_loop": [2, 5, None]}, progress=False))
        >>> [run.n_steps for run in runs]
        [2, 5, 50]
    """
    if not isinstance(repeats, int) or repeats < 1:
        msg = f"repeats={repeats!r}: expected an integer >= 1"
        raise SettingError(msg)
    models: object = model
    if models is not None and not (isinstance(models, Mapping) or hasattr(models, "respond") or callable(models)):
        msg = f"model={model!r}: expected a model, models by name ({{'small': model, ...}}), or a function of a cell"
        raise SettingError(msg)
    cells = list(plan(agents, tasks, model, grid, repeats))
    specs = as_tools(tools or ())

    def prepare(cell: Cell) -> Turn:
        setup = Setup(
            _with_settings(cell),
            _model_of(cell, model),
            specs,
            root,
            cell.policy,
            score=score,
            seed=cell.seed,
            settings={name: str(v) if isinstance(v, Policy) else v for name, v in cell.settings.items()},
            model_name=cell.model_name,
        )
        return Turn(setup, cell.task)

    for cell in cells:
        try:
            prepare(cell)
        except SettingError as error:
            msg = f"agent {cell.agent.name!r} under {cell.policy}, {cell.settings}: {error}"
            raise SettingError(msg) from error
    return family(await _run_all(cells, prepare, concurrency, progress=progress))


def plan(
    agents: Agent | Iterable[Agent] | Mapping[str, Agent],
    tasks: str | Sequence[str],
    model: Models | None,
    grid: Mapping[str, Iterable[Any]] | None,
    repeats: int = 1,
) -> Iterable[Cell]:
    """The cells of a sweep, each once.

    Raises:
        SettingError: if an axis is not known.
    """
    axes = _axes(grid or {})
    seen: set[tuple[Any, ...]] = set()
    given: Any = agents.values() if isinstance(agents, Mapping) else agents
    listed = [given] if isinstance(given, Agent) else list(given)
    for agent in listed:
        if not isinstance(agent, Agent):
            msg = f"agents: {agent!r} is no agent; expected a bl.Agent, a list of them, or what load_agents gives"
            raise SettingError(msg)
    questions: list[Any] = [tasks] if isinstance(tasks, str) else list(tasks)
    for question in questions:
        if not isinstance(question, str):
            msg = f"tasks: {question!r} is not accepted; expected a text, or texts"
            raise SettingError(msg)
    names: list[str | None] = [*model] if isinstance(model, Mapping) else [None]
    for place, agent in enumerate(listed):
        for task, name, *values in itertools.product(questions, names, *axes.values()):
            asked = dict(zip(axes, values, strict=True))
            policy = get_policy(asked.get("policy", agent.policy))
            settings = {
                axis: None if axis in SETTINGS and axis not in policy.order else value for axis, value in asked.items()
            }
            key = (place, task, name, policy, tuple(settings.items()))
            if key in seen:
                continue
            seen.add(key)
            for repeat in range(repeats):
                yield Cell(agent, task, name, policy, settings, repeat)


def _axes(grid: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    """The values of a grid, checked."""
    axes: dict[str, list[Any]] = {}
    for name, given in grid.items():
        if name not in AXES:
            msg = f"grid: there is no axis {name!r}; axes: {', '.join(AXES)}"
            raise SettingError(msg)
        if isinstance(given, str) or not isinstance(given, Iterable):
            msg = f"grid: {name}={given!r} is no list of values"
            raise SettingError(msg)
        axes[name] = [int(value) if is_whole(value) else value for value in given]
        if DEFAULT in axes[name]:
            msg = f"grid: DEFAULT is no value of {name!r}; leave the axis out to keep the agents' own settings"
            raise SettingError(msg)
    return axes


async def _run_all(
    cells: Sequence[Cell], prepare: Callable[[Cell], Turn], concurrency: int, *, progress: bool
) -> list[Run]:
    """Run the cells, so many at a time, and give the records in the cells' order."""
    from tqdm.auto import tqdm  # noqa: PLC0415 - slow to import

    runs: list[Run | None] = [None] * len(cells)
    waiting = iter(enumerate(cells))
    reasons: Counter[str] = Counter()
    with tqdm(total=len(cells), unit="run", disable=not progress, desc="sweep") as bar:

        async def work() -> None:
            for place, cell in waiting:
                run = await drive(prepare(cell))
                runs[place] = run
                reasons[run.stop_reason] += 1
                bar.set_postfix_str(", ".join(f"{n} {reason}" for reason, n in reasons.most_common()), refresh=False)
                bar.update()

        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, min(concurrency, len(cells)))):
                group.create_task(work())
    return cast("list[Run]", runs)


def _with_settings(cell: Cell) -> Agent:
    values: dict[str, Any] = {
        name: value
        for name, value in cell.settings.items()
        if name == "temperature" or (name in SETTINGS and name in cell.policy.order)
    }
    absent = dict.fromkeys((name for name in SETTINGS if name not in cell.policy.order), DEFAULT)
    return replace(cell.agent, policy=cell.policy, **absent | values)


def _model_of(cell: Cell, model: Models | None) -> Model | None:
    if isinstance(model, Mapping):
        return model[cell.model_name or ""]
    if model is None or hasattr(model, "respond"):
        return cast("Model | None", model)
    return model(cell)
