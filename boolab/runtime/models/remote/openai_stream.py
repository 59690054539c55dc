"""Decodes responses of chat completions: server-sent events, or a whole completion.

Servers differ; comments name the server that needs a rule. Values that a server repeats are assigned; only texts and
arguments are joined. Input that cannot be decoded is a fault, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.surrogates import whole_text
from boolab.core.types import JSON, UNKNOWN_USAGE, Response, ToolCall, Usage
from boolab.runtime.models.base import RETRYABLE, Emit
from boolab.runtime.models.remote.openai_tool_calls import CallBuilder, MalformedError, as_list, as_object
from boolab.runtime.models.remote.protocol import (
    Decoder,
    Fault,
    Pieces,
    as_count,
    dump_json,
    micro_dollars,
    parse_object,
)

REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
"""The names of the text of reasoning: DeepSeek's and OpenRouter's; vLLM had both."""

_BROKEN_REASONS: Final = frozenset({"error", "insufficient_system_resource", "network_error"})
_TEMPORARY: Final = re.compile(
    r"overload|rate.?limit|too many requests|server.?error|network.?error|insufficient_system_resource|unavailable"
    r"|time.?out|timed out|try again|capacity|disconnected",
    re.IGNORECASE,
)
_EXCERPT_CHARS: Final = 80
_TICKS_PER_DOLLAR: Final = 10**10
_MAX_MESSAGE_CHARS: Final = 500
_STATUSES: Final = range(400, 600)


class ChatDecoder(Decoder):
    """Decodes a chat completion.

    A refusal (`delta.refusal`) is read as text, because it replaces the answer and belongs into the next request. Of
    several choices only the first is read.

    `model`: the name of the model. Content that the provider needs in the next request is marked with it, since other
    models cannot use it. `emit`: as in `Decoder`; calls are emitted when the response is complete.
    """

    def __init__(self, model: str, emit: Emit | None = None, prefix: str = "call") -> None:
        super().__init__(emit, prefix)
        self._model = model
        self._text = Pieces()
        self._reasoning = Pieces()
        self._calls = CallBuilder(prefix)
        self._legacy = CallBuilder(prefix)
        self._usage = UNKNOWN_USAGE
        self._finish: str | None = None
        self._reasoning_field: str | None = None
        self._reasoning_details: list[dict[str, Any]] = []
        self._extra: Any = None

    def feed(self, event: str, data: str) -> None:
        if self.ended or not data or data.isspace():
            return
        if data.lstrip().startswith("[DONE]"):
            self.ended = True
            return
        chunk = parse_object(data)
        if chunk is None:
            self._fail(Fault(f"an event of the stream cannot be parsed as a JSON object: {_excerpt(data)}"))
            return
        self._take(chunk, data, is_error=event == "error")

    def feed_whole(self, body: bytes) -> None:
        chunk = _find_object(body)
        if chunk is None:
            self._fail(Fault(f"the response cannot be parsed as a JSON object: {_excerpt(body)}"))
            return
        self._take(chunk, body)
        self.ended = True
        if not chunk.get("choices"):
            self._fail(Fault(_message_of(chunk) or f"the response is no chat completion: {_excerpt(body)}"))

    def close(self) -> Response | Fault:
        self.fault = self.fault or self._missing_fault()
        if self.fault is not None:
            return self.fault
        response = self.partial_response()
        for call in response.tool_calls:
            self._emit_call(call)
        return response

    def partial_response(self) -> Response:
        reasoning = self._reasoning.text()
        named_calls = self._call_builder.named_calls()
        return Response(
            self._text.text(),
            tuple(call for call, _ in named_calls),
            finish_reason(self._finish),
            self._usage,
            reasoning,
            native_finish_reason=self._finish,
            opaque=self._opaque_content(reasoning, named_calls),
        )

    @property
    def _call_builder(self) -> CallBuilder:
        """The calls. `function_call`, the older form, repeats one of the `tool_calls` if there are any (llama.cpp)."""
        return self._calls if self._calls.has_calls else self._legacy

    def _missing_fault(self) -> Fault | None:
        if not self.has_output and self._finish is None:
            return Fault("the stream was empty: it held no output and no finish reason", retryable=True)
        if not self.ended and self._finish is None:
            return Fault("the stream was cut: it ended before a finish reason and before [DONE]", retryable=True)
        nameless = self._call_builder.nameless_excerpt()
        return None if nameless is None else Fault(f"a tool call came without a name; its arguments: {nameless}")

    def _take(self, chunk: dict[str, Any], source: str | bytes, *, is_error: bool = False) -> None:
        objects = _fact_objects(chunk)
        usage = _first_value(objects, "usage")
        if isinstance(usage, dict):
            # The latest values count, since vLLM and others send cumulative usage; missing ones keep the earlier value.
            counts = zip(usage_of(usage), self._usage, strict=True)
            self._usage = Usage(*(old if new is None else new for new, old in counts))
            self.cache_write_tokens = cache_write_tokens(usage) or self.cache_write_tokens
        error = _find_error(objects) or (is_error and chunk)
        if error:
            self._fail(_fault_of(error))
        try:
            for choice in as_list(chunk.get("choices")):
                if not choice.get("index"):
                    self._take_choice(choice)
        except MalformedError:
            self._fail(Fault(f"an event of the stream is not of the form of a chat completion: {_excerpt(source)}"))

    def _take_choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta")
        # A whole response; in a stream, Perplexity's `message` repeats the deltas.
        if delta is None and not self.has_output:
            delta = choice.get("message")
        delta = as_object(delta)
        self._take_reasoning(delta)
        self._take_content(delta.get("content"))
        self._take_content(delta.get("refusal"))
        for call in as_list(delta.get("tool_calls")):
            self.has_output = True
            self._calls.add(call)
        if delta.get("function_call") is not None:
            self.has_output = True
            self._legacy.add({"index": 0, "function": delta["function_call"]})
        extra = delta.get("extra_content")
        if _is_signed(extra):
            self._extra = extra
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish
            if finish in _BROKEN_REASONS:
                self._fail(Fault(f"the provider broke the response off with finish_reason {finish!r}", retryable=True))

    def _take_content(self, content: object) -> None:
        if content is None or isinstance(content, str):
            self._add("text", self._text, content or "")
            return
        for part in as_list(content, types=(dict, str)):  # as Mistral's reasoning models send it
            if isinstance(part, str):
                self._add("text", self._text, part)
            elif part.get("type") in ("thinking", "reasoning"):
                self._add("reasoning", self._reasoning, _join_texts(part))
            else:
                self._add("text", self._text, _join_texts(part))

    def _take_reasoning(self, delta: dict[str, Any]) -> None:
        # vLLM and OpenRouter may send the same text under several names.
        reasoning = ""
        for field in REASONING_FIELDS:
            text = delta.get(field)
            if isinstance(text, str) and not reasoning:
                reasoning = text
                if text or self._reasoning_field is None:
                    self._reasoning_field = field
        details = delta.get("reasoning_details")
        if details:
            details = as_list(details)
            self._reasoning_details += details
            reasoning = reasoning or "".join(_join_texts(detail) for detail in details)
        self._add("reasoning", self._reasoning, reasoning)

    def _opaque_content(self, reasoning: str, calls: Sequence[tuple[ToolCall, Any]]) -> str:
        """Content for the next request, as JSON text; `openai_request` reads it.

        DeepSeek requires the `reasoning_content` of calls, even if it was empty
        (api-docs.deepseek.com/guides/thinking_mode); OpenRouter requires unchanged `reasoning_details`
        (openrouter.ai/docs, "Reasoning tokens"), and Gemini the signatures of its calls
        (ai.google.dev/gemini-api/docs/thought-signatures).
        """
        content: dict[str, Any] = {}
        if self._reasoning_details:
            content["reasoning_details"] = _merge_details(self._reasoning_details)
        elif self._reasoning_field is not None and (reasoning or calls):
            content["reasoning_field"] = self._reasoning_field
        if self._extra is not None:
            content["extra_content"] = self._extra
        extras = {call.id: extra for call, extra in calls if extra}
        if extras:
            content["calls"] = extras
        return dump_json({"chat_completions": {"model": self._model, **content}}).decode() if content else ""


def error_text(body: bytes) -> str:
    """The provider's message in the body of an error; "" if there is none."""
    chunk = _find_object(body)
    return "" if chunk is None else _message_of(_find_error(_fact_objects(chunk)) or chunk)


def _find_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object in a body; Gemini sends errors as a list of one."""
    if body.lstrip().startswith(b"["):
        wrapper = parse_object(b'{"all":%b}' % body)
        items = [] if wrapper is None else wrapper["all"]
        return items[0] if len(items) == 1 and isinstance(items[0], dict) else None
    return parse_object(body)


def _fact_objects(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects that may have usage and errors: the event itself, Groq's `x_groq`, with others the first choice."""
    choices = chunk.get("choices")
    inner = (chunk.get("x_groq"), choices[0] if isinstance(choices, list) and choices else None)
    return [chunk, *[value for value in inner if isinstance(value, dict)]]


def _first_value(objects: list[dict[str, Any]], name: str) -> JSON:
    """The first non-empty value with that name."""
    for facts in objects:  # not a generator: this runs twice for each event
        if value := facts.get(name):
            return value
    return None


def _find_error(objects: list[dict[str, Any]]) -> JSON:
    """The error of an event; older versions of vLLM sent an `object` of that name."""
    return objects[0] if objects[0].get("object") == "error" else _first_value(objects, "error")


def _fault_of(error: object) -> Fault:
    """An error in a response with status 200."""
    message = _message_of(error)
    facts = error if isinstance(error, dict) else {}
    status = next((status for status in map(_status, (facts.get("code"), facts.get("status"))) if status), None)
    names = " ".join(str(facts.get(name) or "") for name in ("type", "code", "status"))
    temporary = _TEMPORARY.search(f"{names} {message}") is not None if status is None else status in RETRYABLE
    retryable = temporary and "insufficient_quota" not in names
    return Fault(message or f"the provider sent an error: {_excerpt(dump_json(error))}", retryable, status)


def _status(code: object) -> int | None:
    """A code that is an HTTP status, as OpenRouter and llama.cpp send it."""
    number = int(code) if isinstance(code, str) and code.isdecimal() and len(code) == len("404") else as_count(code)
    return number if number in _STATUSES else None


def _message_of(error: object) -> str:
    """The readable message of an error."""
    if isinstance(error, str):
        return whole_text(error[:_MAX_MESSAGE_CHARS])
    if not isinstance(error, dict):
        return ""
    message = next((error[key] for key in ("message", "detail", "msg", "error") if error.get(key)), "")
    text = message if isinstance(message, str) else dump_json(message).decode()
    metadata = error.get("metadata")  # OpenRouter's place for the message of the provider behind it
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return whole_text((f"{text}: {raw}" if isinstance(raw, str) and raw else text)[:_MAX_MESSAGE_CHARS])


def _join_texts(part: Mapping[str, Any]) -> str:
    """The text of a part of a content, or of a piece of reasoning."""
    for name in ("text", "thinking", "summary", "refusal"):
        value = part.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(_join_texts(inner) for inner in value if isinstance(inner, dict))
    return ""


def _is_signed(extra: object) -> bool:
    """Whether Gemini signed a whole message; its other extra content is not needed again."""
    google = extra.get("google") if isinstance(extra, dict) else None
    return isinstance(google, dict) and "thought_signature" in google


def _merge_details(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pieces of reasoning, with the consecutive texts of a block joined, as OpenRouter sends them without a stream."""
    out: list[dict[str, Any]] = []
    for (kind, _), group in groupby(details, key=lambda detail: (detail.get("type"), detail.get("index"))):
        pieces = list(group)
        field = {"reasoning.text": "text", "reasoning.summary": "summary"}.get(str(kind))
        if field is None:
            out += pieces
            continue
        merged: dict[str, Any] = {}
        for piece in pieces:
            merged.update((key, value) for key, value in piece.items() if not merged.get(key))
        merged[field] = "".join(_join_texts(piece) for piece in pieces)
        out.append(merged)
    return out


def _excerpt(source: str | bytes) -> str:
    text = source if isinstance(source, str) else source[: 4 * _EXCERPT_CHARS].decode("utf-8", "replace")
    return repr(text[:_EXCERPT_CHARS])


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """A server's usage as a `Usage`; missing and invalid values are None.

    Cached tokens are part of the prompt's tokens, and reasoning tokens of the completion's. Only xAI does not count
    reasoning in the completion, as its total shows (docs.x.ai/docs/key-information/consumption-and-rate-limits).
    """
    prompt, completion = as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))
    read = _first_count(
        _details(usage, "prompt_tokens_details").get("cached_tokens"), usage.get("prompt_cache_hit_tokens")
    )
    cached = _first_count(read, usage.get("cached_tokens"))  # the last one is Moonshot's
    reasoning = _first_count(
        _details(usage, "completion_tokens_details").get("reasoning_tokens"), usage.get("reasoning_tokens")
    )
    if prompt is not None and completion is not None and reasoning:
        total = prompt + completion + reasoning
        completion = as_count(completion + reasoning) if usage.get("total_tokens") == total else completion
    return Usage(prompt, completion, cached, reasoning, _cost(usage))


def cache_write_tokens(usage: Mapping[str, Any]) -> int:
    """The tokens of the prompt that were written to the provider's cache, as OpenAI and OpenRouter report them."""
    return as_count(_details(usage, "prompt_tokens_details").get("cache_write_tokens")) or 0


def _cost(usage: Mapping[str, Any]) -> int | None:
    """The cost in micro-dollars.

    In dollars: `cost` (OpenRouter: openrouter.ai/docs, "Usage accounting"), `cost.total_cost` (Perplexity) or
    `estimated_cost` (DeepInfra). In ticks: xAI (docs.x.ai/developers/cost-tracking).
    """
    cost = usage.get("cost")
    if isinstance(cost, dict):
        cost = cost.get("total_cost")
    ticks = as_count(usage.get("cost_in_usd_ticks"))
    costs = (cost, usage.get("estimated_cost"), None if ticks is None else ticks / _TICKS_PER_DOLLAR)
    return next((dollars for dollars in map(micro_dollars, costs) if dollars is not None), None)


def _details(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = usage.get(name)
    return details if isinstance(details, dict) else {}


def _first_count(*values: object) -> int | None:
    return next((number for number in map(as_count, values) if number is not None), None)
