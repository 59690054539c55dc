"""`RecordedModel`: says again what a model said, from a run or from a recording."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from boolab.core.codec import dumps, run_fields
from boolab.core.types import Response, Run, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.io.files import read_file
from boolab.models.base import Emit, Request
from boolab.models.recorded.format import MAX_BYTES, read_recording
from boolab.models.recorded.replay_file import ReplayByOrder, ReplayByRequest
from boolab.models.recorded.replay_run import RunReplay
from boolab.tools.tool import ToolContext


class RecordedModel:
    """A model that says again what was said, from a run or from a recording that `record` made. It needs no network.

    Of a *run*: no tool is executed, since the results are recorded too. Under the same rules it gives the same run.
    Under looser ones it runs out (`ScriptExhausted`): a run knows only its own prefix. A run that was paused and
    resumed pauses again there, and its answer is given anew; so is that to a run that its cap stopped. Summaries and
    compactions are recorded too.

    Of a *recording*: what the model said, for any number of runs; tools are executed as in any run. A run gets the next
    conversation that began with the same messages, in the order in which they were recorded; after the last, the first
    again. Its n-th request of a purpose gets the n-th answer; the first request that is not the recorded one is noted
    by an event `departed`. With `match="request"` each answer is that to exactly this request (messages, tools, tool
    choice, temperature, seed and purpose), equal requests getting their answers in turn; any other request has none.
    Failures of the model are raised again.

    Times are those of the recording, on a virtual clock; so is the size of the model's context window.

    Args:
        recording: The recorded run, or the path of a recording; `~` is expanded.
        match: How requests find their answers in a recording: by `order`, or by `request`. A run is played in order.

    Raises:
        RunFormatError: if the file is no recording, of a newer version, or damaged.
        SettingError: if `match` is not one of its values.

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
        """Whether the recorded model was asked for a summary, or, of a recording, could be."""
        self.compacts: bool = self._replay.compacts
        """Likewise for compactions."""
        self.reply: Callable[[ToolCall, ToolContext], Awaitable[ToolResult]] | None = (
            self._replay.reply if isinstance(self._replay, RunReplay) else None
        )

    def __repr__(self) -> str:
        return f"<RecordedModel of {self._replay!r}>"

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What was recorded: see `boolab.sweeps.fingerprints`."""
        what = self._recording
        told = dumps(run_fields(what)) if isinstance(what, Run) else read_file(Path(what).expanduser(), MAX_BYTES)
        return (type(self._replay).__name__, blake2b(told, digest_size=16).digest())

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The recorded response to this request: see `boolab.models.base.Model`.

        Args:
            request: The messages, the tools and the number of the call in its run.
            emit: Called with what comes, as it comes; None where nobody listens.

        Returns:
            The response, with its usage and its reason to end as they were recorded.
        """
        return await self._replay.respond(request, emit)

    def replies_to(self, tool: str) -> bool:
        """Whether there are recorded results for that tool: of a run, always.

        Args:
            tool: The tool's name.

        Returns:
            True if a call of it can be answered without the tool.
        """
        return self.reply is not None

    def has_result_of(self, tool: str) -> bool:
        """Whether a call of that tool received a result in the recorded run.

        Args:
            tool: The tool's name.

        Returns:
            True if there is at least one result.
        """
        return isinstance(self._replay, RunReplay) and self._replay.has_result_of(tool)


def _replay_of(recording: object, match: object) -> RunReplay | ReplayByOrder | ReplayByRequest:
    if match not in ("order", "request"):
        msg = f"match={match!r} is not accepted: expected 'order' or 'request'"
        raise SettingError(msg)
    if isinstance(recording, Run):
        if match == "request":
            msg = "match='request' needs a recording (bl.record): a run is played in order"
            raise SettingError(msg)
        return RunReplay(recording)
    if not isinstance(recording, str | Path):
        msg = f"{recording!r} is neither a Run nor the path of a recording"
        raise SettingError(msg)
    read = read_recording(recording)
    return ReplayByOrder(read) if match == "order" else ReplayByRequest(read)
