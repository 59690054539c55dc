"""What CapLab is asked besides the setting: options of the study, and the groups of runs that limits are chosen for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
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
from boolab.limits.table import AGENT_LIMITS, MeasureName
from boolab.stats.intervals import check_confidence
from boolab.stats.recommend.recommend import OBJECTIVES
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
    agent: str | None  # the agent of its runs; None for all agents
    runs: tuple[int, ...]  # the places of its runs
    title: str  # what it is called
    detail: str  # its data set and its number of runs

    @property
    def limits_of(self) -> str:
        """The agent that its limits are written down for, as the `agent` of a setting."""
        return ALL_AGENTS if self.agent is None else self.agent


def groups_of(runs: Sequence[Run], *, families: bool) -> list[RunGroup]:
    """The groups of some runs: those of an agent on a data set, then unions of them; of `families`, agents alone."""
    by_agent: dict[str, dict[str, list[int]]] = {}
    for index, run in enumerate(runs):
        name = "" if families else str(run.settings.get(SET) or "")
        by_agent.setdefault(run.agent, {}).setdefault(name, []).append(index)
    agent_groups, unions = [], []
    for agent, sets in by_agent.items():
        for name, indices in sets.items():
            key = f"{agent}, {name or 'other runs'}" if len(sets) > 1 else agent
            agent_groups.append(_group(key, agent, indices, runs))
        if len(sets) > 1 and len(by_agent) > 1:
            unions.append(_group(agent, agent, [*chain.from_iterable(sets.values())], runs))
    keys: dict[int, str] = {}
    for group in agent_groups:
        keys |= dict.fromkeys(group.runs, group.name)
    order = order_agents([*keys.values()], [runs[index].parent_run_id is None for index in keys])
    agent_groups.sort(key=lambda group: order.index(group.name))
    if len(agent_groups) > 1 and not families:
        unions.append(_group(ALL_AGENTS, None, range(len(runs)), runs))
    return [*agent_groups, *unions]


def _group(name: str, agent: str | None, indices: Sequence[int], runs: Sequence[Run]) -> RunGroup:
    group_runs = [runs[index] for index in indices]
    title = "all together" if agent is None else clean(agent) or NO_NAME
    return RunGroup(name, agent, tuple(indices), title, _detail(group_runs))


def _detail(runs: Sequence[Run]) -> str:
    data_sets = data_sets_of(runs)
    set_text = clean(data_sets[0]) if len(data_sets) == 1 else f"{len(data_sets)} data sets"
    return f"{set_text}, {count(len(runs), 'run')}" if data_sets else count(len(runs), "run")


def data_sets_of(runs: Sequence[Run]) -> list[str]:
    """What runs are of: `settings["set"]`, else the part of a task before the slash; none if a run has neither."""
    names = dict.fromkeys(
        str(run.settings.get(SET) or (run.task.partition("/")[0] if "/" in run.task else "")) for run in runs
    )
    return [] if "" in names else [*names]
