"""The records: what a run is made of.

Each is built once and never changed. Those that a step makes are `NamedTuple`s, because a frozen dataclass costs
several times as much to build and a run of 10,000 steps builds 60,000 of them; a `Run`, built once, is a frozen
dataclass.

Units: times are integer milliseconds from the run's start, money is integer micro-dollars (`cost_usd` turns it into
dollars at the surface). `None` is *unknown*, never zero.

A run's messages are not stored beside its steps: `History` makes them from the steps, for the live loop and for the
record alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    get_args,
    overload,
)

from boolab.core import displayable
from boolab.core.text import count, flat, shorten

JSON: TypeAlias = Any
"""A JSON value, or what should be one: text of a log, a file or a provider, to be checked before it is used."""

Scope: TypeAlias = Literal["auto", "turn", "run"]


Identity: TypeAlias = Literal["raw", "ordered", "canonical", "call+result", "tool"]
IDENTITIES: Final[tuple[str, ...]] = get_args(Identity)
Identities: TypeAlias = str | Mapping[str, str | None]
"""An identity for all tools, or by tool."""


MICRO = 1_000_000
MIXED: Final = "mixed"
"""The effort of a run whose steps had several."""
_SHOWN_CALLS: Final = 5
_ID_CHARS: Final = 24
_RANDOM_ID: Final = re.compile(r"[0-9a-f]{16,32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN_CHARS: Final = 60

StopReason: TypeAlias = Literal[
    "finished", "synthesis", "paused", "step_cap", "tool_budget", "doom_loop", "token_budget", "cost_budget",
    "time_budget", "error_streak", "stuck", "aborted", "error",
]  # fmt: skip
"""Why the loop ended, in the one order and for the one set of colours that every table and plot uses."""


class Usage(NamedTuple):
    """What one response consumed. `None` where the provider does not report it.

    Attributes:
        input_tokens: Tokens that were sent, the cached ones included.
        output_tokens: Tokens that came back, those of reasoning included.
        cached_tokens: Tokens of the input that the provider took from its cache.
        reasoning_tokens: Tokens of the output that were reasoning.
        cost: Micro-dollars.
        cache_write_tokens: Tokens of the input that the provider put into its cache.
        cache_write_1h_tokens: Those of them that it keeps for an hour, which cost more.

    Example:
        >>> import boolab as bl
        >>> bl.models.Usage(input_tokens=1200, output_tokens=80, cost=450).cached_tokens is None
        True
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None


UNKNOWN_USAGE = Usage()

RESPONSE_WORDS: Final = ("finish_reason", "native_finish_reason", "effort", "speed", "service_tier")
"""The fields of a response that are one word, or None where it is unknown."""


REDACTED = "<redacted>"
"""The arguments of a call that a log keeps back. What stands for a text of which something is known is a placeholder of
`boolab.core.redacted`."""


class ToolCall(NamedTuple):
    """One tool call as the model sent it.

    Attributes:
        id: What its result refers to.
        name: The tool's name.
        arguments: The raw text, parsed only where it is needed. `REDACTED` where a log leaves the arguments out: they
            are unknown, so such a call is never the same as another.

    Example:
        >>> import boolab as bl
        >>> bl.models.ToolCall("call_1", "grep", '{"pattern": "TODO"}').name
        'grep'
    """

    id: str
    name: str
    arguments: str


class ToolResult(NamedTuple):
    """The result of one tool call.

    `is_error` is None where a log does not record it; `parse_error` is True if the arguments were not valid JSON.
    """

    call_id: str
    content: str
    is_error: bool | None = False
    parse_error: bool = False
    duration_ms: int | None = None


class Response(NamedTuple):
    """One model response, complete.

    Attributes:
        text: The text of the answer.
        tool_calls: The calls that it makes, in order.
        finish_reason: Why it ended, in boolab's vocabulary; None where the provider gave no reason.
        usage: What it consumed.
        reasoning: The text of its reasoning, where the provider shows it.
        ttft_ms: Milliseconds from the request to the first output; None where it was not measured.
        native_finish_reason: Why it ended, in the provider's own word.
        opaque: JSON text that the provider needs back with this response, such as signatures of its reasoning. No
            other provider can use it.
        model: The model that answered, where a log names another one than the run's.
        id: What the provider or the harness calls this response, where a log has it. A copy of it in another log has
            the same id.
        effort: The reasoning effort that was asked for, in the harness's own word; a number is the largest count of
            thinking tokens. None where it is unknown.
        speed: The speed at which it was served, where the provider distinguishes them (`fast`); it changes the price.
        service_tier: The provider's tier that served it, such as `priority` or `batch`; it changes the price.

    Example:
        >>> import boolab as bl
        >>> bl.models.Response("Done.", finish_reason="stop")
        <Response 'Done.'>
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage = UNKNOWN_USAGE
    reasoning: str = ""
    ttft_ms: int | None = None
    native_finish_reason: str | None = None
    opaque: str = ""
    model: str = ""
    id: str = ""
    effort: str | None = None
    speed: str | None = None
    service_tier: str | None = None

    def __repr__(self) -> str:
        """One short line, however long the text is."""
        names = [flat(call.name) for call in self.tool_calls]
        calls = f", calls {', '.join(names[:_SHOWN_CALLS])}" if names else ""
        rest_text = f" and {len(names) - _SHOWN_CALLS} more" if names[_SHOWN_CALLS:] else ""
        clipped_text = "…" if self.text[_SHOWN_CHARS:] else ""
        return f"<Response {self.text[:_SHOWN_CHARS]!r}{clipped_text}{calls}{rest_text}>"


class Step(NamedTuple):
    """One iteration of the loop: a response and the results of its tool calls.

    Attributes:
        index: Its number in the run, from 1.
        turn: The number of its turn, from 1.
        start_ms: Milliseconds from the run's start to its request; None where a log has no times.
        duration_ms: Milliseconds from there to the next boundary.
        model_ms: Milliseconds from there to the end of the response.
        response: The response of the model.
        results: One entry for each of `response.tool_calls`, None for a call that was dropped: paid for, never run.
        error: What broke the step, or empty.
        shadow_stops: The stop reasons of rules in shadow that were true at its boundary.
        counted: False if a limit had already stopped the run when this step ended, and the run was continued later:
            the step is paid for, but no limit counts it.

    Example:
        >>> import boolab as bl
        >>> bl.Step(1, 1, 0, 900, 850, bl.models.Response("Done."))
        <Step 1 of turn 1: <Response 'Done.'>>
    """

    index: int  # type: ignore[assignment] # it hides tuple.index, which a step does not need
    turn: int
    start_ms: int | None
    duration_ms: int | None
    model_ms: int | None
    response: Response
    results: tuple[ToolResult | None, ...] = ()
    error: str = ""
    shadow_stops: tuple[str, ...] = ()
    counted: bool = True

    @property
    def dropped(self) -> tuple[ToolCall, ...]:
        """The calls of the response that were never executed; their tokens are paid for."""
        return tuple(c for c, r in zip(self.response.tool_calls, self.results, strict=True) if r is None)

    @property
    def broke_off(self) -> bool:
        """Whether the response broke off in the middle. It is on record, but the model is not sent it."""
        return bool(self.error) and not any(self.results)

    def __repr__(self) -> str:
        """One short line, however long the results are."""
        failed = sum(result is not None and result.is_error is True for result in self.results)
        facts = f", {failed} failed" if failed else ""
        facts += f", {len(self.dropped)} dropped" if self.dropped else ""
        return f"<Step {self.index} of turn {self.turn}: {self.response!r}{facts}>"


class Stop(NamedTuple):
    """Why, where and by which rule a run ended.

    `step` is the boundary: how many tool steps were complete. `rule`, `threshold` and `value` are those of the rule
    that fired, in the rule's own units; None where no rule did. `also_fired` holds the stop reasons of all other rules
    that were true at the same boundary.
    """

    reason: StopReason
    step: int
    rule: str | None = None
    threshold: int | None = None
    value: int | None = None
    also_fired: tuple[str, ...] = ()

    @property
    def overshoot(self) -> int | None:
        """By how much the counter was above its threshold: the step that crosses a limit is completed."""
        return None if self.value is None or self.threshold is None else self.value - self.threshold


class Event(NamedTuple):
    """An event of a run: when it happened (ms from the start), its kind and its facts."""

    t_ms: int | None
    kind: str
    payload: Mapping[str, Any]


class Score(NamedTuple):
    """A score that a run was given: its name and its value, a number or a text such as an Inspect grade."""

    name: str
    value: Any


class StepStart(NamedTuple):
    """The part that opens each assistant message: the step's number and when it started (ms)."""

    step_number: int
    started_at: int | None


class Text(NamedTuple):
    """A part of plain text."""

    text: str


class Reasoning(NamedTuple):
    """The model's reasoning, and the JSON text that its provider needs back with it (see `Response.opaque`)."""

    text: str
    opaque: str = ""


class Sentinel(NamedTuple):
    """The visible end of a run that a limit stopped. `kind` is `cap_hit`, `doom_loop` or `error_streak`."""

    kind: str
    text: str


Part: TypeAlias = StepStart | Text | Reasoning | ToolCall | ToolResult | Sentinel
Role: TypeAlias = Literal["system", "user", "assistant", "tool", "sentinel"]


class Message(NamedTuple):
    """One message. Its parts are numbered by their place, so that no two can share a number."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text of all text parts and sentinels, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text | Sentinel))


class Input(NamedTuple):
    """A message that came during the run: it stands before step `before`."""

    before: int
    message: Message


class Compacted(NamedTuple):
    """What a compaction did: from step `before` on, the model was sent `summary` for all steps up to `kept_from`.

    `tokens` is the estimated size of the context that made it necessary. `response` is what the model wrote, None where
    a function did, or nothing came. `fault` is why it failed; the history was then sent as it was. `broken` means
    that the model was asked and the request failed, so that the response is a part at most.
    """

    before: int
    kept_from: int
    summary: str
    tokens: int
    response: Response | None = None
    fault: str = ""
    broken: bool = False
    duration_ms: int | None = None

    @property
    def asked(self) -> bool:
        """Whether a request was made."""
        return self.response is not None or self.broken


class WrapUp(NamedTuple):
    """The summary that a policy requests when a limit stops a run: outside the cap, inside the totals.

    `response` is what came from the model, None without a request, or if nothing came. `fault` is why the static
    `text` was used all the same; `broken` means that the request failed, so that the response is a part at most.
    """

    text: str
    response: Response | None = None
    fault: str = ""
    broken: bool = False

    @property
    def asked(self) -> bool:
        """Whether a request was made."""
        return self.response is not None or self.broken


def response_message(step_number: int, started_at: int | None, response: Response) -> Message:
    """The assistant message of one step: part 0 is its `StepStart`, then reasoning, text and calls."""
    parts: list[Part] = [StepStart(step_number, started_at)]
    if response.reasoning or response.opaque:
        parts.append(Reasoning(response.reasoning, response.opaque))
    if response.text:
        parts.append(Text(response.text))
    parts += response.tool_calls
    return Message("assistant", tuple(parts))


def results_message(results: Sequence[ToolResult | None]) -> Message | None:
    """The message with the results of one step's calls, in call order; None if there are no results."""
    executed_results = tuple(r for r in results if r is not None)
    return Message("tool", executed_results) if executed_results else None


class History(Sequence[Message]):
    """The messages of a run: its prompt, then responses and results by step. Made when it is read.

    A model that does not read the history pays nothing for it; one that does finds each message built once, and the
    same object ever after.

    `steps`: the steps; the list may grow. `inputs`: the messages that came in between steps, in order; the list may
    grow. `missing`: what stands for the result of a call that was dropped; by default nothing does. It is given where
    the messages are for a model: no sentinels are among them then, and no responses that broke off.

    Example:
        >>> len(History([Message("user", (Text("Hello"),))], []))
        1
    """

    def __init__(
        self,
        prompt: Sequence[Message],
        steps: Sequence[Step],
        inputs: Sequence[Input] = (),
        missing: str | None = None,
    ) -> None:
        self._messages = list(prompt)
        self._steps = steps
        self._inputs = inputs
        self._missing = missing
        self._taken = 0
        self._seen = 0
        self._shown = False
        self.under_way: tuple[int, int | None, Response] | None = None
        """Number, start and response of a step that is not on record yet."""

    def _look(self) -> list[Message]:
        for step in self._steps[self._seen :] if self._seen < len(self._steps) else ():
            if not self._shown:
                self._take(step.index)
            if self._missing is None or not step.broke_off:
                if not self._shown:
                    self._messages.append(response_message(step.index, step.start_ms, step.response))
                answers = results_message(step.results if self._missing is None else self._all_results(step))
                if answers is not None:
                    self._messages.append(answers)
            self._seen += 1
            self._shown = False
        if self.under_way is not None and self.under_way[0] > self._seen and not self._shown:
            self._take(self.under_way[0])
            self._messages.append(response_message(*self.under_way))
            self._shown = True
        if not self._shown:
            self._take(self._seen + 1)
        return self._messages

    def _take(self, step: int) -> None:
        """Let in what came in before that step."""
        while self._taken < len(self._inputs) and self._inputs[self._taken].before <= step:
            message = self._inputs[self._taken].message
            if self._missing is None or message.role != "sentinel":
                self._messages.append(message)
            self._taken += 1

    def _all_results(self, step: Step) -> list[ToolResult]:
        return [
            result or ToolResult(call.id, self._missing or "", is_error=True)
            for call, result in zip(step.response.tool_calls, step.results, strict=True)
        ]

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._look()[index]

    def __len__(self) -> int:
        return len(self._look())

    def __repr__(self) -> str:
        return f"<History of {count(len(self), 'message')}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(displayable.Displayable):
    """One record: a live turn, or a session read from a log.

    Attributes:
        run_id: Its identifier, unique among runs.
        agent: The agent's name; empty for a bare model.
        model: The model's name.
        policy: The policy's name.
        task: The first task.
        stop: Why, where and by which rule it ended; `stop.step` is the boundary within the last turn.
        steps: The steps of all turns, in order.
        prompt: The messages before the first step.
        inputs: The messages that came in between steps: the user's, those with which a policy nudges or continues, and
            the summary and the sentinel of a limit after which it continued. Those after the last step stand before one
            that never was.
        source: Where the record comes from: `boolab`, or the format of a log.
        parent_run_id: The run that started this one, if it is a subagent's. At which step stands in the parent's event
            `subagent`. A branch or a resumed run has no parent: its
            event `branch` or `resumed` names the run that it began with.
        seed: Its seed, from which each of its requests has one of its own.
        started_at: When it began; None under a virtual clock.
        duration_ms: Milliseconds from its start to its end; None where a log has no times.
        identity: What makes two calls the same, under its policy.
        context_window: That of the model, in tokens, where it is known.
        limits: The limits that were in force, counter name to threshold.
        settings: Those that a sweep set; None where the policy has no such setting.
        compactions: What was done to the history so that it fits.
        earlier_wrap_ups: The summaries of limits after which the user let the run continue; their texts stand among the
            inputs, where they were.
        wrap_up: The summary that the policy requested when a limit stopped it, if it did.
        sentinel: The visible end of a run that a limit stopped, if its policy shows one.
        synthesis: The text that ended the turn in place of the model's, if one did.
        events: The exceptional ones only; see `events_df`.
        success: Whether it was a success; None where it is not labelled.
        scores: What a log has as the run's scores, such as a reward of 0.6. A label of `success` may say another thing.
        error: What ended it, if that was an error.
        harness_version: The version of the program that ran it: boolab's for its own runs, else what the log has.
        git_commit: The commit that was checked out when it began.
        git_branch: The branch.
        cwd: The folder in which it began.
        entrypoint: How its harness was started, in the harness's own word, such as `cli` or `sdk-py`.
        prints: The fingerprints of its beginnings, made before its texts were left out; see `boolab.logs.fingerprint`.
            Empty where it has its texts.
        subagents: The runs that this one started, with their own in them; `with_subagents` puts all of them into one
            list. No part of the record.
        log_id: What its harness calls the session, the sample or the trial, where a log has it: only a copy of the run
            has the same. No part of the record.
        path: The file that `load_runs` read it from, as it was named. No part of the record.
        continuation: What `resume` needs to continue the run. No part of the record.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> run.stop_reason, run.n_steps, run.text
        ('finished', 1, 'Hi.')
    """

    run_id: str
    agent: str
    model: str
    policy: str
    task: str
    stop: Stop
    steps: tuple[Step, ...]
    prompt: tuple[Message, ...] = ()
    inputs: tuple[Input, ...] = ()
    source: str = "boolab"
    parent_run_id: str | None = None
    seed: int | None = None
    started_at: datetime | None = None
    duration_ms: int | None = None
    identity: str = "canonical"
    context_window: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    compactions: tuple[Compacted, ...] = ()
    earlier_wrap_ups: tuple[WrapUp, ...] = ()
    wrap_up: WrapUp | None = None
    sentinel: Sentinel | None = None
    synthesis: str | None = None
    events: tuple[Event, ...] = ()
    success: bool | None = None
    scores: tuple[Score, ...] = ()
    error: str | None = None
    harness_version: str | None = None
    git_commit: str | None = None
    git_branch: str | None = None
    cwd: str | None = None
    entrypoint: str | None = None
    prints: tuple[str, ...] = ()
    subagents: tuple[Run, ...] = field(default=(), repr=False, compare=False)
    log_id: str = field(default="", repr=False, compare=False)
    path: str | None = field(default=None, repr=False, compare=False)
    continuation: Any = field(default=None, repr=False, compare=False)

    @property
    def stop_reason(self) -> StopReason:
        """Why the loop ended."""
        return self.stop.reason

    @property
    def stop_step(self) -> int:
        """The boundary at which it ended: how many tool steps were complete. A final text is not one of them."""
        return self.stop.step

    @property
    def n_steps(self) -> int:
        """How many model responses were begun inside the loop, broken and aborted ones included."""
        return len(self.steps)

    @property
    def n_tool_calls(self) -> int:
        """How many calls received a result, errors included."""
        return sum(result is not None for step in self.steps for result in step.results)

    @property
    def effort(self) -> str | None:
        """The reasoning effort of its steps: the one value, or `mixed`; None if that of a step is unknown.

        Where no step has one on record, it is what a sweep set as `effort`.
        """
        values = {step.response.effort for step in self.steps}
        if values <= {None}:
            setting = self.settings.get("effort")
            return None if setting is None else str(setting)
        return MIXED if len(values - {None}) > 1 else values.pop() if len(values) == 1 else None

    @property
    def censored(self) -> bool:
        """Whether the record ends before the agent was done, so that what would have followed is unknown."""
        return self.stop.reason not in ("finished", "synthesis")

    @property
    def outside(self) -> tuple[Usage, ...]:
        """What each request outside the loop's steps consumed: compactions, then wrap-ups. They are in all totals."""
        last = () if self.wrap_up is None else (self.wrap_up,)
        requests = [request for request in (*self.compactions, *self.earlier_wrap_ups, *last) if request.asked]
        return tuple(UNKNOWN_USAGE if request.response is None else request.response.usage for request in requests)

    @property
    def text(self) -> str:
        """The last word: a synthesis or a summary if there is one, else the last step's text."""
        if self.synthesis is not None:
            return self.synthesis
        if self.wrap_up is not None:
            return self.wrap_up.text
        return self.steps[-1].response.text if self.steps else ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages in order; a message's id is its place here."""
        out = list(History(self.prompt, self.steps, self.inputs))
        out += [message for step_index, message in self.inputs if step_index > len(self.steps) + 1]
        if self.synthesis is not None:
            out.append(Message("assistant", (Text(self.synthesis),)))
        if self.wrap_up is not None:
            out.append(Message("assistant", (Text(self.wrap_up.text),)))
        if self.sentinel is not None:
            out.append(Message("sentinel", (self.sentinel,)))
        return tuple(out)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the record alone: what it would continue with may hold models and functions."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "continuation"}
        return _unpickled, (values,)

    def __str__(self) -> str:
        """The whole run as text to read, folded: what `print(run)` shows."""
        return displayable.text_of(self)

    def __repr__(self) -> str:
        """One short line; `print(run)` shows the whole run."""
        position = "" if self.stop.rule is None else f" {stop_place(self)}"
        return (
            f"<Run {_short_id(self.run_id)} {flat(self.agent or 'no agent')}/{flat(self.policy)}: "
            f"{self.stop.reason}{position}, {count(self.n_steps, 'step')}, {count(self.n_tool_calls, 'call')}>"
        )


def stop_place(run: Run) -> str:
    """Where a run ended: after its last step, or in it, if something stopped the run before the step was complete."""
    n = len(run.steps)
    if n and run.censored and run.stop.step < sum(step.turn == run.steps[-1].turn for step in run.steps):
        return f"in step {n:,}"
    return f"after {count(n, 'step')}" if n else "before its first step"


def _short_id(run_id: str) -> str:
    """The beginning of a random id; of any other one, both ends, as ids of one source often begin alike."""
    return run_id[:8] if _RANDOM_ID.fullmatch(run_id) else shorten(run_id, _ID_CHARS)


def _unpickled(values: dict[str, Any]) -> Run:
    return Run(**values)
