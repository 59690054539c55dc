"""`LocalModel`: a language model in this process."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from boolab.core.types import JSON, Response
from boolab.errors import ModelError, SettingError
from boolab.io.checks import is_whole, repr_of
from boolab.runtime.models.base import Emit, Request
from boolab.runtime.models.local.server import LlamaServer, ServerSettings, version_of_llama
from boolab.runtime.models.local.weights import find_weights, sha256_of
from boolab.runtime.models.remote.model import OpenAIModel
from boolab.runtime.models.written_calls import Form, Schema, WrittenCalls
from boolab.runtime.tools.execution import task_is_cancelled

COMMAND_TEMPLATE: Final = (
    "{% for m in messages %}{{ m['content'] }}{% if m['role'] == 'user' %}{{ '\\n> ' }}{% else %}{{ '\\n' }}{% endif %}"
    "{% endfor %}"
)
"""A chat template for `form="command"`: results, and commands after `> `, as on a terminal."""
_ANY_TEXT: Final[Schema] = {"type": "string"}
_MAX_TOKENS: Final = 60
_PATIENCE_S: Final = 2.0
"""How long requests that are cancelled may take to end."""
_MAX_COUNT: Final = 2**31 - 1
"""llama.cpp has 32 bits for a count."""


class LocalModel:
    """A language model in this process: llama.cpp with any file of weights in GGUF, or SmolLM2-135M.

    It starts a server on loopback, which ends with the block, with `close`, or with the process. Its calls are forced
    by a grammar (see `bl.models.WrittenCalls`), so that any model can call tools. Name the tools in the system prompt
    with a few whole examples, each call on a line that begins with `> `.

    Bits differ by processor, by version and by the number of slots: runs repeat themselves on one machine, with one
    version and one slot, and nowhere else. The name in records holds the version.

    Args:
        path: A file of weights in GGUF; by default that of `BOOLAB_GGUF`, or the small ones of `boolab model`.
        form: How a call is written; see `WrittenCalls`. With `command`, the chat template is that of a terminal.
        answer: The JSON schema of the final answer; by default any text.
        context: The number of tokens that fit into a request.
        slots: The number of requests that are answered at once. More are no faster on a processor, and change answers.
        threads: The number of threads that compute.
        exact: Whether a branch or a resumed run gets the answers that the undisturbed run got. False is a third faster.
        template: A chat template, in Jinja; by default that of the form.
        **parameters: Members of each request's body: `temperature=0.6`, `min_p=0.02`, `max_tokens=60`, ...

    Raises:
        SettingError: if llama.cpp or the weights are missing, with both commands; the file is cut short; memory is too
            small; or a setting is not valid.
        ModelError: if llama.cpp does not accept the weights.

    Example:
        >>> import boolab as bl
        >>> @bl.tool
        ... def edit(how: str) -> str: ...
        >>> with bl.LocalModel(temperature=0.6) as model:  # doctest: +SKIP
        ...     run = bl.run_sync(bl.Agent("fixer"), "Fix it.", model=model, tools=[edit], seed=1)
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        form: Form = "command",
        answer: Schema = _ANY_TEXT,
        context: int = 2048,
        slots: int = 1,
        threads: int = 1,
        exact: bool = True,
        template: str | None = None,
        **parameters: JSON,
    ) -> None:
        for name, value in (("context", context), ("slots", slots), ("threads", threads)):
            if not is_whole(value) or not 1 <= value <= _MAX_COUNT:
                raise SettingError(f"{name}={repr_of(value)}: expected an integer >= 1 and <= {_MAX_COUNT:,}")
        if template is None and form == "command":
            template = COMMAND_TEMPLATE
        release = version_of_llama()
        weights = find_weights(path)
        settings = ServerSettings(context, slots, threads, exact, template)
        self._server: LlamaServer | None = LlamaServer(weights.path, settings)
        self._client = Client(
            f"{weights.name}@{release}",
            self._server.address,
            self._server.key,
            (sha256_of(weights.path), release, settings, form, dict(answer), parameters),
        )
        self._waiting: set[asyncio.Task[Response]] = set()
        self.name = self._client.name
        self.context_window = self._client.context_window
        self.concurrency = self._client.concurrency
        self.fingerprint = self._client.fingerprint
        """What makes two models equal: the weights, the version and all settings, and not the address."""

    def __repr__(self) -> str:
        return f"<LocalModel {self.name}{', closed' if self._server is None else ''}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the address of the server, which ends with this one."""
        return self._client.__reduce__()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and free its memory. Requests that it answers are errors; closing it twice does nothing."""
        server, self._server = self._server, None
        self._cancel_requests()
        if server is not None:
            server.close()

    def _is_closed(self) -> bool:
        return self._server is None

    def _cancel_requests(self) -> None:
        """Cancel the requests of other threads, and wait for them: the server holds all threads until it has ended."""
        for task in [*self._waiting]:
            with suppress(RuntimeError):  # its event loop has ended
                task.get_loop().call_soon_threadsafe(task.cancel)
        own_loop = None
        with suppress(RuntimeError):
            own_loop = asyncio.get_running_loop()
        deadline = time.monotonic() + _PATIENCE_S
        while any(task.get_loop() is not own_loop for task in [*self._waiting]) and time.monotonic() < deadline:
            time.sleep(0.01)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer a request.

        Args:
            request: The messages, the tools and the number of the request in its run.
            emit: Receives the parts of the response.

        Returns:
            The response: one call, or the final answer.

        Raises:
            ModelError: if the model is closed, also meanwhile, or the request does not fit into the context.
        """
        if self._server is None:
            raise ModelError(f"{self.name} is closed: use it inside its block")
        task = asyncio.ensure_future(self._client.respond(request, emit))
        self._waiting.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not task_is_cancelled() and self._is_closed():
                raise ModelError(f"{self.name} was closed in mid-request") from None
            raise
        finally:
            self._waiting.discard(task)


class Client:
    """A local model by the address of its server, which it does not own: what other processes get.

    Args:
        name: The name in records.
        address: The address of the server.
        key: Its key.
        about: What makes two models equal; it holds the settings of the server and of the calls.
    """

    def __init__(self, name: str, address: str, key: str, about: tuple[Any, ...]) -> None:
        *_, settings, form, answer, parameters = about
        self.name = name
        self.context_window = settings.context
        self.concurrency = settings.slots
        self.fingerprint = about
        self._address, self._key = address, key
        server = OpenAIModel(
            name,
            base_url=address,
            api_key=key,
            headers={"Connection": "close"},  # its server ends idle connections, at times just when a request comes
            prices=False,
            context_window=settings.context,
            **{"max_tokens": _MAX_TOKENS, **parameters},
        )
        self._model = WrittenCalls(server, form=form, answer=answer)

    def __reduce__(self) -> tuple[Any, ...]:
        return Client, (self.name, self._address, self._key, self.fingerprint)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer a request."""
        return await self._model.respond(request, emit)
