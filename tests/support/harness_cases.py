"""Scripts for the conformance tests of the policies: what goes in, and what is counted on the way.

Everything is counted outside the loop: model calls where the model is asked, tool calls inside the tool itself. What
the record says is compared with that, and is never its source.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import boolab as bl
from boolab.runtime.models.base import Emit
from boolab.runtime.tools.tool import ToolSpec
from tests.support.helpers import grouped

TOKENS_PER_CALL = 100
GUARDED = frozenset({"doom_loop", "error_streak", "stuck"})
"""The stop reasons that detectors give."""


class Seen(NamedTuple):
    """One request as it stood when the model was asked: a run's messages grow, so they are copied."""

    purpose: str
    tools: tuple[str, ...]
    tool_choice: str
    told: tuple[str, ...]
    """The texts of all messages that are neither the model's own nor tool results."""

    @property
    def last_word(self) -> str:
        """The latest of them."""
        return self.told[-1]


class CountingModel:
    """A scripted model that remembers each request that was made of it."""

    virtual = True
    summarises = True

    def __init__(self, items: Sequence[Any], summary: Any = "Summed up.") -> None:
        self.name = "counted"
        self.requests: list[Seen] = []
        self._script = bl.ScriptedModel(items, summary=summary)

    async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
        told = tuple(m.text for m in request.messages if m.role not in ("assistant", "tool"))
        tools = tuple(spec.name for spec in request.tools)
        self.requests.append(Seen(request.purpose, tools, str(getattr(request, "tool_choice", "auto")), told))
        return await self._script.respond(request, emit)


def same_result(_nth: int, what: str) -> str:
    """A tool that gives the same result for the same arguments."""
    return f"seen {what}"


def other_result(nth: int, what: str) -> str:
    """A tool whose result is never the same: polling."""
    return f"seen {what}, try {nth}"


def same_error(_nth: int, _what: str) -> str:
    """A tool that fails in the same words."""
    msg = "no such file"
    raise bl.ToolError(msg)


def other_error(nth: int, _what: str) -> str:
    """A tool that fails in other words each time."""
    msg = f"no such file, try {nth}"
    raise bl.ToolError(msg)


class Workshop:
    """The tools of a case. `ran` holds what the working tool was really called with, in order."""

    def __init__(self, outcome: Callable[[int, str], str] = same_result) -> None:
        self.ran: list[str] = []
        self._outcome = outcome

    def tools(self, policy: bl.Policy) -> tuple[ToolSpec, ...]:
        """The working tool, and those by which the harness lets an agent finish."""

        @bl.tool(read_only=True)
        def work(what: str = "", depth: int = 0) -> str:
            """Do some work."""
            self.ran.append(what)
            if what.startswith("bad"):
                return same_error(len(self.ran), what)
            return self._outcome(len(self.ran), what)

        def finish(answer: str = "") -> str:
            """Hand in the answer."""
            return answer

        return (work, *(bl.tool(name=name, read_only=True)(finish) for name in finish_tools(policy)))


def preset(name: str, **changes: Any) -> bl.Policy:
    """A preset, or a variant of it with other limits; `tool_budget` is that of every agent."""
    paths = {
        "max_steps": ("cap.max_steps",),
        "tool_budget": ("budgets.read_only", "budgets.writing", "budgets.no_agent"),
        "token_budget": ("budgets.tokens",),
        "cost_budget": ("budgets.cost",),
        "time_budget": ("budgets.seconds",),
    }
    return bl.policies[name].vary(**grouped({path: changes[limit] for limit in changes for path in paths[limit]}))


def finish_tools(policy: bl.Policy) -> tuple[str, ...]:
    """The names of the tools that end a run under this policy."""
    return tuple(policy.finish.tools)


def end_of(policy: bl.Policy, run: bl.Run) -> str:
    """The harness's own word for the end of a run."""
    return str(policy.end_of(run))


def script(
    pattern: str,
    policy: bl.Policy,
    *,
    cost: float = 0.001,
    latency_ms: int = 0,
    finish_reason: str | None = None,
    thoughts: bool = False,
) -> list[dict[str, Any]]:
    """A script from a pattern: each word is one response, each letter in it one call.

    `A`, `B`, `C`: the same letter is the same call. `k`: the same call as `K`, its keys in another order. `T`: a call
    like no other. `F`: a call like no other, which fails. `X`: a text without calls. `D`: done, by the harness's own
    finishing tool, else by a text.
    """
    extra: dict[str, Any] = {
        "usage": {"input_tokens": 60, "output_tokens": TOKENS_PER_CALL - 60, "cost_usd": cost},
        "latency_ms": latency_ms,
    }
    if finish_reason is not None:
        extra["finish_reason"] = finish_reason
    items = []
    for nth, word in enumerate(pattern.split()):
        item: dict[str, Any] = dict(extra)
        if word == "X" or (word == "D" and not finish_tools(policy)):
            item["text"] = f"Text {nth}."
        else:
            item["tool_calls"] = [_call(letter, f"{nth}.{i}", policy) for i, letter in enumerate(word)]
            item["text"] = f"Thought {nth}." if thoughts else ""
        items.append(item)
    return items


def _call(letter: str, place: str, policy: bl.Policy) -> dict[str, Any]:
    arguments: Mapping[str, Any] | str
    if letter == "D":
        return {"name": finish_tools(policy)[0], "arguments": {"answer": "42"}}
    if letter == "K":
        arguments = '{"what": "K", "depth": 1}'
    elif letter == "k":
        arguments = '{"depth": 1, "what": "K"}'
    else:
        arguments = {"what": {"T": f"t{place}", "F": f"bad{place}"}.get(letter, letter)}
    return {"name": "work", "arguments": arguments}


def said(text: str, finish_reason: str | None) -> bl.models.Response:
    """A response without calls of which the provider says something odd, or nothing (None)."""
    return bl.models.Response(text, (), finish_reason, bl.models.Usage(60, 40, cost=1000))


class Observation(NamedTuple):
    """What the table of the specification tells of a run.

    `model_calls` is how often the model was asked in all; `summary_calls` are those of them that stand outside the cap.
    """

    model_calls: int
    tools_run: int
    summary_calls: int
    reason: str
    end: str


class Played(NamedTuple):
    """A case that was played: the record, and what was counted beside it."""

    policy: bl.Policy
    run: bl.Run
    model: CountingModel
    ran: tuple[str, ...]
    asked_after: tuple[int, ...]
    """How often the model had been asked each time that the human was."""

    @property
    def observation(self) -> Observation:
        wrap_up = self.run.wrap_up
        return Observation(
            len(self.model.requests),
            len(self.ran),
            int(wrap_up is not None and wrap_up.asked) + len(self.events("grace")),
            self.run.stop_reason,
            end_of(self.policy, self.run),
        )

    def events(self, *kinds: str) -> list[tuple[str, int]]:
        """The events of these kinds, each with the number of the step that it belongs to."""
        return [(e.kind, e.payload["after_step"]) for e in self.run.events if e.kind in kinds]


def play(
    policy: bl.Policy,
    pattern: str | Sequence[Any],
    *,
    outcome: Callable[[int, str], str] = same_result,
    answers: Sequence[bool] = (),
    tools: Sequence[ToolSpec] = (),
    model: CountingModel | None = None,
    agent: bl.Agent | None = None,
    task: Any = "go",
    **options: Any,
) -> Played:
    """Play a pattern, or a list of items, under a policy."""
    items = script(pattern, policy, **options) if isinstance(pattern, str) else pattern
    shop = Workshop(outcome)
    counted = model or CountingModel(items)
    before = len(counted.requests)
    asked_after: list[int] = []

    def human(*_question: Any) -> bool:
        asked_after.append(len(counted.requests) - before)
        return answers[min(len(asked_after), len(answers)) - 1]

    run = bl.run_sync(
        agent or bl.Agent("a"),
        task,
        model=counted,
        tools=[*shop.tools(policy), *tools],
        policy=policy,
        ask=human if answers else None,
    )
    return Played(policy, run, counted, tuple(shop.ran), tuple(asked_after))


def observe(policy: bl.Policy, pattern: str | Sequence[Any], **options: Any) -> Observation:
    """What the table tells of a pattern under a policy; options as for `play`."""
    return play(policy, pattern, **options).observation
