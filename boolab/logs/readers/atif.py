"""ATIF, the Agent Trajectory Interchange Format, versions 1.x: one trajectory a file, or one a line.

boolab's own files are read back exactly; see `boolab.logs.atif_format`. For files from others (Harbor, Terminal-Bench
and more; github.com/harbor-framework/harbor, rfcs/0001-trajectory-format.md):

- An agent's step is a step, unless no model was called for it (`llm_call_count` 0) or it is a copy
  (`is_copied_context`). `step_id` also counts the messages of users and of the system.
- A result answers the call of the same step with its id. Results without ids answer the calls in order, if there are as
  many. The format has no errors and no finish reasons, so both are unknown.
- `prompt_tokens` include the cached ones.
- Each embedded trajectory in `subagent_trajectories` is a run. A result's `subagent_trajectory_ref` names the one that
  its call started.
- If `source` is withheld, a step with metrics, calls or reasoning is the agent's.
- agentpile's own `extra` has the labels, the results that are errors, and the agent steps that are really the simulated
  user's (github.com/yzhao062/agentpile).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boolab.core.types import Run, Usage
from boolab.io.json_input import Damage, flag, items, json_values, mapping, micro, parse_exactly, text, whole
from boolab.logs.atif_format import is_own, run_of_trajectory
from boolab.logs.builder import RunBuilder, StepBuilder
from boolab.logs.fields import Head, content_text, epoch_ms

NAME: Final = "atif"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl", ".jsonl.bz2", ".json")
TESTED: Final = "ATIF-v1.7"
PLACES: Final = ()
LOOKED_FOR: Final = 'JSON objects with "schema_version": "ATIF-v1..." and "steps"'

_SCHEMA: Final = "ATIF-v"
_AGENTPILE: Final = "agentpile"


def sniff(head: Head) -> bool:
    """Whether one of the first values is a trajectory."""
    return any(_is_trajectory(value) for value in head.values)


def _is_trajectory(value: object) -> bool:
    return text(mapping(value).get("schema_version")).startswith(_SCHEMA)


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file: of each trajectory, then of the subagents within it."""
    runs: list[Run] = []
    for number, value in json_values(path, damage, parse=parse_exactly):
        if not _is_trajectory(value):
            damage.note(number, f"no trajectory: {LOOKED_FOR} was looked for")
        elif not text(value["schema_version"]).startswith(f"{_SCHEMA}1."):
            damage.note(number, f"a trajectory of {value['schema_version']!r:.40}; versions ATIF-v1.x can be read")
        elif is_own(value) and not damage.truncated:
            try:
                runs.append(run_of_trajectory(value))
            except ValueError as error:
                damage.note(number, str(error))
        else:
            name, taken = f"{path.stem}/{len(runs) + 1}", {run.run_id for run in runs}
            runs += runs_of(value, name, taken=taken, damage=damage)
    return runs


def runs_of(
    trajectory: Mapping[str, Any],
    name: str,
    parent: str | None = None,
    *,
    source: str = NAME,
    taken: Collection[str] = (),
    damage: Damage | None = None,
) -> list[Run]:
    """The run of another program's trajectory, and those of the subagents within it.

    The run's id is `name` if it has none, and is made unique among those `taken` by other runs of the file.
    """
    run_id = _free(text(trajectory.get("trajectory_id")) or text(trajectory.get("session_id")) or name, taken)
    builder = RunBuilder(source, damage)
    if damage is not None:
        damage.versions.add(text(trajectory.get("schema_version")))
    for step in items(trajectory.get("steps")):
        _take(builder, mapping(step))
    extra_facts = _agentpile(trajectory)
    agent = mapping(trajectory.get("agent"))
    runs = []
    _state_totals(builder, trajectory)
    if not builder.is_empty:
        run = builder.build(
            run_id,
            "aborted" if trajectory.get("continued_trajectory_ref") else None,
            agent=text(agent.get("name")),
            model=text(agent.get("model_name")),
            task=text(mapping(extra_facts.get("task")).get("id")),
            parent_run_id=parent,
            success=flag(mapping(extra_facts.get("outcome")).get("success")),
        )
        runs.append(run)
    for number, child in enumerate(items(trajectory.get("subagent_trajectories")), 1):
        known = {*taken, run_id, *(run.run_id for run in runs)}
        name = f"{run_id}/{number}"
        runs += runs_of(mapping(child), name, run_id, source=source, taken=known, damage=damage)
    return runs


def _state_totals(builder: RunBuilder, trajectory: Mapping[str, Any]) -> None:
    totals = mapping(trajectory.get("final_metrics"))
    place = "final_metrics"
    builder.totals.compare(
        f"{place}.total_steps", "steps", whole(totals.get("total_steps")), len(items(trajectory.get("steps")))
    )
    builder.state(
        place,
        input_tokens=whole(totals.get("total_prompt_tokens")),
        output_tokens=whole(totals.get("total_completion_tokens")),
        cached_tokens=whole(totals.get("total_cached_tokens")),
        cost=micro(totals.get("total_cost_usd")) or None,
    )


def _free(run_id: str, taken: Collection[str]) -> str:
    names = itertools.chain([run_id], (f"{run_id}/{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)


def _take(builder: RunBuilder, step: Mapping[str, Any]) -> None:
    time = epoch_ms(step.get("timestamp"))
    if _is_agents(step):
        if step.get("is_copied_context") is not True and step.get("llm_call_count") != 0:
            _reply(builder, step, time)
        return
    opens = step.get("source") == "user" or _agentpile(step).get("role") == "user"
    content = content_text(step.get("message"))
    if content or opens:
        builder.add_message(
            "system" if step.get("source") == "system" else "user", content, opens_turn=opens, time=time
        )


def _is_agents(step: Mapping[str, Any]) -> bool:
    source = step.get("source")
    if source in ("user", "system"):
        return False
    if source == "agent":
        return _agentpile(step).get("role") not in ("user", "system", "tool")
    return bool(step.get("metrics") or step.get("tool_calls") or step.get("reasoning_content"))


def _reply(builder: RunBuilder, step: Mapping[str, Any], time: int | None) -> None:
    reply = builder.add_response(time, model=text(step.get("model_name")))
    reply.add_text(content_text(step.get("message")))
    reply.add_reasoning(text(step.get("reasoning_content")))
    metrics = mapping(step.get("metrics"))
    reply.usage = Usage(
        whole(metrics.get("prompt_tokens")),
        whole(metrics.get("completion_tokens")),
        whole(metrics.get("cached_tokens")),
        whole(mapping(metrics.get("extra")).get("reasoning_tokens")),
        micro(metrics.get("cost_usd")),
    )
    raw = mapping(_agentpile(step).get("calls"))
    for call in items(step.get("tool_calls")):
        call_id = text(mapping(call).get("tool_call_id"))
        arguments = mapping(raw.get(call_id)).get("arguments_raw")
        given = mapping(call).get("arguments") if arguments is None else arguments
        builder.add_call(reply, call_id, text(mapping(call).get("function_name")), given)
    results = items(mapping(step.get("observation")).get("results"))
    for call_id, result, failed in _answers(step, reply, results):
        builder.add_result(call_id, content_text(result.get("content")), is_error=failed, time=time)
        for ref in items(result.get("subagent_trajectory_ref")):
            child = text(mapping(ref).get("trajectory_id")) or text(mapping(ref).get("session_id"))
            builder.add_subagent(reply, call_id, child or None, time=time)


def _answers(
    step: Mapping[str, Any], reply: StepBuilder, results: Sequence[Any]
) -> Iterator[tuple[str, Mapping[str, Any], bool | None]]:
    """Each result with the id of the call that it answers, and whether that failed."""
    facts = items(_agentpile(step).get("result_fields"))
    nameless = all(not mapping(result).get("source_call_id") for result in results)
    in_order = nameless and len(results) == len(reply.calls)
    for place, result in enumerate(results):
        failed = mapping(facts[place] if place < len(facts) else None).get("error")
        call_id = reply.calls[place].id if in_order else text(mapping(result).get("source_call_id"))
        if not in_order and not call_id:
            continue  # the format allows for observations of no call
        yield call_id, mapping(result), flag(failed)


def _agentpile(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(row.get("extra")).get(_AGENTPILE))
