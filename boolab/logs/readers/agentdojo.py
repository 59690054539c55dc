"""AgentDojo: `runs/<pipeline>/<suite>/<user task>/<attack>/<injection task>.json`.

See github.com/ethz-spylab/agentdojo (`agentdojo/types.py`, `logging.py`). An object with `suite_name`, `pipeline_name`
and `messages`, whose calls are `{function, args, id}` and whose texts are `{type, content}`.

- Each assistant message is a step. A result with an `error` is an error, and no other: the harness records each
  exception of a tool.
- `utility` is the label; it is unknown where the run has an `error`. `security` is a score, and no part of the label.
  Forks keep both in `evaluation`.
- A run's id is made of the names of the folders, which the file repeats: pipeline, suite, user task, attack, injection
  task. Forks that write a `run_id` have that. The attack and the injection task are settings.
- There are no times, tokens, costs or finish reasons; `duration` is that of the whole run. The harness ends a run after
  15 rounds of calls, and does not record it: such a run is `aborted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.types import REDACTED
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, flag, items, json_document, mapping, text
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, one_line, scores_of, seconds_ms
from boolab.logs.step_builder import StepBuilder

NAME: Final = "agentdojo"
SCOPE: Final = "run"
SUFFIXES: Final = (".json",)
PLACES: Final = ()
LOOKED_FOR: Final = 'an object with "suite_name", "pipeline_name" and "messages"'

_NO_VALUE: Final = "none"
_KEYS: Final = frozenset({"suite_name", "pipeline_name"})


def sniff(head: Head) -> bool:
    """Whether this is a run of AgentDojo."""
    return len(head.values) == 1 and head.first.keys() >= _KEYS and isinstance(head.first.get("messages", []), list)


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one file; none if it is empty."""
    document = mapping(json_document(path, damage))
    if not document.keys() >= _KEYS or not isinstance(document.get("messages"), list):
        raise RunFormatError(f"a run of AgentDojo is {LOOKED_FOR}", path=path, line=1)
    builder = RunBuilder(NAME, damage)
    for number, message in enumerate(document["messages"], 1):
        if not _take(builder, mapping(message)):
            damage.note(1, f"message {number} has no known role")
    return [] if builder.is_empty else [_run(builder, document)]


def _take(builder: RunBuilder, message: Mapping[str, Any]) -> bool:
    """Take one message. Returns whether its role is known."""
    role, content = message.get("role"), _text(message.get("content"))
    if role == "assistant":
        _reply(builder, message, content)
    elif role == "tool":
        call_id = text(message.get("tool_call_id")) or _open_call(builder, mapping(message.get("tool_call")))
        error = message.get("error")
        builder.add_result(call_id, content or text(error), is_error=error is not None)
    elif role in ("system", "user"):
        builder.add_message(role, content, opens_turn=role == "user")
    else:
        return False
    return True


def _reply(builder: RunBuilder, message: Mapping[str, Any], content: str) -> None:
    reply = builder.add_response()
    reply.add_text(content)
    for block in map(mapping, items(message.get("content"))):
        if block.get("type") == "thinking":
            reply.add_reasoning(text(block.get("content")))
    for call in map(mapping, items(message.get("tool_calls"))):
        builder.add_call(reply, text(call.get("id")), text(call.get("function")), call.get("args", REDACTED))


def _open_call(builder: RunBuilder, call: Mapping[str, Any]) -> str:
    """The id of the first open call of the last response with the function of a result that has no id."""
    last = builder.steps[-1] if builder.steps else StepBuilder()
    waiting = [call for call, result in zip(last.calls, last.results, strict=True) if result is None]
    matches = [entry for entry in waiting if entry.name == text(call.get("function"))]
    return next((entry.id for entry in (*matches, *waiting)), "")


def _text(content: object) -> str:
    """The text of a content: a text itself, or blocks of texts."""
    if isinstance(content, str):
        return content
    blocks = map(mapping, items(content))
    return "\n".join(text(block.get("content")) for block in blocks if block.get("type") == "text")


def _run(builder: RunBuilder, document: Mapping[str, Any]) -> Run:
    pipeline, suite = text(document.get("pipeline_name")), text(document.get("suite_name"))
    task = text(document.get("user_task_id")) or text(document.get("task_id"))
    attack, injection = (text(document.get(name)) or _NO_VALUE for name in ("attack_type", "injection_task_id"))
    error = text(document.get("error")) or None
    verdict = {**mapping(document.get("evaluation")), **document}
    utility = flag(verdict.get("utility"))
    run = builder.build(
        text(document.get("run_id")) or f"{pipeline}/{suite}/{task}/{attack}/{injection}",
        builder.stop("error") if error and not builder.truncated else None,
        agent=NAME,
        model=pipeline,
        task=one_line(f"{suite}/{task}"),
        success=None if error else utility,
        scores=scores_of({name: verdict.get(name) for name in ("utility", "security")}),
        error=error and one_line(error),
        duration_ms=seconds_ms(document.get("duration")),
    )
    return replace(run, settings={"attack": attack, "injection": injection})
