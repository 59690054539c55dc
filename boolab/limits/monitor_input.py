"""What a foreign loop hands to a monitor, as the values that detectors count: calls, results and usage.

Frameworks have a type of their own for each. So a call may be a pair or a mapping, its arguments JSON text or the
parsed value, and a result a text or the error that the tool raised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from boolab.core.surrogates import whole_response, whole_result
from boolab.core.text import count
from boolab.core.types import UNKNOWN_USAGE, Response, ToolCall, ToolResult, Usage
from boolab.errors import SettingError, near
from boolab.io.checks import check_count, repr_of

GivenCall: TypeAlias = ToolCall | tuple[str, Any] | Mapping[str, Any]
"""A call: a pair of name and arguments, or a mapping with `name` and `arguments` (`args` or `input` are read too)."""
GivenResult: TypeAlias = ToolResult | str | BaseException | tuple[str, bool | None] | None
"""A result: a text; an error that the tool raised; a pair of text and whether it is an error (None if that is not
known); None for a call that was not executed."""
GivenUsage: TypeAlias = Usage | Mapping[str, int | None] | None
"""What a response consumed; None where it is not known."""

_ARGUMENTS: Final = ("arguments", "args", "input")
_OPENAI: Final = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
"""What OpenAI's chat completions call them."""
_PAIR: Final = 2


def response_of(calls: Iterable[GivenCall], usage: GivenUsage = None, text: str | None = None) -> Response:
    """The response that makes some calls."""
    tool_calls = tuple(_call(call) for call in _list_calls(calls))
    value: object = text
    if value is not None and not isinstance(value, str):
        raise SettingError(f"Monitor: text={repr_of(value)}: expected a text, or None where there is none")
    return whole_response(Response(text or "", tool_calls, usage=_usage(usage)))


def _list_calls(calls: object) -> Iterable[object]:
    if isinstance(calls, Iterable) and not isinstance(calls, str | bytes | Mapping | ToolCall):
        return calls
    raise SettingError(f"Monitor: calls={repr_of(calls)}: expected a list of calls, such as [('ls', {{'path': '.'}})]")


def results_of(results: Sequence[GivenResult], response: Response) -> tuple[ToolResult | None, ...]:
    """The results of the calls of a response."""
    calls = response.tool_calls
    value: object = results
    if not isinstance(value, str) and (not isinstance(value, Sequence) or isinstance(value, bytes | ToolResult)):
        msg = f"Monitor.after: results={repr_of(value)}: expected a list with one result for each call"
        raise SettingError(msg)
    if isinstance(results, str) or len(results) != len(calls):
        numbers = f"{count(len(results), 'result')} for {count(len(calls), 'call')}"
        fault = repr(results)[:80] if isinstance(results, str) else numbers
        msg = f"Monitor.after: {fault}: expected a list with one result for each call, None for one that was not run"
        raise SettingError(msg)
    return tuple(
        None if result is None else whole_result(_result(result, call))
        for call, result in zip(calls, results, strict=True)
    )


def _call(call: object) -> ToolCall:
    if isinstance(call, ToolCall):
        if all(isinstance(part, str) for part in call):
            return call
        raise SettingError(f"Monitor: the call {repr_of(call)}: expected three texts: id, name and arguments as JSON")
    call_id: object = ""
    name: object = None
    arguments: object = None
    if isinstance(call, Mapping):
        inner = call.get("function")  # OpenAI's form
        fields = inner if isinstance(inner, Mapping) else call
        call_id, name = call.get("id") or "", fields.get("name")
        arguments = next((fields[key] for key in _ARGUMENTS if key in fields), None)
    elif isinstance(call, Sequence) and not isinstance(call, str) and len(call) == _PAIR:
        name, arguments = call
    if not isinstance(name, str):
        msg = f"Monitor: the call {repr_of(call)}: expected a pair ('ls', {{'path': '.'}}) or a mapping with its name"
        raise SettingError(msg)
    return ToolCall(str(call_id), name, arguments if isinstance(arguments, str) else _json(arguments))


def _json(arguments: object) -> str:
    """Arguments as compact JSON; as Python shows them if they are no JSON value."""
    try:
        return json.dumps({} if arguments is None else arguments, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return repr(arguments)


def _result(result: object, call: ToolCall) -> ToolResult:
    if isinstance(result, ToolResult):
        texts = isinstance(result.call_id, str) and isinstance(result.content, str)
        if texts and (result.is_error is None or isinstance(result.is_error, bool)):
            return result
        msg = f"Monitor.after: the result {repr_of(result)}: expected texts, and True, False or None for is_error"
        raise SettingError(msg)
    if isinstance(result, str):
        return ToolResult(call.id, result)
    if isinstance(result, BaseException):
        return ToolResult(call.id, f"{type(result).__name__}: {result}", is_error=True)
    if isinstance(result, tuple) and len(result) == _PAIR and isinstance(result[0], str):
        content, failed = result
        if failed is None or isinstance(failed, bool):
            return ToolResult(call.id, content, is_error=failed)
    msg = (
        f"Monitor.after: the result {repr_of(result)}: expected a text, an error, (text, is_error), or None if not run"
    )
    raise SettingError(msg)


def _usage(usage: object) -> Usage:
    if usage is None:
        return UNKNOWN_USAGE
    if isinstance(usage, Usage):
        amounts: dict[Any, Any] = usage._asdict()
    elif isinstance(usage, Mapping):
        amounts = {_OPENAI.get(name, name): amount for name, amount in usage.items()}
    else:
        raise SettingError(f"Monitor: usage={repr_of(usage)}: expected {{'input_tokens': 1200, 'output_tokens': 80}}")
    for name, amount in amounts.items():
        if name not in Usage._fields:
            raise SettingError(f"Monitor: usage has no {name!r}{near(name, Usage._fields, 'it has')}")
        check_count(amount, f"Monitor: usage: {name}")
    return Usage(**amounts)
