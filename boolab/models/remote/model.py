"""`RemoteModel`: a model behind HTTP. What the two protocols share: attempts, patience, cost and silence about keys.

A failure before any output is tried again, as far as `Retry` allows; each failed attempt is an event of the run. A
stream that broke after output is not: the text was seen and paid for, so the response is raised as a `ModelError` with
all that came as its `partial`, and the policy decides (`Execution.broken_retries`).

A model can be pickled, to work in another process, but never with a key: one that took its key from the environment
takes it from the environment again, where it is unpickled; one that was given a key refuses.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from pydantic import SecretStr

from boolab.core.types import JSON, Response
from boolab.errors import ModelError, SettingError, nearest
from boolab.models.base import RETRYABLE, Emit, Request
from boolab.models.remote import pricing as price_table
from boolab.models.remote.credentials import VARIABLES, Redactor, key_for, split_headers
from boolab.models.remote.protocol import Decoder, Fault, Wire
from boolab.models.remote.rate_limit import RateLimit
from boolab.models.remote.retry import Retry, retry_after
from boolab.models.remote.timeouts import Deadline, Timeouts
from boolab.models.remote.transport import Answer, Endpoint, checked_base_url

_RETRY: Final = Retry()
_TIMEOUTS: Final = Timeouts()
_LOG_THRESHOLD_MS: Final = 10
"""Shorter waits for a rate_limit are not worth an event."""
_SUCCESSES: Final = range(200, 300)
_OPENING: Final = 200
_LONGEST: Final = 1000
"""How many characters of a server's words an error repeats."""


class _Outcome(NamedTuple):
    """What one attempt gave: a response, or a fault and what came before it."""

    response: Response
    fault: Fault | None = None
    begun: bool = False
    told: float | None = None


class Protocol(NamedTuple):
    """What is particular to one protocol: where it is at home, how it is written, and how it carries a key."""

    home: str
    wire: Callable[[str, Mapping[str, Any]], Wire]
    authorize: Callable[[str], Mapping[str, str]]
    headers: Mapping[str, str] = {}


class RemoteModel:
    """A model behind HTTP: what `OpenAIModel` and `AnthropicModel` are made of, with their arguments.

    Args:
        model: What the server calls the model.
        base_url: The address of the API, without the last part of the path (`/chat/completions`, `/messages`); by
            default that of the provider whose protocol it is.
        api_key: The key. By default it is that of the environment, if the host is one that has a variable
            (`OPENAI_API_KEY` for api.openai.com, `ANTHROPIC_API_KEY` for api.anthropic.com, `OPENROUTER_API_KEY` for
            openrouter.ai, ...), and none for any other host. It is sent to that host only, and is in no record, repr,
            log or exception.
        headers: Further headers. The values of those whose names speak of a key, a token or the like are kept as the
            key is.
        retry: How a request is tried again that failed before any output.
        timeouts: How long to wait for a connection, for the first output, between outputs, and for all.
        rate_limit: A limit on requests at once and per minute. All runs share it, and all models that hold the same.
        prices: Whether a cost that the server does not tell is looked up in the package genai-prices: True, False, or
            None for "if it is installed". A price is known only for providers that the package knows by `base_url`.
        context_window: How many tokens fit into a request, so that policies can compact; None if it is not known.
        name: What records call the model; by default what the server calls it.
        **parameters: Whatever else goes into the body of each request, as it is; None takes away what is sent by
            default.

    Raises:
        SettingError: if a value is not one that makes sense, or the key of a known provider is missing.
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
        url = checked_base_url(self.protocol.home if base_url is None else base_url)
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
        self._use_prices = prices is not False and price_table.installed()
        plain, hidden = split_headers(headers or {})
        self._given = ["api_key"] * (api_key is not None) + [f"the header {name}" for name in hidden]
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
        self._erase = Redactor([key, *hidden.values()])
        carried = {} if key is None else self.protocol.authorize(key.get_secret_value())
        hidden = {**{header: SecretStr(value) for header, value in carried.items()}, **hidden}
        where = f"{self.base_url}/{self._wire.path}"
        self._endpoint = Endpoint(where, {**self.protocol.headers, **plain}, hidden, timeouts.connect)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.base_url}>"

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What is asked of whom, without any key: see `boolab.sweeps.fingerprints`."""
        waiting = ("retry", "timeouts", "rate_limit", "prices")
        asked = {name: value for name, value in self._settings.items() if name not in waiting}
        return (self.model, self.base_url, asked)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._given:
            variable = VARIABLES.get(self._endpoint.url.host)
            msg = (
                f"{self!r} was given a secret ({', '.join(self._given)}), which is not sent to other processes: "
                f"{f'leave it out and set {variable} where the workers run, or ' if variable else ''}"
                "pass model= as a function of a cell, which makes the model on the worker"
            )
            raise SettingError(msg)
        return functools.partial(type(self), **self._settings), (self.model,)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; they are closed with the loop anyway."""
        await self._endpoint.aclose()

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """Ask the model: see `boolab.models.base.Model`."""
        body = self._wire.body(request)
        begin, attempt = request.clock.now(), 1
        while True:
            response, fault, begun, told = await self._attempt(body, request, emit)
            if fault is None:
                return response
            wait = None
            if fault.retryable and not begun:
                spent = (request.clock.now() - begin) / 1000
                wait = self._retry.wait(attempt, spent=spent, told=told, chance=random.random())  # noqa: S311 - it spreads retries, no secret
            if wait is None:
                raise self._error(fault, attempt, told, response)
            if request.note is not None:
                facts = {"attempt": attempt, "status": fault.status, "wait_ms": round(wait * 1000)}
                usage = response.usage
                spent_on_it = {
                    "input_tokens": usage.input_tokens,
                    "output_tokens": usage.output_tokens,
                    "cost": usage.cost,
                }
                known = {name: value for name, value in spent_on_it.items() if value is not None}
                request.note("retry", what=fault.message, **facts, **known)
            await request.clock.sleep(wait)
            attempt += 1

    def _error(self, fault: Fault, attempt: int, told: float | None, partial: Response) -> ModelError:
        tries = f" (attempt {attempt} of {self._retry.attempts})" if attempt > 1 else ""
        if fault.retryable and told is not None and attempt < self._retry.attempts:
            tries = f" (the server asks to wait {told:,.10g} s, beyond the {self._retry.seconds:,.10g} s for retries)"
        return ModelError(f"{fault.message}{tries}", status=fault.status, retryable=fault.retryable, partial=partial)

    async def _attempt(self, body: bytes, request: Request, emit: Emit | None) -> _Outcome:
        decoder = self._wire.decoder(None if emit is None else self._erasing(emit), f"call_{request.index + 1}")
        try:
            async with self._rate_limit.request() as waited:
                if waited >= _LOG_THRESHOLD_MS and request.note is not None:
                    request.note("throttled", wait_ms=waited)
                return await self._listen(body, request, decoder)
        except asyncio.CancelledError as interruption:
            interruption.partial = self._paid(decoder.partial(), decoder)  # type: ignore[attr-defined] # for the record
            raise

    async def _listen(self, body: bytes, request: Request, decoder: Decoder) -> _Outcome:
        sent, first = request.clock.now(), None
        answer = Answer()
        with Deadline(self._timeouts) as patience:

            def hear(event: str, data: str) -> None:
                nonlocal first
                if decoder.ended:
                    return
                decoder.feed(event, self._erase(data))
                patience.heard(output=decoder.begun and event != "ping", ended=decoder.ended)
                if first is None and decoder.begun:
                    first = request.clock.now() - sent

            answer = await self._endpoint.post(body, hear, patience.over)
            # Before anything is cut short: half a key can no longer be told from other text.
            answer = answer._replace(body=self._erase(answer.body))
        fault = self._fault(answer, patience, decoder)
        if fault is None:
            if not answer.streamed and not decoder.ended:
                decoder.feed_whole(answer.body)
            closed = decoder.close()
            if isinstance(closed, Response):
                return _Outcome(self._paid(closed, decoder)._replace(ttft_ms=first))
            fault = closed
        partial = self._paid(decoder.partial(), decoder)._replace(ttft_ms=first)
        return _Outcome(partial, self._without_keys(fault), decoder.begun, retry_after(answer.headers))

    def _fault(self, answer: Answer, patience: Deadline, decoder: Decoder) -> Fault | None:
        """What kept the response from coming whole, as far as HTTP can tell."""
        if decoder.fault is not None:
            return decoder.fault
        # With the reason for its end a response is whole, whatever then happens to the connection. A last word alone is
        # not enough: llama.cpp, told to stop, says [DONE] without a reason and breaks the connection.
        if decoder.partial().native_finish_reason is not None or (decoder.ended and not answer.broken):
            return None
        if patience.ran_out:
            return Fault(patience.ran_out, retryable=True)
        if answer.broken:
            return Fault(answer.broken, answer.worth_retrying, answer.status if not answer.streamed else None)
        if answer.status is None or answer.status in _SUCCESSES:
            return None if answer.streamed else self._no_json(answer)
        return self._refused(answer)

    def _no_json(self, answer: Answer) -> Fault | None:
        """What is wrong with a body in place of a stream, if it cannot be a response."""
        if answer.body.lstrip()[:1] in (b"{", b"["):
            return None
        kind = answer.headers.get("content-type", "no content type")
        what = f"{self._endpoint.url} answered with {kind} in place of a stream of events"
        return Fault(f"{what}: {_opening(answer.body)}; is base_url right?", status=answer.status)

    def _refused(self, answer: Answer) -> Fault:
        status = answer.status or 0
        if "location" in answer.headers:
            msg = f"HTTP {status}: redirected to {answer.headers['location']}; redirects are not followed: set base_url"
            return Fault(msg, status=status)
        said = self._wire.error_text(answer.body) or _opening(answer.body)
        if status in (404, 405):
            said = f"{said or 'not found'} (asked at {self._endpoint.url}: is base_url right?)"
        spent = b"insufficient_quota" in answer.body  # a 429 that no waiting ends
        retryable = status in RETRYABLE and not spent and answer.headers.get("x-should-retry") != "false"
        return Fault(f"HTTP {status}: {said}" if said else f"HTTP {status}", retryable, status)

    def _paid(self, response: Response, decoder: Decoder) -> Response:
        """The response without keys, and with its cost, if that can be known."""
        usage = response.usage
        if usage.cost is None and self._use_prices:
            written = decoder.cache_write_tokens
            cost = price_table.cost_of(usage, self.model, self.base_url, cache_write_tokens=written)
            usage = usage._replace(cost=cost)
        return self._erase(response._replace(usage=usage))

    def _without_keys(self, fault: Fault) -> Fault:
        message = self._erase(fault.message)
        return fault._replace(message=message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…")

    def _erasing(self, emit: Emit) -> Emit:
        return lambda of, delta: emit(of, self._erase(delta))


def _opening(body: bytes) -> str:
    """The first words of a body."""
    return " ".join(body[: 4 * _OPENING].decode("utf-8", "replace").split())[:_OPENING]


def _check_names(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that are likely meant for boolab: a server might pass over them without a word."""
    own = [name for name in inspect.signature(RemoteModel).parameters if name not in ("model", "name", "parameters")]
    for name in parameters:
        meant = "api_key" if name == "key" else nearest(name.replace("apikey", "api_key"), own, cutoff=0.65)
        if meant:
            msg = f"parameter {name!r}: did you mean {meant}=...?"
            raise SettingError(msg)


def _check(model: object, retry: object, timeouts: object, rate_limit: object, context_window: object) -> None:
    """Raise `SettingError` for an option that is not one, naming it, what was given and what is expected."""
    limit_is_known = context_window is None or (type(context_window) is int and context_window >= 1)
    for name, value, is_accepted, expected in (
        ("model", model, isinstance(model, str) and model != "", "the name by which the server knows the model"),
        ("retry", retry, isinstance(retry, Retry), "a bl.models.Retry"),
        ("timeouts", timeouts, isinstance(timeouts, Timeouts), "a bl.models.Timeouts"),
        ("rate_limit", rate_limit, isinstance(rate_limit, RateLimit | None), f"a bl.{RateLimit.__name__}"),
        ("context_window", context_window, limit_is_known, "a number of tokens, or None"),
    ):
        if not is_accepted:
            raise SettingError(f"{name}={value!r}: expected {expected}")
