"""The outcome of a Harbor trial: the reward of its verifier, and the exception that ended its agent.

A trial is a folder with `result.json`, `verifier/reward.txt` (or `reward.json`) and `agent/`, where the logs are: those
of the harness itself and a trajectory in ATIF. See github.com/harbor-framework/harbor (`models/trial/result.py`).

- A reward of at least 1, or true, is a success, one of 0 or less is a failure. One between is unknown without a
  threshold, from which on all rewards are successes. With several rewards and none called `reward`, none decides. No
  reward, or NaN, is unknown.
- A reward counts also beside an exception: a trial whose agent ran out of time is verified too. The exception shows how
  the run ended: `AgentTimeoutError` is a time budget, others are errors unless the log shows that the agent finished.
- The runs of subagents have no outcome of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.core.run import Run, RunLabel
from boolab.core.run_labels import BENCHMARK, add_label
from boolab.io.files import read_file
from boolab.io.json_input import items, mapping, text
from boolab.logs.fields import TOLERANCE, instant, one_line, read_once, reward_of, scores_of, seconds_ms, sidecar

_MAIN: Final = "reward"
_AGENT: Final = "agent"
_STEPS: Final = "steps"
_RESULT: Final = "result.json"
_REWARDS: Final = ("verifier/reward.json", "verifier/reward.txt")
_MAX_REWARD: Final = 65_536
_TIMEOUT: Final = "AgentTimeoutError"
_OF_AGENT: Final = ("Agent", "NonZeroAgentExitCode", "ContextWindow", "ContextLength", "OutputLength")
"""How the names of exceptions begin that end the agent. Others are of the environment, the verifier or a download."""
_BETWEEN: Final = (
    "a reward of {:g} is no label: give success_threshold (--success-threshold), from which reward on a trial is a "
    "success (further trials are not named)"
)
_TRIAL: Final = frozenset({"trial_name", "verifier_result", "agent_result"})


class HarborTrial(NamedTuple):
    """A trial's folder, and what its files say."""

    folder: Path
    result: Mapping[str, Any]
    rewards: Mapping[str, float]
    file: str
    """The file that has the rewards; empty if there are none."""


def trial_of(path: Path) -> HarborTrial | None:
    """The trial that a log belongs to, by the nearest `agent` folder above it, or its own; None if it is in none."""
    absolute = path.absolute()
    homes = [parent.parent for parent in absolute.parents if parent.name == _AGENT] if _AGENT in absolute.parts else []
    outer = [home.parent.parent for home in homes if home.parent.name == _STEPS]  # of a trial in several steps
    for folder in (*homes, *outer, absolute.parent):
        result = mapping(sidecar(f"{folder}/{_RESULT}"))
        if not _is_trial(result) and folder not in homes:
            continue
        trial = HarborTrial(folder, result if _is_trial(result) else {}, *_rewards(folder, result))
        if trial.result or trial.rewards:
            return trial
    return None


def _is_trial(result: Mapping[str, Any]) -> bool:
    return "trial_name" in result or len(_TRIAL & result.keys()) > 1


def _rewards(folder: Path, result: Mapping[str, Any]) -> tuple[Mapping[str, float], str]:
    """The rewards of a trial, and the file that has them."""
    result_rewards = _numbers(mapping(mapping(result.get("verifier_result")).get("rewards")))
    if result_rewards:
        return result_rewards, _RESULT
    for name in _REWARDS:
        file_rewards = _read_rewards(folder / name)
        if file_rewards:
            return file_rewards, name
    return {}, ""


@read_once
def _read_rewards(path: Path) -> Mapping[str, float]:
    """The rewards that a verifier wrote: a number, or a JSON object of numbers."""
    try:
        content = read_file(path, _MAX_REWARD).decode("utf-8-sig").strip()
    except (OSError, ValueError):
        return {}
    if path.suffix == ".json":
        value = sidecar(path)
        return _numbers(value if isinstance(value, dict) else {"reward": value})
    try:
        return _numbers({"reward": float(content)}) if "_" not in content else {}
    except ValueError:
        return {}


def _numbers(values: Mapping[str, object]) -> dict[str, float]:
    """The rewards; NaN for a number that is none, and for a main one that is anything else. Empty if none counts."""
    rewards = {name: reward_of(value) for name, value in values.items()}
    if not any(isinstance(value, int | float) for value in values.values()):
        return {}
    return {
        name: math.nan if reward is None else reward
        for name, reward in rewards.items()
        if reward is not None or name == _MAIN or isinstance(values[name], int | float)
    }


class Undecided(NamedTuple):
    """Why rewards are no label."""

    text: str
    kind: str
    """What it has in common with those of further trials, which are not named; "" if each is named."""


def outcome(rewards: Mapping[str, float], success_threshold: float | None = None) -> bool | None:
    """Whether rewards are a success; None if they do not decide."""
    reward = _main_reward(rewards)
    if reward is None:
        return None
    if success_threshold is not None:
        return reward >= success_threshold - TOLERANCE
    return None if TOLERANCE < reward < 1 - TOLERANCE else reward > TOLERANCE


def _main_reward(rewards: Mapping[str, float]) -> float | None:
    """The reward that decides: the one of that name, or the only one; None if it is unknown."""
    return reward_of(rewards.get(_MAIN, next(iter(rewards.values())) if len(rewards) == 1 else None))


def with_outcome(
    runs: Sequence[Run], path: Path, success_threshold: float | None = None
) -> tuple[list[Run], Undecided | None]:
    """The runs of a log with the outcome of its trial, and why its rewards do not decide, if they do not."""
    trial = trial_of(path) if any(run.parent_run_id is None for run in runs) else None
    if trial is None:
        return list(runs), None
    success = outcome(trial.rewards, success_threshold)
    needs_label = any(run.success is None and run.parent_run_id is None for run in runs)
    note = _undecided(trial) if success is None and needs_label else None
    labelled = [
        _add_outcome(run, trial, success, success_threshold) if run.parent_run_id is None else run for run in runs
    ]
    return labelled, note


def _undecided(trial: HarborTrial) -> Undecided | None:
    """Why the rewards of a trial are no label; None if it has none."""
    reward = _main_reward(trial.rewards)
    if reward is not None:
        return Undecided(f"{trial.folder / trial.file}: {_BETWEEN.format(reward)}", "between")
    names = [name for name, value in trial.rewards.items() if not math.isnan(value)]
    if len(names) < 2:  # noqa: PLR2004 - several
        return None
    text = f"{trial.folder / trial.file}: several rewards and none is called reward ({', '.join(names)}): no label"
    return Undecided(text, "")


def _add_outcome(run: Run, trial: HarborTrial, success: bool | None, success_threshold: float | None) -> Run:
    if run.success is None:
        names = {score.name for score in run.scores}
        scores = tuple(score for score in scores_of(trial.rewards) if score.name not in names)
        run = replace(run, scores=(*run.scores, *scores)) if scores else run
    if run.success is None and success is not None:
        rewards = ", ".join([f"{name} {value:g}" for name, value in trial.rewards.items()])
        rewards += "" if success_threshold is None else f", a success from {success_threshold:g} on"
        run = add_label(run, RunLabel(success, BENCHMARK, f"Harbor, {trial.file}: {rewards}"))
    return _apply_exception(run, trial)


def _exceptions(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for holder in (result, *map(mapping, items(result.get("step_results")))):
        if exception := mapping(holder.get("exception_info")):
            yield exception


def _apply_exception(run: Run, trial: HarborTrial) -> Run:
    """The run with the end that the trial's exception shows."""
    for exception in _exceptions(trial.result):
        name, message = text(exception.get("exception_type")), text(exception.get("exception_message"))
        if name == _TIMEOUT:
            limit = _time_limit(trial.result)
            elapsed = _agent_ms(trial.result)
            rule = name if limit is None else f"{name}({limit})"
            stop = run.stop._replace(
                reason="time_budget",
                rule=rule,
                threshold=limit,
                value=elapsed if limit is None else max(limit, elapsed or 0),
            )
            return replace(run, stop=stop, limits=run.limits if limit is None else {**run.limits, "elapsed": limit})
        if name.startswith(_OF_AGENT) and run.stop.reason == "aborted":
            error = one_line(f"{name}: {message}" if message else name)
            return replace(run, stop=run.stop._replace(reason="error"), error=run.error or error)
    return run


def _time_limit(result: Mapping[str, Any]) -> int | None:
    """The agent's time limit in milliseconds, if the settings in the result have one."""
    config = mapping(result.get("config"))
    agent = mapping(config.get("agent"))
    limit = seconds_ms(agent.get("override_timeout_sec"))
    if limit is None:
        return None
    factor = config.get("timeout_multiplier")
    maximum = seconds_ms(agent.get("max_timeout_sec"))
    limit = limit if maximum is None else min(limit, maximum)
    return round(limit * factor) if isinstance(factor, int | float) and 0 < factor < 2**20 else limit


def _agent_ms(result: Mapping[str, Any]) -> int | None:
    """The milliseconds that the agent ran."""
    times = mapping(result.get("agent_execution"))
    start, end = instant(times.get("started_at")), instant(times.get("finished_at"))
    return None if start is None or end is None else max(0, round((end - start).total_seconds() * 1000))
