"""Codex: `~/.codex/sessions/<year>/<month>/<day>/rollout-*.jsonl`; see `codex-rs/protocol` in github.com/openai/codex.

Lines of `{timestamp, type, payload}`. `response_item` lines are what went to the model and came from it; `event_msg`
lines tell a user interface the same once more, and more besides. Rollouts of 2025's first half have the items and the
header (`session_meta`) as bare lines; those of the first, TypeScript version are one object, `{session, items}`.

Nothing says where a response ends. A step begins with the first item of the model (a message, reasoning, a call) after
a result, a message of somebody else, a usage report or the end of a task. Items decide; where a rollout has none of
the model (as in some of reviews), events are read in their place.

Usage comes as `token_count` events, each written twice or more: one whose running total has not moved is a repetition.
`last_token_usage` is that of one response. It stands behind the response's items and goes to the latest step; up to
the end of 2025 it stood before them, so that one which finds the latest step counted already goes to the next, unless
a compaction comes between. Cached input is inside the input, reasoning inside the output.

Messages of the role `user` are also what Codex puts in itself: the surroundings, `AGENTS.md`, notices. Those are
recognised by the tag around them or by how they begin, and open no turn; a `user_message` event always does. A message
of another agent opens the first turn only.

Results of commands begin with lines of Codex's own: an exit code other than 0 is an error. So is what was aborted, and
what an `exec_command_end`, `patch_apply_end` or `mcp_tool_call_end` event calls one. Of all other results nobody knows.
A call without a result was aborted, and dropped. Searches and images that the provider makes within a response
(`web_search_call`, `image_generation_call`) have no result of their own: they count as done, with an empty one.
The text input of a custom tool such as `apply_patch` is kept as `{"input": ...}`, which is how the same tool takes it
where it is a function. Tools in a namespace are named `<namespace>__<tool>`.

`turn_aborted` ends a run as aborted, or by its token budget (`budget_limited`); `error` as an error, or by its token
budget (`session_budget_exceeded`): which one is not written. `thread_rolled_back` leaves turns behind (event
`rewind`). Subagents have rollouts of their own that name their thread's parent, except those of reviews.

There are no finish reasons, costs or labels, and no cap on steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from boolab.errors import RunFormatError
from boolab.readers.codex_outputs import content_of, end_of, facts_of
from boolab.readers.drafts import Draft, unreadable
from boolab.readers.lines import (
    Damage,
    Head,
    Warn,
    block_text,
    content_text,
    epoch_ms,
    items,
    json_values,
    mapping,
    one_line,
    parse,
    text,
    warn_reader,
    whole,
)
from boolab.readers.talk import Talk
from boolab.types import UNKNOWN_USAGE, Run, StopReason, Usage

NAME: Final = "codex"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl", ".json")
PLACES: Final = (
    "$CODEX_HOME/sessions/**/*.jsonl",
    "~/.codex/sessions/**/*.jsonl",
    "$CODEX_HOME/archived_sessions/*.jsonl",
    "~/.codex/archived_sessions/*.jsonl",
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
_TAG: Final = re.compile(r"\s*<([\w-]++)[^<>\n]*+>")  # possessive: a name that nothing closes is tried once
_PUT_IN: Final = ("# AGENTS.md instructions", "Warning: ")
_SPAWN: Final = "spawn_agent"
_UNDER_WAY: Final = ("in_progress", "incomplete", "searching", "generating")
_TASKS: Final = ("task_started", "task_complete", "turn_started", "turn_complete")
_BUDGETS: Final = ("budget_limited", "session_budget_exceeded")


def sniff(head: Head) -> bool:
    """Whether this is a rollout of Codex, of any age."""
    if isinstance(head.first.get("items"), list):
        session = mapping(head.first.get("session"))
        return "id" in session and "timestamp" in session
    return any(_is_line(value) for value in head.values) or (_is_bare_header(head.first) and _has_items(head))


def _is_line(value: object) -> bool:
    line = mapping(value)
    return isinstance(line.get("payload"), dict) and text(line.get("type")) in _LINES


def _is_bare_header(line: Mapping[str, Any]) -> bool:
    return "type" not in line and isinstance(line.get("id"), str) and "timestamp" in line and "instructions" in line


def _has_items(head: Head) -> bool:
    lines = [mapping(value) for value in head.values[1:]]
    return all("record_type" in line or text(line.get("type")) in _ITEMS for line in lines if line)


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The run of one rollout; none if nothing was said in it.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    damage = Damage(path)
    rollout = _Rollout(damage)
    for number, line in _lines(path, damage):
        if isinstance(line, dict):
            rollout.take(line)
        else:
            damage.note(number, f"a {type(line).__name__} where an object was looked for")
    runs = rollout.runs(path, cut=damage.cut)
    damage.tell(warn, readable=bool(runs))
    if not rollout.known:
        raise RunFormatError(f"a rollout of Codex is {LOOKED_FOR}", path=path, line=1)
    return runs


def _lines(path: Path, damage: Damage) -> Iterator[tuple[int, Any]]:
    """The lines of a rollout; for the first version, its header and its items."""
    for number, value in json_values(path, damage):
        if isinstance(value, dict) and "items" in value and "session" in value:
            yield number, value["session"]
            for item in items(value["items"]):
                yield number, item
        else:
            yield number, value


class _Rollout:
    """The lines of one file."""

    def __init__(self, damage: Damage) -> None:
        self.known = False
        """Whether any line was one of a rollout."""
        self._items = _Account(damage)
        self._events: _Account | None = _Account(damage)
        self._meta: Mapping[str, Any] = {}
        self._ends: dict[str, tuple[bool | None, int | None]] = {}
        self._spawns: dict[str, Draft] = {}
        """The responses whose calls are to start subagents, by call."""

    @property
    def account(self) -> _Account:
        """What tells the session: the items, unless only events do."""
        if self._events is None or self._items.talk.drafts or not self._events.talk.drafts:
            return self._items
        return self._events

    def take(self, line: Mapping[str, Any]) -> None:
        """Take one line."""
        kind = text(line.get("type"))
        payload = line.get("payload")
        if isinstance(payload, dict) and kind in _LINES:
            self.known = True
            self._take(kind, payload, epoch_ms(line.get("timestamp")))
        elif kind in _ITEMS:
            self.known = True
            self._item(kind, line, epoch_ms(line.get("timestamp")))
        elif not kind and "id" in line and "timestamp" in line:
            self.known = True
            self._meta = self._meta or line

    def _take(self, kind: str, payload: Mapping[str, Any], time: int | None) -> None:
        if kind == "response_item":
            self._item(text(payload.get("type")), payload, time)
        elif kind == "event_msg":
            self._event(text(payload.get("type")), payload, time)
        elif kind == "session_meta":
            self._meta = self._meta or payload
        elif kind == "turn_context":
            for account in self._accounts():
                account.model = text(payload.get("model")) or account.model
        else:
            summary = text(payload.get("message"))
            for account in self._accounts():
                account.compacts(summary, time)

    def _accounts(self) -> list[_Account]:
        return [self._items] if self._events is None else [self._items, self._events]

    def _item(self, kind: str, item: Mapping[str, Any], time: int | None) -> None:
        account = self._items
        if kind in _OUTPUTS:
            self._output(item, item.get(_OUTPUTS[kind]), time)
        elif kind == "agent_message":
            account.says(content_text(item.get("content")), time, own=not account.talk.asked)
        elif kind == "message" and item.get("role") != "assistant":
            said = content_text(item.get("content"))
            if item.get("role") == "user":
                account.says(said, time, own=not _is_put_in(said))
            else:
                account.hears(said, time)
        elif kind in _ITEMS:
            self._events = None
            self._part(kind, item, account.part(time), time)

    def _part(self, kind: str, item: Mapping[str, Any], draft: Draft, time: int | None) -> None:
        talk = self._items.talk
        if kind == "message":
            draft.text.append(content_text(item.get("content")))
        elif kind == "reasoning":
            thought = [*items(item.get("summary")), *items(item.get("content"))]
            draft.reasoning += [block_text(part) for part in thought]
        elif kind in _CALLS:
            given = item.get(_CALLS[kind])
            if kind == "custom_tool_call" and isinstance(given, str) and unreadable(given):
                given = {"input": given}
            call_id, name = text(item.get("call_id")) or text(item.get("id")), _tool(kind, item)
            talk.asks(draft, call_id, name, given)
            if name == _SPAWN:
                self._spawns[call_id] = draft
        elif kind in _HOSTED:
            call_id = text(item.get("id")) or f"hosted {len(talk.drafts)}.{len(draft.calls)}"
            given = item.get(_HOSTED[kind])
            talk.asks(
                draft, call_id, kind.removesuffix("_call"), given if isinstance(given, dict) else {"input": given}
            )
            self._items.hosted.add(call_id)
            if item.get("status") not in _UNDER_WAY:
                talk.gives(call_id, "", is_error=None, time=time)

    def _output(self, item: Mapping[str, Any], output: object, time: int | None) -> None:
        content, told = content_of(output)
        failed, duration = facts_of(content)
        call_id = text(item.get("call_id"))
        spawned = _parsed(content) if call_id in self._spawns else {}
        if text(spawned.get("agent_id")):
            self._items.talk.starts(self._spawns.pop(call_id), call_id, text(spawned.get("agent_id")), time=time)
        ended, took = self._ends.pop(call_id, (None, None))
        known = (told, failed, ended)
        self._items.talk.gives(
            call_id,
            content,
            is_error=next((fact for fact in known if fact is not None), None),
            time=time,
            duration_ms=duration if took is None else took,
        )
        self._items.draft = None

    def _event(self, kind: str, event: Mapping[str, Any], time: int | None) -> None:
        if kind == "token_count":
            for account in self._accounts():
                account.counts(mapping(event.get("info")))
        elif kind.endswith("_end"):
            self._ends.update(end_of(event))
        elif kind == "item_completed":
            item = mapping(event.get("item"))
            said = content_text(item.get("content"))
            self._told(
                {"UserMessage": "user_message", "AgentMessage": "agent_message"}.get(text(item.get("type"))), said, time
            )
        elif kind == "agent_reasoning":
            self._told(kind, text(event.get("text")), time)
        elif kind in ("user_message", "agent_message"):
            self._told(kind, text(event.get("message")) or ("[image]" if event.get("images") else ""), time)
        else:
            for account in self._accounts():
                account.happened(kind, event, time)

    def _told(self, kind: str | None, said: str, time: int | None) -> None:
        if kind == "user_message":
            for account in self._accounts():
                account.says(said, time, own=True)
        elif kind is not None and self._events is not None:
            draft = self._events.part(time)
            (draft.text if kind == "agent_message" else draft.reasoning).append(said)

    def runs(self, path: Path, *, cut: bool) -> list[Run]:
        """The session's run, if anything was said in it."""
        account = self.account
        if account.talk.empty:
            return []
        run_id = text(self._meta.get("id")) or path.stem
        agent, parent = _origin(self._meta)
        stop = "aborted" if cut else account.stop()
        error = account.error if stop == "error" else None
        parent = None if parent == run_id else parent
        return [account.talk.run(run_id, stop, agent=agent, parent_run_id=parent, error=error)]


class _Account:
    """One telling of a session: by its items, or by its events."""

    def __init__(self, damage: Damage) -> None:
        self.talk = Talk(NAME, damage)
        self.model = ""
        self.draft: Draft | None = None
        """The response that is being told."""
        self.hosted: set[str] = set()
        """The calls that the provider answers itself."""
        self.error = ""
        self._ahead = UNKNOWN_USAGE
        """A usage report that stands before its response, as far as is known yet."""
        self._ending: StopReason | None = None
        self._said: dict[str, bool] = {}
        self._turns: list[int] = []
        self._reported: Mapping[str, Any] = {}

    def part(self, time: int | None) -> Draft:
        """The response that a part belongs to: the one that is being told, or a new one."""
        if self.draft is None:
            self.draft = self.talk.replies(time, model=self.model)
            self.draft.usage, self._ahead = self._ahead, UNKNOWN_USAGE
            self._ending = None
            self._said = {}
        else:
            self.talk.goes_on(self.draft, time)
        return self.draft

    def says(self, said: str, time: int | None, *, own: bool) -> None:
        """A message in the user's name. An item and an event that tell of the same one are one."""
        key = said.strip()
        if key.startswith("<turn_aborted>"):
            self._ending = "aborted"
        if not key or self._said.get(key) in (own, True):
            return
        self._said[key] = own
        if own:
            self._turns.append(len(self.talk.drafts))
        self.talk.says("user", said, opens=own, time=time)
        self.draft = None

    def hears(self, said: str, time: int | None) -> None:
        """A message of the developer or the system."""
        self.talk.says("system", said, opens=False, time=time)
        self.draft = None

    def compacts(self, summary: str, time: int | None) -> None:
        """The history was replaced by a summary."""
        self._ahead = UNKNOWN_USAGE
        self.talk.happened("compaction", time)
        if summary:
            self.talk.says("user", summary, opens=False, time=time)

    def counts(self, info: Mapping[str, Any]) -> None:
        """A usage report."""
        last = mapping(info.get("last_token_usage"))
        running = mapping(info.get("total_token_usage")) or last
        entered = whole(last.get("input_tokens"))
        if running == self._reported or not entered:
            return
        self._reported = running
        figures = (
            whole(last.get(name)) for name in ("output_tokens", "cached_input_tokens", "reasoning_output_tokens")
        )
        usage = Usage(entered, *figures)
        drafts = self.talk.drafts
        if self.draft is not None or (drafts and drafts[-1].usage is UNKNOWN_USAGE):
            drafts[-1].usage = usage
        else:
            self._ahead = usage
        self.draft = None

    def happened(self, kind: str, event: Mapping[str, Any], time: int | None) -> None:
        """Anything else that an event tells of."""
        if kind == "turn_aborted":
            reason = text(event.get("reason"))
            self.talk.happened("abort", time, what=reason)
            self._ends_by("token_budget" if reason in _BUDGETS else "aborted")
        elif kind == "error":
            self._fails(event, time)
        elif kind in _TASKS:
            self.draft = None
            if isinstance(event.get("error"), dict):
                self._fails(event["error"], time)
        elif kind == "stream_error":
            self.talk.happened("retry", time, what=one_line(text(event.get("message"))))
        elif kind == "thread_rolled_back":
            self._rolls_back(whole(event.get("num_turns")) or 0, time)

    def _fails(self, event: Mapping[str, Any], time: int | None) -> None:
        self.error = one_line(text(event.get("message")))
        self.talk.happened("fault", time, what=self.error)
        self._ends_by("token_budget" if event.get("codex_error_info") in _BUDGETS else "error")

    def _ends_by(self, reason: StopReason) -> None:
        self._ending = reason
        self._ahead = UNKNOWN_USAGE
        self.draft = None

    def _rolls_back(self, turns: int, time: int | None) -> None:
        if turns:
            kept = self._turns[-turns] if turns <= len(self._turns) else 0
            del self._turns[-turns:]
            self.talk.rewinds(kept, time)
            self._ending = None
            self.draft = None

    def stop(self) -> StopReason:
        """Why it ended: what happened last decides."""
        if self._ending is not None:
            return self._ending
        last = self.talk.drafts[-1:]
        waits = any(call.id not in self.hosted for draft in last for call in draft.calls)
        return "finished" if last and not waits else "aborted"


def _is_put_in(said: str) -> bool:
    """Whether a message in the user's name is one of Codex's own."""
    if said.lstrip().startswith(_PUT_IN):
        return True
    tag = _TAG.match(said)
    end = said.rstrip()[-100:]
    return tag is not None and end.endswith(">") and f"</{tag[1]}" in end


def _parsed(content: str) -> Mapping[str, Any]:
    """The JSON object that a result holds; an empty one if it holds none."""
    try:
        return mapping(parse(content.encode("utf-8", "surrogatepass")))
    except ValueError:
        return {}


def _tool(kind: str, item: Mapping[str, Any]) -> str:
    if kind in ("function_call", "custom_tool_call"):
        space, name = text(item.get("namespace")), text(item.get("name"))
        return f"{space.rstrip('_')}__{name.lstrip('_')}" if space else name
    return kind.removesuffix("_call")


def _origin(meta: Mapping[str, Any]) -> tuple[str, str | None]:
    """The agent's name, and the run that it is a subagent of."""
    above = text(meta.get("parent_thread_id"))
    source = mapping(meta.get("source")).get("subagent")
    if source is None:
        return NAME, None
    spawn = mapping(mapping(source).get("thread_spawn"))
    kind = text(source) or text(mapping(source).get("other")) or "subagent"
    agent = text(meta.get("agent_role")) or text(spawn.get("agent_role")) or kind
    return agent, text(spawn.get("parent_thread_id")) or above or None
