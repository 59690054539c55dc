"""mini-swe-agent: `.traj.json` files; see github.com/SWE-agent/mini-swe-agent, `agents/default.py` and `models/`.

An object with `info`, `messages`, `trajectory_format` (`mini-swe-agent-1`, `-1.1`) and often `instance_id`; the oldest
are the list of messages alone.

- A response asks for tools in one of four ways: `tool_calls`, `function_call` items of a Responses object, commands in
  `extra.actions`, or, in the first version, one fenced block in its text (bash or mswea_bash_command). In the last two
  the next message of the user is the result, unless it is an interruption, and the call is one of `bash`.
- A response that could not be parsed is kept in `extra` of the `FormatError` message that answers it: a step without
  calls. Where the response stands before that message it is counted once.
- A result has a `returncode`, in `extra` or at the start of its text: other than 0 is an error. One that was padded
  ("action was not executed") is none, and its call was dropped.
- A submission ends the run within its command: the last message (role `exit`, or `user`) holds what the command gave.
- A user's new task and a user's interruptions with words begin turns.
- `LimitsExceeded` is the step limit or the cost limit, whichever had been reached; the limits are in the settings.
- Times, usage, finish reason and cost are those of each response, since version 2; a cost of 0 stands for one that was
  not tracked. Where they are missing, what `model_stats` says of the whole run is in an event `totals`.
- Labels come from a report beside the file, if there is one (`boolab.readers.swe_bench`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from boolab.errors import RunFormatError
from boolab.finish_reasons import finish_reason
from boolab.readers.chat import usage_of
from boolab.readers.drafts import Draft, stop_at
from boolab.readers.lines import (
    Damage,
    Head,
    Warn,
    content_text,
    items,
    json_document,
    mapping,
    micro,
    one_line,
    seconds_ms,
    text,
    time_ms,
    warn_reader,
    whole,
)
from boolab.readers.swe_bench import resolved, run_name
from boolab.readers.talk import Talk, cap_stop
from boolab.types import Run, Stop, StopReason

NAME: Final = "mini_swe_agent"
SCOPE: Final = "run"
SUFFIXES: Final = (".traj.json", ".trajectory.json")
PLACES: Final = (
    "~/.config/mini-swe-agent/*.traj.json",
    "~/Library/Application Support/mini-swe-agent/*.traj.json",
)
LOOKED_FOR: Final = (
    'an object with "info", "messages" and a "trajectory_format" of mini-swe-agent, or its list of messages'
)

_DONE: Final = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_FENCE: Final = "```mswea_bash_command"
_BLOCKS: Final = (
    (re.compile(r"```mswea_bash_command[^\S\n]*\n"), "\n```"),
    (re.compile(r"```bash[^\S\n]*\n"), "\n```"),
    (re.compile(r"<mswea_bash_command>"), "</mswea_bash_command>"),
)
_RETURNED: Final = re.compile(
    r"\s{0,9}(?:<exception>[^<]{0,999}</exception>\s{0,9})?<returncode>(-?\d{1,9})</returncode>"
)
_PADDED: Final = "action was not executed"
_INTERRUPTIONS: Final = (
    "Interrupted by user: ",
    "Command not executed.",
    "Commands not executed.",
    "The user added a new task: ",
    "Switched to human mode",
)
_WORDLESS: Final = ("Temporary interruption caught.", "Switched to human mode.", "Switching to human mode")
_STOPS: Final[Mapping[str, StopReason]] = {
    "submitted": "finished",
    "timeexceeded": "time_budget",
    "repeatedformaterror": "error_streak",
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
        return _is_talk(head.values[0])
    info = mapping(head.first.get("info"))
    known = (
        "mini_version" in info
        or {"model_stats", "config"} <= info.keys()
        or {"exit_status", "submission"} <= info.keys()
    )
    return (
        known and not {"trajectory", "history"} & head.first.keys() and isinstance(head.first.get("messages", []), list)
    )


def _is_talk(messages: object) -> bool:
    """Whether a list holds messages, and the first of them tell how to run a command and how to submit."""
    opening = [mapping(message) for message in items(messages)[:2]]
    said = "\n".join(
        content_text(message.get("content")) for message in opening if isinstance(message.get("role"), str)
    )
    return _FENCE in said and any(word in said for word in _DONE)


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The run of one file.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    damage = Damage(path)
    document = json_document(path, damage)
    if isinstance(document, list) and document and not any(isinstance(one, dict) for one in document):
        kind = type(document[0]).__name__
        raise RunFormatError(
            f"a list of {kind}s, not a run; a run of mini-swe-agent is {LOOKED_FOR}", path=path, line=1
        )
    whole_run = {"messages": document} if isinstance(document, list) else mapping(document)
    if not isinstance(whole_run.get("messages"), list):
        raise RunFormatError(f"a run of mini-swe-agent is {LOOKED_FOR}", path=path, line=1)
    tale = _Tale(damage)
    for number, message in enumerate(whole_run["messages"], 1):
        if isinstance(message, dict):
            tale.take(message)
        else:
            damage.note(1, f"message {number} is no object")
    runs = [] if tale.talk.empty else [tale.run(whole_run, path, cut=damage.cut)]
    damage.tell(warn, readable=bool(runs))
    return runs


class _Tale:
    """The messages of one run."""

    def __init__(self, damage: Damage) -> None:
        self.talk = Talk(NAME, damage)
        self.exit: Mapping[str, Any] = {}
        """What the last message says of the end, if it does."""
        self._waiting: list[tuple[Draft, int]] = []
        """The commands that the next messages of the user answer."""
        self._fresh = False
        """Whether the last message was a response."""

    def take(self, message: Mapping[str, Any]) -> None:
        """Take one message."""
        extra = mapping(message.get("extra"))
        time = time_ms(extra.get("timestamp"), 0.001)
        role, said = message.get("role"), content_text(message.get("content"))
        reply = role == "assistant" or message.get("object") == "response"
        if reply:
            self._reply(message, said, extra, time)
        elif message.get("type") == "function_call_output":
            self._result(text(message.get("call_id")), content_text(message.get("output")), extra, time)
        elif role == "tool":
            self._result(text(message.get("tool_call_id")), said, extra, time)
        elif role == "exit" or "exit_status" in extra:
            self._end(said, extra, time)
        elif role == "system":
            self.talk.says("system", said, opens=False, time=time)
        elif role == "user":
            self._user(said, extra, time)
        self._fresh = reply

    def _reply(self, message: Mapping[str, Any], said: str, extra: Mapping[str, Any], time: int | None) -> None:
        response = mapping(extra.get("response")) or message
        reply = self._responds(response, said, extra, time)
        reasoning = text(message.get("reasoning_content"))
        reply.reasoning += [reasoning] if reasoning else []
        for item in map(mapping, items(message.get("output"))):
            self._item(reply, item)
        for call in items(message.get("tool_calls")):
            function = mapping(mapping(call).get("function"))
            self.talk.asks(reply, text(mapping(call).get("id")), text(function.get("name")), function.get("arguments"))
        self._waiting = []
        if not reply.calls:
            self._commands(reply, extra, said)

    def _responds(self, response: Mapping[str, Any], said: str, extra: Mapping[str, Any], time: int | None) -> Draft:
        """A step, with what the provider's response says of it."""
        reply = self.talk.replies(time, model=text(response.get("model")))
        reply.text += [said] if said else []
        reply.usage = usage_of(mapping(response.get("usage")))._replace(cost=micro(extra.get("cost")) or None)
        short = mapping(response.get("incomplete_details")).get("reason")
        reply.finish_reason = finish_reason(_choice(response).get("finish_reason") or short)
        return reply

    def _item(self, reply: Draft, item: Mapping[str, Any]) -> None:
        """One item of a Responses object."""
        kind = item.get("type")
        if kind == "function_call":
            self.talk.asks(reply, text(item.get("call_id")), text(item.get("name")), item.get("arguments"))
        elif kind == "message":
            reply.text.append(content_text(item.get("content")))
        elif kind == "reasoning" and item.get("summary"):
            reply.reasoning.append(content_text(item.get("summary")))

    def _commands(self, reply: Draft, extra: Mapping[str, Any], said: str) -> None:
        """The commands in a response without tool calls: as the harness parsed them, else the one in its text."""
        given = extra.get("actions")
        if isinstance(given, list):
            commands = [command for action in given if (command := text(mapping(action).get("command")))]
        else:
            found = _blocks(said)
            commands = found if len(found) == 1 else []
        for place, command in enumerate(commands):
            self.talk.asks(reply, "", "bash", {"command": command})
            self._waiting.append((reply, place))

    def _user(self, said: str, extra: Mapping[str, Any], time: int | None) -> None:
        """A message of the user: a task, a result, an interruption, or what the harness wrote."""
        words = said.startswith(_INTERRUPTIONS)
        if words or extra.get("interrupt_type") is not None:
            self._waiting = []
            self._refused(extra, time)
            self.talk.says("user", said, opens=words and not said.endswith(_WORDLESS), time=time)
        elif not self.talk.drafts:
            self.talk.says("user", said, opens=True, time=time)
        elif self._waiting:
            reply, place = self._waiting.pop(0)
            if extra.get("exception_info") != _PADDED:
                self.talk.settle(reply, place, said, is_error=_failed(said, extra), time=time)
        elif said:
            self.talk.says("user", said, opens=False, time=time)

    def _refused(self, extra: Mapping[str, Any], time: int | None) -> None:
        """A response that could not be parsed, kept in the message that answers it; unless it was told of already."""
        response, said = mapping(extra.get("response")), text(extra.get("model_response"))
        if (response or said) and not self._fresh:
            told = said or content_text(mapping(_choice(response).get("message")).get("content"))
            reply = self._responds(response, told, extra, time)
            for item in map(mapping, items(response.get("output"))):
                self._item(reply, item)

    def _result(self, call_id: str, said: str, extra: Mapping[str, Any], time: int | None) -> None:
        if extra.get("exception_info") != _PADDED:
            self.talk.gives(call_id, said, is_error=_failed(said, extra), time=time)

    def _end(self, said: str, extra: Mapping[str, Any], time: int | None) -> None:
        """The last message. Where it submits, it holds what the command gave that did so."""
        self.exit = extra
        self.talk.at(time)
        last = self.talk.drafts[-1] if self.talk.drafts else None
        if last is not None and text(extra.get("exit_status")).lower() == "submitted":
            waiting = [place for place, result in enumerate(last.results) if result is None]
            submits = [place for place in waiting if any(word in last.calls[place].arguments for word in _DONE)]
            for place in (submits or waiting)[:1]:
                self.talk.settle(last, place, said, is_error=None, time=time)

    def run(self, document: Mapping[str, Any], path: Path, *, cut: bool) -> Run:
        """The record."""
        talk, info = self.talk, mapping(document.get("info"))
        named = text(document.get("instance_id"))
        instance = named or path.name.removesuffix(".json").removesuffix(".traj").removesuffix(".trajectory")
        config = mapping(info.get("config"))
        settings, stats = mapping(config.get("agent")), mapping(info.get("model_stats"))
        limits = {
            "steps": whole(settings.get("step_limit")),
            "cost": micro(settings.get("cost_limit")),
            "elapsed": seconds_ms(settings.get("wall_time_limit_seconds")),
        }
        totals = {"cost": micro(stats.get("instance_cost")), "responses": whole(stats.get("api_calls"))}
        if any(totals.values()) and any(draft.usage.cost is None for draft in talk.drafts):
            talk.happened("totals", **{name: figure for name, figure in totals.items() if figure})
        in_force = {name: limit for name, limit in limits.items() if limit}
        status = text(info.get("exit_status")) or text(self.exit.get("exit_status"))
        stop = _stop(talk, status, totals, in_force, cut=cut)
        said = text(info.get("exception_str")) or text(self.exit.get("exception_str"))
        return talk.run(
            run_name(path, instance),
            stop,
            agent=NAME,
            model=text(mapping(config.get("model")).get("model_name")),
            task=named,
            success=resolved(path, instance),
            error=one_line(f"{status}: {said}" if said else status) if stop.reason == "error" else None,
            limits=in_force,
        )


def _stop(talk: Talk, status: str, totals: Mapping[str, int | None], limits: Mapping[str, int], *, cut: bool) -> Stop:
    """Why it ended, by the name of the exception that ended it."""
    if not status:
        return stop_at("finished" if not cut and _submitted(talk) else talk.ending(cut=cut), talk.drafts)
    if status.lower() != "limitsexceeded":
        reason = _STOPS.get(status.lower(), "error")
        stop = stop_at(reason, talk.drafts)
        if reason == "time_budget":
            return stop._replace(rule=status, threshold=limits.get("elapsed"))
        return stop._replace(rule=status) if reason in ("token_budget", "error_streak") else stop
    cap, spent = limits.get("steps"), totals["cost"]
    stop = stop_at("cost_budget", talk.drafts)._replace(rule="cost_limit", threshold=limits.get("cost"), value=spent)
    if cap is None or (totals["responses"] or len(talk.drafts)) < cap:
        return stop
    both = stop.threshold is not None and spent is not None and spent >= stop.threshold
    return cap_stop(talk, cap, "step_limit")._replace(also_true=("cost_budget",) if both else ())


def _submitted(talk: Talk) -> bool:
    last = talk.drafts[-1] if talk.drafts else None
    return last is not None and last.complete and any(word in last.calls[-1].arguments for word in _DONE)


def _choice(response: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(next(iter(items(response.get("choices"))), None))


def _failed(said: str, extra: Mapping[str, Any]) -> bool | None:
    """Whether a command failed, by the code that it returned."""
    code = extra.get("returncode")
    if isinstance(code, int) and not isinstance(code, bool):
        return code != 0
    found = _RETURNED.match(said)
    if found is not None:
        return int(found[1]) != 0
    return True if said.startswith("The last command <command>") else None


def _blocks(said: str) -> list[str]:
    """The commands in a text: all blocks of the first kind that it has."""
    for opening, closing in _BLOCKS:
        found = []
        at = opening.search(said)
        while at is not None:
            end = said.find(closing, at.end())
            if end < 0:
                break
            found.append(said[at.end() : end].strip())
            at = opening.search(said, end + len(closing))
        if found:
            return found
    return []
