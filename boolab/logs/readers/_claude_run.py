"""From the responses and notes of one agent in a session of Claude Code to its run; and how subagents ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from boolab.core.text import count
from boolab.core.types import Image, Stop, StopReason, Usage
from boolab.io.json_input import MAX_LINE, Damage, mapping, parse, text, whole
from boolab.io.packed import open_unpacked
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import block_text, blocks_of, content_text, name_or_none, one_line, read_once
from boolab.logs.readers._claude_stream import ENDED, Ending
from boolab.logs.step_builder import StepBuilder

SOURCE: Final = "claude_code"

_HOUR: Final = "ephemeral_1h_input_tokens"
_FIGURES: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", _HOUR)
_EVENTS: Final = {"interrupted": "abort"} | {kind: kind for kind in ("compaction", "fault", "retry", "rewind")}
_TOOLS_USED: Final = r"(?:<tools-used-before-summary>[^<]*</tools-used-before-summary>\s*)?"  # seen in 2.1.330
_LIMIT_NOTE: Final = re.compile(rf"\s*{_TOOLS_USED}NOTE: this agent stopped at its (\d{{1,9}})-turn limit")
_NOTIFIED: Final = re.compile(r"<summary>[^<]*stopped at its (\d{1,9})-turn limit \(partial result")
_TASK: Final = re.compile(r"<task-id>([^<]+)</task-id>")
_CALL_ID: Final = re.compile(r"<tool-use-id>([^<]+)</tool-use-id>")
_AGENT: Final = re.compile(r"agentId: (\w+)")
_ENDINGS: Final = (b"-turn limit", b"<task-id>", b'"agentId"')
"""Each line about the end of a subagent has one of these."""


class Reply(StepBuilder):
    """A response, with its position in the session."""

    stopped: str | None = None
    """The reason that the log gives for its end."""
    cut: bool = False
    """Whether the log marks it as interrupted."""
    broken: bool = False
    """Whether it was interrupted."""
    counted: Mapping[str, Any] = MappingProxyType({})
    """The usage that its last line has."""
    missed: Mapping[str, Any] = MappingProxyType({})
    """Why the cache did not have the prompt, by the provider (2.1.220, 2.1.28x); `none` if it had."""
    left: SessionNote | None = None
    """The event of the rewind that left it, if it is on a branch that the session rewound from."""

    def __init__(self, index: int, start: int | None) -> None:
        super().__init__(start)
        self.place = index
        self.sums: dict[str, int] = {}
        self.places: dict[int, tuple[int, int | None]] = {}
        """The line that each of its blocks is in, and when that was written, by a digest of the block."""

    def count(self, usage: Mapping[str, Any]) -> None:
        """Keep the largest of each figure: every line of a response repeats its usage."""
        if usage == self.counted:
            return
        self.counted = usage
        sums, figures = self.sums, {**usage, _HOUR: mapping(usage.get("cache_creation")).get(_HOUR)}
        for name in _FIGURES:
            figure = whole(figures.get(name))
            if figure is not None and figure >= sums.get(name, 0):
                sums[name] = figure
        entered = sums.get("input_tokens")
        if entered is not None:
            entered += sums.get("cache_creation_input_tokens", 0) + sums.get("cache_read_input_tokens", 0)
        self.usage = Usage(
            entered,
            sums.get("output_tokens"),
            sums.get("cache_read_input_tokens"),
            cache_write_tokens=sums.get("cache_creation_input_tokens"),
            cache_write_1h_tokens=sums.get(_HOUR),
        )


class SessionNote(NamedTuple):
    """A message or an event between responses."""

    kind: str
    place: int
    time: int | None
    text: str = ""
    payload: Mapping[str, Any] = MappingProxyType({})
    images: tuple[Image, ...] = ()


class StartedAgent(NamedTuple):
    """A subagent that a call started: its run, None if unknown, and its name."""

    run_id: str | None
    agent: str


class SubagentEnd(NamedTuple):
    """The end of a subagent, by a limit on its turns or (None) in another way."""

    owner: str
    call_id: str
    limit: int | None
    completed: bool = False
    """Whether it ended by itself, with a text that is not in the log."""


class SessionBranch:
    """The branch with which a session continued, as a run that is built."""

    def __init__(self, damage: Damage, entries: Iterable[Reply | SessionNote]) -> None:
        self.builder = RunBuilder(SOURCE, checked=damage)
        self.replies: list[Reply] = []
        self.ending: Literal["aborted", "error"] | None = None
        self.error = ""
        self.cap: int | None = None
        """The limit on turns that stopped it, if one did."""
        self.stopped: Ending | None = None
        """How it ended by its result, if not by itself."""
        self._prompted = False
        """Whether a prompt came since the last response."""
        for entry in entries:
            if isinstance(entry, Reply):
                self._add_reply(entry)
            else:
                self._add_note(entry)
        for reply in self.replies:
            if reply.finish_reason is None and not reply.broken:
                reply.finish_reason = "tool_calls" if reply.calls else "stop"

    def _add_reply(self, reply: Reply) -> None:
        reply.finish_reason, reply.broken = reply.stopped, reply.cut  # lines that followed may have changed them
        self.builder.append(reply)
        if (reason := name_or_none(reply.missed.get("type"))) not in (None, "none"):
            tokens = whole(reply.missed.get("cache_missed_input_tokens"))
            self.builder.add_step_event(reply, "cache_miss", reply.responded, reason=reason, tokens=tokens)
        self.replies.append(reply)
        self._prompted = False
        self.ending = self.cap = self.stopped = None

    def _add_note(self, note: SessionNote) -> None:
        last = self.replies[-1] if self.replies else None
        # The session of a teammate begins with a notice.
        opens = note.kind == "prompt" or (note.kind == "notice" and last is None and not self.builder.has_prompt)
        if note.kind in _EVENTS:
            self.builder.add_event(_EVENTS[note.kind], note.time, **(note.payload or {"what": note.text}))
        if note.kind == "cap":
            self.cap = note.payload["cap"]
            return
        if note.kind == "stopped":
            self._stop(note.payload["ending"])
            return
        if note.kind == "fault":
            self.ending, self.error = "error", one_line(note.text)
            return
        if note.kind == "interrupted":
            self.ending = "aborted"
            if last is not None and not self._prompted and not last.calls:
                last.broken = True
        elif opens:
            self._prompted = self.builder.has_prompt = True
            self.builder.open_turn()
        elif note.kind == "command" and last is not None and not last.calls:
            self.builder.open_turn()
        if note.text:
            self.builder.add_message("user", note.text, opens_turn=opens, images=note.images)

    def _stop(self, ending: Ending) -> None:
        """Note how it ended by its result: an error or an interruption that the stream reported before stays."""
        if ending.reason not in {"error", "aborted"}:
            self.stopped = ending
        elif self.ending is None:
            self.ending, self.error = "error" if ending.reason == "error" else "aborted", ending.words

    def stop(self, end: SubagentEnd | None) -> tuple[StopReason | Stop, dict[str, int | None]]:
        """How it stopped, and its limits; `end` is how its parent reports that it ended."""
        cap = self.cap if end is None or end.limit is None else end.limit
        stop: StopReason | Stop = self._stop_reason()
        last = self.replies[-1] if self.replies else None
        if end is not None and end.completed and self.ending is None and last is not None and last.complete:
            stop = "finished"
        cost = None
        if self.stopped is not None:
            reason, _, rule, cost, value = self.stopped
            stop = self.builder.stop(reason, rule, cost, value)
        if cap is not None:  # turns are responses since the subagent's last prompt
            steps = self.builder.steps
            turn = sum(step.turn == steps[-1].turn for step in steps)
            stop = self.builder.stop("step_cap", f"maxTurns({cap})", cap, max(cap, turn))
        return stop, {"steps": cap, "cost": cost}

    def _stop_reason(self) -> StopReason:
        if self.ending is not None:
            return self.ending
        return "aborted" if self.replies and self.replies[-1].broken else self.builder.stop_reason()

    def add_subagents(self, subagents: Mapping[str, Sequence[StartedAgent]], ends: Sequence[SubagentEnd]) -> None:
        """Add events for the subagents that calls started, and for those that their limit on turns stopped."""
        if not subagents and all(end.limit is None for end in ends):
            return
        callers = {call.id: reply for reply in self.replies for call in reply.calls}
        for reply in self.replies:
            for call in reply.calls:
                for child in subagents.get(call.id, ()):
                    self.builder.add_subagent(reply, call.id, *child)
        for owner, call_id, limit, _ in ends:
            if limit is not None and call_id in callers:
                note = f"the subagent {owner} was stopped at its limit of {count(limit, 'turn')}: its result is partial"
                self.builder.add_step_event(callers[call_id], "fault", what=note)


def ends_of_subagents(line: Mapping[str, Any]) -> Iterator[SubagentEnd]:
    """The ends of subagents in a user's line: in the results of the calls that started them, and in notifications."""
    content = mapping(line.get("message")).get("content")
    facts = mapping(line.get("toolUseResult"))
    for block in blocks_of(content):
        part = mapping(block)
        if part.get("type") == "tool_result":
            body = content_text(part.get("content"))
            note, agent = _LIMIT_NOTE.match(body), _AGENT.search(body)
            owner = text(facts.get("agentId")) or (agent[1] if note and agent else "")
            completed = facts.get(ENDED) is True and not note
            if note or (owner and ("totalToolUseCount" in facts or completed)):
                yield SubagentEnd(owner, text(part.get("tool_use_id")), int(note[1]) if note else None, completed)
            continue
        body = block_text(block).lstrip()
        task = _TASK.search(body) if body.startswith("<task-notification>") else None
        if task:
            limit, call = _NOTIFIED.search(body), _CALL_ID.search(body)
            yield SubagentEnd(task[1].strip(), call[1].strip() if call else "", int(limit[1]) if limit else None)


@read_once
def ends_in(path: Path) -> dict[str, SubagentEnd]:
    """The ends of subagents, by their ids, from the file of their session. The last one of each counts."""
    endings: dict[str, SubagentEnd] = {}
    with open_unpacked(path) as file:
        while data := file.readline(MAX_LINE):
            if not any(word in data for word in _ENDINGS):
                continue
            try:
                line = mapping(parse(data))
            except ValueError:
                continue
            if line.get("type") == "user":
                endings |= {ending.owner: ending for ending in ends_of_subagents(line)}
    return endings
