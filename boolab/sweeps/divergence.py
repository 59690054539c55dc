"""Where policies diverge: the first step that differs under two of them, on the same work.

Both run the same script, each to its end, and every request is kept as the model received it. Two runs diverge at the
first step in which one of these differs: the request (messages, tools, tool choice), the response, the fate of its
calls (executed, refused, dropped), or whether it was made at all. Two that end after the same steps diverge where the
next one would have been, if they end for another reason or if something else follows the end. So, of three policies of
which two diverge late, both diverge from the third at the same step: on one script, policies form a tree.

The results of executed calls are not compared: they are the tool's, and may be a time or a counter of its own.
"""

from __future__ import annotations

import textwrap
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pandas as pd

from boolab.core.context import Context
from boolab.core.messages import History, Message, StepStart, Text
from boolab.core.run import Run
from boolab.core.types import Response, ToolCall, ToolResult
from boolab.errors import ScriptError
from boolab.harnesses import presets
from boolab.harnesses.compare import distinct_names
from boolab.harnesses.policy import Policy
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.runner import run_sync
from boolab.runtime.models.base import Emit, Model, Request, traits_of
from boolab.runtime.models.script import Item
from boolab.runtime.models.scripted import ScriptedModel
from boolab.runtime.tools.tool import ToolContext, ToolSpec

Script: TypeAlias = Model | str | Path | Sequence[Any] | Callable[[Sequence[Message]], Item | None]
"""A list of items, the path of a script, a function from the messages to the next item, or a model."""

DivergenceKind: TypeAlias = Literal[
    "messages", "tools", "tool_choice", "response", "calls", "made", "would", "end", "after"
]
"""What differs at a step: what is sent, the answer, the results, whether the step is made (or would be made under a
policy that is not run), how the runs end, or what follows."""

_Tools: TypeAlias = Sequence[ToolSpec | Callable[..., Any]] | None
_MAX_CHARS: Final = 90  # characters of a message that are shown
_MAX_MESSAGES: Final = 2  # messages that are shown one by one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Divergence:
    """Where two policies diverge.

    Attributes:
        step: The first step that differs, from 1; what is decided before a step belongs to it.
        what: The difference, in one sentence.
        a: What the first policy did there.
        b: What the second did.
        run_a: The whole run under the first.
        run_b: The whole run under the second.
        kind: What differs: a word of `DivergenceKind`.
    """

    step: int
    what: str
    a: str
    b: str
    run_a: Run
    run_b: Run
    kind: DivergenceKind

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the two policies; those of two variants of one preset are made distinct."""
        return distinct_names([self.run_a.policy, self.run_b.policy])

    def __repr__(self) -> str:
        """One short line."""
        return f"<Divergence of {' and '.join(self.names)} at step {self.step}: {self.what}>"

    def __str__(self) -> str:
        """The sentence, and what each policy did."""
        names = self.names
        wide = max(map(len, names)) + 1
        lines = [f"{names[0]} and {names[1]} diverge at step {self.step}: {self.what}"]
        for name, did in zip(names, (self.a, self.b), strict=True):
            head = f"  {name + ':':{wide}} "
            lines += textwrap.wrap(did, 100, initial_indent=head, subsequent_indent=" " * len(head))
        return "\n".join(lines)


def first_divergence(
    script: Script,
    a: str | Policy,
    b: str | Policy,
    *,
    agent: Agent | None = None,
    tools: _Tools = None,
    task: str = "go",
) -> Divergence | None:
    """The first step at which two policies diverge on the same script.

    Args:
        script: A list of items, the path of a script, or a model.
        a: A policy, or the name of a preset.
        b: The other one.
        agent: The agent; None for a bare model.
        tools: The tools of both runs. The calls are executed under each policy.
        task: The user's message.

    Returns:
        Where they diverge; None if they never do.

    Raises:
        SettingError: if a policy does not accept the agent's settings, or does not exist.
        ScriptError: if the script cannot be read.

    Example:
        >>> import boolab as bl
        >>> stuck = [{"tool_calls": [{"name": "grep"}], "repeat": "forever"}]
        >>> print(bl.first_divergence(stuck, "boocode", "crush"))
        boocode and crush diverge at step 4: only crush makes this step.
          boocode: ends after step 3: doom_loop, by doom_loop(3, ordered), and leaves a sentinel
          crush:   makes step 4: calls grep, and executes it
    """
    return both_runs(script, a, b, agent=agent, tools=tools, task=task)[2]


def both_runs(
    script: Script,
    a: str | Policy,
    b: str | Policy,
    *,
    agent: Agent | None = None,
    tools: _Tools = None,
    task: str = "go",
) -> tuple[Run, Run, Divergence | None]:
    """The runs of the same script under two policies, and where they diverge; arguments as for `first_divergence`."""
    model, lexicon = _model_of(script), _Lexicon()
    first_observed, second_observed = (
        _observe(model, presets.get_policy(policy), lexicon, agent, tools, task) for policy in (a, b)
    )
    return first_observed.run, second_observed.run, _compare(first_observed, second_observed)


def run_script(
    script: Script, agent: Agent, *, tools: _Tools = None, root: str | Path | None = None, task: str = "go"
) -> Run:
    """The run of a script by an agent under its own policy; other arguments as for `first_divergence` and `run`."""
    return run_sync(agent, task, model=_model_of(script), tools=tools, root=root)


def divergences(
    script: Script,
    policies: Iterable[str | Policy] | None = None,
    *,
    agent: Agent | None = None,
    tools: _Tools = None,
    task: str = "go",
) -> pd.DataFrame:
    """For each pair of policies, the first step at which they diverge on the same script.

    Args:
        script: As for `first_divergence`.
        policies: Policies or names of presets; all presets by default. Each runs the script once.
        agent: As for `first_divergence`.
        tools: As for `first_divergence`.
        task: As for `first_divergence`.

    Returns:
        A row and a column for each policy; NA where two never diverge.

    Raises:
        SettingError: as for `first_divergence`.
        ScriptError: as for `first_divergence`.

    Example:
        >>> import boolab as bl
        >>> stuck = [{"tool_calls": [{"name": "grep"}], "repeat": "forever"}]
        >>> bl.divergences(stuck, ["boocode", "crush", "naive"]).loc["crush"].tolist()
        [4, <NA>, 11]
    """
    model, lexicon = _model_of(script), _Lexicon()
    policy_list = [
        presets.get_policy(policy) for policy in (presets.policies.values() if policies is None else policies)
    ]
    observed = [_observe(model, policy, lexicon, agent, tools, task) for policy in policy_list]
    table: list[list[int | None]] = [[None] * len(observed) for _ in observed]
    for i, observed_a in enumerate(observed):
        for j, observed_b in enumerate(observed[:i]):
            point = _find_divergence(observed_a, observed_b)
            table[i][j] = table[j][i] = None if point is None else point.step
    names = [*distinct_names(policy.name for policy in policy_list)]
    return pd.DataFrame(table, index=pd.Index(names, name="policy"), columns=names, dtype="Int64")


def _model_of(script: Script) -> Model:
    if isinstance(script, str | Path):
        return ScriptedModel.load(script)
    script_value: object = script
    if not isinstance(script_value, Model | Iterable) and not callable(script_value):
        msg = f"script={script!r} is no script: expected a list of items, the path of a script, or a model"
        raise ScriptError(msg)
    return script if isinstance(script, Model) else ScriptedModel(script)


class _SentRequest(NamedTuple):
    """One request: the numbers of its messages in the lexicon, the tools, and whether they may be called."""

    messages: array[int]
    tools: tuple[str, ...]
    tool_choice: str


class _Lexicon:
    """Messages by number: two messages that differ only in times and results of executed calls have the same."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.messages: list[Message] = []

    def number(self, key: tuple[Any, ...], message: Message) -> int:
        message_number = self._numbers.setdefault(key, len(self._numbers))
        if message_number == len(self.messages):
            self.messages.append(message)
        return message_number


class _Observer:
    """A model that records the requests of one run, and which calls were executed; subagents may use it as well."""

    def __init__(self, model: Model, lexicon: _Lexicon) -> None:
        self._model = model
        self._lexicon = lexicon
        self._reply = traits_of(model).reply
        self._history: list[int] = []
        self._latest = 0
        self._conversation: Sequence[Message] | None = None
        self._run_id: str | None = None
        self.name = model.name
        self.steps: list[_SentRequest] = []
        self.executed: set[tuple[int, int]] = set()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else the model has
        return getattr(self._model, name)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        if request.purpose == "step" and self._belongs_to_run(request.messages):
            tools = tuple(tool.name for tool in request.tools)
            self.steps.append(_SentRequest(self._numbers(request.messages), tools, request.tool_choice))
        return await self._model.respond(request, emit)

    def reply(self, call: ToolCall, context: ToolContext) -> Awaitable[ToolResult] | None:
        """Every executed call passes here first; a refused or dropped one never does."""
        if self._run_id is None:  # a run executes a call before any of its subagents can
            self._run_id = context.run_id
        if context.run_id == self._run_id:
            self.executed.add((context.step, context.call))
        return None if self._reply is None else self._reply(call, context)

    def _belongs_to_run(self, messages: Sequence[Message]) -> bool:
        """Whether the request is from the run itself, which sends the first one, and not from one of its subagents."""
        conversation = messages.whole if isinstance(messages, Context) else messages
        if self._conversation is None:
            self._conversation = conversation
        return conversation is self._conversation

    def _numbers(self, messages: Sequence[Message]) -> array[int]:
        if isinstance(messages, History):  # it only ever grows
            self._history += self._read(messages[len(self._history) :], going_on=True)
            return array("L", self._history)
        return array("L", self._read(messages[:], going_on=False))

    def _read(self, messages: Sequence[Message], *, going_on: bool) -> Iterator[int]:
        step = self._latest if going_on else 0
        for message in messages:
            first = message.parts[0] if message.parts else None
            step = first.step_number if isinstance(first, StepStart) else step
            yield self._lexicon.number((message.role, *self._keys(message, step)), message)
        if going_on:
            self._latest = step

    def _keys(self, message: Message, step: int) -> Iterator[object]:
        for index, part in enumerate(message.parts, 1):
            if isinstance(part, ToolResult):
                yield ("result", part.call_id, None if (step, index) in self.executed else part.content)
            elif not isinstance(part, StepStart):
                yield (type(part).__name__, part)


class _Observed(NamedTuple):
    """A run, and its requests and the fates of its calls."""

    run: Run
    requests: Sequence[_SentRequest]
    fates: Sequence[tuple[str, ...]]
    lexicon: _Lexicon


def _observe(
    model: Model, policy: Policy, lexicon: _Lexicon, agent: Agent | None, tools: _Tools, task: str
) -> _Observed:
    observer = _Observer(model, lexicon)
    run = run_sync(agent, task, model=observer, tools=tools, policy=policy)
    fates = [
        tuple(
            "dropped" if result is None else "executed" if (step.index, index) in observer.executed else "refused"
            for index, result in enumerate(step.results, 1)
        )
        for step in run.steps
    ]
    return _Observed(run, observer.steps, fates, lexicon)


class _DivergencePoint(NamedTuple):
    step: int
    kind: DivergenceKind


def _find_divergence(a: _Observed, b: _Observed) -> _DivergencePoint | None:
    """Where two runs diverge, and in what."""
    for step, (request_a, request_b) in enumerate(zip(a.requests, b.requests, strict=False), 1):
        if request_a != request_b:
            kinds: tuple[DivergenceKind, ...] = ("tools", "tool_choice", "messages")
            return _DivergencePoint(
                step, next(kind for kind in kinds if getattr(request_a, kind) != getattr(request_b, kind))
            )
        if _response(a, step) != _response(b, step):
            return _DivergencePoint(step, "response")
        if a.fates[step - 1] != b.fates[step - 1]:
            return _DivergencePoint(step, "calls")
    if len(a.requests) != len(b.requests):
        return _DivergencePoint(min(len(a.requests), len(b.requests)) + 1, "made")
    if _end(a) != _end(b):
        return _DivergencePoint(len(a.requests) + 1, "end" if a.run.stop.reason != b.run.stop.reason else "after")
    return None


def _response(observed: _Observed, step: int) -> tuple[object, ...]:
    response = observed.run.steps[step - 1].response
    return (response.text, response.tool_calls, response.finish_reason)


def _end(observed: _Observed) -> tuple[object, ...]:
    run = observed.run
    summed_up = sum(compacted.asked for compacted in run.compactions)
    return (
        run.stop.reason,
        summed_up,
        (run.wrap_up is not None and run.wrap_up.asked),
        run.wrap_up is None,
        run.sentinel is None,
    )


def _compare(a: _Observed, b: _Observed) -> Divergence | None:
    if (point := _find_divergence(a, b)) is None:
        return None
    step, kind = point
    later = distinct_names([a.run.policy, b.run.policy])[len(b.requests) > len(a.requests)]
    sentence = {
        "messages": "the model is sent other messages.",
        "tools": "other tools are offered.",
        "tool_choice": "the model may call tools under one of them only.",
        "response": "the model gives another answer.",
        "calls": "the calls have other results.",
        "made": f"only {later} makes this step.",
        "end": "both end before it, for other reasons.",
        "after": "both end before it, and something else follows.",
    }[kind]
    return Divergence(step, sentence, _describe_step(a, b, point), _describe_step(b, a, point), a.run, b.run, kind)


def _describe_step(observed: _Observed, other: _Observed, point: _DivergencePoint) -> str:
    """What happened at that place under one of the two policies."""
    step, kind = point
    if step > len(observed.requests) or kind in ("end", "after"):
        return _describe_end(observed)
    if kind == "made":
        return f"makes step {step}: {_describe_calls(observed, step)}"
    if kind in ("messages", "tools", "tool_choice"):
        return _describe_request(observed, other, step)
    return _describe_calls(observed, step)


def _describe_end(observed: _Observed) -> str:
    stop, run = observed.run.stop, observed.run
    rule = f", by {stop.rule}" if stop.rule else ""
    after = ", and requests a summary" if (run.wrap_up is not None and run.wrap_up.asked) else ""
    after += ", and leaves a sentinel" if run.sentinel is not None and not after else ""
    return f"ends after step {len(run.steps)}: {stop.reason}{rule}{after}"


def _describe_request(observed: _Observed, other: _Observed, step: int) -> str:
    """What one request has that the other has not."""
    request, other_request = observed.requests[step - 1], other.requests[step - 1]
    own_messages = [
        observed.lexicon.messages[number] for number in request.messages if number not in set(other_request.messages)
    ]
    n_own = len(own_messages)
    texts = [f"{n_own} messages of its own"] if n_own > _MAX_MESSAGES else map(_quote_message, own_messages)
    parts = []
    if request.messages != other_request.messages:
        parts.append(f"is sent {' and '.join(texts)}" if own_messages else "is sent no such message")
    if request.tools != other_request.tools:
        parts.append(f"is offered {', '.join(request.tools) or 'no tools'}")
    if request.tool_choice != other_request.tool_choice and request.tools:
        parts.append("may call no tool" if request.tool_choice == "none" else "may call tools")
    return f"the model {', '.join(parts) or 'has no tools'}"


def _quote_message(message: Message) -> str:
    parts = [p.text if isinstance(p, Text) else p.content if isinstance(p, ToolResult) else "" for p in message.parts]
    text = " ".join(" ".join(parts).split())
    return f'"{text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"}"'


def _describe_calls(observed: _Observed, step: int) -> str:
    """The calls of a step's response, and their fates."""
    step_record, fates = observed.run.steps[step - 1], observed.fates[step - 1]
    if step_record.error:
        return f"the step breaks: {step_record.error}"
    if not fates:
        return "a text without calls"
    names = ", ".join(dict.fromkeys(call.name for call in step_record.response.tool_calls))
    call_text = f"calls {names}" if len(fates) == 1 else f"calls {names} ({len(fates)} calls)"
    pronoun = "it" if len(fates) == 1 else "them"
    verbs = {"executed": "executes", "refused": "refuses", "dropped": "drops"}
    counts = {fate: fates.count(fate) for fate in verbs if fate in fates}
    fate_text = " and ".join(f"{verbs[fate]} {pronoun if n == len(fates) else n}" for fate, n in counts.items())
    refusal = next(
        (r.content for r, fate in zip(step_record.results, fates, strict=True) if r and fate == "refused"), ""
    )
    return f"{call_text}, and {fate_text}" + (f' ("{refusal[:_MAX_CHARS]}")' if refusal else "")
