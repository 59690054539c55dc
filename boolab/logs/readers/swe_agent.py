"""SWE-agent: `.traj` files; see github.com/SWE-agent/SWE-agent, `sweagent/agent/agents.py`.

An object with `trajectory` (actions and observations), `history` (messages), `info` (the end) and, since 1.0,
`replay_config` (the settings) and `environment`.

- Steps are read from `trajectory`, because `history` has demonstrations, and lacks responses that were requested again.
  A file with only a `history` is a demonstration, and is read from that.
- An entry without an action is a response that could not be parsed. One with an action, no observation and an execution
  time of zero was blocked or had bad syntax: its call was not executed.
- When the harness stops a run (cost, context, time, ...) it appends an entry that is no response.
- A function call is taken from `history`, which has its name and arguments. Otherwise a call's name is the first word
  of the action, and its argument is the whole action as `command`. So it is for a function call without arguments.
- `submitted (exit_cost)` is a submission by the harness after the cost cap had ended the run: the cap stopped it. A
  limit on calls gives `exit_cost` too; the settings and `model_stats` show which it was.
- The end of the context window (`exit_context`) is a `token_budget`; repeated format errors or timeouts are an
  `error_streak`.
- A file of several attempts has them in `attempts`; the top level is a copy of the best. Each attempt is a run, and
  only the chosen one has a label.
- There are no errors, finish reasons, times or usage of single steps. An event `totals` has the figures of the whole
  run from `model_stats`, without zeros, which are unknown. Its `total_cost` is that of a whole batch and is not read.
- Labels come from a report beside the file, if there is one. In a submission to SWE-bench's experiments repository, so
  does the model's name if the settings lack it (`boolab.logs.readers._swe_bench`).
- Without an exit status, a run has finished if its last call is a `submit` that was executed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boolab.core.messages import Role
from boolab.core.run import Run, RunLabel
from boolab.core.types import Stop, StopReason
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, items, json_document, json_object, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, content_text, effort_of, name_or_none, one_line, seconds_ms
from boolab.logs.images import images_of
from boolab.logs.readers._swe_bench import label_by_report, run_name, submitted_model
from boolab.logs.step_builder import StepBuilder

NAME: Final = "swe_agent"
SCOPE: Final = "run"
SUFFIXES: Final = (".traj",)
PLACES: Final = ()
LOOKED_FOR: Final = 'an object with a "trajectory" of actions and observations, or a "history" of messages of an agent'

_STOPS: Final[Mapping[str, StopReason]] = {
    "submitted": "finished",
    "exit_command": "finished",
    "exit_forfeit": "finished",
    "exit_cost": "cost_budget",
    "exit_context": "token_budget",
    "exit_total_execution_time": "time_budget",
    "exit_format": "error_streak",
    "exit_command_timeout": "error_streak",
    "exit_api": "error",
    "exit_environment_error": "error",
    "exit_error": "error",
    "early_exit": "error",
    "skipped": "aborted",
}
_AUTOMATIC: Final = re.compile(r"submitted \((.*)\)")
_STOPPED: Final = ("Exit due to ", "Exiting due to ")
_SUBMIT: Final = "submit"
_FAILED: Final = "EXECUTION FAILED OR COMMAND MALFORMED"
MAX_AHEAD: Final = 8
"""How many messages the history may be ahead of the trajectory, at most."""


def sniff(head: Head) -> bool:
    """Whether this is a trajectory of SWE-agent, or a demonstration."""
    return len(head.values) == 1 and any(_is_run(part) for part in (head.first, *items(head.first.get("attempts"))[:1]))


def _is_run(part: object) -> bool:
    document = mapping(part)
    entries, history = document.get("trajectory"), document.get("history")
    if isinstance(entries, list) and entries:
        entry = mapping(entries[0])
        return "action" in entry and any(name in entry for name in ("observation", "response", "thought"))
    if isinstance(entries, list) and not isinstance(history, list):
        return "info" in document and "environment" in document
    if not isinstance(history, list) or not history:
        return False
    message = mapping(history[0])
    return {"role", "content"} <= message.keys() and ("agent" in message or "message_type" in message)


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one file; several if it holds several attempts."""
    document = json_document(path, damage)
    attempts = [attempt for attempt in items(mapping(document).get("attempts")) if _is_run(attempt)]
    if not attempts and not _is_run(document):
        raise RunFormatError(f"a trajectory of SWE-agent is {LOOKED_FOR}", path=path, line=1)
    instance = path.stem
    name, label, model = run_name(path, instance), label_by_report(path, instance), submitted_model(path)
    if attempts:
        best = whole(mapping(document.get("info")).get("best_attempt_idx"))
        last = len(attempts) - 1
        runs = []
        for number, attempt in enumerate(attempts):
            builder = RunBuilder(NAME, truncated=number == last and "info" not in mapping(attempt))
            success = label if number == best else None
            runs.append(_run(attempt, builder, f"{name}#{number}", instance, success, model))
    else:
        runs = [_run(document, RunBuilder(NAME, damage), name, instance, label, model)]
    return runs


def _run(
    document: Mapping[str, Any], builder: RunBuilder, run_id: str, instance: str, label: RunLabel | None, submitted: str
) -> Run:
    info = mapping(document.get("info"))
    entries, history = items(document.get("trajectory")), items(document.get("history"))
    stopped_because = ""
    if entries:
        stopped_because = _add_trajectory(builder, entries, history)
    else:
        _add_history(builder, history)
    stats = mapping(info.get("model_stats"))
    totals = {
        "cost": micro(stats.get("instance_cost")),
        "input_tokens": whole(stats.get("tokens_sent")),
        "output_tokens": whole(stats.get("tokens_received")),
        "responses": whole(stats.get("api_calls")),
    }
    builder.add_totals(**totals)
    if calls := totals["responses"]:
        # the response whose cost goes beyond a limit is counted, and not kept
        lower = calls - 1 if text(info.get("exit_status")).endswith(("exit_cost", "exit_cost)")) else calls
        builder.state("info.model_stats.api_calls", responses=(lower, calls))
    settings = _settings(document)
    model = mapping(mapping(settings.get("agent")).get("model"))
    builder.version = name_or_none(info.get("swe_agent_version"))
    builder.note_origin(git_commit=mapping(mapping(settings.get("env")).get("repo")).get("base_commit"))
    effort = effort_of(mapping(model.get("completion_kwargs")).get("reasoning_effort"), model.get("reasoning_effort"))
    for step in builder.steps:
        step.effort = effort
    cap, cost = whole(model.get("per_instance_call_limit")), micro(model.get("per_instance_cost_limit"))
    limits = {"steps": cap or None, "cost": cost or None}
    stop = _stop(builder, text(info.get("exit_status")), totals, limits)
    return builder.build(
        run_id,
        stop,
        agent=NAME,
        model=text(model.get("name")) or text(model.get("model_name")) or submitted,
        task=instance,
        success=label,
        error=(one_line(stopped_because) or text(info.get("exit_status"))) if stop.reason == "error" else None,
        limits=limits,
    )


def _settings(document: Mapping[str, Any]) -> Mapping[str, Any]:
    config = document.get("replay_config")
    return json_object(config) if isinstance(config, str) else mapping(config)


def _stop(builder: RunBuilder, status: str, totals: Mapping[str, int | None], limits: Mapping[str, int | None]) -> Stop:
    automatic = _AUTOMATIC.fullmatch(status)
    word = automatic[1] if automatic else status
    if not word:
        if builder.steps and builder.steps[-1].calls:
            return builder.stop("finished" if not builder.truncated and _has_submitted(builder) else "aborted")
        return builder.stop(builder.stop_reason())
    reason = _STOPS.get(word, "error")
    cap = limits["steps"]
    if word == "exit_cost" and cap is not None and (totals["responses"] or 0) > cap:
        return builder.cap_stop(cap, "per_instance_call_limit")
    if reason == "cost_budget":
        return builder.stop(reason, word, limits["cost"], totals["cost"] or None)
    return builder.stop(reason, word if reason in ("token_budget", "time_budget", "error_streak") else None)


def _has_submitted(builder: RunBuilder) -> bool:
    last = builder.steps[-1] if builder.steps else None
    if last is None or not last.complete or last.calls[-1].name != _SUBMIT:
        return False
    result = last.results[-1]
    return result is not None and _FAILED not in result.content


def _add_trajectory(builder: RunBuilder, entries: Sequence[Any], history: Sequence[Any]) -> str:
    """Build the run from its trajectory. Returns why the harness stopped it, if it did."""
    answers: list[Mapping[str, Any]] = []
    for message in map(mapping, history):
        if message.get("role") == "assistant" and not _is_demo(message):
            answers.append(message)
        elif not answers:
            _add_message(builder, message)
    stopped_because = ""
    position = 0
    for entry in map(mapping, entries):
        action, response = text(entry.get("action")), content_text(entry.get("response"))
        is_exit = action.startswith("exit_") and action.strip() in _STOPS
        if (is_exit and not response) or ((is_exit or not action) and response.startswith(_STOPPED)):
            stopped_because = response or text(entry.get("thought"))
            continue
        answer: Mapping[str, Any] = {}
        for index in range(position, min(position + MAX_AHEAD, len(answers))):
            if answers[index].get("action") == action and content_text(answers[index].get("content")) == response:
                answer, position = answers[index], index + 1
                break
        reply = _add_reply(builder, answer, response, "" if is_exit else action)
        if text(entry.get("reasoning_content")) and not reply.reasoning:
            reply.reasoning.append(entry["reasoning_content"])
        duration = entry.get("execution_time")
        observation = content_text(entry.get("observation"))
        if reply.calls and (observation or duration != 0):
            builder.set_result(reply, 0, observation, is_error=None, duration_ms=seconds_ms(duration or None))
    return stopped_because


def _add_history(builder: RunBuilder, history: Sequence[Any]) -> None:
    """Build the run from its history, if there is nothing else."""
    for message in map(mapping, history):
        if _is_demo(message) or (message.get("role") != "assistant" and not builder.steps):
            _add_message(builder, message)
        elif message.get("role") == "assistant":
            _add_reply(builder, message, content_text(message.get("content")), text(message.get("action")))
        elif builder.steps[-1].calls and builder.steps[-1].results[0] is None:
            content = message.get("content")
            builder.set_result(builder.steps[-1], 0, content_text(content), is_error=None, images=images_of(content))
        else:
            builder.add_message("user", content_text(message.get("content")), opens_turn=False)


def _is_demo(message: Mapping[str, Any]) -> bool:
    return message.get("is_demo") is True or message.get("message_type") == "demonstration"


def _add_message(builder: RunBuilder, message: Mapping[str, Any]) -> None:
    """Add a message before the first response: the prompt, or a demonstration."""
    raw_role = message.get("role")
    role: Role = "system" if raw_role == "system" else "assistant" if raw_role == "assistant" else "user"
    content, opens = message.get("content"), raw_role == "user" and not _is_demo(message)
    builder.add_message(role, content_text(content), opens_turn=opens, images=images_of(content))


def _add_reply(builder: RunBuilder, message: Mapping[str, Any], content: str, action: str) -> StepBuilder:
    reply = builder.add_response()
    reply.add_text(content)
    for block in items(message.get("thinking_blocks")):
        reply.add_reasoning(text(mapping(block).get("thinking")))
    calls = items(message.get("tool_calls"))
    words = action.split(None, 1)
    function = mapping(mapping(calls[0]).get("function")) if len(calls) == 1 else {}
    if words and (not calls or (function and not function.get("arguments"))):
        call_id = text(mapping(calls[0]).get("id")) if calls else ""
        builder.add_call(reply, call_id, text(function.get("name")) or words[0], {"command": action})
    else:
        builder.add_openai_calls(reply, calls)
    return reply
