"""Where policies part: the first step that is not the same under two of them, on the same work.

Both run the same script, each to its end, and every request is kept as the model was sent it. Two runs part at the
first step of which one of these differs: the request (messages, tools, tool choice), the response, what became of its
calls (executed, refused, dropped), or whether it was made at all. Two that end after the same steps part where the next
one would have been, if they end for another reason or if something else follows the end. So, of three policies of which
two part late, both part from the third at the same step: on one script, policies form a tree.

What executed calls give is not compared: that is the tool's doing, and may be a time or a counter of its own.
"""

from __future__ import annotations

import textwrap
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pandas as pd

from boolab.agents.agent import Agent
from boolab.core.context import Context
from boolab.core.types import History, Message, Response, Run, StepStart, Text, ToolCall, ToolResult
from boolab.engine.runner import run_sync
from boolab.errors import ScriptError
from boolab.harness.compare import distinct_names
from boolab.harness.policy import Policy
from boolab.harness.presets import get_policy, policies
from boolab.models.base import Emit, Model, Request
from boolab.models.scripted import Item, ScriptedModel
from boolab.tools.tool import ToolContext, ToolSpec

Script: TypeAlias = Model | str | Path | Sequence[Any] | Callable[[Sequence[Message]], Item | None]
"""A list of items, the path of a script, a function from the messages to the next item, or a model."""

_Tools: TypeAlias = Sequence[ToolSpec | Callable[..., Any]] | None
_MAX_SHOWN: Final = 90  # characters of a message that are shown
_SHOWN: Final = 2  # messages that are shown one by one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Divergence:
    """Where two policies part.

    Attributes:
        step: The first step that is not the same, from 1; what is decided before a step belongs to it.
        what: What is not, in one sentence.
        a: What the first policy did there.
        b: What the second did.
        run_a: The whole run under the first.
        run_b: The whole run under the second.
    """

    step: int
    what: str
    a: str
    b: str
    run_a: Run
    run_b: Run

    @property
    def names(self) -> tuple[str, ...]:
        """What the two policies are called here: two variants of one preset are told apart."""
        return distinct_names([self.run_a.policy, self.run_b.policy])

    def __repr__(self) -> str:
        """One short line."""
        return f"<Divergence of {' and '.join(self.names)} at step {self.step}: {self.what}>"

    def __str__(self) -> str:
        """The sentence, and what each did."""
        names = self.names
        wide = max(map(len, names)) + 1
        lines = [f"{names[0]} and {names[1]} part at step {self.step}: {self.what}"]
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
    """The first step at which two policies part on the same script.

    Args:
        script: A list of items, the path of a script, or a model.
        a: A policy, or the name of a preset.
        b: The other one.
        agent: Who runs; None for a bare model.
        tools: The tools of both runs. The calls are executed under each policy.
        task: The user's message.

    Returns:
        Where they part; None if they never do.

    Raises:
        SettingError: if a policy does not accept the agent's settings, or does not exist.
        ScriptError: if the script cannot be read.

    Example:
        >>> import boolab as bl
        >>> stuck = [{"tool_calls": [{"name": "grep"}], "repeat": "forever"}]
        >>> print(bl.first_divergence(stuck, "boocode", "crush"))
        boocode and crush part at step 4: only crush makes this step.
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
    """The runs of the same script under two policies, and where they part.

    Args:
        script: As for `first_divergence`.
        a: As for `first_divergence`.
        b: As for `first_divergence`.
        agent: As for `first_divergence`.
        tools: As for `first_divergence`.
        task: As for `first_divergence`.

    Returns:
        The run under each policy; and where they part, or None if they never do.

    Raises:
        SettingError: as for `first_divergence`.
        ScriptError: as for `first_divergence`.

    Example:
        >>> a, b, parted = both_runs(["Done."], "boocode", "crush")
        >>> a.n_steps, b.n_steps, parted
        (1, 1, None)
    """
    model, seen = _model_of(script), _Lexicon()
    one, other = (_watch(model, get_policy(policy), seen, agent, tools, task) for policy in (a, b))
    return one.run, other.run, _compare(one, other)


def divergences(
    script: Script,
    policies: Iterable[str | Policy] | None = None,
    *,
    agent: Agent | None = None,
    tools: _Tools = None,
    task: str = "go",
) -> pd.DataFrame:
    """For each pair of policies, the first step at which they part on the same script.

    Args:
        script: As for `first_divergence`.
        policies: Policies or names of presets; all presets by default. Each runs the script once.
        agent: As for `first_divergence`.
        tools: As for `first_divergence`.
        task: As for `first_divergence`.

    Returns:
        A row and a column for each policy; NA where two never part.

    Raises:
        SettingError: as for `first_divergence`.
        ScriptError: as for `first_divergence`.

    Example:
        >>> import boolab as bl
        >>> stuck = [{"tool_calls": [{"name": "grep"}], "repeat": "forever"}]
        >>> bl.divergences(stuck, ["boocode", "crush", "naive"]).loc["crush"].tolist()
        [4, <NA>, 11]
    """
    model, seen = _model_of(script), _Lexicon()
    asked = [get_policy(policy) for policy in (_presets() if policies is None else policies)]
    watched = [_watch(model, policy, seen, agent, tools, task) for policy in asked]
    table: list[list[int | None]] = [[None] * len(watched) for _ in watched]
    for i, one in enumerate(watched):
        for j, other in enumerate(watched[:i]):
            parted = _place(one, other)
            table[i][j] = table[j][i] = None if parted is None else parted.step
    names = [*distinct_names(policy.name for policy in asked)]
    return pd.DataFrame(table, index=pd.Index(names, name="policy"), columns=names, dtype="Int64")


def _presets() -> Iterable[Policy]:
    return policies.values()


def _model_of(script: Script) -> Model:
    if isinstance(script, str | Path):
        return ScriptedModel.load(script)
    given: object = script
    if not isinstance(given, Model | Iterable) and not callable(given):
        msg = f"script={script!r} is no script: expected a list of items, the path of a script, or a model"
        raise ScriptError(msg)
    return script if isinstance(script, Model) else ScriptedModel(script)


# --- Watching a run ---------------------------------------------------------------------------------------------------


class _Asked(NamedTuple):
    """One request: the numbers of its messages in the lexicon, the tools, and whether they may be called."""

    messages: array[int]
    tools: tuple[str, ...]
    tool_choice: str


class _Lexicon:
    """Messages by number: the same for two messages that differ in nothing but times and what executed calls gave."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.messages: list[Message] = []

    def number(self, key: tuple[Any, ...], message: Message) -> int:
        found = self._numbers.setdefault(key, len(self._numbers))
        if found == len(self.messages):
            self.messages.append(message)
        return found


class _Witness:
    """A model that keeps what one run asked it, and which calls were executed; its subagents may ask it as well."""

    def __init__(self, model: Model, lexicon: _Lexicon) -> None:
        self._model = model
        self._lexicon = lexicon
        self._reply = getattr(model, "reply", None)
        self._history: list[int] = []
        self._latest = 0
        self._conversation: Sequence[Message] | None = None
        self._run_id: str | None = None
        self.name = model.name
        self.steps: list[_Asked] = []
        self.executed: set[tuple[int, int]] = set()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else the model has
        return getattr(self._model, name)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        if request.purpose == "step" and self._is_of_the_run(request.messages):
            tools = tuple(tool.name for tool in request.tools)
            self.steps.append(_Asked(self._numbers(request.messages), tools, request.tool_choice))
        return await self._model.respond(request, emit)

    def reply(self, call: ToolCall, context: ToolContext) -> Awaitable[ToolResult] | None:
        """Every call that is executed comes by here first; a refused or dropped one never does."""
        if self._run_id is None:  # a run executes a call before any of its subagents can
            self._run_id = context.run_id
        if context.run_id == self._run_id:
            self.executed.add((context.step, context.call))
        return None if self._reply is None else self._reply(call, context)

    def _is_of_the_run(self, messages: Sequence[Message]) -> bool:
        """Whether the run itself asks, which asks first, and not one of its subagents."""
        whole = messages.whole if isinstance(messages, Context) else messages
        if self._conversation is None:
            self._conversation = whole
        return whole is self._conversation

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
        for place, part in enumerate(message.parts, 1):
            if isinstance(part, ToolResult):
                yield ("result", part.call_id, None if (step, place) in self.executed else part.content)
            elif not isinstance(part, StepStart):
                yield (type(part).__name__, part)


class _Watched(NamedTuple):
    """A run, and what was seen of it from the model's side."""

    run: Run
    asked: Sequence[_Asked]
    fates: Sequence[tuple[str, ...]]
    lexicon: _Lexicon


def _watch(model: Model, policy: Policy, lexicon: _Lexicon, agent: Agent | None, tools: _Tools, task: str) -> _Watched:
    witness = _Witness(model, lexicon)
    run = run_sync(agent, task, model=witness, tools=tools, policy=policy)
    fates = [
        tuple(
            "dropped" if result is None else "executed" if (step.index, place) in witness.executed else "refused"
            for place, result in enumerate(step.results, 1)
        )
        for step in run.steps
    ]
    return _Watched(run, witness.steps, fates, lexicon)


# --- Comparing two ----------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    step: int
    kind: str


def _place(a: _Watched, b: _Watched) -> _Place | None:
    """Where two runs part, and in what."""
    for step, (one, other) in enumerate(zip(a.asked, b.asked, strict=False), 1):
        if one != other:
            return _Place(step, _kind(one, other))
        if _said(a, step) != _said(b, step):
            return _Place(step, "response")
        if a.fates[step - 1] != b.fates[step - 1]:
            return _Place(step, "calls")
    if len(a.asked) != len(b.asked):
        return _Place(min(len(a.asked), len(b.asked)) + 1, "made")
    if _end(a) != _end(b):
        return _Place(len(a.asked) + 1, "end" if a.run.stop.reason != b.run.stop.reason else "after")
    return None


def _kind(one: _Asked, other: _Asked) -> str:
    if one.tools != other.tools:
        return "tools"
    return "tool_choice" if one.tool_choice != other.tool_choice else "messages"


def _said(watched: _Watched, step: int) -> tuple[object, ...]:
    response = watched.run.steps[step - 1].response
    return (response.text, response.tool_calls, response.finish_reason)


def _end(watched: _Watched) -> tuple[object, ...]:
    run = watched.run
    summed_up = sum(compacted.asked for compacted in run.compactions)
    return (run.stop.reason, summed_up, _summary_asked(run), run.wrap_up is None, run.sentinel is None)


def _summary_asked(run: Run) -> bool:
    return run.wrap_up is not None and run.wrap_up.asked


def _compare(a: _Watched, b: _Watched) -> Divergence | None:
    place = _place(a, b)
    if place is None:
        return None
    step, kind = place
    later = distinct_names([a.run.policy, b.run.policy])[len(b.asked) > len(a.asked)]
    what = {
        "messages": "the model is sent other messages.",
        "tools": "other tools are offered.",
        "tool_choice": "the model may call tools under one of them only.",
        "response": "the model gives another answer.",
        "calls": "the calls have other results.",
        "made": f"only {later} makes this step.",
        "end": "both end before it, for other reasons.",
        "after": "both end before it, and something else follows.",
    }[kind]
    return Divergence(step, what, _did(a, b, place), _did(b, a, place), a.run, b.run)


def _did(mine: _Watched, other: _Watched, place: _Place) -> str:
    """What happened at that place under one of the two policies."""
    step, kind = place
    if step > len(mine.asked) or kind in ("end", "after"):
        return _ended(mine)
    if kind == "made":
        return f"makes step {step}: {_calls(mine, step)}"
    if kind in ("messages", "tools", "tool_choice"):
        return _request(mine, other, step)
    return _calls(mine, step)


def _ended(watched: _Watched) -> str:
    stop, run = watched.run.stop, watched.run
    rule = f", by {stop.rule}" if stop.rule else ""
    after = ", and asks for a summary" if _summary_asked(run) else ""
    after += ", and leaves a sentinel" if run.sentinel is not None and not after else ""
    return f"ends after step {len(run.steps)}: {stop.reason}{rule}{after}"


def _request(mine: _Watched, other: _Watched, step: int) -> str:
    """What one request has that the other has not."""
    asked, others = mine.asked[step - 1], other.asked[step - 1]
    told = [mine.lexicon.messages[number] for number in asked.messages if number not in set(others.messages)]
    texts = [f"{len(told)} messages of its own"] if len(told) > _SHOWN else map(_short, told)
    parts = [f"is sent {' and '.join(texts)}" if told else "is sent no such message"] if _differ(asked, others) else []
    if asked.tools != others.tools:
        parts.append(f"is offered {', '.join(asked.tools) or 'no tools'}")
    if asked.tool_choice != others.tool_choice and asked.tools:
        parts.append("may call no tool" if asked.tool_choice == "none" else "may call tools")
    return f"the model {', '.join(parts) or 'has no tools'}"


def _differ(one: _Asked, other: _Asked) -> bool:
    return one.messages != other.messages


def _short(message: Message) -> str:
    parts = [p.text if isinstance(p, Text) else p.content if isinstance(p, ToolResult) else "" for p in message.parts]
    text = " ".join(" ".join(parts).split())
    return f'"{text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"}"'


def _calls(watched: _Watched, step: int) -> str:
    """What the response of a step asked for, and what became of it."""
    made, fates = watched.run.steps[step - 1], watched.fates[step - 1]
    if made.error:
        return f"the step breaks: {made.error}"
    if not fates:
        return "a text without calls"
    names = ", ".join(dict.fromkeys(call.name for call in made.response.tool_calls))
    what = f"calls {names}" if len(fates) == 1 else f"calls {names} ({len(fates)} calls)"
    it = "it" if len(fates) == 1 else "them"
    verbs = {"executed": "executes", "refused": "refuses", "dropped": "drops"}
    counts = {fate: fates.count(fate) for fate in verbs if fate in fates}
    done = " and ".join(f"{verbs[fate]} {it if n == len(fates) else n}" for fate, n in counts.items())
    refusal = next((r.content for r, fate in zip(made.results, fates, strict=True) if r and fate == "refused"), "")
    return f"{what}, and {done}" + (f' ("{refusal[:_MAX_SHOWN]}")' if refusal else "")
