"""Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`, its subagents' files, and exports of sessions as JSON.

Lines and steps
---------------
Each content block of a response is one line. All lines with the same `message.id` are one step. The largest of each
usage figure counts, because figures grow from line to line. A result may be between two of these lines. `progress`
lines repeat the subagents' files, and are skipped.

Prompts open turns. These are no prompts: tool results, lines from the harness (`isMeta`), reminders, notices of an
interruption, summaries of a compaction, and command lines. A command that the model answers opens a turn, unless the
turn before it still has open calls.

Input tokens are `input_tokens` and those written to and read from the cache. A result without `is_error` is no error:
that is the API's default, and Claude Code sets the flag for every failure. A call that the user, a rule of the settings
or a hook rejected was never executed, so it has no result; its answer is an event. Most responses have no
`stop_reason`: then it is `tool_calls` if the response has calls, else `stop`, and unknown if it was interrupted.

Sessions, branches and subagents
--------------------------------
A file is usually one session, but a resumed session may begin with lines under the older session's id. A line belongs
to the session of its parent line; without a parent, to the session that it names. If a file has lines of several
sessions, each is a run.

A session is a tree: rewinding to an earlier prompt starts a branch. The run has the branch with which the session
continued, and an event `rewind` counts the steps on the other one. Only prompts start branches, because parallel calls
fork the tree too.

Each subagent is a run, by its `agentId`: from `<session>/subagents/agent-*.jsonl`, from `agent-*.jsonl` beside the
session, or from `isSidechain` lines in it. Files `agent-acompact-*` are calls of a compaction, and no runs. The result
of a call names the subagent that the call started (`toolUseResult.agentId`); in older sessions the call with the
subagent's prompt started it.

A limit on turns may stop a run. In the run's own lines this is an attachment `max_turns_reached`. For a subagent, the
parent has "stopped at its N-turn limit" (since 2.1.246) in the call's result or in a notification; the last one counts,
because a subagent may get another prompt. Such a turn is a response, so the limit is one on steps.

The messages that `claude -p` prints are read too: see `boolab.logs.readers._claude_stream`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from boolab.core.finish_reasons import finish_reason
from boolab.core.text import count
from boolab.core.types import REDACTED, UNKNOWN_USAGE, Run, Stop, StopReason, ToolCall, ToolResult, Usage
from boolab.errors import RunFormatError
from boolab.io.json_input import (
    MAX_LINE,
    Damage,
    begins_json,
    items,
    json_document,
    json_lines,
    json_object,
    json_text,
    mapping,
    only_objects,
    parse,
    text,
    whole,
)
from boolab.io.packed import unpacked
from boolab.logs.builder import OpenCalls, RunBuilder, StepBuilder, arguments_text, goes_back, unreadable
from boolab.logs.fields import (
    Head,
    LineLog,
    block_text,
    blocks_of,
    content_text,
    effort_of,
    epoch_ms,
    named,
    one_line,
    read_lines,
    stem_of,
)
from boolab.logs.readers._claude_stream import (
    ENDED,
    STOPPED,
    Ending,
    StreamLines,
    is_stream_line,
    is_stream_result,
    state_result,
)
from boolab.logs.readers._sidecars import read_once, sidecar

NAME: Final = "claude_code"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl", ".json")
TESTED: Final = "2.1"
PLACES: Final = ("$CLAUDE_CONFIG_DIR/projects/**/*.jsonl", "~/.claude/projects/**/*.jsonl")
LOOKED_FOR: Final = (
    'JSON lines with a "type" (user, assistant, ...) and a "sessionId", {"loglines": [...]}, or lines or a list as '
    "claude -p --output-format stream-json prints them"
)

_TYPES: Final = {"user", "assistant", "system", "progress", "queue-operation", "attachment"}
_KINDS: Final = frozenset((
    *_TYPES, "agent-color", "agent-name", "agent-setting", "ai-title", "atis-latch", "attribution-snapshot",
    "auth_status", "bridge-session", "content-replacement", "control_request", "control_response", "custom-title",
    "file-history-snapshot", "fork-context-ref", "frame-link", "keep_alive", "last-prompt", "mode", "permission-mode",
    "pr-link", "prompt_suggestion", "rate_limit_event", "relocated", "result", "speculation-accept", "started",
    "stream_event", "streamlined_text", "summary", "tag", "task-summary", "tool_progress", "tool_use_summary",
    "worktree-state",
))  # fmt: skip
"""The types of lines that are known, also those that are left out."""
_INTERRUPTED: Final = "[Request interrupted by user"
_HARNESS: Final = (
    "<local-command-caveat>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<system-reminder>",
    "Caveat: The messages below were generated by the user while running local commands.",
)
_COMMANDS: Final = ("<command-name>", "<command-message>", "<command-args>", "<bash-input>", "<task-notification>")
_HOUR: Final = "ephemeral_1h_input_tokens"
_FIGURES: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", _HOUR)
_EVENTS: Final = {"interrupted": "abort"} | {kind: kind for kind in ("compaction", "fault", "retry", "rewind")}
_DELEGATES: Final = ("Task", "Agent")
"""The tools that start subagents."""
_SUBAGENTS: Final = "subagents"
_WORKFLOWS: Final = "workflows"
_COMPACTION: Final = "acompact"
_TOOLS_USED: Final = r"(?:<tools-used-before-summary>[^<]*</tools-used-before-summary>\s*)?"  # seen in 2.1.330
_NOTED: Final = re.compile(rf"\s*{_TOOLS_USED}NOTE: this agent stopped at its (\d{{1,9}})-turn limit")
_NOTIFIED: Final = re.compile(r"<summary>[^<]*stopped at its (\d{1,9})-turn limit \(partial result")
_TASK: Final = re.compile(r"<task-id>([^<]+)</task-id>")
_CALLED: Final = re.compile(r"<tool-use-id>([^<]+)</tool-use-id>")
_AGENT: Final = re.compile(r"agentId: (\w+)")
_ENDINGS: Final = (b"-turn limit", b"<task-id>", b'"agentId"')
"""Each line about the end of a subagent has one of these."""
_SYNTHETIC: Final = "<synthetic>"
_REJECTED: Final = "User rejected tool use"
_MAX_COPIED: Final = 32
"""How many lines before a copy are compared with those before the original."""


def sniff(head: Head) -> bool:
    """Whether this is a session of Claude Code, an export of one, or its messages as it prints them."""
    listed = items(head.values[0]) if head.values else ()
    lines = (*head.values, *listed)
    return isinstance(head.first.get("loglines"), list) or any(_is_line(one) or is_stream_line(one) for one in lines)


def _is_line(line: object) -> bool:
    if not isinstance(line, dict):
        return False
    kind = text(line.get("type"))
    if kind in ("file-history-snapshot", "summary"):
        return "snapshot" in line or "leafUuid" in line
    if kind not in _TYPES or "sessionId" not in line:
        return False
    message = line.get("message")
    if kind in ("user", "assistant"):
        return isinstance(message, dict) and "content" in message
    return "isSidechain" in line or "operation" in line


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file: the session, and the subagents whose lines are in it."""
    return read_lines(follow(path, damage), _lines(path, damage))


def follow(path: Path, damage: Damage) -> LineLog:
    """The lines of a session, as they are written."""
    session, stream = _Session(path, damage), StreamLines()

    def take(number: int, value: object) -> None:
        if isinstance(value, str):
            return
        for _, line in only_objects(((number, value),), damage):
            damage.note_kind(text(line.get("type")), _KINDS)
            version = line.get("version") or line.get("claude_code_version")
            if isinstance(version, str):
                damage.versions.add(version)
            session.take(stream.native(line))
            if is_stream_result(line):
                session.results.append(line)

    return LineLog(damage, take, list if path.name.startswith("agent-acompact-") else session.runs)


def _lines(path: Path, damage: Damage) -> Iterator[tuple[int, Any]]:
    """The lines of a session, from JSON Lines, from the one object of an export or from one list."""
    with unpacked(path) as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"[") and begins_json(start):
        yield from enumerate(items(json_document(path, damage)), 1)
        return
    if not (start.startswith(b"{") and start[1:].lstrip().startswith(b'"loglines"')):
        yield from json_lines(path, damage)
        return
    document = json_document(path, damage)
    if not isinstance(document, dict) or not isinstance(document.get("loglines"), list):
        msg = 'an export of Claude Code holds its lines under "loglines"'
        raise RunFormatError(msg, path=path, line=1)
    yield from enumerate(document["loglines"], 1)


@dataclass(slots=True, eq=False)
class _Reply(StepBuilder):
    """A response, with its position in the session."""

    place: int = 0
    stopped: str | None = None
    """The reason that the log gives for its end."""
    cut: bool = False
    """Whether the log marks it as interrupted."""
    broken: bool = False
    """Whether it was interrupted."""
    sums: dict[str, int] = field(default_factory=dict)
    counted: Mapping[str, Any] = field(default_factory=dict)
    """The usage that its last line has."""
    places: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    """The line that each of its blocks is in, and when that was written, by a digest of the block."""
    left: _Note | None = None
    """The event of the rewind that left it, if it is on a branch that the session rewound from."""

    def count(self, usage: Mapping[str, Any]) -> None:
        """Keep the largest of each figure: every line of a response repeats its usage."""
        if usage == self.counted:
            return
        self.counted = usage
        given = {**usage, _HOUR: mapping(usage.get("cache_creation")).get(_HOUR)}
        for name in _FIGURES:
            figure = whole(given.get(name))
            if figure is not None and figure >= self.sums.get(name, 0):
                self.sums[name] = figure

    def finish(self) -> None:
        sums = self.sums
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
        if self.finish_reason is None and not self.broken:
            self.finish_reason = "tool_calls" if self.calls else "stop"


class _Note(NamedTuple):
    """A message or an event between responses."""

    kind: str
    place: int
    time: int | None
    text: str = ""
    payload: Mapping[str, Any] = MappingProxyType({})


class _Session:
    """The lines of one file, sorted into the session and its subagents."""

    def __init__(self, path: Path, damage: Damage) -> None:
        self.path = path
        self._damage = damage
        self.chains: dict[tuple[str, str], _Chain] = {}
        """By the session, and the subagent's id or ""."""
        self.ids: Counter[str] = Counter()
        self.results: list[Mapping[str, Any]] = []
        """The results that `claude -p` printed."""
        self._homes: dict[str, str] = {}
        """The first id of a session, by each of its ids."""
        self._places: dict[str, int] = {}
        self._parents: list[int] = []
        self._originals: dict[int, int] = {}
        """The lines that are copies, each with the line that it is a copy of."""
        self._owners: list[str] = []
        self._sessions: list[str] = []
        self._prints: list[int] = []
        self._folder = _session_folder(path)
        """The folder of the session, if this is a subagent's file in it."""

    def take(self, line: Mapping[str, Any]) -> None:
        kind, session = text(line.get("type")), text(line.get("sessionId"))
        uuid = text(line.get("uuid"))
        parent = self._places.get(text(line.get("parentUuid")) or text(line.get("logicalParentUuid")), -1)
        parent = self._originals.get(parent, parent)
        owner = self._owner(line, uuid, parent)
        home = self._home(session, parent)
        print_ = hash((kind, text(line.get("timestamp")), text(mapping(line.get("message")).get("id"))))
        known = self._places.get(uuid)
        if known is not None and self._prints[known] == print_:
            return  # some resumed sessions hold lines twice
        place = len(self._parents)
        self._parents.append(parent)
        self._owners.append(owner)
        self._sessions.append(home)
        self._prints.append(print_)
        if uuid:
            self._places[uuid] = place
        if kind in ("user", "assistant", "system", "attachment"):
            if kind in ("user", "assistant"):
                self.ids[session] += 1
            if (home, owner) not in self.chains:
                self.chains[home, owner] = _Chain(self._parents, self._originals, self._damage, self._workflow)
            self.chains[home, owner].take(line, place, parent)

    def _home(self, session: str, parent: int) -> str:
        if self._folder is not None:
            return ""
        if parent >= 0:
            home = self._sessions[parent]
            self._homes.setdefault(session, home)
            return home
        return self._homes.setdefault(session, session if session or not self._homes else next(iter(self._homes)))

    def _owner(self, line: Mapping[str, Any], uuid: str, parent: int) -> str:
        """The id of the subagent of a line; "" for the session itself."""
        if line.get("isSidechain") is not True:
            return ""
        before = self._owners[parent] if parent >= 0 else ""
        return text(line.get("agentId")) or before or uuid or "sidechain"

    def runs(self) -> list[Run]:
        """The run of each session, each before those of its subagents in the order of their first lines."""
        lines = {(home, agent) for (home, _), chain in self.chains.items() for agent in chain.agents.values()}
        loose: dict[str, dict[str, list[str]]] = {home: {} for home, _ in self.chains}
        for (home, owner), chain in self.chains.items():
            if owner and (home, owner) not in lines:
                loose[home].setdefault(chain.prompt, []).append(owner)
        endings = self._endings()
        found = []
        homes = {home: number for number, (home, _) in enumerate(self.chains)}
        names = self._names()
        for (home, owner), chain in sorted(self.chains.items(), key=lambda pair: (homes[pair[0][0]], pair[0][1] != "")):
            if owner.startswith(_COMPACTION):
                continue
            session = names[home]
            run_id, parent = (f"{session}/{owner}", session) if owner else (session, None)
            run = chain.run(
                run_id,
                self._agent(owner, chain),
                parent,
                chain.started(session, loose[home]),
                endings.get(owner) if owner else None,
                self.results if not owner else (),
                self._inner_usage(home),
                session_id=session if home or owner else "",
                branched_from="" if owner else chain.forked_from or (home if home != session else ""),
            )
            if run is not None:
                found.append(run)
        return found

    def _inner_usage(self, home: str) -> Usage:
        """The tokens of all subagents of a session in this file."""
        usages = [
            usage for (of, owner), chain in self.chains.items() if of == home and owner for usage in chain.usages()
        ]
        return Usage(sum(one.input_tokens or 0 for one in usages), sum(one.output_tokens or 0 for one in usages))

    def _endings(self) -> Mapping[str, _Ending]:
        """The last reported end of each subagent, by its id, from the lines of their parents."""
        if self._folder is not None:
            return _endings_in(self._folder.with_name(f"{self._folder.name}.jsonl")) or {}
        endings: dict[str, _Ending] = {}
        if self.path.name.startswith("agent-"):
            for session in self.ids:
                if session and Path(session).name == session:
                    endings |= _endings_in(self.path.parent / f"{session}.jsonl") or {}
        for chain in self.chains.values():
            endings |= {ending.owner: ending for ending in chain.endings}
        return endings

    def _workflow(self, name: str) -> list[str]:
        """The ids of the subagents of a workflow: they have a folder of its name."""
        folder = self.path.with_suffix("") / _SUBAGENTS / _WORKFLOWS / name
        if not name.isprintable() or Path(name).name != name or folder.is_symlink() or not folder.is_dir():
            return []
        names = sorted(stem_of(path).removeprefix("agent-") for path in folder.glob("agent-*.jsonl"))
        return [name for name in names if not name.startswith(_COMPACTION)]

    def _names(self) -> dict[str, str]:
        """The id of each session: the one in the file's name, where that is one of its own."""
        stem = stem_of(self.path)
        del self.ids[""]
        if self._folder is not None:
            return {"": self._folder.name}
        homes = {home for home, _ in self.chains}
        if len(homes) == 1:
            return dict.fromkeys(homes, stem if stem in self.ids or not self.ids else next(iter(self.ids)))
        return {home: stem if stem in self.ids and self._homes[stem] == home else home or stem for home in homes}

    def _agent(self, owner: str, chain: _Chain) -> str:
        if not owner:
            return NAME
        if chain.agent or stem_of(self.path) != f"agent-{owner}":
            return chain.agent or "subagent"
        return text(mapping(sidecar(self.path.with_suffix(".meta.json"))).get("agentType")) or "subagent"


class _Chain:
    """The lines of one agent, in the file's order."""

    def __init__(
        self,
        parents: Sequence[int],
        originals: dict[int, int],
        damage: Damage,
        agents_of: Callable[[str], list[str]],
    ) -> None:
        self._parents = parents
        self._originals = originals
        self._agents_of = agents_of
        """Lists the subagents of a workflow."""
        self._workflows: dict[str, str] = {}
        """The names of the workflows that calls started, by call."""
        self._effort: str | None = None
        self._cwd = self._branch = self._entrypoint = ""
        self._entries: list[_Reply | _Note] = []
        self._replies: dict[str, _Reply] = {}
        self._trunks: set[int] = set()
        """The lines to which the session did not rewind."""
        self._damage = damage
        self._open_calls = OpenCalls(damage)
        self._latest: int | None = None
        self._first: int | None = None
        self._last: int | None = None
        self.agent = ""
        self.forked_from = ""
        """The id of the session that this one was forked from, where its lines name it."""
        self._said: dict[int, _Note] = {}
        """The notes of this branch by the digests of their parts."""
        self._noted: dict[int, _Note] = {}
        """All notes by their lines."""
        self._answered: dict[str, int] = {}
        """The line of the result of each call."""
        self.endings: list[_Ending] = []
        """The reported ends of subagents, in order."""
        self.agents: dict[str, str] = {}
        """The ids of the subagents that calls started, by call; "" if a result does not name it."""

    def take(self, line: Mapping[str, Any], place: int, parent: int) -> None:
        kind, time = text(line.get("type")), epoch_ms(line.get("timestamp"))
        message = mapping(line.get("message"))
        if kind in ("assistant", "user"):
            self._cwd = self._cwd or text(line.get("cwd"))
            self._branch = self._branch or text(line.get("gitBranch"))
            self._entrypoint = self._entrypoint or text(line.get("entrypoint"))
            if "forkedFrom" in line:
                self.forked_from = self.forked_from or text(mapping(line["forkedFrom"]).get("sessionId"))
        if kind == "assistant":
            self._reply(line, message, place, parent, time)
        elif kind == "user":
            self.endings += [ending for ending in _endings(line) if ending not in self.endings]
            self._effort = _effort_of(mapping(line.get("thinkingMetadata"))) or self._effort
            self._user(line, message, place, parent, time)
        elif kind == "system":
            self._event(line, place, time)
        else:
            self._attach(mapping(line.get("attachment")), place, time)
            return
        if time is not None and kind != "system":
            self._first = time if self._first is None else min(self._first, time)
            self._last = time if self._last is None else max(self._last, time)

    def _attach(self, attached: Mapping[str, Any], place: int, time: int | None) -> None:
        kind = attached.get("type")
        if kind == "queued_command":
            self._entries.append(_Note("queued", place, time, content_text(attached.get("prompt"))))
        elif kind == ENDED:
            owner = text(attached.get("agentId"))
            self.endings.append(_Ending(owner, owner, None, completed=True))
        elif kind == STOPPED and isinstance(attached.get("ending"), Ending):  # not one that a file holds
            self._entries.append(_Note("stopped", place, time, payload=attached))
        elif kind == "max_turns_reached":
            self._entries.append(_Note("cap", place, time, payload={"cap": whole(attached.get("maxTurns"))}))

    def _reply(
        self, line: Mapping[str, Any], message: Mapping[str, Any], place: int, parent: int, time: int | None
    ) -> None:
        model = text(message.get("model"))
        if model == _SYNTHETIC or line.get("isApiErrorMessage") is True:
            body = content_text(message.get("content"))
            if line.get("isApiErrorMessage") is True or line.get("error"):
                self._add(_Note("fault", place, time, body), (body,))
            return
        self.agent = self.agent or text(line.get("attributionAgent"))
        name = text(message.get("id"))
        key = name or text(line.get("uuid")) or f"line {place}"
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        digests = [_digest(block) for block in blocks]
        reply = self._replies.get(key)
        if reply is None:
            reply = self._replies[key] = _Reply(place=place, start=time if self._latest is None else self._latest)
            reply.id, reply.goes_back = name, self._goes_back(time)
            self._entries.append(reply)
        elif self._is_copy(reply, digests, place, parent, time):
            reply.count(mapping(message.get("usage")))
            return
        reply.places |= dict.fromkeys(digests, (place, time))
        if self._latest is not None and time is not None:
            reply.responded = time
        reply.extend_to(time)
        usage = mapping(message.get("usage"))
        reply.model = model or reply.model
        reply.version = named(line.get("version")) or reply.version
        reply.effort = effort_of(line.get("effort"), reply.effort, self._effort)
        reply.speed = named(usage.get("speed")) or reply.speed
        reply.service_tier = named(usage.get("service_tier")) or reply.service_tier
        reply.count(usage)
        stopped = text(message.get("stop_reason"))
        if stopped:
            reply.stopped = finish_reason(stopped)
        reply.cut = reply.cut or line.get("isAbortedMidStream") is True
        for block in blocks:
            self._block(reply, block)

    def _is_copy(self, reply: _Reply, digests: Sequence[int], place: int, parent: int, time: int | None) -> bool:
        """Whether a line repeats blocks of a response, at their time or after the same line.

        Then that line is what it is a copy of, and so are those before it. If the session rewound from the response,
        it is back, at this place.
        """
        if not digests or not all(digest in reply.places for digest in digests):
            return False
        original, written = reply.places[digests[0]]
        above = self._parents[original]
        if not (parent == above or (time is not None and time == written) or self._has_text_of(parent, above)):
            return False
        if reply.left is None:
            self._originals[place] = original
            self._drop_copied_notes(parent, above)
            return True
        rewind, reply.left = reply.left, None
        if rewind.payload["steps"] > 1:
            self._entries[self._entries.index(rewind)] = left = rewind._replace(
                payload={"steps": rewind.payload["steps"] - 1}
            )
            for other in self._replies.values():
                other.left = left if other.left is rewind else other.left
        else:
            self._entries.remove(rewind)
        reply.place, reply.places = place, dict.fromkeys(digests, (place, written))
        self._entries.append(reply)
        return True

    def _has_text_of(self, place: int, original: int) -> bool:
        note, known = self._noted.get(place), self._noted.get(original)
        return note is not None and known is not None and bool(note.text) and note.text in known.text

    def _drop_copied_notes(self, place: int, original: int) -> None:
        """Remove the messages before a copied line that say what those before the original say."""
        notes = {entry.place: entry for entry in self._entries[-_MAX_COPIED:] if isinstance(entry, _Note)}
        for _ in range(_MAX_COPIED):
            note = notes.get(place)
            while original >= 0 and note is not None and original not in self._noted:
                original = self._parents[original]
            if place <= original or original < 0 or (note is not None and note.text not in self._noted[original].text):
                return
            if note is not None:
                self._entries.remove(note)
                self._originals[place] = original
            place = self._parents[place]

    def _goes_back(self, time: int | None) -> bool:
        return time is not None and goes_back(time, self._latest, self._last)

    def _add(self, note: _Note, parts: Sequence[str]) -> bool:
        """Add a message or an event. False if each of its parts was written at its time before: it is a copy."""
        digests = [hash((note.time, note.kind if note.payload else "", part)) for part in parts]
        if note.time is not None and digests:
            known = [self._said.get(digest) for digest in digests]
            twice = self._entries[-1:] == [known[0]] and note.time % 1000 > 0
            if known[0] is not None and None not in known and (twice or self._goes_back(note.time)):
                self._originals[note.place] = known[0].place
                self._latest = note.time
                return False
        self._said |= dict.fromkeys(digests, note)
        self._noted[note.place] = note
        self._entries.append(note)
        return True

    def _block(self, reply: _Reply, block: object) -> None:
        part = {"type": "text", "text": block} if isinstance(block, str) else mapping(block)
        kind = part.get("type")
        if kind in ("text", "thinking"):
            content = text(part.get(kind))
            if content.strip():
                (reply.add_text if kind == "text" else reply.add_reasoning)(content)
        elif kind == "tool_use":
            call = ToolCall(text(part.get("id")), text(part.get("name")), arguments_text(part.get("input", REDACTED)))
            self._open_calls.add(reply, call)

    def _user(
        self, line: Mapping[str, Any], message: Mapping[str, Any], place: int, parent: int, time: int | None
    ) -> None:
        content = message.get("content")
        body = []
        answers = early = False
        for block in blocks_of(content):
            if isinstance(block, dict) and block.get("type") == "tool_result":
                answers = True
                early = self._result(line, block, place, time) or early
            elif block:
                body.append(block_text(block))
        if body:
            kind = _kind(line, body, answers=answers)
            note = _Note(kind, place, time, "\n".join(body))
            if self._add(note, body) and kind in ("prompt", "command"):
                self._entries.pop()
                self._rewind(place, parent, time)
                self._entries.append(note)
        self._latest = self._latest if time is None or early else time

    def _result(self, line: Mapping[str, Any], block: Mapping[str, Any], place: int, time: int | None) -> bool:
        """Add a result to its call. True if the call was not written so far."""
        call_id, content = text(block.get("tool_use_id")), content_text(block.get("content"))
        found = self._open_calls.take(call_id, content)
        if found is None:
            if call_id in self._answered:
                self._originals[place] = self._answered[call_id]

            def put(step: StepBuilder, position: int) -> None:
                self._put(line, block, content, place, time, step, position)
                if time is not None and (self._latest is None or time > self._latest):
                    self._latest = time

            self._open_calls.hold(call_id, content, put)
            return call_id not in self._answered
        self._put(line, block, content, place, time, *found)
        return False

    def _put(
        self,
        line: Mapping[str, Any],
        block: Mapping[str, Any],
        content: str,
        place: int,
        time: int | None,
        step: StepBuilder,
        position: int,
    ) -> None:
        call = step.calls[position]
        self._answered[call.id] = place
        more = mapping(line.get("toolUseResult"))
        failed = block.get("is_error")
        if call.name in _DELEGATES and ("agentId" in more or "totalToolUseCount" in more):
            self.agents[call.id] = text(more.get("agentId"))
        if "transcriptDir" in more or more.get("taskType") == "local_workflow":
            self._workflows[call.id] = text(more.get("runId"))
        result = ToolResult(
            call.id,
            content,
            failed is True or (failed is None and more.get("interrupted") is True),
            unreadable(call.arguments),
            whole(more.get("durationMs")),
        )
        rejected = bool(text(line.get("toolDenialKind"))) or line.get("toolUseResult") == _REJECTED
        step.set_result(NAME, position, result, rejected=rejected)
        step.extend_to(time)

    def _event(self, line: Mapping[str, Any], place: int, time: int | None) -> None:
        kind = line.get("subtype")
        if kind == "compact_boundary":
            self._open_calls.forget_early()
            facts = mapping(line.get("compactMetadata"))
            payload = {"trigger": text(facts.get("trigger")) or None, "tokens": whole(facts.get("preTokens"))}
            self._add(_Note("compaction", place, time, payload=payload), [""])
        elif kind == "api_error":
            error = mapping(line.get("error"))
            why = text(error.get("formatted")) or text(error.get("message")) or f"status {error.get('status')}"
            payload = {"what": why, "attempt": whole(line.get("retryAttempt"))}
            self._add(_Note("retry", place, time, payload=payload), [why])

    def _rewind(self, place: int, parent: int, time: int | None) -> None:
        """Remove the branch that the session rewound from, if this prompt starts another one."""
        if parent < 0 or parent in self._trunks:
            return
        below = {parent: True}
        kept: list[_Reply | _Note] = []
        while self._entries and self._entries[-1].place > parent:
            kept.append(self._entries.pop())
        kept.reverse()
        branch = [
            entry
            for entry in kept
            if self._descends(entry.place, below, parent) and (isinstance(entry, _Reply) or entry.kind != "rewind")
        ]
        if not branch or not isinstance(branch[0], _Note) or branch[0].kind not in ("prompt", "command"):
            self._entries += kept
            self._trunks.update({parent} if branch else ())
            return
        left = {id(entry) for entry in branch}
        self._entries += [entry for entry in kept if id(entry) not in left]
        replies = [entry for entry in branch if isinstance(entry, _Reply)]
        rewind = _Note("rewind", place, time, payload={"steps": len(replies)})
        for reply in replies:
            reply.left = rewind
        for digest in [digest for digest, note in self._said.items() if id(note) in left]:
            del self._said[digest]
        self._entries.append(rewind)

    def _descends(self, place: int, below: dict[int, bool], parent: int) -> bool:
        path = []
        while place > parent and place not in below:
            path.append(place)
            place = self._parents[place]
        found = below.get(place, False)
        below.update(dict.fromkeys(path, found))
        return found

    def usages(self) -> Iterator[Usage]:
        """The usage of each response."""
        for entry in self._entries:
            if isinstance(entry, _Reply):
                entry.finish()
                yield entry.usage

    @property
    def prompt(self) -> str:
        wanted = (entry.text for entry in self._entries if isinstance(entry, _Note) and entry.kind == "prompt")
        return next(wanted, "").strip()

    def started(self, session: str, loose: Mapping[str, list[str]]) -> dict[str, list[_Started]]:
        """The subagents that calls of this session started, by call.

        `loose` are the subagents in the file that no result names, by their prompts; those that are found are removed.
        """
        found: dict[str, list[_Started]] = {}
        for entry in self._entries:
            for call in entry.calls if isinstance(entry, _Reply) else ():
                if call.id in self._workflows:
                    agents = self._agents_of(self._workflows[call.id])
                    found[call.id] = [_Started(f"{session}/{agent}", "") for agent in agents]
                if call.name not in _DELEGATES:
                    continue
                wanted = json_object(call.arguments)
                owner = self.agents.get(call.id) or next(iter(loose.get(text(wanted.get("prompt")).strip(), ())), "")
                if owner and not self.agents.get(call.id):
                    loose[text(wanted.get("prompt")).strip()].remove(owner)
                if owner or call.id in self.agents:
                    agent = text(wanted.get("subagent_type"))
                    found[call.id] = [_Started(f"{session}/{owner}" if owner else None, agent)]
        return found

    def run(
        self,
        run_id: str,
        agent: str,
        parent_run_id: str | None,
        started: Mapping[str, list[_Started]],
        ending: _Ending | None = None,
        results: Sequence[Mapping[str, Any]] = (),
        inner: Usage = UNKNOWN_USAGE,
        *,
        session_id: str = "",
        branched_from: str = "",
    ) -> Run | None:
        """The run; None if there is neither a prompt nor a response.

        `started` are its subagents, by call. `ending` is how it ended, if its parent reports that. `results` are those
        that the harness printed about it, `inner` the usage of the subagents in the same file. `session_id` is the
        session's id on record, and `branched_from` that of the session whose history it began with.
        """
        branch = _Branch(self._damage)
        for entry in self._entries:
            if isinstance(entry, _Reply):
                branch.add_reply(entry)
            else:
                branch.add_note(entry)
        builder = branch.builder
        builder.first_time, builder.last_time = self._first, self._last
        if builder.is_empty:
            return None
        for reply in branch.replies:
            reply.finish()
        if len(results) == 1:  # several may be of one turn each, or of all so far
            state_result(builder, results[0], inner)
        self._add_subagents(branch, started)
        builder.note_origin(cwd=self._cwd, git_branch=self._branch, entrypoint=self._entrypoint)
        cap = branch.cap if ending is None or ending.limit is None else ending.limit
        stop: StopReason | Stop = branch.stop_reason()
        last = branch.replies[-1] if branch.replies else None
        if ending is not None and ending.completed and branch.ending is None and last is not None and last.complete:
            stop = "finished"
        cost = None
        if branch.stopped is not None:
            _, _, rule, cost, value = branch.stopped
            stop = builder.stop(branch.stopped.reason, rule, cost, value)
        if cap is not None:  # turns are responses since the subagent's last prompt
            steps = builder.steps
            turn = sum(step.turn == steps[-1].turn for step in steps)
            stop = builder.stop("step_cap", f"maxTurns({cap})", cap, max(cap, turn))
        return builder.build(
            run_id,
            stop,
            agent=agent,
            parent_run_id=parent_run_id,
            limits={"steps": cap, "cost": cost},
            error=branch.error if branch.ending == "error" else None,
            log_id=run_id if session_id else "",
            branched_from=branched_from,
        )

    def _add_subagents(self, branch: _Branch, started: Mapping[str, list[_Started]]) -> None:
        """Add events for the subagents that calls started, and for those that their limit on turns stopped."""
        callers = {call.id: reply for reply in branch.replies for call in reply.calls}
        for reply in branch.replies:
            for call in reply.calls:
                for child in started.get(call.id, ()):
                    branch.builder.add_subagent(reply, call.id, *child)
        for owner, call_id, limit, _ in self.endings:
            if limit is not None and call_id in callers:
                what = f"the subagent {owner} was stopped at its limit of {count(limit, 'turn')}: its result is partial"
                branch.builder.add_step_event(callers[call_id], "fault", what=what)


class _Branch:
    """The branch with which a session continued."""

    def __init__(self, damage: Damage) -> None:
        self.builder = RunBuilder(NAME, checked=damage)
        self.replies: list[_Reply] = []
        self.ending: Literal["aborted", "error"] | None = None
        self.error = ""
        self.cap: int | None = None
        """The limit on turns that stopped it, if one did."""
        self.stopped: Ending | None = None
        """How it ended by its result, if not by itself."""
        self._prompted = False
        """Whether a prompt came since the last response."""

    def add_reply(self, reply: _Reply) -> None:
        reply.finish_reason, reply.broken = reply.stopped, reply.cut  # lines that followed may have changed them
        self.builder.append(reply)
        self.replies.append(reply)
        self._prompted = False
        self.ending = self.cap = self.stopped = None

    def add_note(self, note: _Note) -> None:
        last = self.replies[-1] if self.replies else None
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
        elif note.kind == "prompt":
            self._prompted = self.builder.has_prompt = True
            self.builder.open_turn()
        elif note.kind == "command" and last is not None and not last.calls:
            self.builder.open_turn()
        if note.text:
            self.builder.add_message("user", note.text, opens_turn=note.kind == "prompt")

    def _stop(self, ending: Ending) -> None:
        """Note how it ended by its result: an error or an interruption that the stream reported before stays."""
        if ending.reason not in {"error", "aborted"}:
            self.stopped = ending
        elif self.ending is None:
            self.ending, self.error = "error" if ending.reason == "error" else "aborted", ending.words

    def stop_reason(self) -> StopReason:
        if self.ending is not None:
            return self.ending
        return "aborted" if self.replies and self.replies[-1].broken else self.builder.stop_reason()


class _Started(NamedTuple):
    """A subagent that a call started: its run, None if unknown, and its name."""

    run_id: str | None
    agent: str


class _Ending(NamedTuple):
    """The end of a subagent, by a limit on its turns or (None) in another way."""

    owner: str
    call_id: str
    limit: int | None
    completed: bool = False
    """Whether it ended by itself, with a text that is not in the log."""


def _session_folder(path: Path) -> Path | None:
    """The folder of the session that a subagent's file is in; None for other files."""
    folder = path.parent.parent.parent if path.parent.parent.name == _WORKFLOWS else path.parent
    return folder.parent if folder.name == _SUBAGENTS else None


def _effort_of(thinking: Mapping[str, Any]) -> str | None:
    """The effort that a prompt asks for: a level, or the largest count of thinking tokens."""
    if not thinking:
        return None
    off = thinking.get("disabled") is True
    return "none" if off else effort_of(thinking.get("level"), thinking.get("maxThinkingTokens"))


def _endings(line: Mapping[str, Any]) -> Iterator[_Ending]:
    """The ends of subagents in a user's line: in the results of the calls that started them, and in notifications."""
    content = mapping(line.get("message")).get("content")
    more = mapping(line.get("toolUseResult"))
    for block in blocks_of(content):
        part = mapping(block)
        if part.get("type") == "tool_result":
            body = content_text(part.get("content"))
            noted, named = _NOTED.match(body), _AGENT.search(body)
            owner = text(more.get("agentId")) or (named[1] if noted and named else "")
            completed = more.get(ENDED) is True and not noted
            if noted or (owner and ("totalToolUseCount" in more or completed)):
                yield _Ending(owner, text(part.get("tool_use_id")), int(noted[1]) if noted else None, completed)
            continue
        body = block_text(block).lstrip()
        task = _TASK.search(body) if body.startswith("<task-notification>") else None
        if task:
            cut, called = _NOTIFIED.search(body), _CALLED.search(body)
            yield _Ending(task[1].strip(), called[1].strip() if called else "", int(cut[1]) if cut else None)


@read_once
def _endings_in(path: Path) -> dict[str, _Ending]:
    """The ends of subagents, by their ids, from the file of their session. The last one of each counts."""
    endings: dict[str, _Ending] = {}
    with unpacked(path) as file:
        while data := file.readline(MAX_LINE):
            if not any(word in data for word in _ENDINGS):
                continue
            try:
                line = mapping(parse(data))
            except ValueError:
                continue
            endings |= {ending.owner: ending for ending in (_endings(line) if line.get("type") == "user" else ())}
    return endings


def _digest(block: object) -> int:
    """What identifies a block within its response: the id of a call, else its content."""
    if isinstance(block, str):
        return hash(block)
    part = mapping(block)
    named = text(part.get("id")) or text(part.get("text")) or text(part.get("signature"))
    return hash(named or json_text(block))


def _kind(line: Mapping[str, Any], content: Sequence[str], *, answers: bool) -> str:
    if line.get("isCompactSummary") is True:
        return "summary"
    kinds = [_kind_of(part) for part in content]
    if "interrupted" in kinds:
        return "interrupted"
    if answers or line.get("isMeta") is True:
        return "harness"
    return next((kind for kind in kinds if kind != "harness"), "harness")


def _kind_of(part: str) -> str:
    part = part.lstrip()
    if part.startswith(_INTERRUPTED):
        return "interrupted"
    if part.startswith(_HARNESS):
        return "harness"
    return "command" if part.startswith(_COMMANDS) else "prompt"
