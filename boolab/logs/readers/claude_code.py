"""Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`, its subagents' files, and exports of sessions as JSON.

Lines and steps
---------------
Each content block of a response is one line. All lines with the same `message.id` are one step. The largest of each
usage figure counts, because figures grow from line to line. A result may be between two of these lines. `progress`
lines repeat the subagents' files, and are skipped.

Prompts open turns. These are no prompts: tool results, lines from the harness (`isMeta`), reminders, notices of an
interruption, notices that a command in the background or another session has ended, summaries of a compaction, and
command lines. A command that the model answers opens a turn, unless the turn before it still has open calls. What the
model answers to a notice belongs to the turn before it.

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

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.types import Usage
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, begins_json, filter_objects, items, json_document, json_lines, mapping, text
from boolab.io.packed import open_unpacked
from boolab.logs.fields import Head, LineLog, read_followed, sidecar, stem_of
from boolab.logs.readers._claude_chain import AgentLines
from boolab.logs.readers._claude_run import SOURCE, SubagentEnd, ends_in
from boolab.logs.readers._claude_stream import QWEN, StreamLines, is_stream_line, is_stream_result

NAME: Final = SOURCE
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
_SUBAGENTS: Final = "subagents"
_WORKFLOWS: Final = "workflows"
_COMPACTION: Final = "acompact"


def sniff(head: Head) -> bool:
    """Whether this is a session of Claude Code, an export of one, or its messages as it prints them."""
    entries = items(head.values[0]) if head.values else ()
    lines = (*head.values, *entries)
    if any(QWEN in mapping(line) for line in lines):
        return False
    return isinstance(head.first.get("loglines"), list) or any(_is_line(line) or is_stream_line(line) for line in lines)


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
    return read_followed(path, damage, follow, _lines)


def follow(path: Path, damage: Damage) -> LineLog:
    """The lines of a session, as they are written."""
    session, stream = _Session(path, damage), StreamLines()

    def take(number: int, value: object) -> None:
        if isinstance(value, str):
            return
        for _, line in filter_objects(((number, value),), damage):
            kind = text(line.get("type"))
            damage.note_kind(kind, _KINDS)
            version = line.get("version") or line.get("claude_code_version")
            if isinstance(version, str):
                damage.versions.add(version)
            session.take(stream.to_native(line) if "session_id" in line else line)
            if kind == "result" and is_stream_result(line):
                session.results.append(line)

    return LineLog(damage, take, list if path.name.startswith("agent-acompact-") else session.runs)


def _lines(path: Path, damage: Damage) -> Iterator[tuple[int, Any]]:
    """The lines of a session, from JSON Lines, from the one object of an export or from one list."""
    with open_unpacked(path) as file:
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


class _Session:
    """The lines of one file, sorted into the session and its subagents."""

    def __init__(self, path: Path, damage: Damage) -> None:
        self.path = path
        self._damage = damage
        self.chains: dict[tuple[str, str], AgentLines] = {}
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
        earlier = self._places.get(uuid)
        if earlier is not None and self._prints[earlier] == print_:
            return  # some resumed sessions hold lines twice
        index = len(self._parents)
        self._parents.append(parent)
        self._owners.append(owner)
        self._sessions.append(home)
        self._prints.append(print_)
        if uuid:
            self._places[uuid] = index
        if kind in ("user", "assistant", "system", "attachment"):
            if kind in ("user", "assistant"):
                self.ids[session] += 1
            if (home, owner) not in self.chains:
                self.chains[home, owner] = AgentLines(self._parents, self._originals, self._damage, self._workflow)
            self.chains[home, owner].take(line, index, parent)

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
        parent_owner = self._owners[parent] if parent >= 0 else ""
        return text(line.get("agentId")) or parent_owner or uuid or "sidechain"

    def runs(self) -> list[Run]:
        """The run of each session, each before those of its subagents in the order of their first lines."""
        lines = {(home, agent) for (home, _), chain in self.chains.items() for agent in chain.agents.values()}
        loose: dict[str, dict[str, list[str]]] = {home: {} for home, _ in self.chains}
        for (home, owner), chain in self.chains.items():
            if owner and (home, owner) not in lines:
                loose[home].setdefault(chain.prompt, []).append(owner)
        endings = self._endings()
        all_runs = []
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
                all_runs.append(run)
        return all_runs

    def _inner_usage(self, home: str) -> Usage:
        """The tokens of all subagents of a session in this file."""
        usages = [
            usage for (key, owner), chain in self.chains.items() if key == home and owner for usage in chain.usages()
        ]
        return Usage(sum(item.input_tokens or 0 for item in usages), sum(item.output_tokens or 0 for item in usages))

    def _endings(self) -> Mapping[str, SubagentEnd]:
        """The last reported end of each subagent, by its id, from the lines of their parents."""
        if self._folder is not None:
            return ends_in(self._folder.with_name(f"{self._folder.name}.jsonl")) or {}
        endings: dict[str, SubagentEnd] = {}
        if self.path.name.startswith("agent-"):
            for session in self.ids:
                if session and Path(session).name == session:
                    endings |= ends_in(self.path.parent / f"{session}.jsonl") or {}
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

    def _agent(self, owner: str, chain: AgentLines) -> str:
        if not owner:
            return NAME
        if chain.agent or stem_of(self.path) != f"agent-{owner}":
            return chain.agent or "subagent"
        return text(mapping(sidecar(self.path.with_suffix(".meta.json"))).get("agentType")) or "subagent"


def _session_folder(path: Path) -> Path | None:
    """The folder of the session that a subagent's file is in; None for other files."""
    folder = path.parent.parent.parent if path.parent.parent.name == _WORKFLOWS else path.parent
    return folder.parent if folder.name == _SUBAGENTS else None
