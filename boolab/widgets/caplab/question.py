"""What CapLab is asked besides the setting: options of the study, and the groups of runs that limits are chosen for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from boolab.core.run import Run
from boolab.core.run_tree import order_agents
from boolab.core.text import clean, count
from boolab.display.text import NO_NAME
from boolab.errors import SettingError
from boolab.frames.data_set import SET
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.harnesses.setting import ALL_AGENTS
from boolab.limits.table import AGENT_LIMITS, OBJECTIVES, MeasureName
from boolab.stats.intervals import check_confidence
from boolab.whatif.grid import settings_of


@dataclass(frozen=True, slots=True)
class Question:
    """The options of the study, besides the setting.

    `policy`: whose order of precedence and further limits hold; None for none. `success`: what a success is: "label",
    "ended", or None for labels where an agent has any.
    """

    policy: str | Policy | None = None
    keep: float = 0.95
    confidence: float = 0.95
    objective: MeasureName = "cost"
    success: Literal["label", "ended"] | None = None

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        check_confidence(self.keep, "keep")
        if self.objective not in OBJECTIVES:
            raise SettingError(f"objective={self.objective!r}: expected one of {', '.join(OBJECTIVES)}")
        if self.success not in (None, "label", "ended"):
            raise SettingError(
                f"success={self.success!r}: expected 'label', 'ended' (the proxy), or None (labels where there are any)"
            )
        settings = settings_of({name: [2, None] for name in AGENT_LIMITS}, self.policy)
        if not settings.is_plain:
            raise SettingError(
                f"policy {get_policy(self.policy or '').name}: it sends messages to the model, or evaluates limits at "
                "the response, so that sums are not enough: expected a policy that evaluates limits only after steps, "
                "or None. bl.counterfactual(runs, policy=...) gives a row for each run"
            )


class RunGroup(NamedTuple):
    """Runs that have a limit in common."""

    name: str  # its name as the `agent` of a setting
    agent: str | None  # the agent of its runs; None for several
    runs: tuple[int, ...]  # the places of its runs
    title: str  # what it is called
    detail: str  # its data set and its number of runs
    key: tuple[object, ...] | None  # its values of the columns that `recommend` keeps apart; None for a union of groups

    @property
    def limits_of(self) -> str:
        """The agent that its limits are written down for, as the `agent` of a setting."""
        return ALL_AGENTS if self.agent is None else self.agent


def groups_of(
    runs: Sequence[Run], keys: Sequence[str], values: Sequence[tuple[object, ...]], *, families: bool
) -> list[RunGroup]:
    """The groups that `recommend` keeps apart, then unions of them; of `families`, no unions.

    `keys` are the columns that separate them, `values` those of each run.
    """
    places: dict[tuple[object, ...], list[int]] = {}
    for index, key in enumerate(values):
        places.setdefault(key, []).append(index)
    agents = {key: {runs[index].agent for index in indices} for key, indices in places.items()}
    n_groups = Counter(agent for names in agents.values() for agent in names)
    groups = []
    for key, indices in places.items():
        agent = next(iter(agents[key])) if len(agents[key]) == 1 else None
        is_alone = agent is not None and n_groups[agent] == 1 and ("agent" in keys or not keys)
        parts = [
            str(value or ("other runs" if name == SET else NO_NAME)) for name, value in zip(keys, key, strict=True)
        ]
        titles = [str(value) for name, value in zip(keys, key, strict=True) if value and name != SET]
        titles = titles or ([agent] if agent else [])
        name = str(agent) if is_alone else ", ".join(parts)
        title, detail = clean(", ".join(titles)), _detail(runs, indices)
        if not title:  # its data set names it, where it has one
            title, _, detail = detail.rpartition(", ")
        groups.append(RunGroup(name, agent, tuple(indices), title or NO_NAME, detail, key))
    of_run = {index: group.name for group in groups for index in group.runs}
    order = order_agents([of_run[index] for index in of_run], [runs[index].parent_run_id is None for index in of_run])
    groups.sort(key=lambda group: order.index(group.name))
    if families or len(groups) <= 1:
        return groups
    unions = [
        RunGroup(agent, agent, indices, clean(agent) or NO_NAME, _detail(runs, indices), None)
        for agent, n in n_groups.items()
        if n > 1 and len(n_groups) > 1
        for indices in [tuple(index for index, run in enumerate(runs) if run.agent == agent)]
    ]
    every = tuple(range(len(runs)))
    return [*groups, *unions, RunGroup(ALL_AGENTS, _only(n_groups), every, "all together", _detail(runs, every), None)]


def _only(agents: Collection[str]) -> str | None:
    """The agent, if there is one."""
    return next(iter(agents)) if len(agents) == 1 else None


def _detail(runs: Sequence[Run], indices: Iterable[int]) -> str:
    group_runs = [runs[index] for index in indices]
    data_sets = data_sets_of(group_runs)
    set_text = clean(data_sets[0]) if len(data_sets) == 1 else f"{len(data_sets)} data sets"
    return f"{set_text}, {count(len(group_runs), 'run')}" if data_sets else count(len(group_runs), "run")


def data_sets_of(runs: Sequence[Run]) -> list[str]:
    """What runs are of: `settings["set"]`, else the part of a task before the slash; none if a run has neither."""
    names = dict.fromkeys(
        str(run.settings.get(SET) or (run.task.partition("/")[0] if "/" in run.task else "")) for run in runs
    )
    return [] if "" in names else [*names]
