"""What is played: scripts and settings, one definition for a released package and for boolab's preset of it.

A script is a list of turns, each what the model says once: `{"text", "calls", "tokens", "cost", "finish_reason"}`.
The tool `look` answers, `fail` raises what any program may, `decline` raises the package's own exception for an error
that the model should hear of, `missing` is offered by nobody. `submit` and `final_answer` are the finish tools of the
harnesses that have one. Settings are in the words of the package's own documentation.

A request that offers no tools is answered with a text that is not part of the script, so that a wrap-up never uses up
a turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Turn = Mapping[str, Any]
"""What the model says once; plain data."""

ENOUGH: Final = 12
"""How many turns a script has that should be stopped by a limit: more than any limit here lets through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One script under one package's settings.

    Attributes:
        package: The distribution, as its registry calls it.
        name: What is tried.
        script: What the model says, in order.
        settings: The limits, in the package's own words; what is absent is off where the package can switch it off.
    """

    package: str
    name: str
    script: tuple[Turn, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


def call(name: str = "look", what: str = "1") -> dict[str, Any]:
    """One tool call."""
    if name in ("submit", "final_answer"):
        return {"name": name, "arguments": {"answer": what}}
    return {"name": name, "arguments": {"what": what}}


def turn(*calls: dict[str, Any], text: str = "", finish_reason: str | None = None) -> Turn:
    """What the model says once. Each turn has 60 tokens in, 40 out, and costs one dollar."""
    return {
        "text": text,
        "calls": list(calls),
        "tokens": [60, 40],
        "cost": 1.0,
        "finish_reason": finish_reason or ("tool_calls" if calls else "stop"),
    }


def looks(n: int = ENOUGH, per_turn: int = 1) -> tuple[Turn, ...]:
    """`n` turns with `per_turn` calls each, no two of them the same."""
    return tuple(turn(*(call("look", f"{i}.{j}") for j in range(per_turn))) for i in range(n))


def each(said: Turn, n: int = ENOUGH) -> tuple[Turn, ...]:
    """The same turn `n` times."""
    return (said,) * n


DONE: Final = turn(text="done")
EMPTY: Final = turn()
TALK: Final = turn(text="Let me think.")
FAIL: Final = turn(call("fail"))
DECLINE: Final = turn(call("decline"))
MISSING: Final = turn(call("missing"))


def _cap_scenarios(package: str, cap: str, finish: Turn) -> list[Scenario]:
    """What every package with a cap on model calls is tried with. `cap` is its name of the cap."""

    def under(name: str, *script: Turn, limit: int = 3) -> Scenario:
        return Scenario(package=package, name=name, script=script, settings={cap: limit})

    return [
        under("cap 3, always one call", *looks()),
        under("cap 3, finishes on step 3", *looks(2), finish),
        under("cap 3, finishes on step 4", *looks(3), finish),
        under("cap 0", *looks(4), finish, limit=0),
        under("cap 1, always one call", *looks(), limit=1),
        under("cap 3, two calls per step", *looks(per_turn=2)),
        under("cap 6, unknown tool once", MISSING, *looks(1), finish, limit=6),
        under("cap 6, unknown tool always", *each(MISSING), limit=6),
        under("cap 6, tool raises once", FAIL, *looks(1), finish, limit=6),
        under("cap 6, tool raises always", *each(FAIL), limit=6),
        under("cap 6, one of two parallel calls raises", turn(call("fail"), call("look")), finish, limit=6),
        under("cap 6, empty response once", *looks(1), EMPTY, finish, limit=6),
        under("cap 6, empty response always", *each(EMPTY), limit=6),
        under("cap 6, text beside a call", turn(call("look"), text="Looking."), finish, limit=6),
        under("cap 6, finish_reason stop beside a call", turn(call("look"), finish_reason="stop"), finish, limit=6),
    ]


def _pydantic_ai() -> list[Scenario]:
    def under(name: str, *script: Turn, **settings: Any) -> Scenario:  # noqa: ANN401 - plain data
        return Scenario(package="pydantic-ai-slim", name=name, script=script, settings=settings)

    return [
        *_cap_scenarios("pydantic-ai-slim", "request_limit", DONE),
        under("tool budget 3, batches of 2", *looks(per_turn=2), tool_calls_limit=3),
        under("tool budget 3, single calls", *looks(), tool_calls_limit=3),
        under("tool budget 4, batches of 2", *looks(per_turn=2), tool_calls_limit=4),
        under("tool budget 3, finishes after 3", *looks(3), DONE, tool_calls_limit=3),
        under("tool budget 0", *looks(), tool_calls_limit=0),
        under("tool budget 2, failing calls", *each(FAIL), tool_calls_limit=2),
        under("300 tokens, 100 a turn", *looks(), total_tokens_limit=300),
        under("299 tokens, 100 a turn", *looks(), total_tokens_limit=299),
        under("299 tokens, finishes on step 3", *looks(2), DONE, total_tokens_limit=299),
        under("$3.0, turns of $1", *looks(), cost_limit=3.0),
        under("$2.5, turns of $1", *looks(), cost_limit=2.5),
        under("cap 3 and tool budget 3, single calls", *looks(), request_limit=3, tool_calls_limit=3),
        under("cap 6, tool declines once", DECLINE, *looks(1), DONE, request_limit=6),
        under("cap 6, tool declines always", *each(DECLINE), request_limit=6),
        under("cap 6, tool declines every other time", DECLINE, *looks(1), DECLINE, *looks(1), DONE, request_limit=6),
        under("cap 6, empty responses interrupted", EMPTY, *looks(1), EMPTY, *looks(1), DONE, request_limit=6),
        under("cap 6, unknown tools interrupted", MISSING, *looks(1), MISSING, *looks(1), DONE, request_limit=6),
        under("cap 6, two unknown tools at once", turn(call("missing"), call("missing")), DONE, request_limit=6),
        under("cap 6, unknown tool beside a call", turn(call("missing"), call("look")), DONE, request_limit=6),
        under("cap 6, empty response at length", *looks(1), turn(finish_reason="length"), DONE, request_limit=6),
        under("cap 6, text at length", *looks(1), turn(text="Cut", finish_reason="length"), DONE, request_limit=6),
    ]


def _inspect_ai() -> list[Scenario]:
    def under(name: str, *script: Turn, **settings: Any) -> Scenario:  # noqa: ANN401 - plain data
        return Scenario(package="inspect-ai", name=name, script=script, settings=settings)

    finish = turn(call("submit", "done"))
    refused = turn(text="No.", finish_reason="content_filter")
    refused_call = turn(call("look"), finish_reason="content_filter")
    return [
        *_cap_scenarios("inspect-ai", "turn_limit", finish),
        under("300 tokens, 100 a turn", *looks(), token_limit=300),
        under("299 tokens, 100 a turn", *looks(), token_limit=299),
        under("$3.0, turns of $1", *looks(), cost_limit=3.0),
        under("$2.5, turns of $1", *looks(), cost_limit=2.5),
        under("299 tokens, finishes on step 3", *looks(2), finish, token_limit=299),
        under("300 tokens, finishes on step 3", *looks(2), finish, token_limit=300),
        under("cap 3 and 300 tokens", *looks(), turn_limit=3, token_limit=300),
        under("cap 2 and 299 tokens", *looks(), turn_limit=2, token_limit=299),
        under("299 tokens and $2.5", *looks(), token_limit=299, cost_limit=2.5),
        under("300 tokens and $3.0", *looks(), token_limit=300, cost_limit=3.0),
        under("7 messages", *looks(), message_limit=7),
        under("8 messages", *looks(), message_limit=8),
        under("8 messages, two calls per step", *looks(per_turn=2), message_limit=8),
        under("cap 6, text in place of a submit, once", *looks(1), DONE, finish, turn_limit=6),
        under("cap 6, text in place of a submit, always", *each(TALK), turn_limit=6),
        under("cap 6, tool declines once", DECLINE, *looks(1), finish, turn_limit=6),
        under("cap 6, tool declines always", *each(DECLINE), turn_limit=6),
        under("cap 6, tool declines every other time", DECLINE, *looks(1), DECLINE, *looks(1), finish, turn_limit=6),
        under("cap 6, submit beside a call", turn(call("look"), call("submit", "done")), *looks(), turn_limit=6),
        under("cap 6, three refusals", *each(refused), turn_limit=6),
        under("cap 6, refusals interrupted", refused, refused, *looks(1), refused, finish, turn_limit=6),
        under("cap 6, context full", *looks(1), turn(text="Cut", finish_reason="model_length"), finish, turn_limit=6),
        under("cap 6, calls at content_filter", *each(refused_call), turn_limit=6),
    ]


def _smolagents() -> list[Scenario]:
    def under(name: str, *script: Turn, **settings: Any) -> Scenario:  # noqa: ANN401 - plain data
        return Scenario(package="smolagents", name=name, script=script, settings=settings)

    finish = turn(call("final_answer", "done"))
    return [
        *_cap_scenarios("smolagents", "max_steps", finish),
        under("run(max_steps=0), the agent's own cap 2", *looks(), max_steps=2, run_max_steps=0),
        under("run(max_steps=1), the agent's own cap 2", *looks(), max_steps=2, run_max_steps=1),
        under("cap 6, text in place of a final answer, once", *looks(1), DONE, finish, max_steps=6),
        under("cap 3, text in place of a final answer, always", *each(TALK), max_steps=3),
        under("cap 6, final answer beside a call", turn(call("look"), call("final_answer", "x")), finish, max_steps=6),
    ]


def _openai_agents() -> list[Scenario]:
    def under(name: str, *script: Turn, **settings: Any) -> Scenario:  # noqa: ANN401 - plain data
        return Scenario(package="openai-agents", name=name, script=script, settings=settings)

    return [
        *_cap_scenarios("openai-agents", "max_turns", DONE),
        under("no cap", *looks(), DONE, max_turns=None),
        under("cap 3 with a handler, always one call", *looks(), max_turns=3, handler=True),
        under("cap 0 with a handler", *looks(), max_turns=0, handler=True),
    ]


def _mini_swe_agent() -> list[Scenario]:
    def under(name: str, *script: Turn, cost_limit: float = 0.0, **settings: Any) -> Scenario:  # noqa: ANN401
        settings["cost_limit"] = cost_limit
        return Scenario(package="mini-swe-agent", name=name, script=script, settings=settings)

    finish = turn(call("submit", "done"))
    capped = [
        under(one.name, *one.script, **one.settings) for one in _cap_scenarios("mini-swe-agent", "step_limit", finish)
    ]
    return [
        *capped,
        under("$3.0, turns of $1", *looks(), cost_limit=3.0),
        under("$2.5, turns of $1", *looks(), cost_limit=2.5),
        under("$3.0, finishes on step 3", *looks(2), finish, cost_limit=3.0),
        under("$2.5, format errors are paid for", *each(TALK), cost_limit=2.5, max_consecutive_format_errors=0),
        under("cap 6, text in place of a submit, once", *looks(1), DONE, finish, step_limit=6),
        under("three format errors", *each(TALK)),
        under("unknown tools and texts mixed", MISSING, TALK, MISSING, *looks()),
        under("unknown tool beside a call", turn(call("look"), call("missing")), finish),
        under("format errors interrupted", TALK, TALK, *looks(1), TALK, TALK, finish),
        under("two format errors allowed", *each(TALK), max_consecutive_format_errors=2),
        under("cap 3 and three format errors", *each(TALK), step_limit=3),
        under("submit beside a call", turn(call("look"), call("submit", "done")), *looks()),
        under("a call behind a submit", turn(call("submit", "done"), call("look")), *looks()),
    ]


def _langgraph() -> list[Scenario]:
    def under(name: str, *script: Turn, limit: int) -> Scenario:
        settings = {"recursion_limit": limit, "builder": "create_react_agent"}
        return Scenario(package="langgraph", name=name, script=script, settings=settings)

    two, answer = looks(per_turn=2), (*looks(1), DONE)
    return [
        *(under(f"recursion limit {n}, always one call", *looks(), limit=n) for n in range(8)),
        under("recursion limit 2, answers on call 1", DONE, limit=2),
        under("recursion limit 1, answers on call 1", DONE, limit=1),
        *(under(f"recursion limit {n}, answers on call 2", *answer, limit=n) for n in (2, 3, 4)),
        *(under(f"recursion limit {n}, answers on call 3", *looks(2), DONE, limit=n) for n in (5, 6)),
        *(under(f"recursion limit {n}, two calls per step", *two, limit=n) for n in (4, 7)),
        under("recursion limit 13, unknown tool once", MISSING, *looks(1), DONE, limit=13),
        under("recursion limit 13, unknown tool always", *each(MISSING), limit=13),
        under("recursion limit 13, tool raises once", FAIL, *looks(1), DONE, limit=13),
        under("recursion limit 13, one of two calls raises", turn(call("look"), call("fail")), DONE, limit=13),
        under("recursion limit 13, tool declines once", DECLINE, *looks(1), DONE, limit=13),
        under("recursion limit 13, empty response", *looks(1), EMPTY, DONE, limit=13),
        under("recursion limit 13, text beside a call", turn(call("look"), text="Looking."), DONE, limit=13),
    ]


def _langchain() -> list[Scenario]:
    def under(name: str, *script: Turn, **settings: Any) -> Scenario:  # noqa: ANN401 - plain data
        return Scenario(package="langchain", name=name, script=script, settings=settings)

    two, answer = looks(per_turn=2), (*looks(1), DONE)
    return [
        *(under(f"recursion limit {n}, always one call", *looks(), recursion_limit=n) for n in range(9)),
        *(under(f"recursion limit {n}, answers on call 1", DONE, recursion_limit=n) for n in (1, 2)),
        *(under(f"recursion limit {n}, answers on call 2", *answer, recursion_limit=n) for n in (2, 3, 4)),
        *(under(f"recursion limit {n}, answers on call 3", *looks(2), DONE, recursion_limit=n) for n in (5, 6)),
        *(under(f"recursion limit {n}, two calls per step", *two, recursion_limit=n) for n in (4, 7)),
        under("recursion limit 13, unknown tool once", MISSING, *looks(1), DONE, recursion_limit=13),
        under("recursion limit 13, unknown tool always", *each(MISSING), recursion_limit=13),
        under("recursion limit 13, tool raises once", FAIL, *looks(1), DONE, recursion_limit=13),
        under("recursion limit 13, tool declines once", DECLINE, *looks(1), DONE, recursion_limit=13),
        *_cap_scenarios("langchain", "model_run_limit", DONE),
        under("tool budget 3, batches of 2", *two, tool_run_limit=3),
        under("tool budget 3, single calls", *looks(), tool_run_limit=3),
        under("tool budget 4, batches of 2", *two, tool_run_limit=4),
        under("tool budget 3, finishes after 3", *looks(3), DONE, tool_run_limit=3),
        under("tool budget 0", *looks(), tool_run_limit=0),
        under("cap 3 and tool budget 3, single calls", *looks(), model_run_limit=3, tool_run_limit=3),
        under("cap 3 and tool budget 3, batches of 2", *two, model_run_limit=3, tool_run_limit=3),
    ]


def _autogen() -> list[Scenario]:
    def under(name: str, *script: Turn, limit: int, reflect: bool = False) -> Scenario:
        settings = {"max_tool_iterations": limit, "reflect_on_tool_use": reflect}
        said = f"{name}, reflecting" if reflect else name
        return Scenario(package="autogen-agentchat", name=said, script=script, settings=settings)

    both = (False, True)
    return [
        *(under(f"cap {n}, always one call", *looks(), limit=n, reflect=r) for n in (1, 3) for r in both),
        *(under("cap 3, answers on call 3", *looks(2), DONE, limit=3, reflect=r) for r in both),
        *(under("cap 3, answers on call 4", *looks(3), DONE, limit=3, reflect=r) for r in both),
        under("cap 1, answers on call 1", DONE, limit=1, reflect=True),
        under("cap 0", *looks(), limit=0),
        under("cap 3, two calls per step", *looks(per_turn=2), limit=3),
        under("cap 6, unknown tool once", MISSING, *looks(1), DONE, limit=6),
        under("cap 6, unknown tool always", *each(MISSING), limit=6),
        under("cap 6, tool raises once", FAIL, *looks(1), DONE, limit=6),
        under("cap 6, tool raises always", *each(FAIL), limit=6),
        under("cap 6, one of two parallel calls raises", turn(call("fail"), call("look")), DONE, limit=6),
        under("cap 6, empty response", *looks(1), EMPTY, DONE, limit=6),
        under("cap 6, text beside a call", turn(call("look"), text="Looking."), DONE, limit=6),
    ]


SCENARIOS: Final = (
    *_pydantic_ai(),
    *_inspect_ai(),
    *_smolagents(),
    *_openai_agents(),
    *_mini_swe_agent(),
    *_langgraph(),
    *_langchain(),
    *_autogen(),
)
"""All of them, package by package."""

PACKAGES: Final = tuple(dict.fromkeys(one.package for one in SCENARIOS))
"""The packages, in order."""
