"""`RemoteModel`: a model behind HTTP. It has what both protocols share: retries, timeouts, cost, hidden keys.

A request that failed before any output is retried as `Retry` allows; each failed attempt is an event of the run. A
stream that broke after output is not retried, because its text was emitted and paid for: it is a `ModelError` with the
`partial` response, and the policy decides (`Execution.broken_retries`).

A model can be pickled for another process, but never with a key. A key from the environment is read there again; a
model with a given key cannot be pickled.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

from pydantic import SecretStr

from boolab.core import prices as price_table
from boolab.core.types import JSON, Response
from boolab.errors import ModelError, SettingError, nearest
from boolab.io.checks import repr_of
from boolab.runtime.models.base import RETRYABLE, Emit, Request
from boolab.runtime.models.remote.anthropic_request import Messages
from boolab.runtime.models.remote.credentials import VARIABLES, Redactor, key_for, split_headers
from boolab.runtime.models.remote.openai_request import ChatCompletions
from boolab.runtime.models.remote.options import Deadline, RateLimit, Retry, Timeouts, retry_after
from boolab.runtime.models.remote.protocol import Decoder, Fault, Wire
from boolab.runtime.models.remote.transport import Answer, Endpoint, check_base_url

_RETRY: Final = Retry()
_TIMEOUTS: Final = Timeouts()
_OPTIONS: Final = ("base_url", "headers", "retry", "timeouts", "rate_limit", "prices", "context_window", "name")
"""The settings that are not members of a request's body."""
_LOG_THRESHOLD_MS: Final = 10
"""Shorter waits for the rate limit have no event."""
_SUCCESSES: Final = range(200, 300)
_EXCERPT_CHARS: Final = 200
MAX_MESSAGE_CHARS: Final = 1000
"""The most characters of a server's message in an error."""


class _Outcome(NamedTuple):
    """The result of one attempt: a response, or a partial response and a fault."""

    response: Response
    fault: Fault | None = None
    has_output: bool = False
    retry_after: float | None = None


class Protocol(NamedTuple):
    """One protocol: its provider's base URL, its `Wire`, the headers of a key, and further headers."""

    home: str
    wire: Callable[[str, Mapping[str, Any]], Wire]
    authorize: Callable[[str], Mapping[str, str]]
    headers: Mapping[str, str] = {}


class RemoteModel:
    """A model behind HTTP: the base of `OpenAIModel` and `AnthropicModel`.

    Args:
        model: The server's name for the model.
        base_url: The address of the API, without the last part of the path (`/chat/completions`, `/messages`); by
            default that of the protocol's provider.
        api_key: The key. By default that of the host's environment variable (`OPENAI_API_KEY` for api.openai.com,
            `ANTHROPIC_API_KEY` for api.anthropic.com, `OPENROUTER_API_KEY` for openrouter.ai, ...), and none for other
            hosts. It is sent to that host only, and is in no record, repr, log or exception.
        headers: Further headers. Those whose names contain "key", "token" or the like are kept as secret as the key.
        retry: How a request is retried that failed before any output.
        timeouts: The longest waits: for a connection, the first output, further output, and the whole response.
        rate_limit: A limit on concurrent requests and on requests per minute, shared by all models that have it.
        prices: Whether to look up a cost that the server does not report in the package genai-prices: True, False, or
            None for "if it is installed". The package identifies the provider by `base_url`.
        context_window: The number of tokens that fit into a request, for compaction; None if it is not known.
        name: The name in records; by default the server's name.
        **parameters: Further members of each request's body; None removes a default.

    Raises:
        SettingError: if a value is not valid, or the key of a known provider is missing.
    """

    protocol: ClassVar[Protocol]

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | SecretStr | None = None,
        headers: Mapping[str, str] | None = None,
        retry: Retry = _RETRY,
        timeouts: Timeouts = _TIMEOUTS,
        rate_limit: RateLimit | None = None,
        prices: bool | None = None,
        context_window: int | None = None,
        name: str | None = None,
        **parameters: JSON,
    ) -> None:
        _check(model, retry, timeouts, rate_limit, context_window)
        if prices:
            price_table.require()
        url = check_base_url(self.protocol.home if base_url is None else base_url)
        key = key_for(url.host, api_key, encrypted=url.scheme == "https")
        self.name = name or model
        self.model = model
        self.base_url = str(url).rstrip("/")
        self.context_window = context_window
        _check_names(parameters)
        self._wire = self.protocol.wire(model, parameters)
        if self.base_url.endswith(f"/{self._wire.path}"):
            msg = f"base_url={self.base_url!r}: expected the address without /{self._wire.path}, which is added to it"
            raise SettingError(msg)
        self._retry = retry
        self._timeouts = timeouts
        self._rate_limit = rate_limit or RateLimit()
        self._use_prices = prices is not False and price_table.is_installed()
        plain, secret_headers = split_headers(headers or {})
        self._given = ["api_key"] * (api_key is not None) + [f"the header {name}" for name in secret_headers]
        self._settings = {
            "base_url": base_url,
            "headers": plain,
            "retry": retry,
            "timeouts": timeouts,
            "rate_limit": self._rate_limit,
            "prices": prices,
            "context_window": context_window,
            "name": name,
            **parameters,
        }
        self._erase = Redactor([key, *secret_headers.values()])
        carried = {} if key is None else self.protocol.authorize(key.get_secret_value())
        secret_headers = {**{header: SecretStr(value) for header, value in carried.items()}, **secret_headers}
        address = f"{self.base_url}/{self._wire.path}"
        self._endpoint = Endpoint(address, {**self.protocol.headers, **plain}, secret_headers, timeouts.connect)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.base_url}>"

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """The model, its address and its settings, without keys and without options that change no response."""
        excluded = ("retry", "timeouts", "rate_limit", "prices")
        settings = {name: value for name, value in self._settings.items() if name not in excluded}
        return (self.model, self.base_url, settings)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._given:
            variable = VARIABLES.get(self._endpoint.url.host)
            msg = (
                f"{self!r} has a secret ({', '.join(self._given)}), which is not sent to other processes: "
                f"{f'leave it out and set {variable} for the workers, or ' if variable else ''}"
                "pass model= as a function, which makes the model in the worker"
            )
            raise SettingError(msg)
        return functools.partial(type(self), **self._settings), (self.model,)

    def with_parameters(self, **parameters: JSON) -> Self:
        """The same model with further members of each request's body, on the same connections.

        Args:
            **parameters: The members; they replace those of the same name.

        Returns:
            A model with the same address, key, limits and name.

        Example:
            >>> import boolab as bl
            >>> model = bl.OpenAIModel("small", base_url="http://127.0.0.1:8080/v1")
            >>> model.with_parameters(max_tokens=60).fingerprint[2]["max_tokens"]
            60
        """
        _check_names(parameters)
        settings = {**self._settings, **parameters}
        members = {name: value for name, value in settings.items() if name not in _OPTIONS}
        model = object.__new__(type(self))  # a copy goes through `__reduce__`, which refuses a key
        vars(model).update({**vars(self), "_settings": settings, "_wire": self.protocol.wire(self.model, members)})
        return model

    @property
    def request_rates(self) -> tuple[int, int] | None:
        """The dearest list prices of a token of input and of output, in integers of 1e-10 dollars; None if unknown."""
        return price_table.dearest_rates(self.model, self.base_url) if self._use_prices else None

    @property
    def output_range(self) -> tuple[int, int] | None:
        """The fewest tokens to which a response may be limited, and its own limit; None if it has none."""
        return self._wire.output_range

    async def aclose(self) -> None:
        """Close the connections of the running event loop now; otherwise they are closed with the loop."""
        await self._endpoint.aclose()

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The model's response."""
        body = self._wire.body(request)
        begin, attempt = request.clock.now(), 1
        while True:
            response, fault, has_output, requested = await self._attempt(body, request, emit)
            if fault is None:
                self._note_ignored(request, response)
                return response
            wait = None
            if fault.retryable and not has_output:
                elapsed = (request.clock.now() - begin) / 1000
                wait = self._retry.wait(attempt, spent=elapsed, requested=requested, chance=random.random())  # noqa: S311 - it spreads retries, no secret
            if wait is None:
                raise self._error(fault, attempt, requested, response)
            if request.note is not None:
                facts = {"attempt": attempt, "status": fault.status, "wait_ms": round(wait * 1000)}
                usage = {name: getattr(response.usage, name) for name in ("input_tokens", "output_tokens", "cost")}
                usage_facts = {name: value for name, value in usage.items() if value is not None}
                request.note("retry", what=fault.message, **facts, **usage_facts)
            await request.clock.sleep(wait)
            attempt += 1

    def _note_ignored(self, request: Request, response: Response) -> None:
        """Record a parameter that the server ignored, once a run."""
        parameter = self._wire.ignored_parameter(request, response) if request.index == 0 else ""
        if parameter and request.note is not None:
            what = f"{self.base_url} seems to have ignored {parameter}; bl.models.WrittenCalls forces calls"
            request.note("ignored", parameter=parameter, what=what)

    def _error(self, fault: Fault, attempt: int, requested: float | None, partial: Response) -> ModelError:
        tries = f" (attempt {attempt} of {self._retry.attempts})" if attempt > 1 else ""
        if fault.retryable and requested is not None and attempt < self._retry.attempts:
            tries = f" (the server requests a wait of {requested:,.10g} s; the limit is {self._retry.seconds:,.10g} s)"
        return ModelError(f"{fault.message}{tries}", status=fault.status, retryable=fault.retryable, partial=partial)

    async def _attempt(self, body: bytes, request: Request, emit: Emit | None) -> _Outcome:
        erasing = None if emit is None else lambda kind, delta: emit(kind, self._erase(delta))
        decoder = self._wire.decoder(erasing, f"call_{request.index + 1}")
        try:
            async with self._rate_limit.request() as waited:
                if waited >= _LOG_THRESHOLD_MS and request.note is not None:
                    request.note("throttled", wait_ms=waited)
                return await self._send(body, request, decoder)
        except asyncio.CancelledError as interruption:
            interruption.partial = self._add_cost(decoder.partial_response(), decoder)  # type: ignore[attr-defined] # for the record
            raise

    async def _send(self, body: bytes, request: Request, decoder: Decoder) -> _Outcome:
        start, first = request.clock.now(), None
        answer = Answer()
        with Deadline(self._timeouts) as deadline:

            def receive(event: str, data: str) -> None:
                nonlocal first
                if decoder.ended:
                    return
                decoder.feed(event, self._erase(data))
                deadline.report_arrival(output=decoder.has_output and event != "ping", ended=decoder.ended)
                if first is None and decoder.has_output:
                    first = request.clock.now() - start

            answer = await self._endpoint.post(body, receive, deadline.report_end)
            # Before any text is shortened, since a part of a key cannot be recognised.
            answer = answer._replace(body=self._erase(answer.body))
        fault = self._fault(answer, deadline, decoder)
        if fault is None:
            if not answer.streamed and not decoder.ended:
                decoder.feed_whole(answer.body)
            closed = decoder.close()
            if isinstance(closed, Response):
                return _Outcome(self._add_cost(closed, decoder)._replace(ttft_ms=first))
            fault = closed
        partial = self._add_cost(decoder.partial_response(), decoder)._replace(ttft_ms=first)
        return _Outcome(partial, self._redact_fault(fault), decoder.has_output, retry_after(answer.headers))

    def _fault(self, answer: Answer, deadline: Deadline, decoder: Decoder) -> Fault | None:
        """Why the response is incomplete, as far as the decoder and HTTP show."""
        if decoder.fault is not None:
            return decoder.fault
        # With a finish reason a response is complete, whatever happens to the connection. [DONE] alone is not enough:
        # when llama.cpp is stopped, it sends [DONE] without a reason and breaks the connection.
        if decoder.partial_response().native_finish_reason is not None or (decoder.ended and not answer.fault):
            return None
        if deadline.ran_out:
            return Fault(deadline.ran_out, retryable=True)
        if answer.fault:
            return Fault(answer.fault, answer.retryable, answer.status if not answer.streamed else None)
        if answer.status is None or answer.status in _SUCCESSES:
            return None if answer.streamed else self._no_json(answer)
        return self._refusal(answer)

    def _no_json(self, answer: Answer) -> Fault | None:
        """The fault of a body that is neither a stream nor JSON."""
        if answer.body.lstrip()[:1] in (b"{", b"["):
            return None
        kind = answer.headers.get("content-type", "no content type")
        message = f"{self._endpoint.url} answered with {kind} instead of a stream of events"
        return Fault(f"{message}: {_excerpt(answer.body)}; is base_url correct?", status=answer.status)

    def _refusal(self, answer: Answer) -> Fault:
        status = answer.status or 0
        if "location" in answer.headers:
            msg = f"HTTP {status}: redirected to {answer.headers['location']}; redirects are not followed: set base_url"
            return Fault(msg, status=status)
        message = self._wire.error_text(answer.body) or _excerpt(answer.body)
        if status in (404, 405):
            message = f"{message or 'not found'} (at {self._endpoint.url}: is base_url correct?)"
        quota_exhausted = b"insufficient_quota" in answer.body  # a 429 for which waiting does not help
        retryable = status in RETRYABLE and not quota_exhausted and answer.headers.get("x-should-retry") != "false"
        return Fault(f"HTTP {status}: {message}" if message else f"HTTP {status}", retryable, status)

    def _add_cost(self, response: Response, decoder: Decoder) -> Response:
        """The response without keys, with its cost if that is known."""
        usage = response.usage
        if usage.cost is None and self._use_prices:
            cache_write_tokens = decoder.cache_write_tokens
            cost = price_table.cost_of(usage, self.model, self.base_url, cache_write_tokens=cache_write_tokens)
            usage = usage._replace(cost=cost)
        return self._erase(response._replace(usage=usage))

    def _redact_fault(self, fault: Fault) -> Fault:
        message = self._erase(fault.message)
        short = message if len(message) <= MAX_MESSAGE_CHARS else f"{message[:MAX_MESSAGE_CHARS]}…"
        return fault._replace(message=short)


def _excerpt(body: bytes) -> str:
    """The beginning of a body, in one line."""
    return " ".join(body[: 4 * _EXCERPT_CHARS].decode("utf-8", "replace").split())[:_EXCERPT_CHARS]


def _check_names(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that look like misspelt options of boolab: a server may ignore them silently."""
    options = [
        name for name in inspect.signature(RemoteModel).parameters if name not in ("model", "name", "parameters")
    ]
    for name in parameters:
        option = "api_key" if name == "key" else nearest(name.replace("apikey", "api_key"), options, cutoff=0.65)
        if option:
            msg = f"parameter {name!r}: did you mean {option}=...?"
            raise SettingError(msg)


def _check(model: object, retry: object, timeouts: object, rate_limit: object, context_window: object) -> None:
    """Raise `SettingError` for an option that is not valid."""
    limit_is_known = context_window is None or (type(context_window) is int and context_window >= 1)
    for name, value, is_accepted, expected in (
        ("model", model, isinstance(model, str) and model != "", "the name by which the server knows the model"),
        ("retry", retry, isinstance(retry, Retry), "a bl.models.Retry"),
        ("timeouts", timeouts, isinstance(timeouts, Timeouts), "a bl.models.Timeouts"),
        ("rate_limit", rate_limit, isinstance(rate_limit, RateLimit | None), f"a bl.{RateLimit.__name__}"),
        ("context_window", context_window, limit_is_known, "a number of tokens, or None"),
    ):
        if not is_accepted:
            raise SettingError(f"{name}={repr_of(value)}: expected {expected}")


class OpenAIModel(RemoteModel):
    """A model behind an API of chat completions: OpenAI, vLLM, llama.cpp, Ollama, OpenRouter and others.

    It streams. One instance serves any number of runs, in any number of event loops.

    Args:
        model, base_url, api_key, headers, retry, timeouts, rate_limit, prices, context_window, name: See `RemoteModel`.
        **parameters: `max_completion_tokens=4000`, `reasoning_effort="low"`, `tool_choice="required"`, ... None removes
            a default (`stream_options=None`, `seed=None`).

    Raises:
        SettingError: if a value is not valid, or the key of a known provider is missing.

    Example:
        >>> import boolab as bl
        >>> bl.OpenAIModel("qwen3-8b", base_url="http://127.0.0.1:8000/v1", temperature=0.2)
        <OpenAIModel qwen3-8b at http://127.0.0.1:8000/v1>
    """

    protocol = Protocol("https://api.openai.com/v1", ChatCompletions, lambda key: {"authorization": f"Bearer {key}"})


class AnthropicModel(RemoteModel):
    """A model behind Anthropic's messages API, or another server with this protocol.

    It streams. One instance serves any number of runs, in any number of event loops.

    Args:
        model, base_url, api_key, headers, retry, timeouts, rate_limit, prices, context_window, name: See `RemoteModel`.
        **parameters: `max_tokens` (required by the API, by default 8192), `thinking={"type": "enabled",
            "budget_tokens": 4000}`, `tool_choice="any"`, ... None removes a default.

    Raises:
        SettingError: if a value is not valid, or the key is missing.

    Example:
        >>> import boolab as bl
        >>> bl.AnthropicModel("claude-opus-4-5", api_key="a-key-of-mine")
        <AnthropicModel claude-opus-4-5 at https://api.anthropic.com/v1>
    """

    protocol = Protocol(
        "https://api.anthropic.com/v1", Messages, lambda key: {"x-api-key": key}, {"anthropic-version": "2023-06-01"}
    )
