"""The live runs of `benchmarks.onpolicy`: recordings under a loose cap, and their tasks and seeds under other settings.

Each run is written into a store as it ends, one store for each kind of run. A second start records what is missing. All
kinds are recorded in rounds, so that each has some runs early.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import boolab as bl
from boolab.runtime.models.local.model import COMMAND_TEMPLATE, LocalModel
from boolab.runtime.tasks.families import CAP, FAMILIES, TaskFamily

LOOSE: Final = CAP
"""The cap of the recordings."""
TIGHT: Final = 8
"""The tighter cap."""
ROUNDS: Final = (0.1, 0.3, 0.6, 1.0)
SIZES: Final = {
    "recorded": 1000,
    "equality": 500,
    "informed": 500,
    "nudges": 500,
    "learned": 500,
    "branches": 300,
    "draws": 100,
}
"""How many tasks each kind of runs has by default; how many branches, records and trials there are."""
PACE_MS: Final = 3000
"""How long a run takes, as long as there are none."""
LEARNED: Final = "learned-on-fix.json"
FREE: Final = {"tool_budget": None, "doom_loop": None}


class Arm(NamedTuple):
    """Runs of one kind.

    Attributes:
        name: The name of its store.
        size: The part whose size it has.
        family: The tasks.
        settings: The settings of the agent.
        options: Further arguments of `bl.run`.
        parameters: Those of the model.
        base: The kind of runs that shows what these would do; "" for a recording.
        question: How `bl.counterfactual` is asked for that; nothing where it cannot answer.
        label: What it is, in words.
    """

    name: str
    size: str
    family: TaskFamily
    settings: Mapping[str, Any] = {"max_steps": LOOSE}
    options: Mapping[str, Any] = {}
    parameters: Mapping[str, Any] = {}
    base: str = ""
    question: Mapping[str, Any] = {}
    label: str = ""


JSON: Final = {"form": "json", "template": COMMAND_TEMPLATE, "max_tokens": 40}
"""Calls as JSON, which take more tokens."""
_ANSWERS_IN_JSON: Final = FAMILIES["fix"].prompt.replace("> answer done", '> {"answer": "done"}')
_IN_JSON: Final = re.sub(r"> edit (\w+)", r'> {"tool": "edit", "arguments": {"how": "\1"}}', _ANSWERS_IN_JSON)


def _limits(base: str, label: str, **limits: int) -> Arm:
    """Runs under limits, as the recording would have them."""
    name = "-".join([base, *(f"{axis}{value}" for axis, value in limits.items())])
    parameters, prompt, family = (JSON, {"prompt": _IN_JSON}, "fix") if base == "json" else ({}, {}, base)
    grid = {axis: [value] for axis, value in limits.items()}
    settings = {"max_steps": LOOSE, **prompt, **limits}
    return Arm(name, "equality", FAMILIES[family], settings, {}, parameters, base, {"grid": grid}, label)


def _policy(name: str, label: str, cap: int) -> Arm:
    """Runs under another policy than the recording's, and a cap."""
    question = {"policy": name, "grid": {"max_steps": [cap]}}
    settings = {"policy": name, "max_steps": cap, **FREE}
    return Arm(f"fix-{name}", "equality", FAMILIES["fix"], settings, base="fix", question=question, label=label)


CYCLES: Final = bl.cycle(2, 3)
SUMMARIES: Final = bl.Compaction(at_tokens=300, keep_steps=2)
NUDGE: Final = bl.Guard(detector=bl.detectors.RepeatStreak("canonical"), ladder=((3, "nudge"),))
_NUDGED: Final = bl.policies["boocode"].vary(name="boocode, nudge at 3", detectors={"guards": (NUDGE,)})
_LAST_STEP: Final = bl.policies["boocode"].vary(
    name="boocode, last step stated", last_step={"action": "tool_choice_none", "text_finishes": True}
)
"""Not opencode's own policy, which also summarises the history in a window as small as this model's."""
_FIX: Final = FAMILIES["fix"]
_INFORMED: Final = _FIX.prompt.replace("Then answer done.", f"Then answer done. You have {TIGHT} turns.")

ARMS: Final = (
    Arm("fix", "recorded", FAMILIES["fix"], label="fix, cap 20"),
    Arm("maze", "recorded", FAMILIES["maze"], label="maze, cap 20"),
    Arm("lookup", "recorded", FAMILIES["lookup"], label="lookup, cap 20"),
    _limits("fix", "a cap of 8", max_steps=TIGHT),
    _limits("fix", "a doom loop of 3", doom_loop=3),
    _limits("maze", "maze: a cap of 6", max_steps=6),
    _limits("maze", "maze: a doom loop of 3", doom_loop=3),
    _limits("lookup", "lookup: a cap of 3", max_steps=3),
    _limits("lookup", "lookup: a doom loop of 2", doom_loop=2),
    _limits("fix", "a tool budget of 9", tool_budget=9),
    Arm("fix-cycle", "equality", _FIX, {}, {"stop": CYCLES | bl.max_steps(LOOSE)}, {}, "fix",
        {"rules": [CYCLES]}, "a detector: a cycle of 2 calls, 3 times"),
    _policy("claude_code", "under claude_code, a cap of 8: no summary", TIGHT),
    _policy("openhands", "under openhands, whose detectors stop: one call at a time", LOOSE),
    _limits("fix", "a cap of 12, a doom loop of 4 and a budget of 11", max_steps=12, doom_loop=4, tool_budget=11),
    Arm("json", "equality", _FIX, {"max_steps": LOOSE, "prompt": _IN_JSON}, parameters=JSON, label="calls as JSON"),
    _limits("json", "calls as JSON: a cap of 4", max_steps=4),
    Arm("compacted", "equality", _FIX, options={"compaction": SUMMARIES}, label="fix, cap 20, with summaries"),
    Arm("compacted-cap", "equality", _FIX, {"max_steps": 10}, {"compaction": SUMMARIES}, {}, "compacted",
        {"grid": {"max_steps": [10]}}, "with summaries of the history: a cap of 10"),
    Arm("informed-each-turn", "informed", _FIX, {"policy": bl.fixed_turns(TIGHT), "max_steps": TIGHT, **FREE},
        base="fix", label="each request ends with the turns that are left"),
    Arm("informed-in-prompt", "informed", _FIX, {"prompt": _INFORMED, "max_steps": TIGHT}, base="fix",
        label="the system prompt has how many turns there are"),
    Arm("informed-last-step", "informed", _FIX, {"policy": _LAST_STEP, "max_steps": TIGHT, **FREE}, base="fix",
        label="the last request states that it is the last, and takes no calls"),
    Arm("informed-maze", "informed", FAMILIES["maze"], {"policy": bl.fixed_turns(6), "max_steps": 6, **FREE},
        base="maze", label="maze, a cap of 6: each request ends with the turns that are left"),
    Arm("nudged", "nudges", _FIX, {"policy": _NUDGED}, base="fix", label="fix, a nudge at 3 equal calls"),
    Arm("nudged-maze", "nudges", FAMILIES["maze"], {"policy": _NUDGED}, base="maze",
        label="maze, a nudge at 3 equal calls"),
    Arm("learned", "learned", FAMILIES["maze"], base="maze", label="learned on fix, live on maze"),
)  # fmt: skip
"""All kinds of runs, in the order in which they are recorded."""
RECORDINGS: Final = tuple(arm for arm in ARMS if arm.size == "recorded")


def runs_of(folder: Path, name: str) -> list[bl.Run]:
    """The recorded runs of a kind, in the order of their tasks."""
    path = folder / f"{name}.db"
    runs = [run for run in bl.stored_runs(path) if run.stop_reason != "aborted"] if path.exists() else []
    return sorted(runs, key=lambda run: run.seed or 0)


def pairs(folder: Path, arm: Arm) -> list[tuple[bl.Run, bl.Run]]:
    """Runs of the recording, each with the live run of the same task and seed."""
    live = {run.seed: run for run in runs_of(folder, arm.name)}
    return [(run, live[run.seed]) for run in runs_of(folder, arm.base) if run.seed in live]


class Recorder:
    """Records what is missing.

    Args:
        folder: The folder of the stores.
        sizes: How many tasks each kind of run has, by the part.
    """

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        self.folder, self.sizes = folder, sizes
        folder.mkdir(parents=True, exist_ok=True)
        self._durations = {
            arm.name: {run.seed: run.duration_ms or 0 for run in runs_of(folder, arm.name)} for arm in ARMS
        }
        self._models: dict[tuple[str, str], LocalModel] = {}

    @property
    def recorded(self) -> int:
        """How many runs there are."""
        return sum(map(len, self._durations.values()))

    def missing(self, arm: Arm, share: float = 1.0) -> list[int]:
        """The numbers of the tasks of a kind that have no run yet, up to a share of them all."""
        last = math.ceil(share * self.sizes[arm.size])
        return [number for number in range(1, last + 1) if number not in self._durations[arm.name]]

    def remaining(self) -> tuple[int, float]:
        """How many runs are missing, and how many hours they take at the pace of those that there are."""
        every = [ms for durations in self._durations.values() for ms in durations.values()]
        runs, hours = 0, 0.0
        for arm in ARMS:
            known = [*self._durations[arm.name].values()] or every or [PACE_MS]
            missing = len(self.missing(arm))
            runs += missing
            hours += missing * sum(known) / len(known) / 3.6e6
        return runs, hours

    async def record(self, arms: Sequence[Arm] = ARMS) -> None:
        """Record what is missing, in rounds."""
        with ExitStack() as stack:
            for arm, number in self._order(arms):
                model = self._model(arm, stack)
                run = await self._run(arm, number, model)
                with bl.Store(self.folder / f"{arm.name}.db") as store:
                    store.add(run)
                self._durations[arm.name][number] = run.duration_ms or 0
                if run.stop_reason == "error":
                    raise SystemExit(f"{arm.name}, task {number}: {run.error}")

    def _order(self, arms: Sequence[Arm]) -> Iterator[tuple[Arm, int]]:
        for share in ROUNDS:
            for arm in arms:
                if arm.name == "learned" and share < 1:
                    continue  # the rule is learned from the whole recording
                for number in self.missing(arm, share):
                    yield arm, number
                runs, hours = self.remaining()
                print(f"{arm.name}: {len(self._durations[arm.name])} runs; {runs:,} remain, {hours:.1f} h", flush=True)

    def _model(self, arm: Arm, stack: ExitStack) -> LocalModel:
        key = arm.family.name, repr(arm.parameters)
        if key not in self._models:
            self._models[key] = stack.enter_context(arm.family.model(**arm.parameters))
        return self._models[key]

    async def _run(self, arm: Arm, number: int, model: LocalModel) -> bl.Run:
        options = dict(arm.options)
        if arm.name == "learned":
            options["stop"] = learned_rule(self.folder) | bl.max_steps(LOOSE)
        family, task = arm.family, arm.family.task_of(number)
        tools, score = [family.tool], family.succeeded
        return await bl.run(
            family.agent(**arm.settings), task, model=model, tools=tools, score=score, seed=number, **options
        )


def learned_rule(folder: Path) -> Any:  # noqa: ANN401 - a learned rule
    """The rule that was learned from the recording of `fix`, once for all its live runs."""
    path = folder / LEARNED
    if not path.exists():
        rule = bl.learn_stop(runs_of(folder, "fix"), keep=0.8, confidence=None, progress=False)
        bl.stats.save_rule(rule, path)
    return bl.stats.load_rule(path)


def main(folder: Path, sizes: Mapping[str, int]) -> None:
    """Record what is missing."""
    asyncio.run(Recorder(folder, sizes).record())
