"""What `claude -p --output-format stream-json --verbose` prints, as the lines of a session have it.

The Agent SDK gives the same messages, and claude-code-action keeps them as one list, `claude-execution-output.json`.
They differ from the lines of a session: `session_id` for `sessionId`, `parent_tool_use_id` for the subagent of a line,
no line for the prompt, and a `result` at the end. A result `error_max_turns` names the limit only in its text (2.1.330:
"Reached maximum number of turns (3)"); its `num_turns` is one more than the limit.

A result is an error if its subtype is another `error_...`, or with `is_error`: `error_during_execution` is an error of
the API, of a tool or of the harness, unless the user interrupted the run (`terminal_reason`, or a message before it);
`error_max_budget_usd` is a cost budget; `error_max_structured_output_retries` is an error streak, as are the repeated
format errors of other harnesses. See platform.claude.com/docs/en/agent-sdk/agent-loop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import Any, Final, NamedTuple

from boolab.core.run import ModelCost, StatedCost
from boolab.core.types import StopReason, Usage
from boolab.io.json_input import items, json_text, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import blocks_of, content_text, name_or_none, one_line

ENDED: Final = "subagentEnded"
"""The flag of a result, or the kind of an attachment, that marks the end of a subagent."""
STOPPED: Final = "stopped"
"""The kind of an attachment that has how the run ended, by its result."""
QWEN: Final = "qwen_code_version"
"""What the first line of a stream of Qwen Code has, which is in the same form."""
_LAUNCHED: Final = "Async agent launched"
_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_MAX_MODELS: Final = 100
_TURNS: Final = re.compile(r"maximum number of turns \((\d{1,9})\)")
_BUDGET: Final = re.compile(r"maximum budget \(\$(\d{1,9}(?:\.\d{1,9})?)\)")


class Ending(NamedTuple):
    """How a run ended, by its result; `words` are those of the error."""

    reason: StopReason
    words: str
    rule: str | None = None
    threshold: int | None = None
    value: int | None = None


def is_stream_line(line: object) -> bool:
    """Whether this is a message of the stream: the one that opens it, one of a loop, or its result."""
    if not isinstance(line, dict) or not isinstance(line.get("session_id"), str):
        return False
    kind = line.get("type")
    if kind in ("assistant", "user"):
        return "parent_tool_use_id" in line and "content" in mapping(line.get("message"))
    is_init = kind == "system" and line.get("subtype") == "init" and "reasoning_effort" not in line  # that is Droid's
    return is_init or is_stream_result(line)


def is_stream_result(line: Mapping[str, Any]) -> bool:
    """Whether this is the message that ends the stream."""
    return line.get("type") == "result" and "num_turns" in line


def state_result(builder: RunBuilder, result: Mapping[str, Any], inner: Usage) -> None:
    """Pass the totals of a result to the builder. `inner` is the usage of the subagents in the stream.

    The usage is that of the main loop alone in 2.0.46, and may include subagents in others. `num_turns` is one more
    than the messages with results: as many as the responses, or more where calls are parallel.
    """
    turns, usage = whole(result.get("num_turns")), mapping(result.get("usage"))
    answered = sum(result is not None for result in chain.from_iterable(step.results for step in builder.steps))
    if turns is not None:
        builder.state("num_turns of the result", responses=(turns - 1 if turns > answered + 1 else 0, turns))
    parts = [whole(usage.get(name)) for name in _INPUT]
    output_tokens = whole(usage.get("output_tokens"))
    if None not in parts:
        input_tokens = sum(part or 0 for part in parts)
        builder.state("usage of the result", input_tokens=(input_tokens - (inner.input_tokens or 0), input_tokens))
    if output_tokens is not None:
        builder.state("usage of the result", output_tokens=(output_tokens - (inner.output_tokens or 0), output_tokens))


def state_cost(builder: RunBuilder, results: Sequence[Mapping[str, Any]]) -> None:
    """Pass the bill of the results to the builder. A program counts on from result to result; a new one begins at 0."""
    costs = [cost for result in results if (cost := micro(result.get("total_cost_usd"))) is not None]
    if not any(costs):
        return
    ended = [before for before, after in pairwise(costs) if after < before]
    models = {} if ended else mapping(results[-1].get("modelUsage"))
    named = [(model.partition("[")[0], mapping(usage)) for model, usage in islice(models.items(), _MAX_MODELS)]
    bill = [(model, micro(usage.get("costUSD"))) for model, usage in named if name_or_none(model)]
    parts = [ModelCost(model, cost) for model, cost in bill if cost is not None]
    builder.stated_cost = StatedCost(sum(ended) + costs[-1], "session", tuple(parts))
    (main, _), *_ = builder.models.most_common(1) or [("", 0)]
    windows = [whole(usage.get("contextWindow")) for model, usage in named if model == main]
    builder.context_window = next(filter(None, windows), None)


@dataclass(slots=True, eq=False)
class StreamLines:
    """Makes lines of a session from messages of the stream."""

    _agents: dict[str, str] = field(default_factory=dict)
    """The names of subagents, by the calls that started them."""
    _callers: set[str] = field(default_factory=set)
    """The calls whose subagents have lines."""
    _about: dict[str, Any] = field(default_factory=dict)
    """What the opening line has about the session."""

    def to_native(self, line: Mapping[str, Any]) -> Mapping[str, Any]:
        """The line as a session has it; one that is already is returned as it is."""
        session = line.get("session_id")
        if not isinstance(session, str) or "sessionId" in line:
            return line
        kind = line.get("type")
        caller = text(line.get("parent_tool_use_id"))
        if line.get("subtype") == "init":
            self._about = {"version": line.get("claude_code_version"), "cwd": line.get("cwd")}
        base = {**self._about, "sessionId": session, "isSidechain": bool(caller)}
        if kind == "result" and line.get("subtype") == "error_max_turns":
            return {**base, "type": "attachment", "attachment": {"type": "max_turns_reached", "maxTurns": _limit(line)}}
        if kind == "result" and not caller and (ending := _ending(line)) is not None:
            return {**base, "type": "attachment", "attachment": {"type": STOPPED, "ending": ending}}
        if line.get("subtype") == "task_notification" and line.get("status") == "completed":
            return {**base, "type": "attachment", "attachment": {"type": ENDED, "agentId": line.get("tool_use_id")}}
        if caller:
            self._callers.add(caller)
            base |= {"agentId": caller, "attributionAgent": self._agents.get(caller, "")}
        for block in map(mapping, blocks_of(mapping(line.get("message")).get("content"))):
            if block.get("type") == "tool_use":
                self._agents[text(block.get("id"))] = text(mapping(block.get("input")).get("subagent_type"))
        return {**line, **base, "toolUseResult": self._result(line)}

    def _result(self, line: Mapping[str, Any]) -> Mapping[str, Any]:
        """The facts of a result. A subagent goes by the id of its call here, because its lines name only that.

        Its last text is not printed: that it ended is known from the result of the call, which is no end if the call
        failed, or only launched a subagent in the background.
        """
        result = mapping(line.get("tool_use_result"))
        blocks = map(mapping, blocks_of(mapping(line.get("message")).get("content")))
        block = next((block for block in blocks if block.get("type") == "tool_result"), {})
        call_id = text(block.get("tool_use_id"))
        if not call_id or ("agentId" not in result and call_id not in self._callers):
            return result
        launched = result.get("isAsync") is True or result.get("status") == "async_launched"
        launched = launched or content_text(block.get("content")).startswith(_LAUNCHED)
        return {**result, "agentId": call_id, ENDED: not launched and block.get("is_error") is not True}


def _ending(line: Mapping[str, Any]) -> Ending | None:
    """How a run ended, by its result; None if it ended by itself."""
    subtype = text(line.get("subtype"))
    if not subtype.startswith("error") and line.get("is_error") is not True:
        return None
    errors = [error if isinstance(error, str) else json_text(error) for error in items(line.get("errors"))]
    words = one_line("; ".join(errors) or text(line.get("result")) or subtype)
    if text(line.get("terminal_reason")).startswith("aborted"):
        return Ending("aborted", words)
    if subtype == "error_max_budget_usd":
        amount = next((match[1] for match in map(_BUDGET.search, errors) if match), None)
        budget, cost = None if amount is None else micro(float(amount)), micro(line.get("total_cost_usd"))
        value = cost if budget is None else max(budget, cost or 0)
        return Ending(
            "cost_budget", words, "maxBudgetUsd" if amount is None else f"maxBudgetUsd({amount})", budget, value
        )
    if subtype == "error_max_structured_output_retries":
        return Ending("error_streak", words, "maxStructuredOutputRetries")
    return Ending("error", words)


def _limit(line: Mapping[str, Any]) -> int | None:
    """The limit on turns of a result."""
    matches = (_TURNS.search(text(error)) for error in items(line.get("errors")))
    limit = next((int(match[1]) for match in matches if match), None)
    turns = whole(line.get("num_turns"))
    return limit if limit is not None or not turns else turns - 1
