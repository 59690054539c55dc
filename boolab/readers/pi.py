"""pi: `~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`; see `docs/session.md` in github.com/badlogic/pi-mono.

OpenClaw keeps the sessions of its agents in the same format, in `~/.openclaw/agents/<agent>/sessions`.

A header line (`type: session`) and one line for each entry: messages, changes of the model, compactions. A message of
the role `assistant` is one response, with all its calls, its usage, cost and `stopReason`; a result is a message of the
role `toolResult`, with `isError`. Input tokens are `input` and those written to and read from the cache. A message
carries the time at which it began, its line that at which it was written.

Sessions of version 2 and 3 are trees: each entry names its parent, and going back to an earlier entry starts a branch.
The run holds the branch that ends with the file's last entry; an event `rewind` says how many steps were left behind.
A parent that is not in the file stands for the line before. Sessions of version 1 have no ids and no branches.

A response with the `stopReason` `aborted` or `error` was broken: why the model stopped is unknown, and its calls never
ran. With no content and no tokens it is no response at all, but an event (`abort`, `fault`). Messages of the roles
`bashExecution` (a command that the user ran), `custom`, `branchSummary` and `compactionSummary` open no turn. OpenClaw
repeats what it delivers to a channel as a response of the model `delivery-mirror`, and writes notices of its own as
`gateway-injected`: neither came from a model, and both are left out.

`parentSession` in a header names the session that this one was forked from: it is no subagent of it. There are no
labels and no limits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from boolab.errors import RunFormatError
from boolab.finish_reasons import finish_reason
from boolab.readers.drafts import Draft
from boolab.readers.lines import (
    Damage,
    Head,
    Warn,
    content_text,
    epoch_ms,
    items,
    json_lines,
    mapping,
    micro,
    one_line,
    text,
    time_ms,
    warn_reader,
    whole,
)
from boolab.readers.talk import Talk
from boolab.types import Run, StopReason, Usage

NAME: Final = "pi"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl",)
PLACES: Final = (
    "$PI_CODING_AGENT_DIR/sessions/**/*.jsonl",
    "~/.pi/agent/sessions/**/*.jsonl",
    "~/.openclaw/agents/*/sessions/*.jsonl",
)
LOOKED_FOR: Final = 'JSON lines: {"type": "session", "id": ..., "cwd": ...}, then {"type": "message", "message": ...}'

_ROLES: Final = frozenset({"user", "assistant", "toolResult"})
_BROKEN: Final = ("aborted", "error")
_NO_MODELS: Final = frozenset({"delivery-mirror", "gateway-injected"})
_TOKENS: Final = ("input", "output", "cacheRead", "cacheWrite")


def sniff(head: Head) -> bool:
    """Whether this is a session of pi: its header, or a result in its words if the header is damaged."""
    return any(_is_header(value) or _is_result(value) for value in head.values)


def _is_header(value: object) -> bool:
    line = mapping(value)
    return line.get("type") == "session" and isinstance(line.get("id"), str) and "cwd" in line and "timestamp" in line


def _is_result(value: object) -> bool:
    line = mapping(value)
    message = mapping(line.get("message"))
    return line.get("type") == "message" and message.get("role") == "toolResult" and "toolCallId" in message


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The run of one file; none if nothing was said in it.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    damage = Damage(path)
    session = _session(path, damage)
    runs = session.runs(path, cut=damage.cut)
    damage.tell(warn, readable=bool(runs))
    if not session.known:
        raise RunFormatError(f"a session of pi is {LOOKED_FOR}", path=path, line=1)
    return runs


def _session(path: Path, damage: Damage) -> _Session:
    """The session, which is told again if it turns out that a branch of it was left."""
    tree = _Tree()
    session = _tell(path, damage, tree)
    left = tree.left()
    return _tell(path, Damage(path), _Tree(), left) if left else session


def _tell(path: Path, damage: Damage, tree: _Tree, left: Collection[int] = ()) -> _Session:
    """The session, without the entries at the places that were `left` behind."""
    session = _Session(damage)
    for number, line in json_lines(path, damage):
        if not isinstance(line, dict):
            damage.note(number, f"a {type(line).__name__} where an object was looked for")
        elif line.get("type") == "session":
            session.open(line)
        elif tree.grow(line) not in left:
            session.take(line)
        else:
            session.leave(line)
    return session


class _Tree:
    """Which entry follows which. Their places are counted from 0, in the order of the file."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._places: dict[str, int] = {}
        self._branches = False

    def grow(self, line: Mapping[str, Any]) -> int:
        """Add an entry; its place."""
        place = len(self._parents)
        before = place - 1
        parent = before
        if "parentId" in line:
            above = line["parentId"]
            parent = -1 if above is None else self._places.get(text(above), before)
        if "id" in line:
            self._places[text(line["id"])] = place
        self._parents.append(parent)
        self._branches = self._branches or parent != before
        return place

    def left(self) -> set[int]:
        """The places of the entries that are not on the way to the last one."""
        if not self._branches:
            return set()
        left = set(range(len(self._parents)))
        place = len(self._parents) - 1
        while place >= 0:
            left.discard(place)
            place = self._parents[place]
        return left


class _Session:
    """One session, told from its start."""

    def __init__(self, damage: Damage) -> None:
        self.talk = Talk(NAME, damage)
        self.id = ""
        self.known = False
        """Whether any line was one of a session."""
        self._left = 0
        self._ending: StopReason | None = None
        self._error: str | None = None

    def open(self, line: Mapping[str, Any]) -> None:
        """Take the header."""
        self.known = True
        self.id = self.id or text(line.get("id"))

    def leave(self, line: Mapping[str, Any]) -> None:
        """Count what was left behind."""
        message = mapping(line.get("message"))
        self._left += message.get("role") == "assistant" and not _is_empty(message) and not _is_echo(message)

    def take(self, line: Mapping[str, Any]) -> None:
        """Take an entry."""
        kind, time = line.get("type"), epoch_ms(line.get("timestamp"))
        if kind == "message":
            self.known = True
            self._go_back(time)
            self._message(mapping(line.get("message")), time)
        elif kind == "compaction":
            self.talk.happened("compaction", time, tokens=whole(line.get("tokensBefore")))
            self._add(text(line.get("summary")), time)
        elif kind == "branch_summary":
            self._go_back(time)
            self._add(text(line.get("summary")), time)
        elif kind == "custom_message":
            self._add(content_text(line.get("content")), time)

    def _go_back(self, time: int | None) -> None:
        if self._left:
            self.talk.happened("rewind", time, steps=self._left)
            self._left = 0

    def _add(self, said: str, time: int | None) -> None:
        if said:
            self.talk.says("user", said, opens=False, time=time)

    def _message(self, message: Mapping[str, Any], time: int | None) -> None:
        role = message.get("role")
        begun = time_ms(message.get("timestamp")) if time is None or role == "assistant" else None
        written = begun if time is None else time
        if role == "assistant":
            self._reply(message, written, begun)
        elif role == "toolResult":
            failed = message.get("isError")
            self.talk.gives(
                text(message.get("toolCallId")),
                content_text(message.get("content")),
                is_error=failed if isinstance(failed, bool) else None,
                time=written,
            )
        elif role == "user":
            self.talk.says("user", content_text(message.get("content")), opens=True, time=written)
        elif role == "system":
            self.talk.says("system", content_text(message.get("content")), opens=False, time=written)
        elif role == "bashExecution":
            self._add(f"$ {text(message.get('command'))}\n{text(message.get('output'))}", written)
        else:
            self._add(text(message.get("summary")) or content_text(message.get("content")), written)

    def _reply(self, message: Mapping[str, Any], time: int | None, begun: int | None) -> None:
        if _is_echo(message):
            return
        stopped = text(message.get("stopReason"))
        why = one_line(text(message.get("errorMessage"))) or stopped
        self._ending, self._error = None, None
        if stopped in _BROKEN:
            self._ending = "error" if stopped == "error" else "aborted"
            self._error = why if stopped == "error" else None
        if _is_empty(message):
            self.talk.happened("fault" if stopped == "error" else "abort", time, what=why)
            return
        draft = self.talk.replies(time, begun, text(message.get("model")))
        draft.usage = _usage(mapping(message.get("usage")))
        if stopped in _BROKEN:
            draft.error = why
        else:
            draft.finish_reason = finish_reason(stopped)
        content = message.get("content")
        for block in [content] if isinstance(content, str) else items(content):
            self._block(draft, block)

    def _block(self, draft: Draft, block: object) -> None:
        part = mapping(block)
        kind = part.get("type")
        if isinstance(block, str) or kind == "text":
            said = block if isinstance(block, str) else text(part.get("text"))
            draft.text += [said] if said.strip() else []
        elif kind == "thinking":
            thought = text(part.get("thinking"))
            draft.reasoning += [thought] if thought.strip() else []
        elif kind == "toolCall":
            self.talk.asks(draft, text(part.get("id")), text(part.get("name")), part.get("arguments"))

    def runs(self, path: Path, *, cut: bool) -> list[Run]:
        """The session's run, if anything was said in it."""
        if self.talk.empty:
            return []
        stop = "aborted" if cut else self._ending
        return [self.talk.run(self.id or path.stem, stop, agent=NAME, error=None if cut else self._error)]


def _is_echo(message: Mapping[str, Any]) -> bool:
    """Whether it is no response of a model, but a gateway's own line."""
    return text(message.get("model")) in _NO_MODELS


def _is_empty(message: Mapping[str, Any]) -> bool:
    """Whether it was broken before anything came."""
    if message.get("content") or message.get("stopReason") not in _BROKEN:
        return False
    usage = mapping(message.get("usage"))
    return not any(whole(usage.get(name)) for name in _TOKENS)


def _usage(usage: Mapping[str, Any]) -> Usage:
    entered, cached = whole(usage.get("input")), whole(usage.get("cacheRead"))
    if entered is not None:
        entered += (cached or 0) + (whole(usage.get("cacheWrite")) or 0)
    return Usage(entered, whole(usage.get("output")), cached, None, micro(mapping(usage.get("cost")).get("total")))
