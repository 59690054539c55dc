"""A run in the making, told from its start: what most readers build their runs with.

A reader calls `says` for messages, `replies` for each response of the model, `asks` for each of its calls, `gives` for
each result, `happened` for what else went on, and then `run`. Times are milliseconds since 1970, or None; a response
began when the last thing before it was heard.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from boolab.readers.drafts import Draft, Pairing, stop_at, unreadable, withheld
from boolab.readers.lines import Damage, json_text, one_line
from boolab.types import REDACTED, Event, Input, Message, Role, Run, Stop, StopReason, Text, ToolCall, ToolResult

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Talk:
    """One run in the making.

    Args:
        source: The name of the format.
        damage: Where results are noted that answer no call.

    Example:
        >>> talk = Talk("some_format")
        >>> talk.says("user", "Fix the test", opens=True)
        >>> reply = talk.replies()
        >>> talk.asks(reply, "c1", "bash", {"command": "ls"})
        >>> talk.gives("c1", "a.py", is_error=None)
        True
        >>> talk.run("session-1")
        <Run session- no agent/some_format: aborted, 1 steps, 1 calls>
    """

    def __init__(self, source: str, damage: Damage | None = None) -> None:
        self.source = source
        self.task = ""
        self.drafts: list[Draft] = []
        self.first: int | None = None
        """The earliest time that was heard of."""
        self.last: int | None = None
        """The latest."""
        self.models: Counter[str] = Counter()
        """The names of the models, by how many responses they gave."""
        self._prompt: list[Message] = []
        self._inputs: list[Input] = []
        self._events: list[tuple[int | None, str, dict[str, Any]]] = []
        self._started: list[tuple[Draft, int | None, dict[str, Any]]] = []
        self._pairing = Pairing(damage)
        self._heard: int | None = None
        self._opens = True
        self._asked = False

    @property
    def asked(self) -> bool:
        """Whether a user has said anything that wants an answer."""
        return self._asked

    @property
    def empty(self) -> bool:
        """Whether nobody asked anything and the model said nothing: then there is no run."""
        return not self._asked and not self.drafts

    def at(self, time: int | None) -> None:
        """Take note of a time at which the run was under way."""
        if time is not None:
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)

    def says(self, role: Role, said: str, *, opens: bool, time: int | None = None) -> None:
        """A message that is no response and no result.

        Args:
            role: `user` or `system`.
            said: Its text.
            opens: Whether it opens a turn: it is a user's own, not a reminder, a notice or a summary.
            time: When it came.
        """
        self._hear(time)
        if opens:
            self._opens = self._asked = True
            self.task = self.task or one_line(said)
        message = Message(role, (Text(said),))
        if self.drafts:
            self._inputs.append(Input(len(self.drafts) + 1, message))
        else:
            self._prompt.append(message)

    def replies(self, time: int | None = None, start: int | None = None, model: str = "") -> Draft:
        """A response of the model: one step.

        Args:
            time: When it was complete, as far as is known.
            start: When the model was asked; by default when the last thing before it was heard.
            model: The model's name.

        Returns:
            The step in the making, whose text, reasoning, usage and finish reason are the reader's to fill in.
        """
        turn = self.drafts[-1].turn if self.drafts else 0
        begun = start if start is not None else self._heard if self._heard is not None else time
        draft = Draft(turn + self._opens, begun)
        draft.model = model
        draft.said = None if begun is None or (start is None and self._heard is None) else time
        draft.lasts_until(time)
        self.at(start)
        self._hear(time)
        self._opens = False
        if model:
            self.models[model] += 1
        self.drafts.append(draft)
        return draft

    def goes_on(self, draft: Draft, time: int | None) -> None:
        """Another part of a response came."""
        if draft.said is not None and time is not None:
            draft.said = max(draft.said, time)
        draft.lasts_until(time)
        self._hear(time)

    def rewinds(self, kept: int, time: int | None = None) -> None:
        """Leave all steps but the first `kept` behind, with what was said since then."""
        steps = len(self.drafts) - kept
        del self.drafts[kept:]
        while self._inputs and self._inputs[-1].before > kept:
            self._inputs.pop()
        if not kept:
            self._prompt = [message for message in self._prompt if message.role == "system"]
        self.happened("rewind", time, steps=steps)

    def asks(self, draft: Draft, call_id: str, name: str, arguments: object) -> None:
        """A call that a response asks for; `arguments` is the raw text, or any JSON value, or what stands for it."""
        raw = arguments if isinstance(arguments, str) else json_text({} if arguments is None else arguments)
        if "redacted" in raw.lower() and withheld(arguments):
            raw = REDACTED
        self._pairing.ask(draft, ToolCall(call_id, name, raw))

    def gives(
        self,
        call_id: str,
        content: str,
        *,
        is_error: bool | None,
        time: int | None = None,
        duration_ms: int | None = None,
    ) -> bool:
        """The result of a call, found by its id and position; False (and noted as damage) if it answers none."""
        found = self._pairing.answer(call_id)
        if found is None:
            return False
        self.settle(*found, content, is_error=is_error, time=time, duration_ms=duration_ms)
        return True

    def settle(
        self,
        draft: Draft,
        place: int,
        content: str,
        *,
        is_error: bool | None,
        time: int | None = None,
        duration_ms: int | None = None,
    ) -> None:
        """The result of the call at a place of a draft, for formats that hold both in one."""
        call = draft.calls[place]
        bad = call.arguments != REDACTED and unreadable(call.arguments)
        draft.results[place] = ToolResult(call.id, content, is_error, bad, duration_ms)
        draft.lasts_until(time)
        self._hear(time)

    def happened(self, kind: str, time: int | None = None, **what: object) -> None:
        """Something else: `retry`, `compaction`, `fault`, `abort`, `rewind`."""
        self.at(time)
        self._events.append((time, kind, {"after_step": len(self.drafts), **what}))

    def starts(self, draft: Draft, call_id: str, run_id: str | None, agent: str = "", time: int | None = None) -> None:
        """A call of a draft started a subagent.

        Args:
            draft: The response that asked for the call.
            call_id: The call's id.
            run_id: The id that the subagent's run has, as its own reader gives it; None where it is not known.
            agent: The subagent's name, "" where it is not known.
            time: When.
        """
        self._started.append((draft, time, {"run_id": run_id, "agent": agent, "reason": None, "call_id": call_id}))

    def ending(self, *, cut: bool = False) -> StopReason:
        """How it ended as far as its last response tells: `finished` if that asked for no tools, else `aborted`.

        Args:
            cut: Whether the log ends before it should, so that nobody knows.
        """
        if cut or not self.drafts or self.drafts[-1].calls or self.drafts[-1].error:
            return "aborted"
        return "finished"

    def run(
        self,
        run_id: str,
        stop: StopReason | Stop | None = None,
        *,
        cut: bool = False,
        agent: str = "",
        model: str = "",
        task: str = "",
        parent_run_id: str | None = None,
        success: bool | None = None,
        error: str | None = None,
        limits: dict[str, int] | None = None,
        duration_ms: int | None = None,
    ) -> Run:
        """The record.

        Args:
            run_id: Its id.
            stop: Why it ended; by default what `ending` says.
            cut: Whether the log ends before it should; used where `stop` is not given.
            agent: The agent's name.
            model: The model's name; by default the one that gave most responses.
            task: The task; by default the first thing that the user said.
            parent_run_id: The run that this is a subagent of.
            success: The label.
            error: What broke the run.
            limits: The limits that were in force, by the names of their counters.
            duration_ms: How long it took; by default from the first to the last time that was heard of.
        """
        reason = self.ending(cut=cut) if stop is None else stop
        origin = self.first
        if duration_ms is None and origin is not None and self.last is not None:
            duration_ms = self.last - origin
        steps = len(self.drafts)
        for _, _, what in reversed(self._events):  # one that was rewound over stands where the rewinding led to
            what["after_step"] = steps = min(what["after_step"], steps)
        places = {id(draft): step for step, draft in enumerate(self.drafts, 1)}
        for draft, time, facts in self._started:
            if id(draft) in places:
                self._events.append((time, "subagent", {"after_step": places[id(draft)], **facts}))
        if self._started:
            self._events.sort(key=lambda event: event[2]["after_step"])
        model = model or (self.models.most_common(1)[0][0] if self.models else "")
        return Run(
            run_id=run_id,
            agent=agent,
            model=model,
            policy=self.source,
            task=task or self.task,
            stop=reason if isinstance(reason, Stop) else stop_at(reason, self.drafts),
            steps=tuple(draft.step(index, origin, model) for index, draft in enumerate(self.drafts, 1)),
            prompt=tuple(self._prompt),
            inputs=tuple(self._inputs),
            source=self.source,
            parent_run_id=parent_run_id,
            started_at=None if origin is None else _EPOCH + timedelta(milliseconds=origin),
            limits=limits or {},
            duration_ms=duration_ms,
            events=tuple(Event(self._since(time), kind, what) for time, kind, what in self._events),
            success=success,
            error=error,
        )

    def _since(self, time: int | None) -> int | None:
        return None if time is None or self.first is None else max(0, time - self.first)

    def _hear(self, time: int | None) -> None:
        self.at(time)
        self._heard = self._heard if time is None else time


def cap_stop(talk: Talk, cap: int, rule: str) -> Stop:
    """A stop by a cap on the steps that the log tells of: `rule` is the harness's name for it."""
    at = stop_at("step_cap", talk.drafts)
    return at._replace(rule=f"{rule}({cap})", threshold=cap, value=max(cap, len(talk.drafts)))
