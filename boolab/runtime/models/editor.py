"""`EditorModel`: an agent whose steps depend on what it still sees in its prompt.

The steps of a `SimulatedModel` are drawn before the run, so no context policy changes them. This agent edits files
after a plan, and reads a file before an edit only if its text is not in the prompt. What a policy removes, it reads
again, so that its runs show what a context policy costs, which a computation on records can only estimate.

Where it stands in its plan, it knows from the record alone: the number of its edits. Its usage is that of a provider
whose cache holds the exact prefix of the last prompt.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from boolab.core.context import Context, estimated_tokens
from boolab.core.messages import History, Message
from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import Response, ToolCall, ToolResult, Usage, results_in
from boolab.errors import SettingError
from boolab.io.checks import check_whole
from boolab.runtime.models.base import Emit, OfflineModel, Request
from boolab.runtime.tools.tool import ToolContext

READ: Final = "Read"
EDIT: Final = "Edit"
_EDITED: Final = "Edited "
_MICRO_PER_TOKEN: Final = (0.5, 6.25, 25)
"""Micro-dollars for a token that is read from the cache, written to it, and of output: those of Claude Opus 4.6."""
_FILE_CHARS: Final = (4_000, 30_000)
_EDIT_CHARS: Final = 600
_LINE: Final = "value = 0\n"
_FAVOURITES: Final = 0.6
"""How often an edit goes to one of a few files that are edited again and again; the others go to any file."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class _LastPrompt:
    """The messages of a run's last request, which the provider has in its cache; None before the first."""

    messages: list[Message] | None


class EditorModel(OfflineModel):
    """A simulated agent that edits files, and reads a file again only if it no longer sees it in its prompt.

    It provides the results of its tools `Read` and `Edit`, and states usage and cost at the prices of Claude Opus 4.6.
    A run is the same for the same seeds, whatever else is run; a context policy changes which files it reads again,
    never its edits. Its score is a success if all edits were made.

    Args:
        seed: The seed of the model: the sizes of its files, and with the run's seed the order of its edits.
        edits: The number of edits that it makes.
        files: The number of files.
        base_tokens: The tokens of the system prompt and the list of tools.
        summary_tokens: The tokens of a summary that it writes, when the history is compacted.
        name: The name in records. By default that of the model with its prices, so that list prices are found.

    Raises:
        SettingError: if a number is not valid.

    Example:
        >>> import boolab as bl
        >>> agent = bl.Agent("editor", max_steps=400, tool_budget=None, doom_loop=None)
        >>> model = bl.EditorModel(seed=1)
        >>> run = bl.run_sync(agent, "Rename the unit", model=model)
        >>> run.stop_reason, run.success, run.n_steps
        ('finished', True, 77)
        >>> compaction = bl.Compaction(at_tokens=40_000)
        >>> shortened = bl.run_sync(agent, "Rename the unit", model=model, compaction=compaction)
        >>> shortened.success, len(shortened.compactions), shortened.n_steps - run.n_steps
        (True, 8, 27)
    """

    virtual = True
    summarises = True
    compacts = True
    context_window = None
    own_tools = (READ, EDIT)

    def __init__(
        self,
        seed: int = 0,
        *,
        edits: int = 60,
        files: int = 20,
        base_tokens: int = 15_000,
        summary_tokens: int = 2_000,
        name: str = "claude-opus-4-6",
    ) -> None:
        if type(seed) is not int:
            raise SettingError(f"seed={seed!r}: expected an integer")
        check_whole(edits, "edits", 0)
        check_whole(files, "files", 1)
        check_whole(base_tokens, "base_tokens", 0)
        check_whole(summary_tokens, "summary_tokens", 1)
        self.seed = seed
        self.edits = edits
        self.files = files
        self.base_tokens = base_tokens
        self.summary_tokens = summary_tokens
        self.name = name
        self.fingerprint = f"editor:1:{seed}:{edits}:{files}:{base_tokens}:{summary_tokens}:{name}"
        """Models with the same fingerprint give the same runs."""
        # The last prompt lives as long as the list of the run's messages; the summary of a compaction has another list.
        self._prompts: WeakKeyDictionary[Sequence[Message], _LastPrompt] = WeakKeyDictionary()
        self._prompts_by_run: WeakValueDictionary[str, _LastPrompt] = WeakValueDictionary()

    def __repr__(self) -> str:
        return f"<EditorModel: {count(self.edits, 'edit')} of {count(self.files, 'file')}, seed {self.seed}>"

    def __reduce__(self) -> tuple[object, ...]:
        options = {name: getattr(self, name) for name in ("edits", "files", "base_tokens", "summary_tokens", "name")}
        return _make, (self.seed, options)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        response = self._answer(request)
        input_tokens = self._tokens(request.messages)
        cached = min(self._cached_tokens(request), input_tokens)
        output = [Message("assistant", (*response.tool_calls,))] if response.tool_calls else []
        output_tokens = estimated_tokens(output) or -(-len(response.text) // 4)
        read, write, out = _MICRO_PER_TOKEN
        written_tokens = input_tokens - cached
        cost = round(cached * read + written_tokens * write + output_tokens * out)
        usage = Usage(input_tokens, output_tokens, cached, None, cost, written_tokens, 0)
        if emit is not None and response.text:
            emit("text", response.text)
        return response._replace(usage=usage)

    def _answer(self, request: Request) -> Response:
        messages, index = request.messages, request.index
        n_edits = sum(result.content.startswith(_EDITED) for result in _results_of(_whole(messages)))
        if request.purpose == "compaction":
            text = f"{count(n_edits, 'edit')} of {self.edits} are made. "
            return Response(text.ljust(self.summary_tokens * 4, "."), finish_reason="stop")
        plan = _plan_of(self.seed, request.seed_of_run, self.edits, tuple(self._chars_by_path))
        if n_edits >= len(plan) or not request.tools or request.tool_choice == "none":
            return Response(f"{count(n_edits, 'edit')} of {self.edits} are made.", finish_reason="stop")
        path = plan[n_edits]
        arguments: dict[str, object] = {"file_path": path}
        tool = READ
        if any(result.content.startswith(_heading(path)) for result in _results_of(messages)):
            tool = EDIT
            arguments |= {"edit": n_edits + 1, "new_text": (_LINE * _EDIT_CHARS)[:_EDIT_CHARS]}
        return Response("", (ToolCall(f"call_{index + 1}", tool, json.dumps(arguments)),), "tool_calls")

    @cached_property
    def _chars_by_path(self) -> dict[str, int]:
        draws = random.Random(self.seed)  # noqa: S311 - a simulation
        return {f"src/module_{number}.py": draws.randint(*_FILE_CHARS) for number in range(1, self.files + 1)}

    def _tokens(self, messages: Iterable[Message]) -> int:
        return self.base_tokens + estimated_tokens(messages)

    def _cached_tokens(self, request: Request) -> int:
        """The tokens that the prompt begins with as the last prompt of the run did; its own are the last from now on.

        A run that is resumed has no last prompt here: then it was all that stands before the last response.
        """
        messages, whole = [*request.messages], _whole(request.messages)
        prompt = self._prompts_by_run.get(request.run_id)
        if prompt is None:
            response_places = [index for index, message in enumerate(messages) if message.role == "assistant"]
            prompt = _LastPrompt(messages[: response_places[-1]] if response_places else None)
            if request.run_id and isinstance(whole, History):
                self._prompts[whole] = self._prompts_by_run[request.run_id] = prompt
        previous_messages = prompt.messages
        if request.purpose == "step":
            prompt.messages = messages
        if previous_messages is None:
            return 0
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(messages, previous_messages, strict=False))
        return self._tokens(message for message, _ in pairs)

    def replies_to(self, tool: str) -> bool:
        return tool in self.own_tools

    async def reply(self, call: ToolCall, context: ToolContext) -> ToolResult:  # noqa: ARG002 - as the interface has it
        """The result of a call: the text of a file, or that it was edited.

        Args:
            call: The call.
            context: The tool's view of the run.

        Returns:
            The result.
        """
        try:
            path = json.loads(call.arguments)["file_path"]
        except (ValueError, KeyError, TypeError):
            path = None
        if not isinstance(path, str) or path not in self._chars_by_path:
            return ToolResult(call.id, "There is no such file.", is_error=True)
        if call.name == EDIT:
            return ToolResult(call.id, f"{_EDITED}{path}.")
        chars = self._chars_by_path[path]
        return ToolResult(call.id, (_heading(path) + _LINE * (chars // len(_LINE) + 1))[:chars])

    def score(self, run: Run) -> bool:
        """Whether a run made all edits.

        Args:
            run: The run.

        Returns:
            True if so.
        """
        return sum(result.content.startswith(_EDITED) for result in results_in(run.steps)) >= self.edits


@lru_cache(maxsize=256)
def _plan_of(seed: int, run_seed: int | None, edits: int, paths: Sequence[str]) -> list[str]:
    """The file of each edit: some are edited again and again."""
    draws = random.Random(f"{seed}:{run_seed}")  # noqa: S311 - a simulation
    return [
        paths[min(int(draws.paretovariate(0.7)) - 1, len(paths) - 1)]
        if draws.random() < _FAVOURITES
        else draws.choice(paths)
        for _ in range(edits)
    ]


def _make(seed: int, options: dict[str, object]) -> EditorModel:
    return EditorModel(seed, **options)  # type: ignore[arg-type] # its own


def _heading(path: str) -> str:
    """How the text of a file begins: by this the agent sees it."""
    return f"File {path}:\n"


def _whole(messages: Sequence[Message]) -> Sequence[Message]:
    """The run's own list of messages, nothing of it left out."""
    return messages.whole if isinstance(messages, Context) else messages


def _results_of(messages: Iterable[Message]) -> Iterator[ToolResult]:
    for message in messages:
        if message.role == "tool":
            yield from (part for part in message.parts if isinstance(part, ToolResult))
