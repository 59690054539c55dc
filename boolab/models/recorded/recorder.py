"""`record`: writes down what a model is asked and what it says; see `boolab.models.recorded.format` for the format."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from boolab.core.codec import dumps, encode
from boolab.core.types import Response
from boolab.errors import INTERRUPTS, ModelError, SettingError, describe
from boolab.models.base import Emit, Model, Request, partial_of, validate_response
from boolab.models.recorded.format import (
    LINES,
    VERSION,
    Chain,
    Exchange,
    Failure,
    Header,
    Offer,
    Offers,
    Said,
    offer_of,
)

_KINDS: Final = {line: kind for kind, line in LINES.items()}


def record(model: Model, path: str | Path) -> Model:
    """A model that writes down what it is asked and what it says, and is otherwise the one that was given.

    One recording takes any number of runs, at the same time, in any thread, or one after another. A line is in the file
    as soon as it is written. If writing fails, the runs go on, and each has an event `fault` that says so. Results that
    a model brings for its own tool calls are not written.

    Args:
        model: Any model.
        path: The file, which must not be there yet; `~` is expanded.

    Returns:
        The model, recorded.

    Raises:
        SettingError: if it is no model or no path, the file is there already, or it cannot be made.

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = f"{folder}/hello.jsonl"
        ...     first = bl.run_sync(None, "Hello", model=bl.record(bl.ScriptedModel(["Hi."]), path))
        ...     bl.run_sync(None, "Hello", model=bl.RecordedModel(path)).text
        'Hi.'
    """
    given: object = model
    if isinstance(given, type) or not isinstance(given, Model) or not isinstance(given.name, str):
        msg = f"model={model!r} is no model: expected a `name` and `async def respond(request, emit=None)`"
        raise SettingError(msg)
    where: object = path
    if not isinstance(where, str | Path):
        msg = f"path={path!r}: expected the path of the new file"
        raise SettingError(msg)
    return _Recorder(model, Path(path).expanduser())


class _Recorder:
    """A model around a model. What the loop asks of models besides their responses, it asks of the one inside."""

    def __init__(self, model: Model, path: Path) -> None:
        self.name = model.name
        self._model = model
        self._path = path
        self._pen = _Pen(path)
        self._lock = threading.Lock()
        """What a line refers to must be written before it, also where runs of several threads share the model."""
        self._chain = Chain(self._write_message)
        self._offers = Offers()
        self._written: set[str] = {offer_of(()).id}
        self._conversations: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._told: set[str] = set()
        facts = Header(
            VERSION,
            version("boolab"),
            model.name,
            getattr(model, "context_window", None),
            getattr(model, "summarises", True),
            getattr(model, "compacts", True),
        )
        self._pen.write({"kind": "recording", **encode(facts, "a model")})

    def __repr__(self) -> str:
        return f"<{self._model!r}, recorded in {self._path}>"

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):  # a copy that is not made yet has no model to ask
            raise AttributeError(name)
        return getattr(self._model, name)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The model's response: see `boolab.models.base.Model`."""
        with self._lock:
            exchange = self._begin(request)
        start = request.clock.now()
        try:
            response = await self._model.respond(request, emit)
            fault = validate_response(response)
            if fault:
                what = f"the response of the model {self.name} is malformed: {fault}"
                exchange = exchange._replace(failure=Failure(what, f"ModelError: {what}"))
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
            self._tell(request)
        return response

    def _begin(self, request: Request) -> Exchange:
        """What is known before the model is asked; the messages are written by then."""
        number = self._conversations.get(request.run_id) or next(self._numbers)
        if request.run_id:
            self._conversations[request.run_id] = number
        offer = self._offers(request.tools)
        if offer.id not in self._written:
            self._written.add(offer.id)
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
            request.seed,
        )

    def _write_message(self, said: Said) -> None:
        if said.id not in self._written:
            self._written.add(said.id)
            self._write(said)

    def _write(self, line: Said | Offer | Exchange) -> None:
        kind = _KINDS[type(line)]
        self._pen.write({"kind": kind, **encode(line, f"a recorded {kind}")})

    def _tell(self, request: Request) -> None:
        """Say once in each run that the recording is not whole."""
        if self._pen.fault and request.note is not None and request.run_id not in self._told:
            self._told.add(request.run_id)
            request.note("fault", what=f"the recording {self._path} ends early: {self._pen.fault}")


class _Pen:
    """Writes lines to a new file, each at once. After a failure it writes no more, so that only the last can be cut."""

    def __init__(self, path: Path) -> None:
        self.fault = ""
        try:
            # Without a buffer there is nothing to flush, and nothing is lost with the process.
            self._file = path.open("xb", buffering=0)
        except FileExistsError as error:
            msg = f"{path} is there already: nothing is overwritten; give another name, or remove the file"
            raise SettingError(msg) from error
        except OSError as error:
            msg = f"{path} cannot be written: {error.strerror}; give a file in a folder where files can be made"
            raise SettingError(msg) from error
        weakref.finalize(self, self._file.close)

    def write(self, value: Mapping[str, Any]) -> None:
        """Write one line."""
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
        message,
        describe(error),
        status if type(status) is int else None,
        retryable is True,
        partial_of(error),
    )
