"""`record`: writes the requests to a model and their responses to a file, in the format of `recording`."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import weakref
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from boolab.core.codec import dumps, encode
from boolab.core.types import Response
from boolab.errors import INTERRUPTS, ModelError, SettingError, describe
from boolab.io.files import user_path
from boolab.runtime.models.base import Emit, Model, Request, partial_of, traits_of, validate_response
from boolab.runtime.models.recording import (
    LINES,
    VERSION,
    Chain,
    Exchange,
    Failure,
    Header,
    Link,
    Offer,
    Offers,
    offer_of,
)

_KINDS: Final = {line: kind for kind, line in LINES.items()}


def record(model: Model, path: str | Path) -> Model:
    """A model that records each request and its result in a file, and otherwise behaves like the given model.

    One recording holds any number of runs, concurrent (in any thread) or one after another. Each line is written to the
    file at once. If writing fails, the runs continue, and each has an event `fault` that reports it. Results that the
    model provides for its own tool calls are not recorded.

    Args:
        model: Any model.
        path: The new file; `~` is expanded.

    Returns:
        The model with its recorder.

    Raises:
        SettingError: if the model or the path is not valid, or the file exists or cannot be created.

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = f"{folder}/hello.jsonl"
        ...     first = bl.run_sync(None, "Hello", model=bl.record(bl.ScriptedModel(["Hi."]), path))
        ...     bl.run_sync(None, "Hello", model=bl.RecordedModel(path)).text
        'Hi.'
    """
    model_value: object = model
    if isinstance(model_value, type) or not isinstance(model_value, Model) or not isinstance(model_value.name, str):
        msg = f"model={model!r} is no model: expected a `name` and `async def respond(request, emit=None)`"
        raise SettingError(msg)
    path_value: object = path
    if not isinstance(path_value, str | Path):
        msg = f"path={path!r}: expected the path of the new file"
        raise SettingError(msg)
    return _Recorder(model, user_path(path))


class _Recorder:
    """A model around a model: all attributes besides `respond` are those of the inner model."""

    def __init__(self, model: Model, path: Path) -> None:
        self.name = model.name
        self._model = model
        self._path = path
        self._process = os.getpid()
        self._file = _LineWriter(path)
        self._lock = threading.Lock()
        """A line must come after the lines that it refers to, even if runs in several threads share the model."""
        self._chain = Chain(self._write)
        self._offers = Offers()
        self._written: set[str] = {offer_of(()).id}
        self._conversations: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._notified: set[str] = set()
        traits = traits_of(model)
        header = Header(
            VERSION, version("boolab"), model.name, traits.context_window, traits.summarises, traits.compacts
        )
        self._file.write({"kind": "recording", **encode(header, "a model")})

    def __repr__(self) -> str:
        return f"<{self._model!r}, recorded in {self._path}>"

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):  # an unfinished copy has no inner model yet
            raise AttributeError(name)
        return getattr(self._model, name)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The model's response."""
        if os.getpid() != self._process:
            msg = (
                f"{self._path} is written by process {self._process}, from which this one was forked, and the response "
                "would not be on record: call bl.record in this process, with a file of its own"
            )
            raise SettingError(msg)
        with self._lock:
            exchange = self._begin(request)
        start = request.clock.now()
        try:
            response = await self._model.respond(request, emit)
            fault = validate_response(response)
            if fault:
                message = f"the response of the model {self.name} is malformed: {fault}"
                exchange = exchange._replace(failure=Failure(message, f"ModelError: {message}"))
            else:
                exchange = exchange._replace(response=response)
        except (asyncio.CancelledError, *INTERRUPTS, GeneratorExit) as error:
            exchange = exchange._replace(cancelled=True, response=partial_of(error))
            raise
        except BaseException as error:
            exchange = exchange._replace(failure=_failure(error))
            raise
        finally:
            with self._lock:
                self._write(exchange._replace(ms=request.clock.now() - start))
            self._note_fault(request)
        return response

    def _begin(self, request: Request) -> Exchange:
        """The known part of the exchange; writes the request's messages and tools."""
        number = self._conversations.get(request.run_id) or next(self._numbers)
        if request.run_id:
            self._conversations[request.run_id] = number
        offer = self._offers(request.tools)
        self._write(offer)
        return Exchange(
            number,
            request.index,
            self._chain(request.messages),
            0,
            offer.id,
            request.purpose,
            request.tool_choice,
            None if request.temperature is None else float(request.temperature),
            request.seed_of_run,
        )

    def _write(self, line: Link | Offer | Exchange) -> None:
        if not isinstance(line, Exchange):
            if line.id in self._written:
                return
            self._written.add(line.id)
        kind = _KINDS[type(line)]
        self._file.write({"kind": kind, **encode(line, f"a recorded {kind}")})

    def _note_fault(self, request: Request) -> None:
        """Report once in each run that the recording is incomplete."""
        if self._file.fault and request.note is not None and request.run_id not in self._notified:
            self._notified.add(request.run_id)
            request.note("fault", code="recording", what=f"the recording {self._path} ends early: {self._file.fault}")


class _LineWriter:
    """Writes lines to a new file, each at once. It stops after a failure, so only the last line can be incomplete."""

    def __init__(self, path: Path) -> None:
        self.fault = ""
        try:
            # Without a buffer, nothing is lost if the process dies.
            self._file = path.open("xb", buffering=0)
        except FileExistsError as error:
            msg = f"{path} exists already and is not overwritten: give another name, or remove the file"
            raise SettingError(msg) from error
        except OSError as error:
            msg = f"{path} cannot be written: {error.strerror}; give a file in a folder that you can write to"
            raise SettingError(msg) from error
        weakref.finalize(self, self._file.close)

    def write(self, value: Mapping[str, Any]) -> None:
        rest = b"" if self.fault else dumps(value) + b"\n"
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.fault = str(error.strerror)


def _failure(error: BaseException) -> Failure:
    status, retryable = getattr(error, "status", None), getattr(error, "retryable", False)
    message = str(error) if isinstance(error, ModelError) else describe(error)
    return Failure(
        message, describe(error), status if type(status) is int else None, retryable is True, partial_of(error)
    )
