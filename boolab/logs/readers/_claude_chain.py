"""The lines of one agent in a session of Claude Code: its responses and notes in order, without copies and branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, UNKNOWN_USAGE, ToolCall, ToolResult, Usage
from boolab.io.json_input import Damage, json_object, json_text, mapping, text, whole
from boolab.logs.fields import block_text, blocks_of, content_text, effort_of, epoch_ms, name_or_none
from boolab.logs.harness_text import NOTICES, OUTPUTS, REMINDER
from boolab.logs.images import images_of
from boolab.logs.readers._claude_run import (
    SOURCE,
    Reply,
    SessionBranch,
    SessionNote,
    StartedAgent,
    SubagentEnd,
    ends_of_subagents,
)
from boolab.logs.readers._claude_stream import ENDED, STOPPED, Ending, state_cost, state_result
from boolab.logs.step_builder import OpenCalls, StepBuilder, arguments_text, goes_back, is_unreadable

_INTERRUPTED: Final = "[Request interrupted by user"
_COMMANDS: Final = ("<command-name>", "<command-message>", "<command-args>", "<bash-input>")
_BRANCHING: Final = ("prompt", "command", "notice")
"""The kinds of lines that begin a branch where the user goes back."""
_DELEGATES: Final = ("Task", "Agent")
"""The tools that start subagents."""
_SYNTHETIC: Final = "<synthetic>"
_REJECTED: Final = "User rejected tool use"
_MAX_COPIED: Final = 32
"""How many lines before a copy are compared with those before the original."""


class AgentLines:
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
        self._entries: list[Reply | SessionNote] = []
        self._replies: dict[str, Reply] = {}
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
        self._said: dict[int, SessionNote] = {}
        """The notes of this branch by the digests of their parts."""
        self._noted: dict[int, SessionNote] = {}
        """All notes by their lines."""
        self._answered: dict[str, int] = {}
        """The line of the result of each call."""
        self.endings: list[SubagentEnd] = []
        """The reported ends of subagents, in order."""
        self.agents: dict[str, str] = {}
        """The ids of the subagents that calls started, by call; "" if a result does not name it."""

    def take(self, line: Mapping[str, Any], index: int, parent: int) -> None:
        kind, time = text(line.get("type")), epoch_ms(line.get("timestamp"))
        message = mapping(line.get("message"))
        if kind in ("assistant", "user"):
            self._cwd = self._cwd or text(line.get("cwd"))
            self._branch = self._branch or text(line.get("gitBranch"))
            self._entrypoint = self._entrypoint or text(line.get("entrypoint"))
            if "forkedFrom" in line:
                self.forked_from = self.forked_from or text(mapping(line["forkedFrom"]).get("sessionId"))
        if kind == "assistant":
            self._reply(line, message, index, parent, time)
        elif kind == "user":
            self.endings += [ending for ending in ends_of_subagents(line) if ending not in self.endings]
            self._effort = _effort_of(mapping(line.get("thinkingMetadata"))) or self._effort
            self._user(line, message, index, parent, time)
        elif kind == "system":
            self._event(line, index, time)
        else:
            self._attach(mapping(line.get("attachment")), index, time)
            return
        if time is not None and kind != "system":
            self._first = time if self._first is None else min(self._first, time)
            self._last = time if self._last is None else max(self._last, time)

    def _attach(self, attached: Mapping[str, Any], index: int, time: int | None) -> None:
        kind = attached.get("type")
        if kind == "queued_command":
            prompt = attached.get("prompt")
            self._entries.append(SessionNote("queued", index, time, content_text(prompt), images=images_of(prompt)))
        elif kind == ENDED:
            owner = text(attached.get("agentId"))
            self.endings.append(SubagentEnd(owner, owner, None, completed=True))
        elif kind == STOPPED and isinstance(attached.get("ending"), Ending):  # not one that a file holds
            self._entries.append(SessionNote("stopped", index, time, payload=attached))
        elif kind == "max_turns_reached":
            self._entries.append(SessionNote("cap", index, time, payload={"cap": whole(attached.get("maxTurns"))}))

    def _reply(
        self, line: Mapping[str, Any], message: Mapping[str, Any], index: int, parent: int, time: int | None
    ) -> None:
        model = text(message.get("model"))
        if model == _SYNTHETIC or line.get("isApiErrorMessage") is True:
            body = content_text(message.get("content"))
            if line.get("isApiErrorMessage") is True or line.get("error"):
                self._add(SessionNote("fault", index, time, body), (body,))
            return
        self.agent = self.agent or text(line.get("attributionAgent"))
        name = text(message.get("id"))
        key = name or text(line.get("uuid")) or f"line {index}"
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        digests = [_digest(block) for block in blocks]
        reply = self._replies.get(key)
        if reply is None:
            reply = self._replies[key] = Reply(index, time if self._latest is None else self._latest)
            reply.id, reply.goes_back = name, self._goes_back(time)
            self._entries.append(reply)
        elif self._is_copy(reply, digests, index, parent, time):
            reply.count(mapping(message.get("usage")))
            return
        reply.places |= dict.fromkeys(digests, (index, time))
        if self._latest is not None and time is not None:
            reply.responded = time
        reply.extend_to(time)
        usage = mapping(message.get("usage"))
        reply.model = model or reply.model
        reply.version = name_or_none(line.get("version")) or reply.version
        reply.effort = effort_of(line.get("effort"), reply.effort, self._effort)
        reply.speed = name_or_none(usage.get("speed")) or reply.speed
        reply.service_tier = name_or_none(usage.get("service_tier")) or reply.service_tier
        reply.count(usage)
        missed = mapping(mapping(message.get("diagnostics") or line.get("diagnostics")).get("cache_miss_reason"))
        reply.missed = missed or reply.missed
        stopped = text(message.get("stop_reason"))
        if stopped:
            reply.stopped = finish_reason(stopped)
        reply.cut = reply.cut or line.get("isAbortedMidStream") is True
        for block in blocks:
            self._block(reply, block)

    def _is_copy(self, reply: Reply, digests: Sequence[int], index: int, parent: int, time: int | None) -> bool:
        """Whether a line repeats blocks of a response, at their time or after the same line."""
        if not digests or not all(digest in reply.places for digest in digests):
            return False
        original, original_time = reply.places[digests[0]]
        above = self._parents[original]
        if not (parent == above or (time is not None and time == original_time) or self._has_text_of(parent, above)):
            return False
        if reply.left is None:
            self._originals[index] = original
            self._drop_copied_notes(parent, above)
            return True
        rewind, reply.left = reply.left, None
        if rewind.payload["steps"] > 1:
            self._entries[self._entries.index(rewind)] = note = rewind._replace(
                payload={"steps": rewind.payload["steps"] - 1}
            )
            for other in self._replies.values():
                other.left = note if other.left is rewind else other.left
        else:
            self._entries.remove(rewind)
        reply.place, reply.places = index, dict.fromkeys(digests, (index, original_time))
        self._entries.append(reply)
        return True

    def _has_text_of(self, index: int, original: int) -> bool:
        note, original_note = self._noted.get(index), self._noted.get(original)
        return note is not None and original_note is not None and bool(note.text) and note.text in original_note.text

    def _drop_copied_notes(self, index: int, original: int) -> None:
        """Remove the messages before a copied line that say what those before the original say."""
        notes = {entry.place: entry for entry in self._entries[-_MAX_COPIED:] if isinstance(entry, SessionNote)}
        for _ in range(_MAX_COPIED):
            note = notes.get(index)
            while original >= 0 and note is not None and original not in self._noted:
                original = self._parents[original]
            if index <= original or original < 0 or (note is not None and note.text not in self._noted[original].text):
                return
            if note is not None:
                self._entries.remove(note)
                self._originals[index] = original
            index = self._parents[index]

    def _goes_back(self, time: int | None) -> bool:
        return time is not None and goes_back(time, self._latest, self._last)

    def _add(self, note: SessionNote, parts: Sequence[str]) -> bool:
        """Add a message or an event. False if each of its parts was written at its time before: it is a copy."""
        digests = [hash((note.time, note.kind if note.payload else "", part)) for part in parts]
        if note.time is not None and digests:
            notes = [self._said.get(digest) for digest in digests]
            repeats = self._entries[-1:] == [notes[0]] and note.time % 1000 > 0
            if notes[0] is not None and None not in notes and (repeats or self._goes_back(note.time)):
                self._originals[note.place] = notes[0].place
                self._latest = note.time
                return False
        self._said |= dict.fromkeys(digests, note)
        self._noted[note.place] = note
        self._entries.append(note)
        return True

    def _block(self, reply: Reply, block: object) -> None:
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
        self, line: Mapping[str, Any], message: Mapping[str, Any], index: int, parent: int, time: int | None
    ) -> None:
        content = message.get("content")
        body = []
        answers = early = False
        for block in blocks_of(content):
            if isinstance(block, dict) and block.get("type") == "tool_result":
                answers = True
                early = self._result(line, block, index, time) or early
            elif block:
                body.append(block_text(block))
        if body:
            kind = _kind(line, body, answers=answers)
            note = SessionNote(kind, index, time, "\n".join(body), images=images_of(content))
            if self._add(note, body) and kind in _BRANCHING:
                self._entries.pop()
                self._rewind(index, parent, time)
                self._entries.append(note)
        self._latest = self._latest if time is None or early else time

    def _result(self, line: Mapping[str, Any], block: Mapping[str, Any], index: int, time: int | None) -> bool:
        """Add a result to its call. True if the call was not written so far."""
        call_id, content = text(block.get("tool_use_id")), content_text(block.get("content"))
        open_call = self._open_calls.take(call_id, content)
        if open_call is None:
            if call_id in self._answered:
                self._originals[index] = self._answered[call_id]

            def put(step: StepBuilder, position: int) -> None:
                self._put(line, block, content, index, time, step, position)
                if time is not None and (self._latest is None or time > self._latest):
                    self._latest = time

            self._open_calls.hold(call_id, content, put)
            return call_id not in self._answered
        self._put(line, block, content, index, time, *open_call)
        return False

    def _put(
        self,
        line: Mapping[str, Any],
        block: Mapping[str, Any],
        content: str,
        index: int,
        time: int | None,
        step: StepBuilder,
        position: int,
    ) -> None:
        call = step.calls[position]
        self._answered[call.id] = index
        facts = mapping(line.get("toolUseResult"))
        failed = block.get("is_error")
        if call.name in _DELEGATES and ("agentId" in facts or "totalToolUseCount" in facts):
            self.agents[call.id] = text(facts.get("agentId"))
        if "transcriptDir" in facts or facts.get("taskType") == "local_workflow":
            self._workflows[call.id] = text(facts.get("runId"))
        result = ToolResult(
            call.id,
            content,
            failed is True or (failed is None and facts.get("interrupted") is True),
            is_unreadable(call.arguments),
            whole(facts.get("durationMs")),
            images_of(block.get("content")),
        )
        rejected = bool(text(line.get("toolDenialKind"))) or line.get("toolUseResult") == _REJECTED
        step.set_result(SOURCE, position, result, rejected=rejected)
        step.extend_to(time)

    def _event(self, line: Mapping[str, Any], index: int, time: int | None) -> None:
        kind = line.get("subtype")
        if kind == "compact_boundary":
            self._open_calls.forget_early()
            facts = mapping(line.get("compactMetadata"))
            payload = {"trigger": text(facts.get("trigger")) or None, "tokens": whole(facts.get("preTokens"))}
            self._add(SessionNote("compaction", index, time, payload=payload), [""])
        elif kind == "api_error":
            error = mapping(line.get("error"))
            message = text(error.get("formatted")) or text(error.get("message")) or f"status {error.get('status')}"
            payload = {"what": message, "attempt": whole(line.get("retryAttempt"))}
            self._add(SessionNote("retry", index, time, payload=payload), [message])

    def _rewind(self, index: int, parent: int, time: int | None) -> None:
        """Remove the branch that the session rewound from, if this prompt starts another one."""
        if parent < 0 or parent in self._trunks:
            return
        on_branch = {parent: True}
        entries: list[Reply | SessionNote] = []
        while self._entries and self._entries[-1].place > parent:
            entries.append(self._entries.pop())
        entries.reverse()
        branch = [
            entry
            for entry in entries
            if self._descends(entry.place, on_branch, parent) and (isinstance(entry, Reply) or entry.kind != "rewind")
        ]
        if not branch or not isinstance(branch[0], SessionNote) or branch[0].kind not in _BRANCHING:
            self._entries += entries
            self._trunks.update({parent} if branch else ())
            return
        branch_ids = {id(entry) for entry in branch}
        self._entries += [entry for entry in entries if id(entry) not in branch_ids]
        replies = [entry for entry in branch if isinstance(entry, Reply)]
        rewind = SessionNote("rewind", index, time, payload={"steps": len(replies)})
        for reply in replies:
            reply.left = rewind
        for digest in [digest for digest, note in self._said.items() if id(note) in branch_ids]:
            del self._said[digest]
        self._entries.append(rewind)

    def _descends(self, index: int, on_branch: dict[int, bool], parent: int) -> bool:
        path = []
        while index > parent and index not in on_branch:
            path.append(index)
            index = self._parents[index]
        descends = on_branch.get(index, False)
        on_branch.update(dict.fromkeys(path, descends))
        return descends

    def usages(self) -> Iterator[Usage]:
        """The usage of each response."""
        return (entry.usage for entry in self._entries if isinstance(entry, Reply))

    @property
    def prompt(self) -> str:
        prompts = (entry.text for entry in self._entries if isinstance(entry, SessionNote) and entry.kind == "prompt")
        return next(prompts, "").strip()

    def started(self, session: str, loose: Mapping[str, list[str]]) -> dict[str, list[StartedAgent]]:
        """The subagents that calls of this session started, by call; those of `loose` that are found are removed."""
        subagents: dict[str, list[StartedAgent]] = {}
        for entry in self._entries:
            for call in entry.calls if isinstance(entry, Reply) else ():
                if call.id in self._workflows:
                    agents = self._agents_of(self._workflows[call.id])
                    subagents[call.id] = [StartedAgent(f"{session}/{agent}", "") for agent in agents]
                if call.name not in _DELEGATES:
                    continue
                arguments = json_object(call.arguments)
                owner = self.agents.get(call.id) or next(iter(loose.get(text(arguments.get("prompt")).strip(), ())), "")
                if owner and not self.agents.get(call.id):
                    loose[text(arguments.get("prompt")).strip()].remove(owner)
                if owner or call.id in self.agents:
                    agent = text(arguments.get("subagent_type"))
                    subagents[call.id] = [StartedAgent(f"{session}/{owner}" if owner else None, agent)]
        return subagents

    def run(
        self,
        run_id: str,
        agent: str,
        parent_run_id: str | None,
        subagents: Mapping[str, Sequence[StartedAgent]],
        end: SubagentEnd | None = None,
        results: Sequence[Mapping[str, Any]] = (),
        inner: Usage = UNKNOWN_USAGE,
        *,
        session_id: str = "",
        branched_from: str = "",
    ) -> Run | None:
        """The run, with the subagents that it started, by call; None if there is neither a prompt nor a response."""
        branch = SessionBranch(self._damage, self._entries)
        builder = branch.builder
        builder.first_time, builder.last_time = self._first, self._last
        if builder.is_empty:
            return None
        if len(results) == 1:  # several may be of one turn each, or of all so far
            state_result(builder, results[0], inner)
        state_cost(builder, results)
        branch.add_subagents(subagents, self.endings)
        builder.note_origin(cwd=self._cwd, git_branch=self._branch, entrypoint=self._entrypoint)
        stop, limits = branch.stop(end)
        return builder.build(
            run_id,
            stop,
            agent=agent,
            parent_run_id=parent_run_id,
            limits=limits,
            error=branch.error if branch.ending == "error" else None,
            log_id=run_id if session_id else "",
            branched_from=branched_from,
        )


def _effort_of(thinking: Mapping[str, Any]) -> str | None:
    """The effort that a prompt asks for: a level, or the largest count of thinking tokens."""
    if not thinking:
        return None
    disabled = thinking.get("disabled") is True
    return "none" if disabled else effort_of(thinking.get("level"), thinking.get("maxThinkingTokens"))


def _digest(block: object) -> int:
    """What identifies a block within its response: the id of a call, else its content."""
    if isinstance(block, str):
        return hash(block)
    part = mapping(block)
    key = text(part.get("id")) or text(part.get("text")) or text(part.get("signature"))
    return hash(key or json_text(block))


def _kind(line: Mapping[str, Any], content: Sequence[str], *, answers: bool) -> str:
    if line.get("isCompactSummary") is True:
        return "summary"
    kinds = [_kind_of(part) for part in content]
    if "interrupted" in kinds:
        return "interrupted"
    if answers or line.get("isMeta") is True:
        return "harness"
    of_user = [kind for kind in kinds if kind not in ("harness", "notice")]
    return of_user[0] if of_user else "notice" if "notice" in kinds else "harness"


def _kind_of(part: str) -> str:
    part = part.lstrip()
    if part.startswith(_INTERRUPTED):
        return "interrupted"
    if part.startswith((*OUTPUTS, REMINDER)):
        return "harness"
    if part.startswith(NOTICES):
        return "notice"
    return "command" if part.startswith(_COMMANDS) else "prompt"
