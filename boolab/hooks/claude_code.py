"""Claude Code's hooks: which events there are, what each means for the count, and the answers.

The protocol is described at https://code.claude.com/docs/en/hooks. What is below was seen by running the released
package, npm `@anthropic-ai/claude-code` 2.1.330, against a scripted model: see
`benchmarks/conformance/clis/hook.py`.

What a step is
--------------
`PreToolUse` and `PostToolUse` (`PostToolUseFailure` for an error) run around each call, those of parallel calls at
once. `PostToolBatch` runs when all calls of a response are done, in the order of the response and before the next
request to the model: that is the boundary of `boolab.rules.stop`, so one such event is one step. It is there since
2.1.118 (2.1.117 lacks it). The transcript lags behind the events, so nothing is read from it.

What counts
-----------
- A call is one call, with the events before and after it, by its `tool_use_id`. An event that comes twice, from a hook
  that is in the settings of both the user and the project, counts once.
- A call that was asked for and has no result was denied: by this hook, by another, by a rule of the settings, or by the
  user. It counts nowhere, and a response with no other call is no step.
- A call of a tool that does not exist, or with arguments that do not fit, has no event of its own and is an error. It
  counts, as in the transcript.
- Each subagent has its own count, by `agent_id`. Where it ends, its parent continues.
- `UserPromptSubmit` begins a turn, unless it is the notice that a background task has ended. A compaction is no
  message, and a session that is resumed keeps its id: both change no count. `SessionStart` with the source `compact`
  comes after a compaction (`PreCompact` also comes before one that fails); it is kept for rules on compactions.
- Events carry no tokens and no costs, and arguments as parsed: no identity can compare the text as it was sent.

What stops
----------
At a boundary where the rule is true, the model gets one sentence (`additionalContext`) and with it one more response,
for its summary. If that calls tools, the calls are denied (`permissionDecision`), and then the agent ends
(`continue: false`), also where Claude Code refused the calls before any hook saw them. `claude -p` then reports
`terminal_reason` `hook_stopped`, and a subagent's parent continues.
"""

from __future__ import annotations

import json
import os
import time

from boolab.hooks.journal import Journal, journal_path, line_of, prune
from boolab.hooks.log import log
from boolab.hooks.options import Options

EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "UserPromptSubmit",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionStart",
)
"""The events that the hook needs."""
FIRST_VERSION = (2, 1, 118)
"""The first version of Claude Code with `PostToolBatch`."""
_NOTICE = "<task-notification>"
_COMPACTED: dict[str, object] = {"e": "compact"}
_BY_CALL = {"PostToolUse": "ran", "PostToolUseFailure": "failed"}


def respond(event: dict[str, object], options: Options) -> dict[str, object] | None:
    """Count an event, and decide.

    Args:
        event: The event, as Claude Code gives it.
        options: The limits, and what happens at them.

    Returns:
        The answer, as Claude Code reads it; None if there is nothing to say.

    Raises:
        ValueError: if the event has no name or no session.
        SettingError: if the options do not make a rule.
        OSError: if the state cannot be kept.
    """
    name, session, agent = event.get("hook_event_name"), event.get("session_id"), event.get("agent_id")
    if not isinstance(name, str) or not isinstance(session, str):
        msg = "the event has no hook_event_name or no session_id"
        raise ValueError(msg)  # noqa: TRY004 - it may have another name as well
    if name not in EVENTS:
        return None
    if name == "SessionStart":
        prune()
        if event.get("source") != "compact":
            return None
    if name == "UserPromptSubmit" and str(event.get("prompt", "")).lstrip().startswith(_NOTICE):
        return None
    path = journal_path(session, agent if isinstance(agent, str) and agent else None)
    if name in ("Stop", "SubagentStop"):
        _ended(path, event, options)
        return None
    with Journal(path) as journal:
        if name == "PreToolUse":
            return _asked(journal, event, options)
        if name == "PostToolBatch":
            return _batch(journal, event, options)
        _keep(journal, name, event)
    return None


def _keep(journal: Journal, name: str, event: dict[str, object]) -> None:
    """Keep an event that has no answer."""
    if name in _BY_CALL:
        journal.append({"e": _BY_CALL[name], "id": event.get("tool_use_id")})
    elif name != "SessionStart":
        journal.append({"e": "turn", "t": _now()})
    elif not journal.data.endswith(line_of(_COMPACTED)):  # another hook on the session has not kept it
        journal.append(_COMPACTED)


def _asked(journal: Journal, event: dict[str, object], options: Options) -> dict[str, object] | None:
    """Before a call: deny it where the rule is true."""
    verdict = journal.verdict(str(options))
    if verdict is None:
        from boolab.hooks.replay import replay

        verdict = replay(journal, options).record(options)
        journal.append(verdict)
    denied = verdict["action"] == "stop"
    journal.append({"e": "blocked" if denied else "asked", "id": event.get("tool_use_id")})
    if not denied:
        return None
    log(event, "deny", verdict, tool=str(event.get("tool_name", "")))
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": _sentence(verdict),
        }
    }


def _batch(journal: Journal, event: dict[str, object], options: Options) -> dict[str, object] | None:
    """After all calls of a response: count the step, and say so where the rule is true."""
    from boolab.hooks.replay import call_record, replay

    given = event.get("tool_calls")
    calls = [call_record(call) for call in given if isinstance(call, dict)] if isinstance(given, list) else []
    known = journal.step_of(calls)
    stood = journal.verdict(str(options), before=known)
    if known is None:
        journal.append({"e": "step", "t": _now(), "calls": calls})
    if stood is not None and stood["action"] == "stop":  # also with calls that Claude Code refused: none was denied
        journal.append(stood)
        log(event, "end", stood)
        return {"continue": False, "stopReason": _sentence(stood)}
    boundary = replay(journal, options)
    verdict = boundary.record(options)
    journal.append(verdict)
    if not boundary.is_at(calls):
        if verdict["action"] != "stop" or not boundary.was_denied(calls):
            return None
        log(event, "end", verdict)
        return {"continue": False, "stopReason": _sentence(verdict)}
    if boundary.is_new:
        log(event, "would stop" if options.action == "shadow" else options.action, verdict)
    if verdict["action"] == "continue":
        return None
    return {"hookSpecificOutput": {"hookEventName": "PostToolBatch", "additionalContext": _sentence(verdict)}}


def _ended(path: str, event: dict[str, object], options: Options) -> None:
    """The agent has given its answer: keep for the log how far it came."""
    from boolab.hooks.replay import replay

    if not os.path.exists(path):  # noqa: PTH110 - pathlib takes long to import
        return  # an agent of Claude Code's own, without tools
    with Journal(path) as journal:
        boundary = replay(journal, options)
    log(event, "finished", boundary.record(options), **boundary.counted())


def _sentence(verdict: dict[str, object]) -> str:
    return f"boolab: {verdict['message']}"


def _now() -> int:
    return time.time_ns() // 1_000_000


def read_event(text: str) -> dict[str, object]:
    """An event from the standard input of a hook.

    Args:
        text: What was read there.

    Raises:
        ValueError: if it is no JSON object.

    Example:
        >>> read_event('{"hook_event_name": "Stop", "session_id": "1"}')["hook_event_name"]
        'Stop'
    """
    event = json.loads(text)
    if not isinstance(event, dict):
        msg = "the event is no JSON object"
        raise ValueError(msg)  # noqa: TRY004 - a value of another form, as text that is no JSON
    return event
