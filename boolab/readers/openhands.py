"""OpenHands before its SDK (V0): evaluations (`output.jsonl`), the resolver's output, and single trajectories.

What a log is
-------------
A line of an evaluation has the events of its instance under `history`, in a list, or in old files as pairs of an
action and its observation. A trajectory is a JSON list of events. See github.com/OpenHands/OpenHands
(`openhands/events`) and `boolab.readers.openhands_rows`.

What a step is
--------------
Actions of the agent with the same `tool_call_metadata.model_response.id` are the calls of one response; an action
without metadata (agents that do not call functions) is a response of its own, and so is a message. Calls have the name
and the raw arguments that the model gave; where only the action is known, its kind and its `args` without `thought`.
Actions `system`, `recall`, `change_agent_state` and those of users are no steps; a `condensation` is an event. The call
`finish` has no observation, so it stays without result.

An observation is the result of the action that it names as its `cause`, else of its `tool_call_id`. `error` and
`user_rejected` are errors. A command is one if its exit code is not 0, and unknown if it has none yet (-1, it runs
on). The editor (`edit`, `read`, `write`) fails with `error`, or where it is OpenHands' own (`oh_aci`) with a text that
begins with `ERROR:`; browsers and MCP tools have a flag. Python cells, delegates and others do not say.

Tokens and finish reasons are those of the model response, else those that the metrics of the row list for its id, else
what the accumulated metrics of an action (`llm_metrics`) added to the ones before, as is the cost. Times have no zone
and are taken for UTC.

What a delegate does stands between the action `delegate` and its observation: a run of its own.

How it ended
------------
By the call `finish`, or as the `error` of the row, the last state (`agent_state_changed`) or its reason say: maximum
iterations (each action is one), maximum budget, stuck in a loop, timeout. The limit of iterations is known from the
row's `metadata`. `success` is the resolver's, or the report of an evaluation in the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boolab.errors import RunFormatError
from boolab.finish_reasons import finish_reason
from boolab.readers.drafts import Draft, stop_at
from boolab.readers.lines import (
    Damage,
    Head,
    Warn,
    content_text,
    epoch_ms,
    items,
    json_text,
    json_values,
    mapping,
    one_line,
    parse,
    text,
    warn_reader,
    whole,
)
from boolab.readers.openhands_rows import Meter, Row, ending, said
from boolab.readers.talk import Talk
from boolab.types import UNKNOWN_USAGE, Run, Stop, Usage

NAME: Final = "openhands"
SCOPE: Final = "run"
SUFFIXES: Final = (".jsonl", ".json")
PLACES: Final = ()
LOOKED_FOR: Final = (
    'JSON lines with "instance_id" (or "issue") and a "history" of events, or a list of events with "action" or '
    '"observation"'
)

_NO_STEPS: Final = ("", "change_agent_state", "condensation_request", "null", "pause", "recall", "resume", "system")
_NO_RESULTS: Final = ("", "agent_state_changed", "condense", "null", "recall", "loop_detection")
_EDITOR: Final = ("edit", "read", "write")
_BROWSER: Final = ("browse", "browse_interactive")
_FAILED: Final = ("error", "user_rejected")
_ENDINGS: Final = ("finish", "reject")


def sniff(head: Head) -> bool:
    """Whether this is an evaluation, a resolver's output, or a trajectory."""
    if not head.values:
        return False
    value = head.values[0]
    if isinstance(value, list):
        return bool(value) and all(_is_event(event) for event in value[:3])
    row = mapping(value)
    if not ({"instance_id", "test_result"} <= row.keys() or {"issue", "issue_type"} <= row.keys()):
        return False
    history = items(row.get("history"))
    if history:
        return _is_event(history[0]) or (isinstance(history[0], list) and _is_event(next(iter(history[0]), None)))
    return "issue_type" in row or "agent_class" in mapping(row.get("metadata"))


def _is_event(value: object) -> bool:
    event = mapping(value)
    if isinstance(event.get("action"), str):
        return (
            "kind" not in event and isinstance(event.get("args", {}), dict) and ("args" in event or "source" in event)
        )
    return isinstance(event.get("observation"), str) and ("extras" in event or "content" in event)


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The runs of one file: one for each instance or trajectory, and those of its delegates.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    damage = Damage(path)
    seen: Counter[str] = Counter()
    runs: list[Run] = []
    for number, value in json_values(path, damage):
        if isinstance(value, list):
            if not any(_is_event(event) for event in value[:20]):
                raise RunFormatError(f"a trajectory of OpenHands is {LOOKED_FOR}", path=path, line=number)
            tale = _Tale(value, None, damage)
            runs += tale.runs(path.stem, cut=damage.cut)
        elif isinstance(value, dict) and ("history" in value or "instance_id" in value):
            row = Row(value, path, seen)
            tale = _Tale(items(value.get("history")), row, damage)
            runs += tale.runs(row.run_id, cut=damage.cut)
        else:
            damage.note(number, "no instance with a history")
            continue
    damage.tell(warn, readable=bool(runs))
    if not runs:
        raise RunFormatError(f"nothing of OpenHands in it: looked for {LOOKED_FOR}", path=path, line=1)
    return runs


class _Chain:
    """What one agent did: the one that was asked, or a delegate."""

    def __init__(self, agent: str, handed: tuple[Draft, int] | None = None) -> None:
        self.talk = Talk(NAME)
        self.agent = agent
        self.handed = handed
        """The call of the parent that it works on."""
        self.done = ""
        """The action that ended it."""
        self.state = ""
        self.reason = ""
        self._replies: dict[str, Draft] = {}

    def reply(self, response: Mapping[str, Any], time: int | None) -> tuple[Draft, bool]:
        """The step of a response, and whether it is new."""
        name = text(response.get("id"))
        known = self._replies.get(name) if name else None
        if known is not None:
            known.lasts_until(time)
            return known, False
        draft = self.talk.replies(time, model=text(response.get("model")))
        if name:
            self._replies[name] = draft
        return draft, True


class _Tale:
    """The events of one instance, told from their start."""

    def __init__(self, history: Sequence[Any], row: Row | None, damage: Damage) -> None:
        self._row = row
        self._meter = Meter()
        self._places: dict[int | str, tuple[_Chain, Draft, int]] = {}
        self._stack = [_Chain("" if row is None else row.agent)]
        self._chains = list(self._stack)
        self._damage = damage
        for item in history:
            if isinstance(item, list):
                self._pair([mapping(event) for event in item])
            else:
                self._take(mapping(item))

    def _pair(self, events: Sequence[Mapping[str, Any]]) -> None:
        """An action and its observation, as old files have them."""
        place = None
        for event in events:
            if "observation" in event:
                self._observe(event, place)
            else:
                place = self._act(event)

    def _take(self, event: Mapping[str, Any]) -> None:
        if "observation" in event:
            self._observe(event, None)
        elif "action" in event:
            self._act(event)

    def _act(self, event: Mapping[str, Any]) -> tuple[_Chain, Draft, int] | None:
        """Take an action; where its call stands, if it is one."""
        kind, time = text(event.get("action")), epoch_ms(event.get("timestamp"))
        arguments = mapping(event.get("args"))
        source, chain = event.get("source"), self._stack[-1]
        chain.talk.at(time)
        if kind == "condensation":
            chain.talk.happened("compaction", time)
        elif kind == "message" and source == "user":
            chain.done = ""
            chain.talk.says("user", text(arguments.get("content")), opens=True, time=time)
        elif kind == "system" and not chain.talk.drafts:
            chain.talk.says("system", text(arguments.get("content")), opens=False, time=time)
        elif source not in ("user", "environment") and kind not in _NO_STEPS:
            return self._work(chain, kind, event, time)
        return None

    def _work(
        self, chain: _Chain, kind: str, event: Mapping[str, Any], time: int | None
    ) -> tuple[_Chain, Draft, int] | None:
        """Take an action that a response asked for; where its call stands, if it is one."""
        arguments = mapping(event.get("args"))
        metadata = mapping(event.get("tool_call_metadata"))
        response = mapping(metadata.get("model_response"))
        draft, new = chain.reply(response, time)
        if new:
            self._fill(draft, response, event)
            thought = text(arguments.get("content" if kind == "message" else "thought"))
            if not draft.text and thought and kind != "think":
                draft.text.append(thought)
        chain.done = kind if kind in _ENDINGS else ""
        if kind == "message":
            return None
        name, asked = _asked(event, kind, metadata, response)
        place = (chain, draft, len(draft.calls))
        called = text(metadata.get("tool_call_id"))
        chain.talk.asks(draft, called, name, asked)
        number = event.get("id")
        if isinstance(number, int):
            self._places[number] = place
        if called:
            self._places[called] = place
        if kind == "delegate":
            self._hand_over(arguments, place, time)
        return place

    def _fill(self, draft: Draft, response: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """What the model's response says of itself."""
        choice = mapping(next(iter(items(response.get("choices"))), None))
        message = mapping(choice.get("message"))
        content = content_text(message.get("content"))
        draft.text += [content] if content else []
        reasoning = text(message.get("reasoning_content"))
        draft.reasoning += [reasoning] if reasoning else []
        draft.finish_reason = finish_reason(choice.get("finish_reason"))
        usage = _usage(mapping(response.get("usage")))
        if usage == UNKNOWN_USAGE and self._row is not None:
            usage = self._row.usages.get(text(response.get("id")), usage)
        metrics = mapping(event.get("llm_metrics"))
        if metrics:
            added = self._meter.read(metrics)
            usage = added if usage == UNKNOWN_USAGE else usage._replace(cost=added.cost)
        else:
            self._meter.miss()
        draft.usage = usage

    def _hand_over(self, arguments: Mapping[str, Any], place: tuple[_Chain, Draft, int], time: int | None) -> None:
        _, draft, number = place
        child = _Chain(text(arguments.get("agent")) or "delegate", (draft, number))
        given = mapping(arguments.get("inputs"))
        task = text(given.get("task")) or json_text(dict(given))
        child.talk.says("user", task, opens=True, time=time)
        self._stack.append(child)
        self._chains.append(child)

    def _observe(self, event: Mapping[str, Any], place: tuple[_Chain, Draft, int] | None) -> None:
        kind, time = text(event.get("observation")), epoch_ms(event.get("timestamp"))
        chain = self._stack[-1]
        if kind == "agent_state_changed":
            extras = mapping(event.get("extras"))
            chain.state = text(extras.get("agent_state"))
            chain.reason = text(extras.get("reason")) or (chain.reason if chain.state == "error" else "")
        if kind in _NO_RESULTS:
            return
        if kind == "delegate" and len(self._stack) > 1:
            done = self._stack.pop()
            if done.handed is not None:
                place = (self._stack[-1], *done.handed)
        found = place or self._cause(event)
        if found is None:
            if kind == "error" and event.get("cause") is None:
                chain.reason = chain.reason or text(event.get("content"))
                chain.talk.happened("fault", time, what=one_line(text(event.get("content"))))
            else:
                self._damage.answers_no_call()
            return
        owner, draft, number = found
        if draft.results[number] is None:
            content = content_text(event.get("content"))
            owner.talk.settle(draft, number, content, is_error=_failed(kind, event), time=time)

    def _cause(self, event: Mapping[str, Any]) -> tuple[_Chain, Draft, int] | None:
        cause = event.get("cause")
        found = self._places.get(cause) if isinstance(cause, int) else None
        return found or self._places.get(text(mapping(event.get("tool_call_metadata")).get("tool_call_id")))

    def runs(self, run_id: str, *, cut: bool) -> list[Run]:
        """The records: the agent's, then those of its delegates."""
        row = self._row
        found = []
        for place, chain in enumerate(self._chains):
            self._tell_of_start(chain, f"{run_id}/delegate-{place}")
        for place, chain in enumerate(self._chains):
            main = place == 0
            if main and row is None and chain.talk.empty:
                continue
            error = (row.error if main and row is not None else "") or chain.reason
            cap = row.cap if main and row is not None else None
            stop, limits = self._end(chain, error, cap, cut=cut)
            found.append(
                chain.talk.run(
                    run_id if main else f"{run_id}/delegate-{place}",
                    stop,
                    agent=chain.agent,
                    model="" if chain.talk.models or row is None else row.model,
                    task=row.task if main and row is not None else "",
                    parent_run_id=None if main else run_id,
                    success=row.success if main and row is not None else None,
                    error=said(error),
                    limits=({} if cap is None else {"steps": cap}) | limits,
                )
            )
        return found

    def _tell_of_start(self, child: _Chain, run_id: str) -> None:
        """Note with the agent that handed over to a delegate at which step it did."""
        for chain in self._chains:
            if child.handed is not None and any(draft is child.handed[0] for draft in chain.talk.drafts):
                draft, number = child.handed
                chain.talk.starts(draft, draft.calls[number].id, run_id, child.agent)

    def _end(self, chain: _Chain, error: str, cap: int | None, *, cut: bool) -> tuple[Stop, dict[str, int]]:
        """How an agent ended, and the limit that its error tells of."""
        drafts = chain.talk.drafts
        if chain.done == "finish":
            return stop_at("finished", drafts), {}
        if chain.done == "reject" or chain.state in ("stopped", "rejected"):
            return stop_at("aborted", drafts), {}
        if error or chain.state == "error":
            return ending(chain.talk, error, cap)
        if chain.state == "paused":
            return stop_at("paused", drafts), {}
        return stop_at(chain.talk.ending(cut=cut), drafts), {}


def _asked(
    event: Mapping[str, Any], kind: str, metadata: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[str, object]:
    """The name and the arguments of an action's call: the model's own if they are there."""
    name = text(metadata.get("function_name")) or kind
    wanted = text(metadata.get("tool_call_id"))
    choice = mapping(next(iter(items(response.get("choices"))), None))
    for item in items(mapping(choice.get("message")).get("tool_calls")):
        call = mapping(item)
        function = mapping(call.get("function"))
        if wanted and call.get("id") == wanted and function.get("arguments") is not None:
            return name, function["arguments"]
    given = mapping(event.get("args"))
    return name, {key: value for key, value in given.items() if key != "thought" or kind == "think"}


def _failed(kind: str, event: Mapping[str, Any]) -> bool | None:
    """Whether an observation is an error; None if it does not say."""
    if kind in _FAILED:
        return True
    extras = mapping(event.get("extras"))
    if kind == "run":
        code = mapping(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
        return None if isinstance(code, bool) or not isinstance(code, int) or code == -1 else code != 0
    if kind in _EDITOR:
        return extras.get("impl_source") == "oh_aci" and text(event.get("content")).startswith("ERROR:")
    if kind == "mcp":
        return _flag(_parsed(text(event.get("content"))).get("isError"))
    if kind in _BROWSER:
        return _flag(extras.get("error"))
    return False if kind == "think" else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _parsed(content: str) -> Mapping[str, Any]:
    if not content.startswith("{"):
        return {}
    try:
        return mapping(parse(content.encode("utf-8", "surrogatepass")))
    except ValueError:
        return {}


def _usage(usage: Mapping[str, Any]) -> Usage:
    entered, left = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))
    if not entered and not left:
        return UNKNOWN_USAGE
    cached = whole(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    if cached is None:
        cached = whole(usage.get("cache_read_input_tokens"))
    reasoned = whole(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    return Usage(entered, left, cached, reasoned)
