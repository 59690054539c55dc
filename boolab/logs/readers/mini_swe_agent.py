"""mini-swe-agent: `.traj.json` files; see github.com/SWE-agent/mini-swe-agent, `agents/default.py` and `models/`.

An object with `info`, `messages`, `trajectory_format` (`mini-swe-agent-1`, `-1.1`) and often `instance_id`; the oldest
files are only the list of messages.

- The calls of a response are in one of four places: `tool_calls`, `function_call` items of a Responses object, commands
  in `extra.actions`, or, in the first version, one fenced block of its text (bash or mswea_bash_command). In the last
  two, the call is one of `bash`, and the user's next message is its result, unless it is an interruption.
- A response that could not be parsed is a step without calls. It is in `extra` of the `FormatError` message that
  answers it, or (since 2.0) nowhere, so that its usage is unknown: the harness counts it all the same. If the response
  is also before that message, it counts once. The one at which the harness gives up has no such message; then
  `api_calls` shows that there was one more.
- A result has a `returncode`, in `extra` or at the start of its text; other than 0 is an error. A padded result
  ("action was not executed") is none: its call was dropped.
- A submission ends the run within its command. The last message (role `exit`, or `user`) is that command's output.
- A user's new task, and interruptions with a message, open turns.
- `LimitsExceeded` is the step limit or the cost limit, by which was reached; the limits are in the settings.
- Since version 2, each response has its times, usage, finish reason and cost; a cost of 0 is unknown. If they are
  missing, an event `totals` has the figures of the whole run from `model_stats`.
- Labels come from a report beside the file, if there is one (`boolab.logs.readers._swe_bench`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, Image, Stop, StopReason
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, items, json_document, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, content_text, effort_of, first_choice, name_or_none, one_line, seconds_ms, time_ms
from boolab.logs.images import images_of
from boolab.logs.readers._chat import usage_of
from boolab.logs.readers._swe_bench import label_by_report, run_name
from boolab.logs.step_builder import StepBuilder, openai_arguments

NAME: Final = "mini_swe_agent"
SCOPE: Final = "run"
SUFFIXES: Final = (".traj.json", ".trajectory.json")
TESTED: Final = "mini-swe-agent-1.1"
PLACES: Final = (
    "~/.config/mini-swe-agent/*.traj.json",
    "~/Library/Application Support/mini-swe-agent/*.traj.json",
)
LOOKED_FOR: Final = (
    'an object with "info", "messages" and a "trajectory_format" of mini-swe-agent, or its list of messages'
)

_SUBMIT_WORDS: Final = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_FENCE: Final = "```mswea_bash_command"
_BLOCKS: Final = (
    (re.compile(r"```mswea_bash_command[^\S\n]*\n"), "\n```"),
    (re.compile(r"```bash[^\S\n]*\n"), "\n```"),
    (re.compile(r"<mswea_bash_command>"), "</mswea_bash_command>"),
)
_RETURNED: Final = re.compile(
    r"\s{0,9}(?:<exception>[^<]{0,999}</exception>\s{0,9})?<returncode>(-?\d{1,9})</returncode>"
)
_REFUSED: Final = "FormatError"
_GAVE_UP: Final = "repeatedformaterror"
_PADDED: Final = "action was not executed"
_INTERRUPTIONS: Final = (
    "Interrupted by user: ",
    "Command not executed.",
    "Commands not executed.",
    "The user added a new task: ",
    "Switched to human mode",
)
_WITHOUT_TEXT: Final = ("Temporary interruption caught.", "Switched to human mode.", "Switching to human mode")
_STOPS: Final[Mapping[str, StopReason]] = {
    "submitted": "finished",
    "timeexceeded": "time_budget",
    _GAVE_UP: "error_streak",
    "contextwindowexceeded": "token_budget",
    "contextwindowexceedederror": "token_budget",
    "userinterruption": "aborted",
    "keyboardinterrupt": "aborted",
}


def sniff(head: Head) -> bool:
    """Whether this is a trajectory of mini-swe-agent."""
    if len(head.values) != 1:
        return False
    if text(head.first.get("trajectory_format")).startswith("mini-swe-agent"):
        return True
    if isinstance(head.values[0], list):
        return _is_conversation(head.values[0])
    info = mapping(head.first.get("info"))
    match = (
        "mini_version" in info
        or {"model_stats", "config"} <= info.keys()
        or {"exit_status", "submission"} <= info.keys()
    )
    return (
        match and not {"trajectory", "history"} & head.first.keys() and isinstance(head.first.get("messages", []), list)
    )


def _is_conversation(messages: object) -> bool:
    """Whether the first messages of a list explain how to run a command and how to submit."""
    opening = [mapping(message) for message in items(messages)[:2]]
    content = "\n".join(
        content_text(message.get("content")) for message in opening if isinstance(message.get("role"), str)
    )
    return _FENCE in content and any(word in content for word in _SUBMIT_WORDS)


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one file."""
    document = json_document(path, damage)
    if isinstance(document, list) and document and not any(isinstance(entry, dict) for entry in document):
        kind = type(document[0]).__name__
        raise RunFormatError(
            f"a list of {kind}s, not a run; a run of mini-swe-agent is {LOOKED_FOR}", path=path, line=1
        )
    whole_run = {"messages": document} if isinstance(document, list) else mapping(document)
    if not isinstance(whole_run.get("messages"), list):
        raise RunFormatError(f"a run of mini-swe-agent is {LOOKED_FOR}", path=path, line=1)
    damage.versions.add(text(whole_run.get("trajectory_format")))
    trajectory = _Trajectory(damage)
    trajectory.open(mapping(whole_run.get("info")))
    for number, message in enumerate(whole_run["messages"], 1):
        if isinstance(message, dict):
            trajectory.take(message)
        else:
            damage.note(1, f"message {number} is no object")
    return [] if trajectory.builder.is_empty else [trajectory.run(whole_run, path)]


class _Trajectory:
    """Builds one run from its messages."""

    def __init__(self, damage: Damage) -> None:
        self.builder = RunBuilder(NAME, damage)
        self.exit: Mapping[str, Any] = {}
        """The facts about the end in the last message, if it has any."""
        self._waiting: list[tuple[StepBuilder, int]] = []
        """The commands whose results are the next messages of the user."""
        self._fresh = False
        """Whether the last message was a response."""

    def open(self, info: Mapping[str, Any]) -> None:
        """Take the settings."""
        config = mapping(info.get("config"))
        kwargs = mapping(mapping(config.get("model")).get("model_kwargs"))
        self.builder.version = name_or_none(info.get("mini_version"))
        self.builder.effort = effort_of(
            kwargs.get("reasoning_effort"), kwargs.get("reasoning"), mapping(kwargs.get("extra_body")).get("reasoning")
        )
        self.builder.note_origin(cwd=mapping(config.get("environment")).get("cwd"))

    def take(self, message: Mapping[str, Any]) -> None:
        extra = mapping(message.get("extra"))
        time = time_ms(extra.get("timestamp"), 0.001)
        role, content = message.get("role"), content_text(message.get("content"))
        reply = role == "assistant" or message.get("object") == "response"
        if reply:
            self._reply(message, content, extra, time)
        elif message.get("type") == "function_call_output":
            self._result(text(message.get("call_id")), message.get("output"), extra, time)
        elif role == "tool":
            self._result(text(message.get("tool_call_id")), message.get("content"), extra, time)
        elif role == "exit" or "exit_status" in extra:
            self._end(content, extra, time)
        elif role == "system":
            self.builder.add_message("system", content, opens_turn=False, time=time)
        elif role == "user":
            self._user(content, extra, time, images_of(message.get("content")))
        self._fresh = reply

    def _reply(self, message: Mapping[str, Any], content: str, extra: Mapping[str, Any], time: int | None) -> None:
        response = mapping(extra.get("response")) or message
        reply = self._add_response(response, content, extra, time)
        reply.add_reasoning(text(message.get("reasoning_content")))
        for item in map(mapping, items(message.get("output"))):
            self._item(reply, item)
        self.builder.add_openai_calls(reply, message.get("tool_calls"))
        self._waiting = []
        if not reply.calls:
            self._commands(reply, extra, content)

    def _add_response(
        self, response: Mapping[str, Any], content: str, extra: Mapping[str, Any], time: int | None
    ) -> StepBuilder:
        reply = self.builder.add_response(time, model=text(response.get("model")))
        reply.id = text(response.get("id"))
        reply.service_tier = name_or_none(response.get("service_tier"))
        reply.add_text(content)
        reply.usage = usage_of(mapping(response.get("usage")))._replace(cost=micro(extra.get("cost")) or None)
        short = mapping(response.get("incomplete_details")).get("reason")
        reply.finish_reason = finish_reason(first_choice(response).get("finish_reason") or short)
        return reply

    def _item(self, reply: StepBuilder, item: Mapping[str, Any]) -> None:
        kind = item.get("type")
        if kind == "function_call":
            arguments = openai_arguments(item.get("arguments", REDACTED))
            self.builder.add_call(reply, text(item.get("call_id")), text(item.get("name")), arguments)
        elif kind == "message":
            reply.text.append(content_text(item.get("content")))
        elif kind == "reasoning" and item.get("summary"):
            reply.reasoning.append(content_text(item.get("summary")))

    def _commands(self, reply: StepBuilder, extra: Mapping[str, Any], content: str) -> None:
        """The commands in a response without tool calls: as the harness parsed them, else the one in its text."""
        actions = extra.get("actions")
        if isinstance(actions, list):
            commands = [command for action in actions if (command := text(mapping(action).get("command")))]
        else:
            blocks = _blocks(content)
            commands = blocks if len(blocks) == 1 else []
        for index, command in enumerate(commands):
            self.builder.add_call(reply, "", "bash", {"command": command})
            self._waiting.append((reply, index))

    def _user(self, content: str, extra: Mapping[str, Any], time: int | None, images: tuple[Image, ...]) -> None:
        """A message of the user: a task, a result, an interruption, or what the harness wrote."""
        by_user = content.startswith(_INTERRUPTIONS)
        if by_user or extra.get("interrupt_type") is not None:
            self._waiting = []
            self._add_refused(extra, time)
            self.builder.add_message(
                "user", content, opens_turn=by_user and not content.endswith(_WITHOUT_TEXT), time=time, images=images
            )
        elif not self.builder.steps:
            self.builder.add_message("user", content, opens_turn=True, time=time, images=images)
        elif self._waiting:
            reply, index = self._waiting.pop(0)
            if extra.get("exception_info") != _PADDED:
                failed = _is_failure(content, extra)
                self.builder.set_result(reply, index, content, is_error=failed, time=time, images=images)
        elif content:
            self.builder.add_message("user", content, opens_turn=False, time=time, images=images)

    def _add_refused(self, extra: Mapping[str, Any], time: int | None) -> None:
        """Add a response that could not be parsed, from the message that answers it, unless it was added before."""
        response, content = mapping(extra.get("response")), text(extra.get("model_response"))
        if (response or content or extra.get("interrupt_type") == _REFUSED) and not self._fresh:
            lines = content or content_text(mapping(first_choice(response).get("message")).get("content"))
            reply = self._add_response(response, lines, extra, time)
            for item in map(mapping, items(response.get("output"))):
                self._item(reply, item)

    def _result(self, call_id: str, content: object, extra: Mapping[str, Any], time: int | None) -> None:
        if extra.get("exception_info") != _PADDED:
            words, images = content_text(content), images_of(content)
            self.builder.add_result(call_id, words, is_error=_is_failure(words, extra), time=time, images=images)

    def _end(self, content: str, extra: Mapping[str, Any], time: int | None) -> None:
        """The last message. If the run submitted, it is the result of the command that did."""
        self.exit = extra
        self.builder.note_time(time)
        last = self.builder.steps[-1] if self.builder.steps else None
        if last is not None and text(extra.get("exit_status")).lower() == "submitted":
            waiting = [index for index, result in enumerate(last.results) if result is None]
            submits = [index for index in waiting if any(word in last.calls[index].arguments for word in _SUBMIT_WORDS)]
            for index in (submits or waiting)[:1]:
                self.builder.set_result(last, index, content, is_error=None, time=time)

    def run(self, document: Mapping[str, Any], path: Path) -> Run:
        builder, info = self.builder, mapping(document.get("info"))
        instance_id = text(document.get("instance_id"))
        instance = instance_id or path.name.removesuffix(".json").removesuffix(".traj").removesuffix(".trajectory")
        config = mapping(info.get("config"))
        settings, stats = mapping(config.get("agent")), mapping(info.get("model_stats"))
        limits = {
            "steps": whole(settings.get("step_limit")) or None,
            "cost": micro(settings.get("cost_limit")) or None,
            "elapsed": seconds_ms(settings.get("wall_time_limit_seconds")) or None,
        }
        totals = {"cost": micro(stats.get("instance_cost")), "responses": whole(stats.get("api_calls"))}
        if any(step.usage.cost is None for step in builder.steps):
            builder.add_totals(**totals)
        builder.state("info.model_stats.api_calls", responses=totals["responses"])
        builder.state("info.model_stats.instance_cost", cost=totals["cost"] or None)
        status = text(info.get("exit_status")) or text(self.exit.get("exit_status"))
        if status.lower() == _GAVE_UP and totals["responses"] == len(builder.steps) + 1:
            builder.add_response()
        stop = _stop(builder, status, totals, limits)
        content = text(info.get("exception_str")) or text(self.exit.get("exception_str"))
        return builder.build(
            run_name(path, instance),
            stop,
            agent=NAME,
            model=text(mapping(config.get("model")).get("model_name")),
            task=instance_id,
            success=label_by_report(path, instance, text(mapping(config.get("model")).get("model_name"))),
            error=one_line(f"{status}: {content}" if content else status) if stop.reason == "error" else None,
            limits=limits,
        )


def _stop(builder: RunBuilder, status: str, totals: Mapping[str, int | None], limits: Mapping[str, int | None]) -> Stop:
    if not status:
        submitted = not builder.truncated and _has_submitted(builder)
        return builder.stop("finished" if submitted else builder.stop_reason())
    if status.lower() != "limitsexceeded":
        reason = _STOPS.get(status.lower(), "error")
        if reason == "time_budget":
            return builder.stop(reason, status, limits["elapsed"])
        return builder.stop(reason, status if reason in ("token_budget", "error_streak") else None)
    cap, cost = limits["steps"], totals["cost"]
    stop = builder.stop("cost_budget", "cost_limit", limits["cost"], cost)
    if cap is None or (totals["responses"] or len(builder.steps)) < cap:
        return stop
    over_cost = stop.threshold is not None and cost is not None and cost >= stop.threshold
    return builder.cap_stop(cap, "step_limit")._replace(also_fired=("cost_budget",) if over_cost else ())


def _has_submitted(builder: RunBuilder) -> bool:
    last = builder.steps[-1] if builder.steps else None
    return last is not None and last.complete and any(word in last.calls[-1].arguments for word in _SUBMIT_WORDS)


def _is_failure(content: str, extra: Mapping[str, Any]) -> bool | None:
    code = extra.get("returncode")
    if isinstance(code, int) and not isinstance(code, bool):
        return code != 0
    match = _RETURNED.match(content)
    if match is not None:
        return int(match[1]) != 0
    return True if content.startswith("The last command <command>") else None


def _blocks(content: str) -> list[str]:
    """The commands in a text: all blocks of the first kind that it has."""
    for opening, closing in _BLOCKS:
        commands = []
        end = 0
        while (start := opening.search(content, end)) and (close := content.find(closing, start.end())) >= 0:
            commands.append(content[start.end() : close].strip())
            end = close + len(closing)
        if commands:
            return commands
    return []
