"""Cline: `<session>.messages.json` of its command line, and `api_conversation_history.json` of its VS Code extension.

The command line (also VS Code from 4.0 on) writes `{version, agent, sessionId, messages}` into a session's folder; the
extension writes a bare list of messages into a task's folder. Both are Anthropic's messages with `ts`, `modelInfo` and
`metrics`; see `MessageWithMetadata` and `ClineStorageMessage` in github.com/cline/cline. Roo Code, a fork, writes the
latter too.

- Input tokens include the cached ones.
- `<session>.json` is a manifest without messages. `<session>.compaction.json` repeats messages of the session in a
  shorter form. It is no run, because its steps would count twice.
- Messages that are only displayed (`displayOnly`) are no steps; the notice of an error is an event.
- These open no turn: results, summaries of a compaction (an event), notices of the harness (`metadata.kind`,
  `displayRole`), and in the extension `<environment_details>`, resumptions, and reminders to use a tool.
- A result is an error if it has `is_error` or `success: false`, or, in the extension, begins with one of Cline's
  phrases for a tool's error. No other result is an error, because Cline marks every failure. A command's exit code is
  only in its text.
- Older versions of the extension have no `tool_use` blocks. A call is XML in the text, one tool a message
  (`<read_file><path>a.py</path></read_file>`), and gets a new id. Only the first call of a message was executed.
- The extension may write a result as a user's text that begins `[read_file for 'a.py'] Result:`, of a call in XML and
  of a `tool_use` block alike. It answers the first open call of that tool, else the first open call.
- A subagent's session is named `<session>__<agent>`.
- An interrupted response ends with a sentence about that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

from boolab.core.run import MIXED, Run
from boolab.core.types import Image, StopReason, Usage
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, items, json_document, json_object, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import (
    Head,
    all_input,
    block_text,
    blocks_of,
    content_text,
    effort_of,
    name_or_none,
    one_line,
    sidecar,
)
from boolab.logs.images import images_of
from boolab.logs.readers._chat import add_reply, answer, dialect, message_time, texts
from boolab.logs.step_builder import StepBuilder

NAME: Final = "cline"
SCOPE: Final = "turn"
SUFFIXES: Final = (".json",)
TESTED: Final = "1"
_EXTENSIONS: Final = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")
"""Cline, and its forks Roo Code and Kilo Code."""
_EDITORS: Final = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_SETTINGS: Final = (
    *(f"~/.config/{editor}" for editor in _EDITORS),
    *(f"~/Library/Application Support/{editor}" for editor in _EDITORS),
    "~/.vscode-server/data",
    "~/.cursor-server/data",
)
PLACES: Final = (
    "~/.cline/data/sessions/**/*.messages.json",
    *(
        f"{settings}/User/globalStorage/{extension}/tasks/*/api_conversation_history.json"
        for settings, extension in product(_SETTINGS, _EXTENSIONS)
    ),
)
LOOKED_FOR: Final = 'an object with "sessionId", "version" and "messages", or the list of api_conversation_history.json'

_COMPACTION: Final = ".compaction.json"
_SUBAGENT: Final = "__"
_ERROR: Final = ("The tool execution failed with the following error:", "[ERROR]", "<error>")
_HARNESS: Final = (
    "<environment_details>",
    "<SYSTEM_NOTICE>",
    "[ERROR] You did not use a tool",
    "[TASK RESUMPTION]",
    "[NOTE]",
    "[[NOTE]",
)
_INTERRUPTED: Final[Mapping[str, StopReason]] = {
    "[Response interrupted by user]": "aborted",
    "[Response interrupted by API Error]": "error",
}
_COMPLETION: Final = "attempt_completion"
_FEEDBACK: Final = "<feedback>"
_RESULT: Final = re.compile(r"\[\w+(?: for |\] Result:)")
_RESULT_END: Final = "] Result:"
_NOT_RUN: Final = re.compile(r"Tool \[\w+\] was not executed")
_WRAPPED: Final = re.compile(r"\s*<(task|user_input|user_message)\b[^>\n]*>\n?(.*?)</\1>", re.DOTALL)
_TAG: Final = re.compile(r"<(\w+)>")
MAX_TAGS: Final = 50
_TOOLS: Final = (
    "access_mcp_resource", "apply_diff", "ask_followup_question", "attempt_completion", "browser_action",
    "codebase_search", "condense", "execute_command", "fetch_instructions", "insert_content",
    "list_code_definition_names", "list_files", "load_mcp_documentation", "new_rule", "new_task", "plan_mode_respond",
    "plan_mode_response", "read_file", "replace_in_file", "report_bug", "search_and_replace", "search_files",
    "summarize_task", "switch_mode", "update_todo_list", "use_mcp_tool", "web_fetch", "web_search", "write_to_file",
)  # fmt: skip
_OPENING: Final = re.compile(rf"<({'|'.join(_TOOLS)})>")


def sniff(head: Head) -> bool:
    """Whether this is a session of Cline."""
    return dialect(head) == "cline"


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one file; none of a `.compaction.json`, which repeats a part of its session."""
    if path.name.endswith(_COMPACTION):
        return []
    document = json_document(path, damage)
    facts = mapping(document)
    messages = document if isinstance(document, list) else facts.get("messages")
    if not isinstance(messages, list):
        raise RunFormatError(f"a log of Cline is {LOOKED_FOR}", path=path, line=1)
    if (version := whole(facts.get("version"))) is not None:
        damage.versions.add(str(version))
    session = _Session(facts, damage)
    for number, message in enumerate(messages, 1):
        if isinstance(message, dict) and message.get("role") in ("user", "assistant"):
            session.take(message)
        else:
            damage.note(1, f"message {number} has no role user or assistant")
    run = session.run(path)
    return [] if run is None else [run]


class _Session:
    """Builds the run of one file from its messages."""

    def __init__(self, facts: Mapping[str, Any], damage: Damage) -> None:
        self.builder = RunBuilder(NAME, damage)
        self.about = facts
        self._written = 0
        """How many calls are from texts."""
        self._waiting: list[tuple[str, str]] = []
        """The ids and names of the open calls of the last response."""
        if system := content_text(facts.get("system_prompt")):
            self.builder.add_message("system", system, opens_turn=False)

    def take(self, message: Mapping[str, Any]) -> None:
        time = message_time(message)
        metadata = mapping(message.get("metadata"))
        if message["role"] == "user":
            self._user(message.get("content"), metadata, time)
        elif metadata.get("displayOnly") is True:
            if metadata.get("displayRole") == "error":
                self.builder.add_event("fault", time, text=one_line(content_text(message.get("content"))))
        else:
            self._reply(message, time)

    def _reply(self, message: Mapping[str, Any], time: int | None) -> None:
        model = mapping(message.get("modelInfo"))
        step = add_reply(self.builder, message, time, text(model.get("modelId")) or text(model.get("id")))
        step.id = ""  # the harness gives the message a new one in a copy
        step.effort = effort_of(model.get("reasoningEffort")) or step.effort
        if metrics := mapping(message.get("metrics")):
            step.usage = _usage(metrics)
        content = step.text[-1].rstrip() if step.text else ""
        step.error = next((words for words in _INTERRUPTED if content.endswith(words)), "")
        if not step.calls:
            for name, arguments in _calls_in("\n".join(step.text)):
                self._written += 1
                self.builder.add_call(step, f"xml_{self._written}", name, arguments)
        answered = zip(step.calls, step.results, strict=True)
        self._waiting = [(call.id, call.name) for call, result in answered if result is None]

    def _user(self, content: object, metadata: Mapping[str, Any], time: int | None) -> None:
        body: list[str] = []
        parts: list[str] | None = None
        tool = ""
        answered = False
        for block in blocks_of(content):
            part = mapping(block)
            if part.get("type") == "tool_result":
                answered = True
                answer(self.builder, part, time, failed=_is_failure(part.get("content")))
                self._waiting = [call for call in self._waiting if call[0] != part.get("tool_use_id")]
                self._check_feedback(texts(part.get("content")), time)
                continue
            words = f"[file {text(part.get('path'))}]" if part.get("type") == "file" else block_text(block)
            result = _result_in(words)
            if result is not None:
                self._add_result(tool, parts, time)
                tool, parts = words[1:].partition("]")[0].partition(" ")[0], [result]
            elif parts is not None and not words.startswith(_HARNESS) and not _NOT_RUN.match(words):
                parts.append(words)
            elif not _NOT_RUN.match(words):
                body.append(words)
        self._add_result(tool, parts, time)
        self._add_message(body, metadata, time, images_of(content), answered=answered or parts is not None)

    def _add_result(self, tool: str, parts: Sequence[str] | None, time: int | None) -> None:
        """Add a text as the result of the first open call of this tool, or of any if it has none."""
        if parts is None:
            return
        words = "\n".join(part for part in parts if part).strip()
        matches = [index for index, (_, name) in enumerate(self._waiting) if name == tool]
        call_id, _ = self._waiting.pop(matches[0] if matches else 0) if self._waiting else ("", "")
        self.builder.add_result(call_id, words, is_error=words.startswith(_ERROR), time=time)
        self._check_feedback(parts, time)

    def _check_feedback(self, parts: Sequence[str], time: int | None) -> None:
        """Open a turn if the user continues after the agent's completion: the new task is in its last call's result."""
        last = self.builder.steps[-1].calls[-1:] if self.builder.steps else []
        if last and last[0].name == _COMPLETION:
            content = next((part for part in parts if _FEEDBACK in part), None)
            if content is not None:
                self.builder.add_message("user", content, opens_turn=True, time=time)

    def _add_message(
        self,
        content: Sequence[str],
        metadata: Mapping[str, Any],
        time: int | None,
        images: tuple[Image, ...],
        *,
        answered: bool,
    ) -> None:
        kind = text(metadata.get("kind"))
        if kind.startswith("compaction") or kind == "overflow_truncation":
            self.builder.add_event("compaction", time, reason=text(metadata.get("reason")) or kind)
        is_notice = bool(kind) or text(metadata.get("displayRole")) in ("system", "status", "error")
        prompts = [part for part in content if part.strip() and not part.lstrip().startswith(_HARNESS)]
        if content or not answered:
            opens = bool(prompts) and not answered and not is_notice
            if opens and not self.builder.task:
                self.builder.task = one_line(_unwrap(prompts[0]))
            self.builder.add_message("user", "\n".join(content), opens_turn=opens, time=time, images=images)

    def run(self, path: Path) -> Run | None:
        if self.builder.is_empty:
            return None
        run_id = text(self.about.get("sessionId")) or _name_of(path)
        parent, _, agent = run_id.partition(_SUBAGENT)
        last = self.builder.steps[-1] if self.builder.steps else StepBuilder()
        stop = _INTERRUPTED.get(last.error)
        if stop is None and not self.builder.truncated and last.calls and last.calls[-1].name == _COMPLETION:
            stop = "finished"
        manifest = mapping(sidecar(path.with_name(f"{_name_of(path)}.json")))
        history = items(mapping(sidecar(path.with_name("task_metadata.json"))).get("environment_history"))
        versions = {version for entry in history if (version := name_or_none(mapping(entry).get("cline_version")))}
        self.builder.version = MIXED if len(versions) > 1 else next(iter(versions), None)
        self.builder.note_origin(cwd=manifest.get("cwd"), entrypoint=manifest.get("source"))
        return self.builder.build(
            run_id,
            stop,
            agent=text(self.about.get("agent")) or agent,
            model="" if self.builder.models else text(manifest.get("model")),
            parent_run_id=parent if agent else None,
            log_id=text(self.about.get("sessionId")),
            error=last.error if stop == "error" else None,
        )


def _name_of(path: Path) -> str:
    if path.stem == "api_conversation_history":
        return path.absolute().parent.name
    return path.name.removesuffix(".json").removesuffix(".messages")


def _usage(metrics: Mapping[str, Any]) -> Usage:
    """The usage of a response; in the extension the figures are under `tokens`."""
    tokens, names = mapping(metrics.get("tokens")), ("prompt", "completion", "cached", "cacheWrites")
    if not tokens:
        tokens, names = metrics, ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    entered, output, cached, cache_write = (whole(tokens.get(name)) for name in names)
    entered = all_input(entered, cached, cache_write)
    return Usage(entered, output, cached, None, micro(metrics.get("cost")), cache_write)


def _is_failure(content: object) -> bool:
    """Whether a result without a flag reports a failure."""
    if any(mapping(block).get("success") is False for block in items(content)):
        return True
    body = next(iter(texts(content)), "")
    if body.startswith("{"):
        return body.endswith('"success":false}') or json_object(body).get("status") == "error"
    return body.startswith(_ERROR[0])


def _unwrap(content: str) -> str:
    match = _WRAPPED.match(content)
    return match[2] if match is not None and match[2].strip() else content


def _result_in(words: str) -> str | None:
    """The result in a user's text that begins with the head of a result, else None."""
    if not _RESULT.match(words):
        return None
    end = words.find(_RESULT_END)
    return None if end < 0 else words[end + len(_RESULT_END) :].lstrip("\n")


def _calls_in(content: str) -> list[tuple[str, dict[str, str]]]:
    """The calls in a text: each tool's tag with the tags of its parameters in it. The last may have no end."""
    calls = []
    start = 0
    while (opening := _OPENING.search(content, start)) is not None:
        closing = f"</{opening[1]}>"
        end = content.find(closing, opening.end())
        calls.append((opening[1], _parameters(content[opening.end() : end if end >= 0 else len(content)])))
        if end < 0:
            break
        start = end + len(closing)
    return calls


def _parameters(content: str) -> dict[str, str]:
    """The parameters in a call's text; a tag without an end is none."""
    parameters: dict[str, str] = {}
    start = 0
    for _ in range(MAX_TAGS):
        opening = _TAG.search(content, start)
        if opening is None:
            break
        closing = f"</{opening[1]}>"
        end = content.find(closing, opening.end())
        if end >= 0:
            parameters[opening[1]] = content[opening.end() : end].strip("\n")
        start = opening.end() if end < 0 else end + len(closing)
    return parameters
