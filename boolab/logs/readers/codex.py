"""Codex: `~/.codex/sessions/<year>/<month>/<day>/rollout-*.jsonl`; see `codex-rs/protocol` in github.com/openai/codex.

Rollouts that are a week old are packed with Zstandard (`.jsonl.zst`), which the extra `zstd` reads.

Lines of `{timestamp, type, payload}`. `response_item` lines are the input and output of the model. `event_msg` lines
repeat them for a user interface, with more facts. Rollouts of the first half of 2025 have the items and the header
(`session_meta`) as bare lines; those of the first, TypeScript version are one object, `{session, items}`.

- The end of a response is not marked. A step begins with the model's first item (a message, reasoning, a call) after a
  result, another author's message, a usage report or the end of a task. A rollout without items of the model (as of
  some reviews) is read from its events.
- Usage is in `token_count` events, each written twice or more: one with the same running total is a repetition.
  `last_token_usage` is that of one response. It follows the response's items, and belongs to the latest step. Until the
  end of 2025 it preceded them: if the latest step has its usage, it belongs to the next step, unless a compaction is
  between them. Input includes cached tokens, output includes reasoning tokens.
- Codex writes messages of the role `user` too: the environment, `AGENTS.md`, notices. The tag around them, or their
  first words, identify them, and they open no turn; a `user_message` event always does. A message of another agent
  opens only the first turn.
- A command's result begins with lines from Codex: an exit code other than 0 is an error. So are aborted calls, and
  calls that an event (`exec_command_end`, `patch_apply_end`, `mcp_tool_call_end`) reports as failed, or that Codex
  answers in its own words ("write_stdin failed", "unsupported call", ...). A command that still runs ("Process running
  with session ID") is no error: the call itself succeeded, and the exit code comes with a later call's result. For all
  other results it is unknown. A call without a result was aborted and dropped.
- An aborted response has no usage report. It gets what the running total grew by beside the next report, which is often
  nothing, because Codex does not count it.
- Searches and images that the provider makes within a response (`web_search_call`, `image_generation_call`) have an
  empty result.
- The text input of a custom tool such as `apply_patch` becomes `{"input": ...}`, as where the tool is a function. Tools
  in a namespace are named `<namespace>__<tool>`.
- `turn_aborted` ends a run as aborted, or by its token budget (`budget_limited`). `error` ends it as an error, or by
  its token budget (`session_budget_exceeded`); the size of the budget is unknown. `thread_rolled_back` removes turns
  (event `rewind`).
- Each subagent has a rollout that names the parent's thread, except for reviews.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.types import REDACTED, Image
from boolab.io.json_input import Damage, filter_objects, items, json_object, mapping, text, whole
from boolab.logs.fields import (
    Head,
    LineLog,
    block_text,
    content_text,
    epoch_ms,
    name_or_none,
    read_followed,
    stem_of,
)
from boolab.logs.images import images_of
from boolab.logs.readers._codex_account import SOURCE, CodexAccount
from boolab.logs.step_builder import StepBuilder, is_unreadable, openai_arguments

NAME: Final = SOURCE
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl", ".json")
TESTED: Final = "0.146"
PLACES: Final = (
    "$CODEX_HOME/sessions/**/*.jsonl",
    "$CODEX_HOME/sessions/**/*.jsonl.zst",
    "~/.codex/sessions/**/*.jsonl",
    "~/.codex/sessions/**/*.jsonl.zst",
    "$CODEX_HOME/archived_sessions/*.jsonl",
    "$CODEX_HOME/archived_sessions/*.jsonl.zst",
    "~/.codex/archived_sessions/*.jsonl",
    "~/.codex/archived_sessions/*.jsonl.zst",
    "~/.codex/sessions/rollout-*.json",
)
LOOKED_FOR: Final = 'JSON lines of {"timestamp", "type": "session_meta" | "response_item" | "event_msg", "payload"}'

_LINES: Final = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_CALLS: Final = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "tool_search_call": "arguments",
}
_HOSTED: Final = {"web_search_call": "action", "image_generation_call": "revised_prompt"}
_OUTPUTS: Final = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "local_shell_call_output": "output",
    "tool_search_output": "tools",
}
_ITEMS: Final = frozenset({"message", "reasoning", *_CALLS, *_HOSTED, *_OUTPUTS})
_KINDS: Final = frozenset({*_LINES, *_ITEMS, "", "agent_message", "compaction", "compaction_summary", "ghost_snapshot"})
"""The types of lines and of items that are known, also those that are left out."""
_TAG: Final = re.compile(r"\s*<([\w-]++)[^<>\n]*+>")  # possessive: no backtracking
_HARNESS: Final = ("# AGENTS.md instructions", "Warning: ")
_SPAWN: Final = "spawn_agent"
_UNDER_WAY: Final = ("in_progress", "incomplete", "searching", "generating")
_HEADER: Final = re.compile(
    r"(?:(?:Exit code: (?P<code>-?\d{1,9})|Process exited with code (?P<exited>-?\d{1,9})"
    r"|Wall time: (?P<seconds>\d{1,9}(?:\.\d{1,9})?) seconds|(?P<running>Process running with session ID) \d+"
    r"|Chunk ID: \w*"
    r"|Original token count: \d+|Total output lines: \d+)(?:\n|\Z))+"
)
_REFUSED: Final = re.compile(
    r"(?:exec_command|write_stdin|shell|apply_patch verification|js_repl execution|collab [\w ]{1,40}|wait|tool call"
    r"|resources/\w{1,40}) failed\b"
    r"|failed to (?:parse function arguments|read (?:file|directory|dir)\b|start exec|spawn|convert)"
    r"|failed in sandbox\b|unsupported (?:custom tool call|call|tool|payload)\b|execution error: |exec error: "
    r"|tool [^\n]{1,200} invoked with incompatible payload|(?:patch|command|exec command) rejected\b|rejected by user"
    r"|approval policy is [^\n]{1,80}; reject|unknown MCP server|unable to locate image"
    r"|image path [^\n]{1,4000} is not a|(?:file_path|dir_path|path) must be an absolute path|Unknown process id"
    r"|agent with id \S{1,80} (?:not found|is closed)|Agent depth limit reached"
    r"|Command blocked by |Script failed(?:\n|\Z)|command timed out after"
)
"""What Codex itself answers to a call that it did not execute, or that failed."""
_SUCCESS: Final = re.compile(
    r"(?:Plan updated|Success\. Updated the following files:|Script completed|attached local image path)(?:\n|\Z)"
    r"|Script running with cell ID "
)
"""What Codex itself answers to a call that succeeded."""
_ABORTED: Final = re.compile(r"(?:Wall time: [\d.]+ seconds\s+)?aborted(?: by user.*)?\s*", re.DOTALL)


def sniff(head: Head) -> bool:
    """Whether this is a rollout of Codex, of any age."""
    if isinstance(head.first.get("items"), list):
        session = mapping(head.first.get("session"))
        return "id" in session and "timestamp" in session
    lines = [mapping(value) for value in head.values]
    if any(isinstance(line.get("payload"), dict) and text(line.get("type")) in _LINES for line in lines):
        return True
    header = head.first
    bare = "type" not in header and isinstance(header.get("id"), str) and {"timestamp", "instructions"} <= header.keys()
    return bare and all("record_type" in line or text(line.get("type")) in _ITEMS for line in lines[1:] if line)


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one rollout; none if it is empty."""
    return read_followed(path, damage, follow)


def follow(path: Path, damage: Damage) -> LineLog:
    """The lines of a rollout, as they are written."""
    rollout = _Rollout(damage)

    def take(number: int, value: object) -> None:
        for _, line in filter_objects(_lines_of(number, value), damage):
            rollout.take(line)

    def runs() -> list[Run]:
        damage.unrecognised = "" if rollout.known else f"a rollout of Codex is {LOOKED_FOR}"
        return rollout.runs(path)

    return LineLog(damage, take, runs)


def _lines_of(number: int, value: object) -> Sequence[tuple[int, Any]]:
    """The lines in a value: itself; in the first version, its header and its items."""
    if isinstance(value, dict) and "items" in value and "session" in value:
        return [(number, line) for line in (value["session"], *items(value["items"]))]
    return ((number, value),)


class _Rollout:
    """The lines of one file."""

    def __init__(self, damage: Damage) -> None:
        self.known = False
        """Whether any line was one of a rollout."""
        self._damage = damage
        self._items = CodexAccount(damage)
        self._events: CodexAccount | None = CodexAccount(damage)
        self._meta: Mapping[str, Any] = {}
        self._copied = ""
        """The id of the session whose rollout a fork has copied, by the header in the copy."""
        self._ends: dict[str, tuple[bool | None, int | None]] = {}
        self._spawns: dict[str, StepBuilder] = {}
        """The responses whose calls start subagents, by call."""

    @property
    def account(self) -> CodexAccount:
        """The account from the items, or from the events if there are no items of the model."""
        if self._events is None or self._items.builder.steps or not self._events.builder.steps:
            return self._items
        return self._events

    def take(self, line: Mapping[str, Any]) -> None:
        kind = text(line.get("type"))
        payload = line.get("payload")
        item = text(mapping(payload).get("type")) if kind == "response_item" else kind
        self._damage.note_kind(item, _KINDS)
        if isinstance(payload, dict) and kind in _LINES:
            self._take(kind, payload, epoch_ms(line.get("timestamp")))
        elif kind in _ITEMS:
            self._item(kind, line, epoch_ms(line.get("timestamp")))
        elif not kind and "id" in line and "timestamp" in line:
            self._open(line)
        else:
            return
        self.known = True

    def _open(self, meta: Mapping[str, Any]) -> None:
        """Take the header; those that follow are of the sessions that this one was forked from."""
        self._items.builder.forget_early_results()
        if self._meta:
            self._copied = self._copied or text(meta.get("id"))
            return
        self._meta, git = meta, mapping(meta.get("git"))
        source = meta.get("source")
        for account in self._accounts():
            account.builder.version = name_or_none(meta.get("cli_version"))
            account.builder.note_origin(
                git_commit=git.get("commit_hash"),
                git_branch=git.get("branch"),
                cwd=meta.get("cwd"),
                entrypoint=source if isinstance(source, str) else meta.get("originator"),
            )

    def _take(self, kind: str, payload: Mapping[str, Any], time: int | None) -> None:
        if kind == "response_item":
            self._item(text(payload.get("type")), payload, time)
        elif kind == "event_msg":
            self._event(text(payload.get("type")), payload, time)
        elif kind == "session_meta":
            self._open(payload)
            self._damage.versions.add(text(payload.get("cli_version")))
        elif kind == "turn_context":
            for account in self._accounts():
                account.open_context(payload)
        else:
            summary = text(payload.get("message"))
            for account in self._accounts():
                account.compact(summary, time)

    def _accounts(self) -> list[CodexAccount]:
        return [self._items] if self._events is None else [self._items, self._events]

    def _item(self, kind: str, item: Mapping[str, Any], time: int | None) -> None:
        account = self._items
        if kind in _OUTPUTS:
            self._output(item, item.get(_OUTPUTS[kind]), time)
        elif kind == "agent_message":
            opens, images = not account.builder.has_prompt, images_of(item.get("content"))
            account.add_message(content_text(item.get("content")), time, opens_turn=opens, images=images)
        elif kind == "message" and item.get("role") != "assistant":
            content = content_text(item.get("content"))
            if item.get("role") == "user":
                images = images_of(item.get("content"))
                account.add_message(content, time, opens_turn=not _is_of_harness(content), images=images)
            else:
                account.add_system(content, time)
        elif kind in _ITEMS:
            self._events = None
            call_id = text(item.get("call_id")) if kind in _CALLS else ""
            self._part(kind, item, account.response_of(call_id, time), time)

    def _part(self, kind: str, item: Mapping[str, Any], step: StepBuilder, time: int | None) -> None:
        builder = self._items.builder
        if kind == "message":
            step.text.append(content_text(item.get("content")))
        elif kind == "reasoning":
            blocks = [*items(item.get("summary")), *items(item.get("content"))]
            step.reasoning += [block_text(part) for part in blocks]
        elif kind in _CALLS:
            args = item.get(_CALLS[kind], REDACTED)
            args = openai_arguments(args) if kind == "function_call" else args
            if kind == "custom_tool_call" and isinstance(args, str) and args.strip() and is_unreadable(args):
                args = {"input": args}
            call_id, name = text(item.get("call_id")) or text(item.get("id")), _tool(kind, item)
            builder.add_call(step, call_id, name, args)
            if name == _SPAWN:
                self._spawns[call_id] = step
                result = step.results[-1]
                if result is not None:
                    self._add_spawned(call_id, result.content, time)
        elif kind in _HOSTED:
            call_id = text(item.get("id")) or f"hosted {len(builder.steps)}.{len(step.calls)}"
            args = item.get(_HOSTED[kind], REDACTED)
            args = (
                args
                if isinstance(args, dict) or args == REDACTED
                else {"input": args}
                if str(args or "").strip()
                else REDACTED
            )
            builder.add_call(step, call_id, kind.removesuffix("_call"), args)
            self._items.hosted.add(call_id)
            if item.get("status") not in _UNDER_WAY:
                builder.add_result(call_id, "", is_error=None, time=time)

    def _output(self, item: Mapping[str, Any], output: object, time: int | None) -> None:
        content, flagged = _content_of(output)
        failed, duration = _facts_of(content)
        call_id = text(item.get("call_id"))
        self._add_spawned(call_id, content, time)
        ended, elapsed = self._ends.pop(call_id, (None, None))
        failed = next((fact for fact in (flagged, failed, ended) if fact is not None), None)
        duration = duration if elapsed is None else elapsed
        account = self._items
        images = images_of(mapping(output).get("content") or output)
        has_call = account.builder.add_result(
            call_id, content, is_error=failed, time=time, duration_ms=duration, images=images
        )
        account.before_early = None if has_call else account.step or account.before_early
        account.step = None

    def _add_spawned(self, call_id: str, content: str, time: int | None) -> None:
        """Add the subagent that a call started, if its result names it."""
        spawned = json_object(content) if call_id in self._spawns else {}
        if child := text(spawned.get("agent_id")):
            self._items.builder.add_subagent(self._spawns.pop(call_id), call_id, child, time=time)

    def _event(self, kind: str, event: Mapping[str, Any], time: int | None) -> None:
        if kind == "token_count":
            for account in self._accounts():
                account.count(mapping(event.get("info")))
        elif kind.endswith("_end"):
            self._ends.update(_end_of(event))
        elif kind == "item_completed":
            item = mapping(event.get("item"))
            kinds = {"UserMessage": "user_message", "AgentMessage": "agent_message"}
            images = images_of(item.get("content"))
            self._repeat(kinds.get(text(item.get("type"))), content_text(item.get("content")), time, images)
        elif kind == "agent_reasoning":
            self._repeat(kind, text(event.get("text")), time)
        elif kind in ("user_message", "agent_message"):
            images = images_of([{"type": "input_image", "image_url": url} for url in items(event.get("images"))])
            self._repeat(kind, text(event.get("message")) or ("[image]" if images else ""), time, images)
        else:
            for account in self._accounts():
                account.take(kind, event, time)

    def _repeat(self, kind: str | None, content: str, time: int | None, images: tuple[Image, ...] = ()) -> None:
        if kind == "user_message":
            for account in self._accounts():
                account.add_message(content, time, opens_turn=True, images=images)
        elif kind is not None and self._events is not None:
            step = self._events.part(time)
            (step.text if kind == "agent_message" else step.reasoning).append(content)

    def runs(self, path: Path) -> list[Run]:
        account = self.account
        if account.builder.is_empty:
            return []
        run_id = text(self._meta.get("id")) or stem_of(path)
        agent, parent = _origin(self._meta)
        account.state_totals(forked=bool(self._meta.get("forked_from_id")) or parent is not None)
        stop = "aborted" if account.builder.truncated else account.stop()
        error = account.error if stop == "error" else None
        parent = None if parent == run_id else parent
        branched_from = text(self._meta.get("forked_from_id")) or self._copied
        run = account.builder.build(
            run_id,
            stop,
            agent=agent,
            parent_run_id=parent,
            error=error,
            log_id=text(self._meta.get("id")),
            branched_from=branched_from if parent is None else "",
        )
        return [run]


def _is_of_harness(content: str) -> bool:
    """Whether Codex wrote a message of the role `user`."""
    if content.lstrip().startswith(_HARNESS):
        return True
    tag = _TAG.match(content)
    end = content.rstrip()[-100:]
    return tag is not None and end.endswith(">") and f"</{tag[1]}" in end


def _tool(kind: str, item: Mapping[str, Any]) -> str:
    if kind in ("function_call", "custom_tool_call"):
        space, name = text(item.get("namespace")), text(item.get("name"))
        return f"{space.rstrip('_')}__{name.lstrip('_')}" if space else name
    return kind.removesuffix("_call")


def _origin(meta: Mapping[str, Any]) -> tuple[str, str | None]:
    above = text(meta.get("parent_thread_id"))
    source = mapping(meta.get("source")).get("subagent")
    if source is None:
        return NAME, None
    spawn = mapping(mapping(source).get("thread_spawn"))
    kind = text(source) or text(mapping(source).get("other")) or "subagent"
    agent = text(meta.get("agent_role")) or text(spawn.get("agent_role")) or kind
    return agent, text(spawn.get("parent_thread_id")) or above or None


def _content_of(output: object) -> tuple[str, bool | None]:
    """The text of an output, and whether it failed if it has a flag."""
    if not isinstance(output, dict):
        return content_text(output), None
    if "content" in output or "success" in output:
        good = output.get("success")
        return content_text(output.get("content")), not good if isinstance(good, bool) else None
    return block_text(output), None


def _facts_of(content: str) -> tuple[bool | None, int | None]:
    """Whether a command failed, and how many milliseconds it took, from the lines before its output."""
    if content.startswith('{"output"'):
        facts = mapping(json_object(content).get("metadata"))
        code, seconds = facts.get("exit_code"), facts.get("duration_seconds")
        duration = round(seconds * 1000) if isinstance(seconds, int | float) and whole(seconds) is not None else None
        return (code != 0 if _is_code(code) else None), duration
    if _ABORTED.fullmatch(content[:200]):
        return True, None
    header = _HEADER.match(content)
    if header is None:
        return True if _REFUSED.match(content) else False if _SUCCESS.match(content) else None, None
    exited, seconds = header["code"] or header["exited"], header["seconds"]
    failed = int(exited) != 0 if exited is not None else False if header["running"] else None
    return failed, None if seconds is None else round(float(seconds) * 1000)


def _is_code(code: object) -> bool:
    return isinstance(code, int) and not isinstance(code, bool)


def _end_of(event: Mapping[str, Any]) -> Iterator[tuple[str, tuple[bool | None, int | None]]]:
    """The id of the call that an event ends, whether it failed, and how long it took."""
    call_id = text(event.get("call_id"))
    duration = mapping(event.get("duration"))
    seconds, nanos = whole(duration.get("secs")), whole(duration.get("nanos"))
    elapsed = None if seconds is None else seconds * 1000 + round((nanos or 0) / 1e6)
    result = mapping(event.get("result"))
    failed = None
    if _is_code(event.get("exit_code")):
        failed = event["exit_code"] != 0
    elif isinstance(event.get("success"), bool):
        failed = not event["success"]
    elif "Err" in result:
        failed = True
    elif "Ok" in result:
        failed = mapping(result["Ok"]).get("isError") is True
    if call_id and (failed is not None or elapsed is not None):
        yield call_id, (failed, elapsed)
