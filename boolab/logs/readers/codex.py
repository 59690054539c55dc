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

from boolab.core.types import REDACTED, UNKNOWN_USAGE, Run, StopReason, Usage
from boolab.io.json_input import Damage, items, json_object, json_values, mapping, only_objects, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import (
    Head,
    LineLog,
    block_text,
    content_text,
    effort_of,
    epoch_ms,
    named,
    one_line,
    read_lines,
    stem_of,
)
from boolab.logs.step_builder import StepBuilder, openai_arguments, unreadable

NAME: Final = "codex"
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
_TASKS: Final = ("task_started", "task_complete", "turn_started", "turn_complete")
_BUDGETS: Final = ("budget_limited", "session_budget_exceeded")
_HEADER: Final = re.compile(
    r"(?:(?:Exit code: (?P<code>-?\d{1,9})|Process exited with code (?P<exited>-?\d{1,9})"
    r"|Wall time: (?P<seconds>\d{1,9}(?:\.\d{1,9})?) seconds|(?P<running>Process running with session ID) \d+"
    r"|Chunk ID: \w*"
    r"|Original token count: \d+|Total output lines: \d+)(?:\n|\Z))+"
)
_FIGURES: Final = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")
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
_DONE: Final = re.compile(
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
    return read_lines(follow(path, damage), json_values(path, damage))


def follow(path: Path, damage: Damage) -> LineLog:
    """The lines of a rollout, as they are written."""
    rollout = _Rollout(damage)

    def take(number: int, value: object) -> None:
        for _, line in only_objects(_lines_of(number, value), damage):
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
        self._items = _Account(damage)
        self._events: _Account | None = _Account(damage)
        self._meta: Mapping[str, Any] = {}
        self._copied = ""
        """The id of the session whose rollout a fork has copied, by the header in the copy."""
        self._ends: dict[str, tuple[bool | None, int | None]] = {}
        self._spawns: dict[str, StepBuilder] = {}
        """The responses whose calls start subagents, by call."""

    @property
    def account(self) -> _Account:
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
            account.builder.version = named(meta.get("cli_version"))
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

    def _accounts(self) -> list[_Account]:
        return [self._items] if self._events is None else [self._items, self._events]

    def _item(self, kind: str, item: Mapping[str, Any], time: int | None) -> None:
        account = self._items
        if kind in _OUTPUTS:
            self._output(item, item.get(_OUTPUTS[kind]), time)
        elif kind == "agent_message":
            account.add_message(content_text(item.get("content")), time, own=not account.builder.has_prompt)
        elif kind == "message" and item.get("role") != "assistant":
            content = content_text(item.get("content"))
            if item.get("role") == "user":
                account.add_message(content, time, own=not _is_of_harness(content))
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
            thought = [*items(item.get("summary")), *items(item.get("content"))]
            step.reasoning += [block_text(part) for part in thought]
        elif kind in _CALLS:
            given = item.get(_CALLS[kind], REDACTED)
            given = openai_arguments(given) if kind == "function_call" else given
            if kind == "custom_tool_call" and isinstance(given, str) and given.strip() and unreadable(given):
                given = {"input": given}
            call_id, name = text(item.get("call_id")) or text(item.get("id")), _tool(kind, item)
            builder.add_call(step, call_id, name, given)
            if name == _SPAWN:
                self._spawns[call_id] = step
                result = step.results[-1]
                if result is not None:
                    self._spawned(call_id, result.content, time)
        elif kind in _HOSTED:
            call_id = text(item.get("id")) or f"hosted {len(builder.steps)}.{len(step.calls)}"
            given = item.get(_HOSTED[kind], REDACTED)
            given = (
                given
                if isinstance(given, dict) or given == REDACTED
                else {"input": given}
                if str(given or "").strip()
                else REDACTED
            )
            builder.add_call(step, call_id, kind.removesuffix("_call"), given)
            self._items.hosted.add(call_id)
            if item.get("status") not in _UNDER_WAY:
                builder.add_result(call_id, "", is_error=None, time=time)

    def _output(self, item: Mapping[str, Any], output: object, time: int | None) -> None:
        content, flagged = _content_of(output)
        failed, duration = _facts_of(content)
        call_id = text(item.get("call_id"))
        self._spawned(call_id, content, time)
        ended, took = self._ends.pop(call_id, (None, None))
        failed = next((fact for fact in (flagged, failed, ended) if fact is not None), None)
        duration = duration if took is None else took
        account = self._items
        joined = account.builder.add_result(call_id, content, is_error=failed, time=time, duration_ms=duration)
        account.before_early = None if joined else account.step or account.before_early
        account.step = None

    def _spawned(self, call_id: str, content: str, time: int | None) -> None:
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
            self._repeat(kinds.get(text(item.get("type"))), content_text(item.get("content")), time)
        elif kind == "agent_reasoning":
            self._repeat(kind, text(event.get("text")), time)
        elif kind in ("user_message", "agent_message"):
            self._repeat(kind, text(event.get("message")) or ("[image]" if event.get("images") else ""), time)
        else:
            for account in self._accounts():
                account.take(kind, event, time)

    def _repeat(self, kind: str | None, content: str, time: int | None) -> None:
        if kind == "user_message":
            for account in self._accounts():
                account.add_message(content, time, own=True)
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


class _Account:
    """Builds the run of a session, from its items or from its events."""

    def __init__(self, damage: Damage) -> None:
        self.builder = RunBuilder(NAME, damage)
        self.model = ""
        self.step: StepBuilder | None = None
        """The current response."""
        self.before_early: StepBuilder | None = None
        """The response before results that were written before their calls, if nothing else came since."""
        self._joined = False
        """Whether a call of the current response was written after its result."""
        self.hosted: set[str] = set()
        """The calls that the provider executes."""
        self.error = ""
        self._ahead = UNKNOWN_USAGE
        """A usage report that may belong to the next response."""
        self._ending: StopReason | None = None
        self._seen: dict[str, bool] = {}
        self._turns: list[int] = []
        self._reported: Mapping[str, Any] = {}
        self._before: tuple[int, int] | None = None
        """The input and output tokens of the thread before this rollout, which running totals of a fork include."""
        self._total: tuple[int, int] | None = (0, 0)
        """The latest running total; None if totals fell, so that they count no whole session."""
        self._partial = False
        """Whether the totals have more than the responses: those of a compaction, or of turns that were rolled back."""
        self._unreported: list[StepBuilder] = []
        """The aborted responses whose usage was not reported."""
        self._tier: str | None = None

    def open_context(self, context: Mapping[str, Any]) -> None:
        """Take the settings of the responses that follow."""
        self.model = text(context.get("model")) or self.model
        settings = mapping(mapping(context.get("collaboration_mode")).get("settings"))
        self.builder.effort = effort_of(context.get("effort"), settings.get("reasoning_effort"))
        self._tier = named(context.get("service_tier"))
        self.builder.note_origin(cwd=context.get("cwd"))

    def response_of(self, call_id: str, time: int | None) -> StepBuilder:
        """The response of a part that was written now: of the call with this id, or of "" for any other part.

        An output ends a response, but not where it was written before its call.
        """
        early = bool(call_id) and self.builder.has_early_result(call_id)
        if early:
            self.step = self.step or self.before_early
        elif not call_id and self._joined and self.step is not None and self.step.complete:
            self.step = None
        step = self.part(time)
        self._joined = self._joined or early
        return step

    def part(self, time: int | None) -> StepBuilder:
        """The current response, or a new one, for a part that was written now."""
        if self.step is None:
            self.step = self.builder.add_response(time, model=self.model)
            self.step.usage, self._ahead = self._ahead, UNKNOWN_USAGE
            self.step.service_tier = self._tier
            self._ending = self.before_early = None
            self._joined = False
            self._seen = {}
        else:
            self.builder.extend_response(self.step, time)
        return self.step

    def add_message(self, content: str, time: int | None, *, own: bool) -> None:
        """Add a message of the role `user`. An item and an event with the same text are one message."""
        key = content.strip()
        if key.startswith("<turn_aborted>"):
            self._ending = "aborted"
        if not key or self._seen.get(key) in (own, True):
            return
        self._seen[key] = own
        if own:
            self._turns.append(len(self.builder.steps))
        self.builder.add_message("user", content, opens_turn=own, time=time)
        self.step = self.before_early = None

    def add_system(self, content: str, time: int | None) -> None:
        self.builder.add_message("system", content, opens_turn=False, time=time)
        self.step = self.before_early = None

    def compact(self, summary: str, time: int | None) -> None:
        self._ahead = UNKNOWN_USAGE
        self._partial = True
        self.builder.add_event("compaction", time)
        if summary:
            self.builder.add_message("user", summary, opens_turn=False, time=time)

    def count(self, info: Mapping[str, Any]) -> None:
        last = mapping(info.get("last_token_usage"))
        running = mapping(info.get("total_token_usage")) or last
        entered = whole(last.get("input_tokens"))
        if running == self._reported:
            self._settle(running, {})
        if running == self._reported or not entered:
            return
        self._run_on(mapping(info.get("total_token_usage")), last)
        usage = Usage(*(whole(last.get(name)) for name in _FIGURES))
        steps = self.builder.steps
        if self.step is not None or (steps and steps[-1].usage is UNKNOWN_USAGE):
            steps[-1].usage = usage
        else:
            self._ahead = usage
        self._settle(running, last)
        self._reported = running
        self.step = None

    def _run_on(self, running: Mapping[str, Any], last: Mapping[str, Any]) -> None:
        """Note a running total, with the tokens of the response that it came with."""
        now, added = ((whole(one.get("input_tokens")), whole(one.get("output_tokens"))) for one in (running, last))
        entered, left = now
        if self._total is None or entered is None or left is None or entered < self._total[0] or left < self._total[1]:
            self._total = None
            return
        self._total = (entered, left)
        if self._before is None:
            self._before = (max(0, entered - (added[0] or 0)), max(0, left - (added[1] or 0)))

    def state_totals(self, *, forked: bool) -> None:
        """Pass the latest running total to the builder; that of a fork may count responses of its parent."""
        if self._total is not None and self._before is not None:
            entered, left = (after - before for after, before in zip(self._total, self._before, strict=True))
            least = (0, 0) if self._partial or forked else (entered, left)
            self.builder.state("total_token_usage", input_tokens=(least[0], entered), output_tokens=(least[1], left))

    def _settle(self, running: Mapping[str, Any], last: Mapping[str, Any]) -> None:
        """Give aborted responses what the running total grew by beside the last report: often nothing."""
        waiting = [step for step in self._unreported if step.usage is UNKNOWN_USAGE]
        self._unreported = []
        if not waiting or not self._reported:
            return
        now, before, own = ([whole(one.get(name)) for name in _FIGURES] for one in (running, self._reported, last))
        grown = [None if a is None or b is None else a - b - (c or 0) for a, b, c in zip(now, before, own, strict=True)]
        if not any(grown) or (len(waiting) == 1 and all(figure is None or figure >= 0 for figure in grown)):
            for step in waiting:
                step.usage = Usage(*grown)

    def take(self, kind: str, event: Mapping[str, Any], time: int | None) -> None:
        if kind == "turn_aborted":
            reason = text(event.get("reason"))
            self.builder.add_event("abort", time, what=reason)
            self._end("token_budget" if reason in _BUDGETS else "aborted")
        elif kind == "error":
            self._fail(event, time)
        elif kind in _TASKS:
            self.step = None
            if isinstance(event.get("error"), dict):
                self._fail(event["error"], time)
        elif kind == "stream_error":
            self.builder.add_event("retry", time, what=one_line(text(event.get("message"))))
        elif kind == "thread_rolled_back":
            self._roll_back(whole(event.get("num_turns")) or 0, time)

    def _fail(self, event: Mapping[str, Any], time: int | None) -> None:
        self.error = one_line(text(event.get("message")))
        self.builder.add_event("fault", time, what=self.error)
        self._end("token_budget" if event.get("codex_error_info") in _BUDGETS else "error")

    def _end(self, reason: StopReason) -> None:
        self._ending = reason
        self._unreported += [step for step in self.builder.steps[-1:] if step.usage is UNKNOWN_USAGE]
        self._ahead = UNKNOWN_USAGE
        self.step = None

    def _roll_back(self, turns: int, time: int | None) -> None:
        if turns:
            self._partial = True
            kept = self._turns[-turns] if turns <= len(self._turns) else 0
            del self._turns[-turns:]
            self.builder.rewind_to(kept, time)
            self._ending = None
            self.step = None

    def stop(self) -> StopReason:
        if self._ending is not None:
            return self._ending
        last = self.builder.steps[-1:]
        waits = any(call.id not in self.hosted for step in last for call in step.calls)
        return "finished" if last and not waits else "aborted"


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
        took = round(seconds * 1000) if isinstance(seconds, int | float) and whole(seconds) is not None else None
        return (code != 0 if _is_code(code) else None), took
    if _ABORTED.fullmatch(content[:200]):
        return True, None
    header = _HEADER.match(content)
    if header is None:
        return True if _REFUSED.match(content) else False if _DONE.match(content) else None, None
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
    took = None if seconds is None else seconds * 1000 + round((nanos or 0) / 1e6)
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
    if call_id and (failed is not None or took is not None):
        yield call_id, (failed, took)
