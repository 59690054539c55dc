"""Facts instead of texts: runs without anybody's text, from which boolab answers the same.

A run of facts is an ordinary `Run`: it is written, read, stored and asked as any other. Every text in it is replaced by
a placeholder (`boolab.core.redacted`) that has a number and a length. One numbering serves all runs of a file: equal
texts have one number, and numbers are given in order of first appearance, so the same runs give the same file. The
order is that of the runs, and in each run that of its prompt, its steps, what came between them, and its end.

| of a run                                   | becomes                                                                |
|--------------------------------------------|------------------------------------------------------------------------|
| run ids, `parent_run_id`                   | stay                                                                   |
| agent, model, policy, source               | stay, if they are one line of at most 100 characters; else placeholder |
| names of tools, words of settings, scores, | stay, if they are one word of ASCII letters, digits and a few signs,   |
| events, finish reasons, names of limits    | of at most 100 characters; else placeholder                            |
| rules (`stop`, `shadow_stops`)             | stay, if each of their arguments is one word; else placeholder         |
| task                                       | stays, if it is such a word and no message of the run; else `task N`   |
| prompt, inputs, texts, reasoning, results, | placeholder; an input stays that a shipped policy sent                 |
| summaries, sentinels, synthesis, errors    |                                                                        |
| versions of harnesses, effort, speed, tier | stay, if they are a version or a word of a provider; else placeholder  |
| git commit and branch, cwd, entry point    | left out                                                               |
| arguments                                  | placeholder; `REDACTED` stays                                          |
| ids of calls                               | numbers, from 1 in each run                                            |
| `opaque`, native finish reasons            | left out                                                               |
| stop reasons, flags, numbers, times,       | stay                                                                   |
| tokens, costs, identity, success           |                                                                        |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

from boolab.core.redacted import TIMED_OUT, RedactedArguments, beginning_of, chars_of, redacted_result, redacted_text
from boolab.core.types import (
    REDACTED,
    Compacted,
    Event,
    Input,
    Message,
    Part,
    Reasoning,
    Response,
    Run,
    Score,
    Sentinel,
    Step,
    StepStart,
    Stop,
    Text,
    ToolCall,
    ToolResult,
    WrapUp,
)
from boolab.frames.runs import Runs, each_run
from boolab.rules.call_identity import normalised

MAX_NAME: Final = 100
"""The longest name that stays, in characters."""
_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@#+=*-]{0,99}")
_RULE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,60}(?:\([A-Za-z0-9_.:=*-]{0,60}(?:, ?[A-Za-z0-9_.:=*-]{1,60}){0,20}\))?")
_PUBLISHED: Final = re.compile(
    r"v?[0-9][0-9A-Za-z.+-]{0,30}|none|off|auto|minimal|low|medium|high|xhigh|max|default|standard|fast|slow|flex|batch|priority|scale"
)
"""A version, or a word for reasoning effort, speed or tier that a provider uses."""
_NAMES: Final = frozenset({"run_id", "agent"})
"""The facts of an event that are names of runs and agents."""


def facts_of(runs: Runs) -> Iterator[Run]:
    """Runs with placeholders in place of all texts: see the table at the top of this module.

    Args:
        runs: A run, runs, or the path of a store. Of the texts only digests are kept in memory, to number them.

    Yields:
        Each run, and within it its subagents. One numbering serves all of them.

    Example:
        >>> import boolab as bl
        >>> run, = facts_of(bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."])))
        >>> run.task, run.prompt[0].text, run.text
        ('task 1', '<redacted text 1: 5 chars>', '<redacted text 2: 3 chars>')
    """
    facts = _Facts()
    for run in each_run(runs):
        yield facts.of_run(run)


class _Facts:
    """The numbering of one file."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._last: dict[str, int] = {}
        self._kept = _texts_of_policies()

    def _number(self, kind: str, text: str) -> int:
        """The number of a text among those of its kind, from 1."""
        key = (kind, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._last[kind] = self._last.get(kind, 0) + 1
        return number

    def _first(self, kind: str, text: str, number: int) -> int:
        """The number that came first with this text of another kind."""
        key = (kind, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
        return self._numbers.setdefault(key, number)

    def text(self, text: str) -> str:
        return redacted_text(self._number("text", text), chars_of(text)) if text else ""

    def word(self, text: str) -> str:
        return text if _WORD.fullmatch(text) else self.text(text)

    def rule(self, text: str) -> str:
        return text if _RULE.fullmatch(text) else self.text(text)

    def name(self, text: str) -> str:
        return text if len(text) <= MAX_NAME and text.isprintable() else self.text(text)

    def published(self, text: str | None) -> str | None:
        """A version of a harness, or a setting of a request, if it is a word that is public."""
        return text if text is None or _PUBLISHED.fullmatch(text) else self.text(text)

    def of_run(self, run: Run) -> Run:
        ids = _CallIds()
        stop = run.stop
        return Run(
            run_id=run.run_id,
            agent=self.name(run.agent),
            model=self.name(run.model),
            policy=self.name(run.policy),
            task=self._task(run),
            stop=Stop(
                stop.reason,
                stop.step,
                None if stop.rule is None else self.rule(stop.rule),
                stop.threshold,
                stop.value,
                tuple(map(self.rule, stop.also_fired)),
            ),
            prompt=tuple(self._message(message, ids) for message in run.prompt),
            steps=tuple(self._step(step, ids) for step in run.steps),
            inputs=tuple(Input(before, self._message(message, ids)) for before, message in run.inputs),
            source=self.name(run.source),
            parent_run_id=run.parent_run_id,
            seed=run.seed,
            started_at=run.started_at,
            duration_ms=run.duration_ms,
            identity=run.identity,
            context_window=run.context_window,
            limits={self.rule(name): limit for name, limit in run.limits.items()},
            settings={self.word(name): self._value(value) for name, value in run.settings.items()},
            compactions=tuple(self._compacted(one, ids) for one in run.compactions),
            earlier_wrap_ups=tuple(self._wrap_up(one, ids) for one in run.earlier_wrap_ups),
            wrap_up=None if run.wrap_up is None else self._wrap_up(run.wrap_up, ids),
            sentinel=None if run.sentinel is None else self._sentinel(run.sentinel),
            synthesis=None if run.synthesis is None else self.text(run.synthesis),
            events=tuple(self._event(event, ids) for event in run.events),
            success=run.success,
            scores=tuple(Score(self.word(name), self._value(value)) for name, value in run.scores),
            error=None if run.error is None else self.text(run.error),
            harness_version=self.published(run.harness_version),
            subagents=tuple(map(self.of_run, run.subagents)),
        )

    def _task(self, run: Run) -> str:
        if not run.task:
            return ""
        messages = (*run.prompt, *(message for _, message in run.inputs))
        if _WORD.fullmatch(run.task) and all(message.text != run.task for message in messages):
            return run.task
        return f"task {self._number('task', run.task)}"

    def _step(self, step: Step, ids: _CallIds) -> Step:
        return step._replace(
            response=self._response(step.response, ids),
            results=tuple(None if result is None else self._result(result, ids) for result in step.results),
            error=self.text(step.error),
            shadow_stops=tuple(map(self.rule, step.shadow_stops)),
        )

    def _response(self, response: Response, ids: _CallIds) -> Response:
        return Response(
            self.text(response.text),
            tuple(self._call(call, ids) for call in response.tool_calls),
            None if response.finish_reason is None else self.word(response.finish_reason),
            response.usage,
            self.text(response.reasoning),
            response.ttft_ms,
            model=self.name(response.model),
            effort=self.published(response.effort),
            speed=self.published(response.speed),
            service_tier=self.published(response.service_tier),
        )

    def _call(self, call: ToolCall, ids: _CallIds) -> ToolCall:
        return ToolCall(ids[call.id], self.word(call.name), self._arguments(call.arguments))

    def _arguments(self, arguments: str) -> str:
        if arguments == REDACTED:
            return REDACTED
        sent = self._number("arguments", arguments)
        ordered = self._first("ordered", normalised(arguments, sort=False), sent)
        canonical = self._first("canonical", normalised(arguments, sort=True), sent)
        return str(RedactedArguments(canonical, ordered, sent, chars_of(arguments)))

    def _result(self, result: ToolResult, ids: _CallIds) -> ToolResult:
        return result._replace(call_id=ids[result.call_id], content=self._content(result.content))

    def _content(self, content: str) -> str:
        if not content:
            return ""
        number = self._number("result", content)
        begins = self._first("beginning", beginning_of(content), number)
        return redacted_result(number, begins, chars_of(content), timed_out=TIMED_OUT in content)

    def _message(self, message: Message, ids: _CallIds) -> Message:
        return Message(message.role, tuple(self._part(part, ids) for part in message.parts))

    def _part(self, part: Part, ids: _CallIds) -> Part:
        match part:
            case Text(text):
                return Text(text if text in self._kept else self.text(text))
            case Reasoning(text, _):
                return Reasoning(self.text(text))
            case ToolCall():
                return self._call(part, ids)
            case ToolResult():
                return self._result(part, ids)
            case Sentinel():
                return self._sentinel(part)
            case StepStart():
                return part

    def _sentinel(self, sentinel: Sentinel) -> Sentinel:
        return Sentinel(self.word(sentinel.kind), self.text(sentinel.text))

    def _compacted(self, compacted: Compacted, ids: _CallIds) -> Compacted:
        response = compacted.response
        return compacted._replace(
            summary=self.text(compacted.summary),
            response=None if response is None else self._response(response, ids),
            fault=self.text(compacted.fault),
        )

    def _wrap_up(self, wrap_up: WrapUp, ids: _CallIds) -> WrapUp:
        response = None if wrap_up.response is None else self._response(wrap_up.response, ids)
        return WrapUp(self.text(wrap_up.text), response, self.text(wrap_up.fault), wrap_up.broken)

    def _event(self, event: Event, ids: _CallIds) -> Event:
        payload: dict[str, Any] = {}
        for name, value in event.payload.items():
            if name == "call_id" and isinstance(value, str):
                payload[name] = ids[value]
            elif name in _NAMES and isinstance(value, str):
                payload[name] = value if name == "run_id" else self.name(value)
            elif name == "rule" and isinstance(value, str):
                payload[name] = self.rule(value)
            else:
                payload[self.word(name)] = self._value(value)
        return Event(event.t_ms, self.word(event.kind), payload)

    def _value(self, value: object) -> Any:  # noqa: ANN401 - a value of the same kind
        """A value of a setting or an event."""
        if isinstance(value, str):
            return value if value in self._kept else self.word(value)
        if isinstance(value, tuple):
            return tuple(map(self._value, value))
        if isinstance(value, list):
            return list(map(self._value, value))
        if isinstance(value, Mapping):
            return {self._value(key): self._value(item) for key, item in value.items()}
        return value


class _CallIds(dict[str, str]):
    """The ids of a run's calls as numbers from 1, in order of first appearance; an empty id stays empty."""

    def __missing__(self, call_id: str) -> str:
        number = self[call_id] = str(len(self) + 1) if call_id else ""
        return number


def _texts_of_policies() -> frozenset[str]:
    """What the shipped policies send to a model in between: it is in boolab itself, and decides whether they did."""
    from boolab.harness.presets import policies

    texts = {policy.finish.idle_prompt for policy in policies.values()}
    return frozenset(texts | {guard.nudge for policy in policies.values() for guard in policy.detectors.guards})
