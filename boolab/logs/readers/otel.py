"""OpenTelemetry: spans of GenAI clients and agents as OTLP JSON, such as the collector's file exporter writes.

A document `{"resourceSpans": [...]}`, or one such document a line. Attributes: see `docs/gen-ai` in
github.com/open-telemetry/semantic-conventions-genai; older names and events are in the history of
github.com/open-telemetry/semantic-conventions.

Spans, by `gen_ai.operation.name`:

- `chat`, `text_completion`, `generate_content`: a step. A single one within another is the same response from a second
  instrumentation, and adds what the outer one lacks. One around several is no response.
- `execute_tool`: a call and its result. It is paired by `gen_ai.tool.call.id` with a call of an earlier response, else
  by name with one of the last response. If no response has the call (content is captured only on request), it is a call
  of the last response that began before it. Arguments that no span has are unknown.
- `invoke_agent`: a run. One within another is a subagent's, linked to it; so are responses within a tool. Top-level
  ones with the same `gen_ai.conversation.id` and agent are one run, and each is a turn.
- Spans without an agent above them are one run for each conversation, or for each trace.

Steps are in the order of their spans' start. Of a response's input messages, those after the last assistant message are
new: users' texts, and results that no tool's span has. A log may begin in the middle of a conversation; earlier
responses are no steps.

A span with status 2 or an `error.type` is an error. The conventions leave the status unset on success, so no other
span of a tool is an error. For results that are only in messages it is unknown. `input_tokens` includes cached tokens
by convention; if it is less than these, the instrumentation excludes them. If its agent's span failed, a run ended in
an error, was stopped by a step cap, or was aborted, by the error's name. There are no labels. Costs are only known if
the instrumentation adds `gen_ai.usage.cost`.

Spans of OpenInference, of a console exporter and of the OpenAI Agents SDK are turned into these: see `_otel_dialects`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, Stop, StopReason, Usage
from boolab.io.json_input import Damage, items, json_values, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, all_input, effort_of, name_or_none
from boolab.logs.readers._otel_dialects import HANDOFF, is_other_span, other_spans
from boolab.logs.readers._otel_spans import AGENT, CHAT, TOOL, Key, Span, SpanMessage, result_of, spans_of
from boolab.logs.step_builder import elapsed_ms

NAME: Final = "otel"
SCOPE: Final = "turn"
SUFFIXES: Final = (".json", ".jsonl")
PLACES: Final = ()
_EFFORTS: Final = tuple(
    f"gen_ai.{name}"
    for name in ("request.reasoning_effort", "request.reasoning.effort", "openai.request.reasoning_effort")
)
_TIERS: Final = tuple(
    f"{space}.{side}.service_tier" for side, space in product(("response", "request"), ("openai", "gen_ai.openai"))
)
LOOKED_FOR: Final = (
    'OTLP JSON: {"resourceSpans": [...]}, or lines of it, with gen_ai or openinference attributes, spans with "context"'
    ' of a console exporter, or with "object" and "span_data" of the OpenAI Agents SDK'
)

MAX_DEPTH: Final = 32
_CAPS: Final = (
    "maxturns",
    "max_turns",
    "max turns",
    "maxiterations",
    "max_iterations",
    "maxsteps",
    "max_steps",
    "graphrecursion",
)
_CANCELLED: Final = ("cancel", "abort", "keyboardinterrupt")

_NAMES: Final = {AGENT: "gen_ai.agent.name", TOOL: "gen_ai.tool.name"}

_Name: TypeAlias = tuple[str, str, str]
"""Identifies a run: `session` or `span`, the conversation's or trace's id, and the agent or the span's id."""


def sniff(head: Head) -> bool:
    """Whether this is OTLP JSON with spans in it."""
    return any(isinstance(mapping(value).get("resourceSpans"), list) or is_other_span(value) for value in head.values)


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file."""
    spans = _Sorted()
    groups: dict[str, str] = {}
    for number, value in json_values(path, damage):
        document = mapping(value)
        if isinstance(document.get("resourceSpans"), list):
            for span in spans_of(document):
                spans.take(span, damage, number)
        elif is_other_span(value):
            for span in other_spans(value, groups):
                spans.take(span, damage, number)
        elif not {"resourceMetrics", "resourceLogs"} & document.keys():
            damage.note(number, 'an entry without "resourceSpans"')
    runs = spans.runs(damage)
    damage.unrecognised = "no span in it is a model's response or an agent's (see gen_ai.operation.name)"
    return runs


class _Sorted:
    """The spans of a file, sorted into runs."""

    def __init__(self) -> None:
        self._parents: dict[Key, Key] = {}
        self._spans: dict[Key, Span] = {}
        self._above: dict[Key, Span | None] = {}
        self._homes: dict[Key, Span | None] = {}

    def take(self, value: object, damage: Damage, line: int) -> None:
        span = mapping(value)
        if not text(span.get("traceId")) or not text(span.get("spanId")):
            damage.note(line, "a span without traceId or spanId")
            return
        entry = Span(span, len(self._parents))
        self._parents[entry.key] = entry.parent
        if entry.kind:
            self._spans[entry.key] = entry

    def runs(self, damage: Damage) -> list[Run]:
        self._leave_out_wrappers()
        steps = self._steps()
        groups: dict[_Name, _RunSpans] = {}
        for span in steps:
            home = span if span.kind == AGENT else self._home(span)
            name = self._name(span, home)
            if name not in groups:
                groups[name] = _RunSpans(None if home is None else self._parent_name(home), damage)
            groups[name].take(span, home)
        titles = _titles(groups)
        for name, group in groups.items():
            if group.above in groups and group.is_run:
                groups[group.above].start(name, group.home)
        damage.line = None  # spans are taken in the order of time, not of lines
        return [group.run(titles[name], titles, damage) for name, group in groups.items() if group.is_run]

    def _leave_out_wrappers(self) -> None:
        """Leave out agents without name and input within which there are only agents, as around a workflow."""
        within: dict[Key, set[str]] = {}
        for span in self._spans.values():
            owner = self._owner(span.key)
            if owner is not None:
                within.setdefault(owner.key, set()).add(span.kind)
        for key, kinds in within.items():
            span = self._spans[key]
            if kinds == {AGENT} == {span.kind} and not (span.given or text(span.about.get(_NAMES[AGENT]))):
                del self._spans[key]
        self._above.clear()

    def _steps(self) -> list[Span]:
        """The spans in their order, each response once."""
        children: dict[Key, list[Span]] = {}
        for span in self._spans.values():
            owner = self._owner(span.key)
            if owner is not None and owner.kind == CHAT and span.kind in (CHAT, TOOL):
                children.setdefault(owner.key, []).append(span)
        left_out = set()
        outer_keys: dict[Key, Key] = {}
        for key, inner in sorted(children.items(), key=lambda pair: self._spans[pair[0]].order, reverse=True):
            chats = [span for span in inner if span.kind == CHAT]
            if len(chats) == 1 and not _leads(outer_keys, key, chats[0].key):
                self._spans[key].adopt(chats[0])
                outer_keys[chats[0].key] = key
                left_out.add(chats[0].key)
            elif len(chats) > 1:
                left_out.add(key)
        spans = (span for key, span in self._spans.items() if key not in left_out)
        return sorted(spans, key=lambda span: span.order)

    def _owner(self, key: Key) -> Span | None:
        """The nearest GenAI span above."""
        return self._climb(key, self._above, lambda _: True)

    def _home(self, span: Span) -> Span | None:
        """The span of the run of this span: an agent's, or that of a tool that calls a model or other tools."""
        owner = self._owner(span.key)
        return owner if owner is not None and owner.kind == TOOL else self._agent_above(span)

    def _agent_above(self, span: Span) -> Span | None:
        return self._climb(span.key, self._homes, lambda above: above.kind == AGENT)

    def _climb(self, key: Key, cache: dict[Key, Span | None], matches: Callable[[Span], bool]) -> Span | None:
        """The nearest wanted span above, which is cached for all spans on the way."""
        passed: dict[Key, None] = {}
        current: Key | None = key
        nearest: Span | None = None
        while current is not None and current not in passed:
            if current in cache:
                nearest = cache[current]
                break
            passed[current] = None
            current = self._parents.get(current)
            span = None if current is None else self._spans.get(current)
            if span is not None and matches(span):
                nearest = span
                break
        cache.update(dict.fromkeys(passed, nearest))
        return nearest

    def _parent_name(self, home: Span) -> _Name | None:
        """The parent of this span's run, if it is a subagent's."""
        above = self._home(home) if home.kind == TOOL else self._agent_above(home)
        if above is not None:
            return self._name(above, above)
        return self._name(home, None) if home.kind == TOOL else None

    def _name(self, span: Span, home: Span | None) -> _Name:
        conversation = text((span if home is None else home).about.get("gen_ai.conversation.id"))
        if home is None:
            return ("session", conversation or span.key[0], "")
        if home.kind == TOOL or self._agent_above(home) is not None or not conversation:
            return ("span", *home.key)
        return ("session", conversation, text(home.about.get("gen_ai.agent.name")))


def _leads(outer_keys: Mapping[Key, Key], key: Key | None, end: Key) -> bool:
    """Whether one leads to the other, as in damaged files; also if the chain is longer than any real one."""
    for _ in range(MAX_DEPTH):
        if key is None or key == end:
            return key == end
        key = outer_keys.get(key)
    return True


def _titles(groups: Mapping[_Name, _RunSpans]) -> dict[_Name, str]:
    """The id of each run: the conversation's or the trace's, with more if several runs share it."""
    shared = Counter(name[1] for name in groups)
    titles: dict[_Name, str] = {}
    run_ids: set[str] = set()
    for name in groups:
        single = shared[name[1]] == 1 and groups[name].above is None
        title = name[1] if single or not name[2] else f"{name[1]}/{name[2]}"
        while title in run_ids:
            title += "'"
        run_ids.add(title)
        titles[name] = title
    return titles


class _RunSpans:
    """The spans of one run, in order. `above` is the run that it is a subagent of."""

    def __init__(self, above: _Name | None, damage: Damage) -> None:
        self.above = above
        self._homes: dict[Key, Span] = {}
        self._spans: list[tuple[Span, Span | None]] = []
        self._children: list[tuple[Span, _Name]] = []
        """The subagents that it started, each with the span of the agent or tool."""
        self._builder = RunBuilder(NAME, truncated=damage.truncated, checked=damage)
        self._known: set[str] = set()
        """The ids of all calls, and of results without a call."""
        self._turn: Key | None = None
        self._waiting: Counter[str] = Counter()
        """The ids of the open calls of the last response."""
        self._named: dict[str, list[str]] = {}
        """The same, by the names of their tools."""
        self._handed_over = False

    def take(self, span: Span, home: Span | None) -> None:
        """Take one span, and the one of the agent or tool that it belongs to."""
        if home is not None:
            self._homes.setdefault(home.key, home)
        if span.kind != AGENT:
            self._spans.append((span, home))

    def start(self, name: _Name, home: Span) -> None:
        """Add a subagent, by its first span."""
        self._children.append((home, name))

    @property
    def home(self) -> Span:
        return min(self._homes.values(), key=lambda home: home.order)

    @property
    def is_run(self) -> bool:
        """Whether it has a response or an agent: a tool within a tool is no run."""
        kinds = {home.kind for home in self._homes.values()} | {span.kind for span, _ in self._spans}
        return not kinds.isdisjoint((AGENT, CHAT))

    def run(self, run_id: str, titles: Mapping[_Name, str], damage: Damage) -> Run:
        builder = self._builder
        agents = [home for home in self._homes.values() if home.kind == AGENT]
        children = sorted(self._children, key=lambda pair: pair[0].order, reverse=True)
        for span, home in self._spans:
            while children and children[-1][0].order < span.order:
                self._note(*children.pop(), titles)
            if span.kind == CHAT:
                self._reply(span, home, damage)
            else:
                self._execute(span, home, damage)
        while children:
            self._note(*children.pop(), titles)
        for agent in agents:
            builder.note_time(agent.start)
            builder.note_time(agent.end)
            if not builder.steps:
                self._add_input(agent.given, agent, damage, fresh=False)
        names = (text(home.about.get(_NAMES[home.kind])) for home in self._homes.values())
        stop, error = self._end(agents[-1] if agents else None)
        self._state_totals(agents)
        return builder.build(
            run_id,
            stop,
            agent=next(filter(None, names), ""),
            model="" if builder.models or not agents else _model(agents[-1]),
            parent_run_id=None if self.above is None else titles.get(self.above),
            error=error,
            log_id=run_id,
        )

    def _state_totals(self, agents: Sequence[Span]) -> None:
        """Pass the usage of the agents' spans to the builder: that of all responses within, of subagents too."""
        for name in ("input_tokens", "output_tokens"):
            tokens = [getattr(_usage(agent), name) for agent in agents]
            if tokens and None not in tokens:
                self._builder.state("usage of its agent", **{name: (0 if self._children else sum(tokens), sum(tokens))})

    def _note(self, home: Span, name: _Name, titles: Mapping[_Name, str]) -> None:
        """Add the start of a subagent by the last response before it."""
        if self._builder.steps:
            call_id, agent = text(home.about.get("gen_ai.tool.call.id")), text(home.about.get(_NAMES[home.kind]))
            self._builder.add_subagent(self._builder.steps[-1], call_id, titles[name], agent, home.start)

    def _end(self, agent: Span | None) -> tuple[StopReason | Stop | None, str | None]:
        steps = self._builder.steps
        error = agent.error if agent is not None else ""
        if error:
            message = error.lower()
            if any(word in message for word in _CAPS):
                return self._builder.stop("step_cap"), None
            return ("aborted", None) if any(word in message for word in _CANCELLED) else ("error", error)
        if self._builder.truncated:
            return None, None
        if not steps or self._handed_over:
            return "finished", None
        if steps[-1].error:
            return "error", steps[-1].error
        return ("aborted" if steps[-1].finish_reason == "tool_calls" else None), None

    def _reply(self, span: Span, home: Span | None, damage: Damage) -> None:
        builder = self._builder
        messages = span.given
        fresh = home is not None and home.key != self._turn
        self._turn = None if home is None else home.key
        if fresh and home is not None and not any(entry.role == "user" and entry.text for entry in messages):
            messages = [*home.given, *messages]
        self._add_input(messages, span, damage, fresh=fresh)
        step = builder.add_response(span.end, span.start, _model(span))
        step.id = text(span.about.get("gen_ai.response.id")) or span.key[1]
        self._waiting.clear()
        self._named.clear()
        self._handed_over = False
        if span.made:  # others are alternatives
            message = span.made[0]
            step.add_text(message.text)
            step.add_reasoning(message.reasoning)
            step.finish_reason = message.reason
            for call_id, name, arguments in message.calls:
                self._add_call(call_id, name, arguments)
        reasons = span.about.get("gen_ai.response.finish_reasons")
        first = reasons if isinstance(reasons, str) else next(iter(items(reasons)), None)
        step.finish_reason = finish_reason(first) or step.finish_reason
        step.usage = _usage(span)
        step.version = span.version
        step.effort = effort_of(*(span.about.get(name) for name in _EFFORTS))
        step.service_tier = next((word for name in _TIERS if (word := name_or_none(span.about.get(name)))), None)
        step.error = span.error

    def _add_call(self, call_id: str, name: str, arguments: object) -> str:
        """Add a call to the last response, with a new id if it has none."""
        step = self._builder.steps[-1]
        call_id = call_id or f"{len(self._builder.steps)}.{len(step.calls) + 1}"
        self._builder.add_call(step, call_id, name, arguments)
        self._known.add(call_id)
        self._waiting[call_id] += 1
        self._named.setdefault(name, []).append(call_id)
        return call_id

    def _add_input(self, messages: Sequence[SpanMessage], span: Span, damage: Damage, *, fresh: bool) -> None:
        """Add what precedes a response: results that no span has, and users' messages."""
        builder = self._builder
        has_prompt = False
        self._known.update(span.asked)
        for message in messages:
            self._known.update(call_id for call_id, _, _ in message.calls)
            for call_id, content in message.results:
                waiting = call_id if call_id or not self._waiting else next(iter(self._waiting))
                if self._waiting[waiting] > 0:
                    self._settle(waiting, content, None, None)
                elif call_id and call_id not in self._known:  # else the history repeats it
                    self._known.add(call_id)
                    damage.answers_no_call()
            if message.role in ("system", "developer"):
                if not builder.steps:
                    builder.add_message("system", message.text, opens_turn=False, time=span.start)
            elif message.text and message.role == "user":
                has_prompt = True
                builder.add_message("user", message.text, opens_turn=True, time=span.start)
        if fresh and not has_prompt and builder.steps:
            builder.add_message("user", "", opens_turn=True, time=span.start)

    def _settle(self, call_id: str, content: str, span: Span | None, duration: int | None) -> bool:
        """Add the result of a call, from a tool's span or from a message."""
        self._waiting[call_id] -= 1
        if self._waiting[call_id] <= 0:
            del self._waiting[call_id]
        failed = None if span is None else bool(span.error)
        end = None if span is None else span.end
        return self._builder.add_result(call_id, content, is_error=failed, time=end, duration_ms=duration)

    def _execute(self, span: Span, home: Span | None, damage: Damage) -> None:
        attributes = span.about
        call_id, name = text(attributes.get("gen_ai.tool.call.id")), text(attributes.get("gen_ai.tool.name"))
        if not self._builder.steps:
            if home is None or home.kind == AGENT:  # within a tool it is the same call
                damage.answers_no_call()
            return
        self._handed_over = self._handed_over or attributes.get("gen_ai.tool.type") == HANDOFF
        duration = elapsed_ms(span.start, span.end)
        content = result_of(attributes.get("gen_ai.tool.call.result")) or span.error
        if call_id and self._settle(call_id, content, span, duration):
            return
        open_id = "" if call_id else self._waiting_by_name(name)
        if not open_id:
            open_id = self._add_call(call_id, name, attributes.get("gen_ai.tool.call.arguments", REDACTED))
        self._settle(open_id, content, span, duration)

    def _waiting_by_name(self, name: str) -> str:
        """The id of the first open call of this tool in the last response; empty if there is none."""
        ids = self._named.get(name, [])
        while ids:
            call_id = ids.pop(0)
            if self._waiting[call_id] > 0:
                return call_id
        return ""


def _model(span: Span) -> str:
    return text(span.about.get("gen_ai.response.model")) or text(span.about.get("gen_ai.request.model"))


def _usage(span: Span) -> Usage:

    def figure(*names: str) -> int | None:
        values = (whole(span.about.get(f"gen_ai.usage.{name}")) for name in names)
        return next((number for number in values if number is not None), None)

    entered, output = figure("input_tokens", "prompt_tokens"), figure("output_tokens", "completion_tokens")
    cached = figure("cache_read.input_tokens", "cache_read_input_tokens")
    cache_write = figure("cache_creation.input_tokens", "cache_creation_input_tokens")
    entered = all_input(entered, cached, cache_write)
    reasoning = figure("reasoning.output_tokens", "reasoning_tokens")
    return Usage(entered, output, cached, reasoning, micro(span.about.get("gen_ai.usage.cost")), cache_write)
