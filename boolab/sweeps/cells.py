"""The cells of a sweep, their keys and the ids of their runs.

A cell has two names. Its `key` is a digest of its names: agent, task, model, policy, settings, repeat. The id of its
run is a digest of its contents too, as far as `boolab.sweeps.fingerprints` sees them: a run that exists under that id
need not run again, and a cell that was changed has another id.

The seed depends on the agent, the task, the model and the repeat alone: all settings use the same random numbers, so
that differences between settings are due to the settings ("common random numbers", Law, Simulation Modeling and
Analysis, 11.2).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Final, NamedTuple, TypeAlias, cast

from boolab.core.run import Run
from boolab.errors import SettingError, near
from boolab.harnesses.policy import DEFAULT, Policy
from boolab.harnesses.presets import get_policy
from boolab.io.checks import MAX_COUNT, is_whole, repr_of
from boolab.limits.table import AGENT_LIMITS
from boolab.runtime.agents.agent import Agent
from boolab.runtime.models.base import Model
from boolab.sweeps.fingerprints import digest, fingerprint

MAX_CELLS: Final = 20_000_000
"""The most cells of a sweep: 32 bytes are kept of each."""
AXES: Final = (*AGENT_LIMITS, "policy", "temperature")

Agents: TypeAlias = Agent | Iterable[Agent] | Mapping[str, Agent]
Models: TypeAlias = Model | Mapping[str, Model] | Callable[["Cell"], Model]


class Variant(NamedTuple):
    """A policy, the axes of the grid, and the agent with these."""

    policy: Policy
    settings: Mapping[str, Any]
    agent: Agent


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a sweep. `model_name` is None for a single model; repeats count from 0."""

    agent: Agent
    task: str
    model_name: str | None
    variant: Variant
    repeat: int = 0

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self.variant.policy

    @property
    def settings(self) -> Mapping[str, Any]:
        """The axes of the grid, policies by name; None where the policy has no such setting."""
        return self.variant.settings

    @property
    def seed(self) -> int:
        """A seed from the agent, the task, the model and the repeat: not from the settings or the place."""
        return int(digest(self.agent.name, self.task, self.model_name, self.repeat)[:12], 16)

    def key(self, model: Model | None = None) -> str:
        """A digest of the names of the cell, with its model's own name where the sweep has none for it."""
        settings = tuple(sorted(self.settings.items()))
        answering = self.model_name or getattr(self.agent.model if model is None else model, "name", None)
        return digest(self.agent.name, self.task, answering, self.policy.name, settings, self.repeat)

    def __str__(self) -> str:
        model = "" if self.model_name is None else f", model {self.model_name!r}"
        settings = ", ".join(f"{name}={repr_of(value)}" for name, value in self.settings.items())
        return f"agent {self.agent.name!r} under {self.policy}{model}{f' with {settings}' if settings else ''}"


class PlannedCell(NamedTuple):
    """A cell with its place in the plan and the id of its run."""

    position: int
    cell: Cell
    run_id: str


class Task(NamedTuple):
    """The first cell is run, unless `base` is its run already; the others follow from it, if they can."""

    cells: tuple[PlannedCell, ...]
    base: Run | None = None


class Plan:
    """The cells of a sweep in their order; arguments as for `sweep`. Each pass makes them again, to save memory."""

    def __init__(
        self,
        agents: Agents,
        tasks: str | Sequence[str],
        model: Models | None,
        grid: Mapping[str, Iterable[Any]] | None,
        repeats: int = 1,
    ) -> None:
        if not is_whole(repeats) or repeats < 1:
            msg = f"repeats={repr_of(repeats)}: expected an integer >= 1"
            raise SettingError(msg)
        _check_model(model)
        self._variants = _variants(_agents(agents), _axes(grid or {}))
        self._tasks = _tasks(tasks)
        self._names: list[str | None] = [*model] if isinstance(model, Mapping) else [None]
        self._repeats = int(repeats)
        if (count := self._count()) > MAX_CELLS:
            runs = f"{count:,}" if count <= MAX_COUNT else f"more than {MAX_COUNT:,}"
            raise SettingError(f"{runs} runs are too many for one sweep: at most {MAX_CELLS:,}")

    def __len__(self) -> int:
        return self._count()

    def _count(self) -> int:
        variants = sum(len(variants) for _, variants in self._variants)
        return variants * len(self._tasks) * len(self._names) * self._repeats

    def __iter__(self) -> Iterator[Cell]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[Iterator[Cell]]:
        """The cells of each agent with each task and model."""
        for agent, variants in self._variants:
            for task, name in itertools.product(self._tasks, self._names):
                pairs = itertools.product(variants, range(self._repeats))
                yield itertools.starmap(functools.partial(Cell, agent, task, name), pairs)

    @property
    def about(self) -> dict[str, Any]:
        """The parts of the plan, as JSON values."""
        grid: dict[str, dict[str, Any]] = {}
        for _, variants in self._variants:
            for variant in variants:
                for axis, value in variant.settings.items():
                    grid.setdefault(axis, {}).setdefault(repr(value), value)
        return {
            "agents": [agent.name for agent, _ in self._variants],
            "tasks": self._tasks,
            "models": [name for name in self._names if name is not None],
            "grid": {axis: list(distinct.values()) for axis, distinct in grid.items()},
            "repeats": self._repeats,
            "tools": {
                agent.name: [str(getattr(tool, "name", tool)) for tool in agent.tools]
                for agent, _ in self._variants
                if agent.tools
            },
        }


class Identities:
    """The ids of cells' runs. Parts that many cells share are digested once."""

    def __init__(self, rest: object, model: Models | None) -> None:
        self._rest = fingerprint(rest)
        self._made = is_model_function(model)
        self._known: dict[int, tuple[object, str]] = {}

    def run_id(self, cell: Cell, key: str, model: Model | None) -> str:
        """The id of a cell's run; `model` is None for the agent's own model."""
        answers = fingerprint(model) if self._made else self._identify(model)
        return digest(key, self._rest, self._identify(cell.agent), self._identify(cell.policy), answers)

    def _identify(self, value: object) -> str:
        entry = self._known.get(id(value))
        if entry is None or entry[0] is not value:
            entry = self._known[id(value)] = (value, fingerprint(value))
        return entry[1]


def _agents(agents: Agents) -> list[Agent]:
    values: Any = agents.values() if isinstance(agents, Mapping) else agents
    agent_list: list[Any] = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    names = set()
    for agent in agent_list:
        if not isinstance(agent, Agent):
            msg = (
                f"agents: {agent!r} is not an agent; expected a bl.Agent, a list of them, or the result of load_agents"
            )
            raise SettingError(msg)
        if agent.name in names:
            msg = f"agents: two have the name {agent.name!r}, so tables cannot separate their runs: rename one"
            raise SettingError(msg)
        names.add(agent.name)
    return agent_list


def _tasks(tasks: str | Sequence[str]) -> list[str]:
    texts: list[Any] = [tasks] if isinstance(tasks, str) else list(tasks)
    for text in texts:
        if not isinstance(text, str):
            msg = f"tasks: {text!r} is not accepted; expected a text, or texts"
            raise SettingError(msg)
    return list(dict.fromkeys(texts))


def _check_model(model: object) -> None:
    if model is not None and not (isinstance(model, Mapping) or hasattr(model, "respond") or callable(model)):
        msg = f"model={model!r}: expected a model, models by name ({{'small': model, ...}}), or a function of a cell"
        raise SettingError(msg)
    for name in model if isinstance(model, Mapping) else ():
        if not isinstance(name, str):
            msg = f"model: {name!r} is not a name; expected models by name ({{'small': model, ...}})"
            raise SettingError(msg)


def _variants(agents: Sequence[Agent], axes: Mapping[str, Sequence[Any]]) -> list[tuple[Agent, list[Variant]]]:
    """The variants of each agent; those that the agent's policy makes equal are one."""
    policies: dict[str, Policy] = {}
    variants_by_agent = []
    for agent in agents:
        variants: dict[tuple[str, ...], Variant] = {}
        for values in itertools.product(*axes.values()):
            axis_values = dict(zip(axes, values, strict=True))
            policy = get_policy(axis_values.get("policy", agent.policy))
            if policies.setdefault(policy.name, policy) != policy:
                msg = (
                    f"policy: two different ones have the name {policy.name!r}, so tables cannot separate runs: "
                    "rename one with policy.vary(name=...)"
                )
                raise SettingError(msg)
            settings = {
                axis: policy.name
                if axis == "policy"
                else None
                if axis in AGENT_LIMITS and axis not in policy.order
                else value
                for axis, value in axis_values.items()
            }
            variant = (policy.name, *map(repr, settings.values()))
            if variant not in variants:
                variants[variant] = Variant(policy, settings, _apply_settings(agent, policy, settings))
        variants_by_agent.append((agent, list(variants.values())))
    return variants_by_agent


def _apply_settings(agent: Agent, policy: Policy, settings: Mapping[str, Any]) -> Agent:
    """An agent with a policy and settings; `SettingError` if they are not accepted."""
    values: dict[str, Any] = {
        name: value
        for name, value in settings.items()
        if name == "temperature" or (name in AGENT_LIMITS and name in policy.order)
    }
    absent = dict.fromkeys((name for name in AGENT_LIMITS if name not in policy.order), DEFAULT)
    try:
        return replace(agent, policy=policy, **absent | values)
    except SettingError as error:
        listed_settings = ", ".join(f"{name}={repr_of(value)}" for name, value in settings.items())
        msg = f"agent {agent.name!r} under {policy}{f' with {listed_settings}' if listed_settings else ''}: {error}"
        raise SettingError(msg) from error


def _axes(grid: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    """The values of a grid, checked."""
    axes: dict[str, list[Any]] = {}
    for name, values in grid.items():
        if name not in AXES:
            msg = f"grid: there is no axis {name!r}{near(name, AXES, 'axes')}"
            raise SettingError(msg)
        if isinstance(values, str) or not isinstance(values, Iterable):
            msg = f"grid: {name}={values!r} is not a list of values"
            raise SettingError(msg)
        axes[name] = [
            _temperature(value) if name == "temperature" else int(value) if is_whole(value) else value
            for value in values
        ]
        if not axes[name]:
            msg = f"grid: {name} has no values; leave the axis out to keep the agents' own settings"
            raise SettingError(msg)
        if DEFAULT in axes[name]:
            msg = f"grid: DEFAULT is not a value of {name!r}; leave the axis out to keep the agents' own settings"
            raise SettingError(msg)
    return axes


def _temperature(value: object) -> float | None:
    """A temperature as a float, so that equal ones are one; `SettingError` if it is none."""
    if value is None or value is DEFAULT:
        return value  # type: ignore[return-value] # the caller reports DEFAULT
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        msg = f"grid: temperature={repr_of(value)} is not accepted; expected numbers such as 0.7, or None"
        raise SettingError(msg)
    return float(value)


def is_model_function(model: Models | None) -> bool:
    """Whether a function makes the model of each cell."""
    return model is not None and not isinstance(model, Mapping) and not hasattr(model, "respond")


def model_of_cell(cell: Cell, model: Models | None) -> Model | None:
    """The model of a cell; None for the agent's own model."""
    if isinstance(model, Mapping):
        return model[cell.model_name or ""]
    if model is None or hasattr(model, "respond"):
        return cast("Model | None", model)
    try:
        return model(cell)
    except Exception as error:
        error.add_note(f"in the function that makes the model, for the cell: {cell}")
        raise
