"""Claude Code's hooks: which events there are, what each means for the count, and the answers.

The protocol is described at https://code.claude.com/docs/en/hooks. What is below was seen by running the released
package, npm `@anthropic-ai/claude-code` 2.1.330, against a scripted model: see
`benchmarks/conformance/clis/hook.py`.

What a step is
--------------
`PreToolUse` and `PostToolUse` (`PostToolUseFailure` for an error) run around each call, those of parallel calls at
once. `PostToolBatch` runs when all calls of a response are done, in the order of the response and before the next
request to the model: that is the boundary of `boolab.limits.stop`, so one such event is one step. It is there since
2.1.118 (2.1.117 lacks it). The transcript lags behind the events, so nothing is read from it.

What counts
-----------
- A call is one call, with the events before and after it, by its `tool_use_id`. An event that comes twice, from a hook
  that is in the settings of both the user and the project, counts once. A call without an id counts nowhere.
- A call that was asked for and has no result was denied: by this hook, by another, by a rule of the settings, or by the
  user. It counts nowhere, and a response with no other call is no step.
- A call of a tool that does not exist, or with arguments that do not fit, has no event of its own and is an error, by
  the text of its result. It counts, as in the transcript.
- A hook can be killed, or find the disk full. What it did not write down is not known, and never an error:
  `boolab.live.hooks.counts` has what counts then.
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

from boolab.core.rejections import is_rejection
from boolab.live.hooks.journal import (
    Journal,
    JournalError,
    append,
    boundary_of,
    compact,
    is_long,
    journal_path,
    log,
    mark_lost,
    prune,
    session_key,
    start_anew,
)
from boolab.live.hooks.options import Options

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
_TURNS = ("UserPromptSubmit", "SubagentStart")
_BY_CALL = {"PreToolUse": "asked", "PostToolUse": "ran", "PostToolUseFailure": "failed"}


def respond(event: dict[str, object], options: Options) -> dict[str, object] | None:
    """Count an event, and decide.

    Returns the answer, as Claude Code reads it; None if there is nothing to say.
    """
    name, session, agent = event.get("hook_event_name"), event.get("session_id"), event.get("agent_id")
    if not isinstance(name, str) or not isinstance(session, str) or not session:
        msg = "the event has no hook_event_name or no session_id"
        raise ValueError(msg)
    if agent is not None and not isinstance(agent, str):
        msg = "the event has an agent_id that is no text"
        raise ValueError(msg)
    if name not in EVENTS:
        return None
    path = journal_path(session, agent or None)
    try:
        return _respond(name, path, event, options)
    except JournalError as error:
        start_anew(path)
        log(event, "failed", error=f"JournalError: {error}: counts begin anew")
        return _respond(name, path, event, options)


def _respond(name: str, path: str, event: dict[str, object], options: Options) -> dict[str, object] | None:
    if name == "SessionStart":
        prune()
    try:
        _keep(name, path, event)
    except BaseException:
        mark_lost(path, "turn" if name in _TURNS else "lost")
        raise
    if name == "PreToolUse":
        return _handle_call(path, event, options)
    if name == "PostToolBatch" and event.get("tool_calls"):
        return _handle_results(path, event, options)
    if name in ("Stop", "SubagentStop"):
        _handle_end(path, event, options)
    return None


def _is_notice(event: dict[str, object]) -> bool:
    """Whether the harness wrote this prompt, which begins no turn."""
    from boolab.logs.harness_text import NOTICES  # it imports typing, for which not every call can wait

    return str(event.get("prompt", "")).lstrip().startswith(NOTICES)


def _keep(name: str, path: str, event: dict[str, object]) -> None:
    """Add what happened to the journal, before anything is decided."""
    if name in _BY_CALL:
        append(path, {"e": _BY_CALL[name], "id": _call_id(event)})
    elif name == "PostToolBatch":
        calls = call_records(event.get("tool_calls"), session_key(path))
        # Another hook on the session may have kept it.
        if Journal(path).last_step() != [call[0] for call in calls] and calls:
            append(path, boundary_of("step", calls=calls))
    elif name == "SubagentStart" or (name == "UserPromptSubmit" and not _is_notice(event)):
        append(path, boundary_of("turn"))
    elif name == "SessionStart" and event.get("source") == "compact":
        append(path, {"e": "compact"})


def _handle_call(path: str, event: dict[str, object], options: Options) -> dict[str, object] | None:
    """Before a call: deny it where the rule is true."""
    journal = Journal(path)
    boundary, _ = journal.last_boundaries()
    verdict = journal.verdict(str(options), boundary)
    if verdict is None:
        from boolab.live.hooks.counts import Boundary, state_after

        verdict = Boundary(state_after(journal.data), options).record(boundary)
        journal.append(verdict)
    if verdict["action"] != "stop":
        return None
    journal.append({"e": "blocked", "id": _call_id(event)})
    log(event, "deny", verdict, tool=str(event.get("tool_name", "")))
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": _sentence(verdict),
        }
    }


def _handle_results(path: str, event: dict[str, object], options: Options) -> dict[str, object] | None:
    """After all calls of a response: say so where the rule is true."""
    journal = Journal(path)
    option_text, step = str(options), journal.last_step()
    if step is None or not any(step):
        return None
    new_boundary, last_boundary = journal.last_boundaries()
    old_verdict = journal.verdict(option_text, last_boundary)
    if (
        old_verdict is not None and old_verdict["action"] == "stop"
    ):  # also with calls that Claude Code refused: none was denied
        journal.append({**old_verdict, "on": new_boundary})
        log(event, "end", old_verdict)
        return {"continue": False, "stopReason": _sentence(old_verdict)}
    from boolab.live.hooks.counts import Boundary, state_after

    boundary = Boundary(state_after(journal.data), options)
    verdict = boundary.record(new_boundary)
    is_first = journal.verdict(option_text, new_boundary) is None
    if is_first:
        journal.append(verdict)
    if is_long(journal.data):
        _compact(path, event)
    if not boundary.is_at(step):
        return None
    if boundary.is_new and is_first:
        log(event, "would stop" if options.action == "shadow" else options.action, verdict)
    if verdict["action"] == "continue":
        return None
    return {"hookSpecificOutput": {"hookEventName": "PostToolBatch", "additionalContext": _sentence(verdict)}}


def _compact(path: str, event: dict[str, object]) -> None:
    """Write a journal anew. If that fails, it is only longer, and the answer is given all the same."""
    from boolab.live.hooks.counts import state_after

    try:
        compact(path, lambda data: state_after(data).as_json())
    except (OSError, JournalError) as error:
        log(event, "failed", error=f"{type(error).__name__}: {error}")


def _handle_end(path: str, event: dict[str, object], options: Options) -> None:
    """The agent has given its answer: keep for the log how far it came."""
    from boolab.live.hooks.counts import Boundary, state_after

    if not os.path.exists(path):  # noqa: PTH110 - pathlib takes long to import
        return  # an agent of Claude Code's own, without tools
    boundary = Boundary(state_after(Journal(path).data), options)
    log(event, "finished", boundary.record(""), **boundary.step_counts())


def _call_id(event: dict[str, object]) -> str:
    name = call_id(event.get("tool_use_id"))
    if name is None:
        msg = "the event has no tool_use_id"
        raise ValueError(msg)
    return name


def _sentence(verdict: dict[str, object]) -> str:
    return f"boolab: {verdict['message']}"


def read_event(text: str) -> dict[str, object]:
    """An event from the standard input of a hook."""
    event = json.loads(text)
    if not isinstance(event, dict):
        msg = "the event is no JSON object"
        raise ValueError(msg)  # noqa: TRY004 - a value of another form, as text that is no JSON
    return event


ID_CHARS = 80
"""An id or the name of a tool that is longer is kept as a hash of it."""
FIELDS = ("id", "tool", "sorted", "ordered", "result", "word")
"""The values of a call. `id` is "" if it has none; `sorted` and `ordered` are of its arguments, with their keys sorted
and in their order."""
REFUSED = "<tool_use_error>"
"""How the result begins of a call that failed before a hook saw it: no such tool, or arguments that do not fit."""


def call_id(value: object) -> str | None:
    """The id of a call as a journal has it; None if two events cannot be known to be of one call."""
    return _name(value) if isinstance(value, str) and value else None


def call_records(calls: object, key: bytes) -> list[list[str | int]]:
    """The values of `FIELDS` for each call of a response, each call once."""
    if not isinstance(calls, list):
        msg = "the event has no list tool_calls"
        raise ValueError(msg)  # noqa: TRY004 - a value of another form
    records: list[list[str | int]] = []
    ids = set()
    for call in calls:
        name = call_id(call.get("tool_use_id")) if isinstance(call, dict) else None
        if isinstance(call, dict) and (name is None or name not in ids):
            ids.add(name)
            records.append([name or "", *_values(call, key)])
    return records


def _values(call: dict[str, object], key: bytes) -> list[str | int]:
    arguments, response = call.get("tool_input"), call.get("tool_response")
    return [
        _name(str(call.get("tool_name", ""))),
        _number(_text(arguments, sort=True), key),
        _number(_text(arguments), key),
        _number(response if isinstance(response, str) else _text(response), key),
        _word_of(response),
    ]


def _word_of(response: object) -> str:
    """The word for a call that Claude Code itself answered, by the text of the result: `refused`, `denied`, or ""."""
    block = response[0] if isinstance(response, list) and response else response
    text = block.get("text") if isinstance(block, dict) else block
    if not isinstance(text, str):
        return ""
    if text.startswith(REFUSED):
        return "refused"
    return "denied" if is_rejection("claude_code", text, is_error=None) else ""


def _name(name: str) -> str:
    if len(name) <= ID_CHARS:
        return name
    from hashlib import blake2b  # it takes long to import, and most processes need none

    return "x" + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _text(value: object, *, sort: bool = False) -> str:
    return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False)


def _number(text: str, key: bytes) -> int:
    """A number that stands for a text."""
    from hashlib import blake2b

    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6, key=key).digest(), "big")
