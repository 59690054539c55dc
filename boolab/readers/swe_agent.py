"""SWE-agent: `.traj` files; see github.com/SWE-agent/SWE-agent, `sweagent/agent/agents.py`.

An object with `trajectory` (what was done), `history` (what was said), `info` (how it ended) and, since 1.0,
`replay_config` (the settings) and `environment`.

- Steps are read from `trajectory`, because `history` holds demonstrations and leaves out responses that were asked
  again. Files with nothing but a `history` are demonstrations themselves, and are read from that.
- An entry without an action is a response that could not be parsed. One with an action, no observation and an
  execution time of zero was blocked or had bad syntax: its call was never executed.
- When the harness gives up (cost, context, time, ...) it appends an entry of its own, which is no response.
- A call of a model with function calling is taken from `history`, where its name and arguments are; otherwise its name
  is the first word of the action, and its argument the whole action as `command`.
- `submitted (exit_cost)` is a submission that the harness made after the cost cap had ended the run: it was cut.
  `exit_cost` is also what a limit on calls gives; which one it was is told by the settings and `model_stats`.
- The context window's end (`exit_context`) is a `token_budget`; repeated format errors or timeouts an `error_streak`.
- Files of several attempts hold each under `attempts`; the one at the top is a copy of the best. Each attempt is a run,
  and only the one that was chosen has a label.
- There are no errors, finish reasons, times or usage by step. What `model_stats` says of the whole run is in an event
  `totals`, without zeros, which stand for what was not counted; its `total_cost` is that of a whole batch and not read.
- Labels come from a report beside the file, if there is one, and in a submission to SWE-bench's experiments repository
  so does the model's name, where the settings do not give it (`boolab.readers.swe_bench`).
- Without an exit status, a run has finished if its last call is a `submit` that was executed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boolab.errors import RunFormatError
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
    parse,
    seconds_ms,
    text,
    warn_reader,
    whole,
)
from boolab.readers.swe_bench import resolved, run_name, submitted_model
from boolab.readers.talk import Talk, cap_stop
from boolab.types import Role, Run, Stop, StopReason

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
_GIVEN_UP: Final = ("Exit due to ", "Exiting due to ")
_SUBMIT: Final = "submit"
_FAILED: Final = "EXECUTION FAILED OR COMMAND MALFORMED"
_AHEAD: Final = 8
"""How many messages the history may be ahead of the trajectory."""


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


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The run of one file; several if it holds several attempts.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    damage = Damage(path)
    document = json_document(path, damage)
    attempts = [attempt for attempt in items(mapping(document).get("attempts")) if _is_run(attempt)]
    if not attempts and not _is_run(document):
        raise RunFormatError(f"a trajectory of SWE-agent is {LOOKED_FOR}", path=path, line=1)
    instance = path.stem
    name, label, model = run_name(path, instance), resolved(path, instance), submitted_model(path)
    if attempts:
        best = whole(mapping(document.get("info")).get("best_attempt_idx"))
        runs = [
            _run(
                attempt,
                f"{name}#{number}",
                instance,
                label if number == best else None,
                model,
                cut=_last(attempts, number),
            )
            for number, attempt in enumerate(attempts)
        ]
    else:
        runs = [_run(document, name, instance, label, model, cut=damage.cut)]
    damage.tell(warn, readable=bool(runs))
    return runs


def _last(attempts: Sequence[object], number: int) -> bool:
    return False if number < len(attempts) - 1 else "info" not in mapping(attempts[number])


def _run(
    document: Mapping[str, Any], run_id: str, instance: str, label: bool | None, submitted: str, *, cut: bool
) -> Run:
    talk = Talk(NAME)
    info = mapping(document.get("info"))
    entries, history = items(document.get("trajectory")), items(document.get("history"))
    gave_up = ""
    if entries:
        gave_up = _tell(talk, entries, history)
    else:
        _tell_history(talk, history)
    stats = mapping(info.get("model_stats"))
    totals = {
        "cost": micro(stats.get("instance_cost")),
        "input_tokens": whole(stats.get("tokens_sent")),
        "output_tokens": whole(stats.get("tokens_received")),
        "responses": whole(stats.get("api_calls")),
    }
    if any(totals.values()):
        talk.happened("totals", **{name: figure for name, figure in totals.items() if figure})
    model = mapping(mapping(_settings(document).get("agent")).get("model"))
    limits = {"steps": whole(model.get("per_instance_call_limit")), "cost": micro(model.get("per_instance_cost_limit"))}
    in_force = {name: limit for name, limit in limits.items() if limit}
    stop = _stop(talk, text(info.get("exit_status")), totals, in_force, cut=cut)
    return talk.run(
        run_id,
        stop,
        agent=NAME,
        model=text(model.get("name")) or text(model.get("model_name")) or submitted,
        task=instance,
        success=label,
        error=(one_line(gave_up) or text(info.get("exit_status"))) if stop.reason == "error" else None,
        limits=in_force,
    )


def _settings(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings, which are an object or the text of one."""
    config = document.get("replay_config")
    if isinstance(config, str):
        try:
            return mapping(parse(config.encode("utf-8", "surrogatepass")))
        except ValueError:
            return {}
    return mapping(config)


def _stop(talk: Talk, status: str, totals: Mapping[str, int | None], limits: Mapping[str, int], *, cut: bool) -> Stop:
    """Why it ended, by the harness's word for it."""
    automatic = _AUTOMATIC.fullmatch(status)
    word = automatic[1] if automatic else status
    if not word:
        return stop_at("finished" if not cut and _submitted(talk) else talk.ending(cut=cut), talk.drafts)
    reason = _STOPS.get(word, "error")
    cap = limits.get("steps")
    if word == "exit_cost" and cap is not None and (totals["responses"] or 0) > cap:
        return cap_stop(talk, cap, "per_instance_call_limit")
    stop = stop_at(reason, talk.drafts)
    if reason == "cost_budget":
        return stop._replace(rule=word, threshold=limits.get("cost"), value=totals["cost"] or None)
    return stop._replace(rule=word) if reason in ("token_budget", "time_budget", "error_streak") else stop


def _submitted(talk: Talk) -> bool:
    last = talk.drafts[-1] if talk.drafts else None
    if last is None or not last.complete or last.calls[-1].name != _SUBMIT:
        return False
    result = last.results[-1]
    return result is not None and _FAILED not in result.content


def _tell(talk: Talk, entries: Sequence[Any], history: Sequence[Any]) -> str:
    """The run as its trajectory tells it; returns why the harness gave up, if it did."""
    answers: list[Mapping[str, Any]] = []
    for message in map(mapping, history):
        if message.get("role") == "assistant" and not _is_demo(message):
            answers.append(message)
        elif not answers:
            _say(talk, message)
    gave_up = ""
    heard = 0
    for entry in map(mapping, entries):
        action, response = text(entry.get("action")), content_text(entry.get("response"))
        over = action.startswith("exit_") and action.strip() in _STOPS
        if (over and not response) or ((over or not action) and response.startswith(_GIVEN_UP)):
            gave_up = response or text(entry.get("thought"))
            continue
        answer: Mapping[str, Any] = {}
        for place in range(heard, min(heard + _AHEAD, len(answers))):
            if answers[place].get("action") == action and content_text(answers[place].get("content")) == response:
                answer, heard = answers[place], place + 1
                break
        reply = _reply(talk, answer, response, "" if over else action)
        if text(entry.get("reasoning_content")) and not reply.reasoning:
            reply.reasoning.append(entry["reasoning_content"])
        took = entry.get("execution_time")
        observation = content_text(entry.get("observation"))
        if reply.calls and (observation or took != 0):
            talk.settle(reply, 0, observation, is_error=None, duration_ms=seconds_ms(took or None))
    return gave_up


def _tell_history(talk: Talk, history: Sequence[Any]) -> None:
    """The run as its history tells it, where there is nothing else."""
    for message in map(mapping, history):
        if _is_demo(message) or (message.get("role") != "assistant" and not talk.drafts):
            _say(talk, message)
        elif message.get("role") == "assistant":
            _reply(talk, message, content_text(message.get("content")), text(message.get("action")))
        elif talk.drafts[-1].calls and talk.drafts[-1].results[0] is None:
            talk.settle(talk.drafts[-1], 0, content_text(message.get("content")), is_error=None)
        else:
            talk.says("user", content_text(message.get("content")), opens=False)


def _is_demo(message: Mapping[str, Any]) -> bool:
    return message.get("is_demo") is True or message.get("message_type") == "demonstration"


def _say(talk: Talk, message: Mapping[str, Any]) -> None:
    """Tell of a message before the first response: the prompt, and demonstrations."""
    given = message.get("role")
    role: Role = "system" if given == "system" else "assistant" if given == "assistant" else "user"
    talk.says(role, content_text(message.get("content")), opens=given == "user" and not _is_demo(message))


def _reply(talk: Talk, message: Mapping[str, Any], said: str, action: str) -> Draft:
    """Tell of a response, and of the call in it."""
    reply = talk.replies()
    reply.text += [said] if said else []
    thoughts = (text(mapping(block).get("thinking")) for block in items(message.get("thinking_blocks")))
    reply.reasoning += [thought for thought in thoughts if thought]
    calls = items(message.get("tool_calls"))
    for call in calls:
        function = mapping(mapping(call).get("function"))
        talk.asks(reply, text(mapping(call).get("id")), text(function.get("name")), function.get("arguments"))
    words = action.split(None, 1)
    if words and not calls:
        talk.asks(reply, "", words[0], {"command": action})
    return reply
