"""`RecordedModel`: replays the responses of a model from a run or from a recording."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from boolab.core.codec import dumps, run_fields
from boolab.core.types import Response, Run, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.io.checks import repr_of
from boolab.io.files import read_file, user_path
from boolab.runtime.models.base import Emit, LocalModel, Request
from boolab.runtime.models.recorded.format import MAX_BYTES, read_recording
from boolab.runtime.models.recorded.replay_file import ReplayByOrder, ReplayByRequest
from boolab.runtime.models.recorded.replay_run import RunReplay
from boolab.runtime.tools.tool import ToolContext


class RecordedModel(LocalModel):
    """A model that replays recorded responses, from a run or from a recording of `bl.record`. It needs no network.

    Of a *run*: tools are not executed, because the results are recorded too; so are summaries and compactions. Under
    the same rules it gives the same run. Under looser rules it ends with `ScriptExhausted`, because a run has no more
    responses. A run that was paused and resumed, or that continued after its cap, pauses there again and needs a new
    answer of the user.

    Of a *recording*: the responses of any number of runs; tools are executed. A run gets the next conversation that
    began with the same messages, in recorded order, and after the last one the first again. Its n-th request of a
    purpose gets the n-th response; the first request that differs from the recorded one has an event `departed`. With
    `match="request"`, a request gets the response to exactly this request (messages, tools, tool choice, temperature,
    seed and purpose), equal requests get their responses in turn, and any other request fails. Failures of the model
    are raised again.

    Times, on a virtual clock, and the size of the context window are those of the recording.

    Args:
        recording: The recorded run, or the path of a recording; `~` is expanded.
        match: How requests find their responses in a recording: by `order`, or by `request`.

    Raises:
        RunFormatError: if the file is no recording, is damaged, or has a newer version.
        SettingError: if `match` is not valid, or is `request` for a run.

    Example:
        >>> import boolab as bl
        >>> first = bl.run_sync(None, "Say hello", model=bl.ScriptedModel(["Hello."]))
        >>> bl.run_sync(None, "Say hello", model=bl.RecordedModel(first)).text
        'Hello.'
    """

    virtual = True

    def __init__(self, recording: Run | str | Path, *, match: Literal["order", "request"] = "order") -> None:
        self._recording = recording
        self._replay = _replay_of(recording, match)
        self.name: str = self._replay.name
        self.context_window: int | None = self._replay.context_window
        self.summarises: bool = self._replay.summarises
        """Of a run: whether the model wrote a summary. Of a recording: whether it could."""
        self.compacts: bool = self._replay.compacts
        """Likewise for compactions."""
        self.reply: Callable[[ToolCall, ToolContext], Awaitable[ToolResult]] | None = (
            self._replay.reply if isinstance(self._replay, RunReplay) else None
        )

    def __repr__(self) -> str:
        return f"<RecordedModel of {self._replay!r}>"

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """The content of the recording: models with equal fingerprints give equal responses."""
        given = self._recording
        data = dumps(run_fields(given)) if isinstance(given, Run) else read_file(user_path(given), MAX_BYTES)
        return (type(self._replay).__name__, blake2b(data, digest_size=16).digest())

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        return await self._replay.respond(request, emit)

    def replies_to(self, tool: str) -> bool:
        return self.reply is not None

    def has_result_of(self, tool: str) -> bool:
        """Whether the model has at least one result of a tool; if not, the tool is unknown.

        Args:
            tool: The tool's name.

        Returns:
            True if so.
        """
        return isinstance(self._replay, RunReplay) and self._replay.has_result_of(tool)


def _replay_of(recording: object, match: object) -> RunReplay | ReplayByOrder | ReplayByRequest:
    if match not in ("order", "request"):
        msg = f"match={match!r} is not accepted: expected 'order' or 'request'"
        raise SettingError(msg)
    if isinstance(recording, Run):
        if match == "request":
            msg = "match='request' needs a recording (bl.record): a run is replayed in order"
            raise SettingError(msg)
        return RunReplay(recording)
    if not isinstance(recording, str | Path):
        msg = f"{repr_of(recording)} is neither a Run nor the path of a recording"
        raise SettingError(msg)
    read = read_recording(recording)
    return ReplayByOrder(read) if match == "order" else ReplayByRequest(read)
