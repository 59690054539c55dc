"""ATIF, the Agent Trajectory Interchange Format, versions 1.x: one trajectory a file, or one a line.

A trajectory of a later version is read if its steps are as in version 1, with a warning.

boolab's own files are read back exactly; see `boolab.logs.atif_format`. For files from others (Harbor, Terminal-Bench
and more; github.com/harbor-framework/harbor, rfcs/0001-trajectory-format.md):

- An agent's step is a step, unless no model was called for it (`llm_call_count` 0) or it is a copy
  (`is_copied_context`). `step_id` also counts the messages of users and of the system.
- A result answers the call of the same step with its id. Results without ids answer the calls in order, if there are as
  many. The format has no errors and no finish reasons: they are unknown but where a converter of Harbor adds them
  (`tool_result_is_error`, `stop_reason`, an exit code in the metadata of a result). Its converter of Claude Code marks
  every step (`is_sidechain`) and copies each flag, so a result without one is no error.
- A run whose last step calls a tool that ends a run (`finish`, `mark_task_complete`, ...) has finished.
- `prompt_tokens` include the cached ones, in Harbor's ATIF-v1.2 without those written to the cache, which are added.
- Harbor's converters of 2025 write a step for each block of a response, and repeat its metrics in each. Steps in a row
  with the same metrics are one response if they also have the same request or time, if no result is between them, or
  if the metrics have the cached tokens, as the whole input grows with each response. Others stay as they are.
- A step with `is_sidechain` is of a subagent, by its `agent_id`; without one, each prompt in a sidechain begins
  another. It is a run of its own. The call with its prompt, or whose result names it, started it.
- A trajectory that names the file in which it continues (`continued_trajectory_ref`) is one run with it. That file, of
  the same folder, is read with the first one.
- Each embedded trajectory in `subagent_trajectories` is a run. A result's `subagent_trajectory_ref` names the one that
  its call started.
- If `source` is withheld, a step with metrics, calls or reasoning is the agent's.
- agentpile's own `extra` has the labels, the results that are errors, and the agent steps that are really the simulated
  user's (github.com/yzhao062/agentpile).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.core.finish_reasons import finish_reason
from boolab.core.messages import Role
from boolab.core.run import Run
from boolab.core.types import REDACTED, StopReason, ToolCall, Usage
from boolab.io.files import read_file
from boolab.io.json_input import (
    Damage,
    flag,
    items,
    json_object,
    json_values,
    mapping,
    micro,
    parse_exactly,
    text,
    whole,
)
from boolab.logs.atif_format import EXTRA, is_own, run_of_trajectory
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, content_text, effort_of, epoch_ms, name_or_none, sidecar, stem_of
from boolab.logs.images import images_of
from boolab.logs.step_builder import StepBuilder

NAME: Final = "atif"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl", ".json")
TESTED: Final = "ATIF-v1.7"
PLACES: Final = ()
LOOKED_FOR: Final = 'JSON objects with "schema_version": "ATIF-v1..." and "steps"'

_SCHEMA: Final = "ATIF-v"
_SOURCES: Final = frozenset({"user", "agent", "system"})
_EXCLUDING: Final = ("ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2")
"""The versions in which `prompt_tokens` of Harbor exclude the tokens that were written to the cache."""
_TOTALS: Final = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "cached_tokens",
}
_CACHED: Final = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens"})
_DELEGATES: Final = ("Task", "Agent")
"""The tools of Claude Code that start subagents."""
_AGENTPILE: Final = "agentpile"
_CONTINUATION: Final = ".cont-"
_MAX_BESIDE: Final = 100
"""In so many files is looked for the one that continues in a file."""
_MAX_BYTES: Final = 16 * 2**20


def sniff(head: Head) -> bool:
    """Whether one of the first values is a trajectory."""
    return any(_is_trajectory(value) for value in head.values)


def _is_trajectory(value: object) -> bool:
    return text(mapping(value).get("schema_version")).startswith(_SCHEMA)


def _can_read(trajectory: Mapping[str, Any]) -> bool:
    """Whether a trajectory is of version 1, or another program's of another version with steps as in version 1."""
    is_first = text(trajectory["schema_version"]).startswith(f"{_SCHEMA}1.")
    if is_first or is_own(trajectory):
        return is_first
    sources = {text(mapping(step).get("source")) for step in items(trajectory.get("steps"))}
    return not sources.isdisjoint(_SOURCES)


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file: of each trajectory, then of the subagents within it."""
    runs: list[Run] = []
    for number, value in json_values(path, damage, parse=parse_exactly):
        if not _is_trajectory(value):
            damage.note(number, f"no trajectory: {LOOKED_FOR} was looked for")
        elif not _can_read(value):
            damage.note(number, f"a trajectory of {value['schema_version']!r:.40}; versions ATIF-v1.x can be read")
        elif is_own(value) and not damage.truncated:
            try:
                runs.append(run_of_trajectory(value))
            except ValueError as error:
                damage.note(number, str(error))
        elif not runs and (first := _continuing_file(path, value)):
            damage.remarks.append(f"it continues {first}, and is read with it")
        else:
            name, run_ids = f"{stem_of(path)}/{len(runs) + 1}", {run.run_id for run in runs}
            runs += runs_of(_join_parts(path, value), name, run_ids=run_ids, damage=damage)
    return runs


def _join_parts(path: Path, trajectory: Mapping[str, Any]) -> Mapping[str, Any]:
    """The trajectory with the steps of the files in which it continues; of some, their totals are not compared."""
    steps = [*items(trajectory.get("steps"))]
    names = {path.name}
    last = trajectory
    while (name := text(last.get("continued_trajectory_ref"))) and name not in names and _is_beside(name):
        part = mapping(sidecar(path.with_name(name)))
        if not _is_trajectory(part):
            break
        names.add(name)
        steps += items(part.get("steps"))
        last = part
    if len(names) == 1:
        return trajectory
    left_out = {"final_metrics", "continued_trajectory_ref"}
    header = {key: value for key, value in trajectory.items() if key not in left_out}
    ref = {key: last[key] for key in ("continued_trajectory_ref",) if key in last}
    return {**header, **ref, "steps": steps}


def _continuing_file(path: Path, trajectory: Mapping[str, Any]) -> str:
    """The name of the file beside this one that continues in it; "" if there is none."""
    copied = any(mapping(step).get("is_copied_context") is True for step in items(trajectory.get("steps")))
    if not copied and _CONTINUATION not in path.name:
        return ""
    siblings = (other for other in sorted(path.parent.glob("*.json"))[:_MAX_BESIDE] if other != path)
    return next((other.name for other in siblings if _continues_in(other, path.name)), "")


def _continues_in(path: Path, name: str) -> bool:
    try:
        has_name = name.encode() in read_file(path, _MAX_BYTES)
    except (OSError, ValueError):
        return False
    return has_name and mapping(sidecar(path)).get("continued_trajectory_ref") == name


def _is_beside(name: str) -> bool:
    """Whether the name of a file leads out of no folder."""
    return Path(name).name == name and "\\" not in name


def runs_of(
    trajectory: Mapping[str, Any],
    name: str,
    parent: str | None = None,
    *,
    source: str = NAME,
    run_ids: Collection[str] = (),
    damage: Damage | None = None,
) -> list[Run]:
    """The run of another program's trajectory, and those of its subagents; `name` is its id if it has none."""
    own_id = text(trajectory.get("trajectory_id")) or text(trajectory.get("session_id")) or name
    numbered = (f"{own_id}/{number}" for number in itertools.count(2))
    run_id = next(free for free in itertools.chain([own_id], numbered) if free not in run_ids)
    if damage is not None:
        damage.versions.add(text(trajectory.get("schema_version")))
    main, sides = _agents(trajectory, source, damage)
    builder = main.builder
    extra_facts = _agentpile(trajectory)
    agent = mapping(trajectory.get("agent"))
    runs = []
    _state_totals(builder, trajectory, [main, *sides])
    callers = [_find_caller([main, *sides], side) for side in sides]
    ids = [f"{run_id}/{side.id}" for side in sides]
    for side_id, caller in zip(ids, callers, strict=True):
        if caller is not None:
            caller.owner.builder.add_subagent(caller.step, caller.call_id, side_id, caller.agent)
    if not builder.is_empty:
        run = builder.build(
            run_id,
            "aborted" if trajectory.get("continued_trajectory_ref") else None,
            agent=text(agent.get("name")),
            model=_main_model(builder, text(agent.get("model_name"))),
            task=text(mapping(extra_facts.get("task")).get("id")),
            parent_run_id=parent,
            success=flag(mapping(extra_facts.get("outcome")).get("success")),
            log_id=text(trajectory.get("session_id")) or text(trajectory.get("trajectory_id")),
        )
        runs.append(run)
    for side_id, side, caller in zip(ids, sides, callers, strict=True):
        if not side.builder.is_empty:
            ended = caller is not None and caller.answered and bool(side.builder.steps)
            stop: StopReason | None = "finished" if ended and side.builder.steps[-1].complete else None
            agent_name = caller.agent if caller is not None and caller.agent else "subagent"
            runs.append(side.builder.build(side_id, stop, agent=agent_name, parent_run_id=run_id))
    for number, child in enumerate(items(trajectory.get("subagent_trajectories")), 1):
        all_ids = {*run_ids, run_id, *(run.run_id for run in runs)}
        name = f"{run_id}/{number}"
        runs += runs_of(mapping(child), name, run_id, source=source, run_ids=all_ids, damage=damage)
    return runs


class _AgentRun:
    """Builds the run of the agent, or of a subagent whose steps are among the agent's."""

    def __init__(self, name: str, builder: RunBuilder, *, excludes_written: bool, shows_results: bool) -> None:
        self.id = name
        self.builder = builder
        self.prompt = ""
        """The first message of its user."""
        self.named: dict[str, str] = {}
        """The subagents that results name, by call."""
        self.raw: Counter[str] = Counter()
        """The sums of the metrics of all steps, those included that repeat them."""
        self._excludes_written = excludes_written
        self._shows_results = shows_results
        self._before: Mapping[str, Any] = {}
        """The step before, if it is the agent's."""

    def take(self, step: Mapping[str, Any]) -> None:
        """Add a step."""
        time = epoch_ms(step.get("timestamp"))
        if _is_agents(step):
            if step.get("is_copied_context") is not True and step.get("llm_call_count") != 0:
                self._reply(step, time)
                self._before = step
            return
        self._before = {}
        opens = step.get("source") == "user" or _agentpile(step).get("role") == "user"
        content = content_text(step.get("message"))
        self.prompt = self.prompt or (content.strip() if opens else "")
        if content or opens:
            role: Role = "system" if step.get("source") == "system" else "user"
            self.builder.add_message(role, content, opens_turn=opens, time=time, images=images_of(step.get("message")))

    def _reply(self, step: Mapping[str, Any], time: int | None) -> None:
        metrics, extra = mapping(step.get("metrics")), mapping(step.get("extra"))
        for name in _TOTALS:
            self.raw[name] += whole(metrics.get(name)) or 0
        if self._repeats(step):
            reply = self.builder.steps[-1]
            self.builder.extend_response(reply, time)
        else:
            reply = self.builder.add_response(time, model=text(step.get("model_name")))
            reply.usage = _usage(metrics, excludes_written=self._excludes_written)
        reply.add_text(content_text(step.get("message")))
        reply.add_reasoning(text(step.get("reasoning_content")))
        details = mapping(metrics.get("extra"))
        reply.finish_reason = finish_reason(extra.get("stop_reason")) or reply.finish_reason
        reply.effort = effort_of(step.get("reasoning_effort"), extra.get("reasoning_effort")) or reply.effort
        reply.speed = name_or_none(details.get("speed")) or reply.speed
        reply.service_tier = name_or_none(details.get("service_tier")) or reply.service_tier
        self.builder.note_origin(cwd=extra.get("cwd"))
        start = len(reply.calls)
        raw = mapping(_agentpile(step).get("calls"))
        for call in items(step.get("tool_calls")):
            call_id = text(mapping(call).get("tool_call_id"))
            arguments = mapping(raw.get(call_id)).get("arguments_raw")
            call_arguments = mapping(call).get("arguments", REDACTED) if arguments is None else arguments
            self.builder.add_call(reply, call_id, text(mapping(call).get("function_name")), call_arguments)
        results = items(mapping(step.get("observation")).get("results")) or _empty_results(extra)
        for call_id, result, failed in _answers(step, reply.calls[start:], results):
            content = result.get("content")
            self.builder.add_result(
                call_id, content_text(content), is_error=failed, time=time, images=images_of(content)
            )
            facts = mapping(mapping(result.get("extra")).get("tool_result_metadata"))  # of a converted log
            self.named[call_id] = text(mapping(facts.get("tool_use_result")).get("agentId"))
            for ref in items(result.get("subagent_trajectory_ref")):
                child = text(mapping(ref).get("trajectory_id")) or text(mapping(ref).get("session_id"))
                self.builder.add_subagent(reply, call_id, child or None, time=time)

    def _repeats(self, step: Mapping[str, Any]) -> bool:
        """Whether a step is another block of the response before."""
        last = self._before
        if not last or not self.builder.steps:
            return False
        last_request, request = (text(mapping(entry.get("extra")).get("requestId")) for entry in (last, step))
        if request and last_request:
            return request == last_request
        metrics = mapping(step.get("metrics"))
        if metrics != last.get("metrics") or not any(whole(metrics.get(name)) for name in _TOTALS):
            return False
        if last.get("model_name") != step.get("model_name") or EXTRA in mapping(step.get("extra")):
            return False
        same_time = step.get("timestamp") is not None and step.get("timestamp") == last.get("timestamp")
        answered = bool(items(mapping(last.get("observation")).get("results")))
        unanswered = not answered and (self._shows_results or not last.get("tool_calls"))
        grows = not _CACHED.isdisjoint(mapping(metrics.get("extra"))) and bool(whole(metrics.get("prompt_tokens")))
        return same_time or unanswered or grows


class _Caller(NamedTuple):
    """The call that started a subagent: whose, of which step, the subagent's name, and whether it has a good result."""

    owner: _AgentRun
    step: StepBuilder
    call_id: str
    agent: str
    answered: bool


def _agents(trajectory: Mapping[str, Any], source: str, damage: Damage | None) -> tuple[_AgentRun, list[_AgentRun]]:
    """The agent, and the subagents whose steps are among its own."""
    steps = [mapping(step) for step in items(trajectory.get("steps"))]
    agent = mapping(trajectory.get("agent"))
    facts = mapping(agent.get("extra"))
    shows_results = any(items(mapping(step.get("observation")).get("results")) for step in steps)
    excludes_written = text(trajectory.get("schema_version")) in _EXCLUDING

    def begin(name: str) -> _AgentRun:
        builder = RunBuilder(source, damage)
        builder.version = name_or_none(agent.get("version"))
        builder.effort = effort_of(agent.get("reasoning_effort"), facts.get("reasoning_effort"))
        branches, folders = items(facts.get("git_branches")), items(facts.get("cwds"))
        builder.note_origin(
            git_commit=facts.get("git_commit"),
            git_branch=branches[0] if len(branches) == 1 else facts.get("git_branch"),
            cwd=folders[0] if len(folders) == 1 else facts.get("cwd"),
            entrypoint=facts.get("entrypoint"),
        )
        return _AgentRun(name, builder, excludes_written=excludes_written, shows_results=shows_results)

    main, sides = begin(""), dict[str, _AgentRun]()
    nameless = 0
    for step in steps:
        extra = mapping(step.get("extra"))
        if extra.get("is_sidechain") is not True:
            main.take(step)
            continue
        name = text(extra.get("agent_id"))
        if not name:
            last = sides.get(f"sidechain-{nameless}")
            nameless += last is None or (step.get("source") == "user" and bool(last.builder.steps))
            name = f"sidechain-{nameless}"
        if name not in sides:
            sides[name] = begin(name)
        sides[name].take(step)
    return main, list(sides.values())


def _find_caller(agents: Sequence[_AgentRun], side: _AgentRun) -> _Caller | None:
    """The call that started a subagent: the one whose result names it, else the first free one with its prompt."""
    free = None
    for owner in agents:
        for step in owner.builder.steps if owner is not side else ():
            for call, result in zip(step.calls, step.results, strict=True):
                child = owner.named.get(call.id)
                if call.name not in _DELEGATES or child not in (None, "", side.id):
                    continue
                arguments = json_object(call.arguments)
                answered = result is not None and result.is_error is not True
                caller = _Caller(owner, step, call.id, text(arguments.get("subagent_type")), answered)
                if child == side.id:
                    return caller
                if free is None and side.prompt and text(arguments.get("prompt")).strip() == side.prompt:
                    free = caller
    if free is not None:
        free.owner.named[free.call_id] = side.id
    return free


def _state_totals(builder: RunBuilder, trajectory: Mapping[str, Any], agents: Sequence[_AgentRun]) -> None:
    totals = mapping(trajectory.get("final_metrics"))
    field = "final_metrics"
    builder.totals.compare(
        f"{field}.total_steps", "steps", whole(totals.get("total_steps")), len(items(trajectory.get("steps")))
    )
    for name, figure in _TOTALS.items():
        usages = [step.usage for step in chain.from_iterable(agent.builder.steps for agent in agents)]
        read = sum(getattr(usage, figure) or 0 for usage in usages)
        raw = sum(agent.raw[name] for agent in agents)
        stated = whole(totals.get(f"total_{name}"))
        if len(agents) > 1 or read != raw:  # of all agents, and of blocks that repeat it
            builder.totals.compare(field, figure, stated, raw if stated == raw else read)
        else:
            builder.state(field, **{figure: stated})
    builder.state(
        field,
        cost=micro(totals.get("total_cost_usd")) or None,
    )


def _is_agents(step: Mapping[str, Any]) -> bool:
    source = step.get("source")
    if source in ("user", "system"):
        return False
    if source == "agent":
        return _agentpile(step).get("role") not in ("user", "system", "tool")
    return bool(step.get("metrics") or step.get("tool_calls") or step.get("reasoning_content"))


def _usage(metrics: Mapping[str, Any], *, excludes_written: bool) -> Usage:
    details = mapping(metrics.get("extra"))
    entered, cache_write = whole(metrics.get("prompt_tokens")), whole(details.get("cache_creation_input_tokens"))
    if excludes_written and entered is not None:
        entered += cache_write or 0
    return Usage(
        entered,
        whole(metrics.get("completion_tokens")),
        whole(metrics.get("cached_tokens")),
        whole(details.get("reasoning_tokens")),
        micro(metrics.get("cost_usd")),
        cache_write,
        whole(mapping(details.get("cache_creation")).get("ephemeral_1h_input_tokens")),
    )


def _answers(
    step: Mapping[str, Any], calls: Sequence[ToolCall], results: Sequence[Any]
) -> Iterator[tuple[str, Mapping[str, Any], bool | None]]:
    """Each result with the id of the call that it answers, and whether that failed."""
    facts = items(_agentpile(step).get("result_fields"))
    nameless = all(not mapping(result).get("source_call_id") for result in results)
    in_order = nameless and len(results) == len(calls)
    has_sidechain_flag = "is_sidechain" in mapping(step.get("extra"))
    for index, result in enumerate(results):
        failed = flag(mapping(facts[index] if index < len(facts) else None).get("error"))
        if failed is None:
            failed = _is_failure(result, step if len(results) == 1 else {})
        if failed is None and has_sidechain_flag:
            failed = False
        call_id = calls[index].id if in_order else text(mapping(result).get("source_call_id"))
        if not in_order and not call_id:
            continue  # the format allows for observations of no call
        yield call_id, mapping(result), failed


def _main_model(builder: RunBuilder, default: str) -> str:
    """The model with the most steps, of which those that name none are the agent's: Harbor names any of the session."""
    counts = Counter({default: len(builder.steps) - builder.models.total()})
    return (counts + builder.models).most_common(1)[0][0] if builder.steps else default


def _empty_results(extra: Mapping[str, Any]) -> Sequence[Any]:
    """The result of a step without an observation: Harbor writes none for an empty text, only the result in `extra`."""
    result = mapping(mapping(extra.get("tool_result_metadata")).get("raw_tool_result"))
    call_id = text(result.get("tool_use_id"))
    return [{"source_call_id": call_id, "content": result.get("content")}] if call_id else ()


def _is_failure(result: object, step: Mapping[str, Any]) -> bool | None:
    """Whether a converter's facts about a result, or about a step with one result, report a failure."""
    for extra in (mapping(mapping(result).get("extra")), mapping(step.get("extra"))):
        for name in ("tool_result_is_error", "is_error"):
            if isinstance(extra.get(name), bool):
                return bool(extra[name])
        for name in ("tool_result_metadata", "tool_metadata", "metadata"):
            facts = mapping(extra.get(name))
            code = facts.get("exit_code", facts.get("exitCode"))
            if isinstance(facts.get("is_error"), bool):
                return bool(facts["is_error"])
            if isinstance(code, int) and not isinstance(code, bool):
                return code != 0
    return None


def _agentpile(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(row.get("extra")).get(_AGENTPILE))
