"""Families of tasks for a small language model.

`FIX` is edits until a test passes, `MAZE` rooms with a door, `LOOKUP` files of which one has a word.

A task is a number: it gives the world. The tool computes the state of the world from the calls in the history, so a
branch or a resumed run continues in the same world. Success is read off the tool's results, not off what the model
writes. A model of 135M solves some of the tasks, and fails as agents do: by an answer that is too early, or in a loop.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import chain, product
from typing import Any, Final, Literal, NamedTuple

from boolab.core.run import Run
from boolab.core.types import ToolCall
from boolab.limits.table import AGENT_LIMITS
from boolab.runtime.agents.agent import Agent
from boolab.runtime.models.local.model import LocalModel
from boolab.runtime.tools.tool import ToolContext, ToolSpec, tool

Room = tuple[int, int]

CAP: Final = 20
TEMPERATURE: Final = 0.6
SAMPLING: Final = {"top_k": 0, "top_p": 1.0, "min_p": 0.02, "max_tokens": 16}
"""Only unlikely tokens are left out, as the grammar leaves few. A call has at most six, a summary is cut off."""


class TaskFamily(NamedTuple):
    """Tasks of one kind, with what an agent needs to try them.

    Attributes:
        name: The name, which is that of the agent too.
        prompt: The system prompt, with whole examples, as a small model needs them.
        tool: The only tool.
        answer: The final answer, which is the same in all tasks.
        solved: What the tool's result begins with once the task is solved.
        task_of: The text of a task by its number.
    """

    name: str
    prompt: str
    tool: ToolSpec
    answer: str
    solved: str
    task_of: Callable[[int], str]

    def agent(self, **settings: Any) -> Agent:  # noqa: ANN401 - those of `Agent`
        """The agent, with no limit but a cap of 20 steps unless the settings have others."""
        limits = {**dict.fromkeys(AGENT_LIMITS), "max_steps": CAP}
        return Agent(self.name, **{"prompt": self.prompt, "temperature": TEMPERATURE, **limits, **settings})

    def model(self, **parameters: Any) -> LocalModel:  # noqa: ANN401 - those of `LocalModel`
        """The local model, whose final answer is that of the family."""
        return LocalModel(answer={"const": self.answer}, **{**SAMPLING, **parameters})

    def tasks(self, first: int, last: int) -> list[str]:
        """The tasks from a number to another one, both included."""
        return [*map(self.task_of, range(first, last + 1))]

    def succeeded(self, run: Run) -> bool:
        """Whether a run ended by itself after the task was solved."""
        return run.stop_reason == "finished" and self.is_solved(run)

    def is_solved(self, run: Run) -> bool:
        """Whether the task was solved, however the run ended."""
        results = chain.from_iterable(step.results for step in run.steps)
        return any(result is not None and result.content.startswith(self.solved) for result in results)


def _number_of(context: ToolContext) -> int:
    """The number of the task, from the first message of the user: `task 7: ...`."""
    task = next(message.text for message in context.history if message.role == "user")
    return int(task.removeprefix("task ").partition(":")[0])


def _calls_so_far(context: ToolContext, argument: str) -> Iterator[str]:
    """The values of an argument in all calls, that of the present one included."""
    for message in context.history:
        for part in message.parts:
            if isinstance(part, ToolCall):
                yield json.loads(part.arguments)[argument]


def _example(*lines: str) -> str:
    return "\n" + "\n".join(lines)


# --- fix --------------------------------------------------------------------------------------------------------------

_EDITS: Final[dict[str, Callable[[int], int]]] = {
    "up": lambda value: value + 1,
    "down": lambda value: value - 1,
    "double": lambda value: value * 2,
    "halve": lambda value: value // 2,
}


def _constants(number: int) -> tuple[int, int]:
    """The constant at the start, and the one that the test wants."""
    chance = random.Random(f"fix{number}")  # noqa: S311 - no secret
    value = chance.randint(3, 16)
    return value, value + chance.choice([-4, -3, -2, -1, 1, 2, 3, 4])


def _test(value: int, target: int) -> str:
    return f"passed {value}" if value == target else f"failed {value} want {target}"


@tool(read_only=True)
def edit(how: Literal["up", "down", "double", "halve"], context: ToolContext) -> str:  # noqa: ARG001 - in the history
    """Change the constant, and run the test."""
    value, target = _constants(_number_of(context))
    for change in _calls_so_far(context, "how"):
        if value != target:
            value = min(99, max(0, _EDITS[change](value)))
    return _test(value, target)


def _fix_example(value: int, target: int, *changes: str) -> str:
    lines = [f"task 0: {_test(value, target)}"]
    for change in changes:
        value = _EDITS[change](value)
        lines += [f"> edit {change}", _test(value, target)]
    return _example(*lines, "> answer done")


FIX: Final = TaskFamily(
    name="fix",
    prompt="Edit until the test has passed. Then answer done."
    + _fix_example(3, 7, "double", "up")
    + _fix_example(12, 9, "down", "down", "down")
    + _fix_example(16, 5, "halve", "halve", "up")
    + _fix_example(4, 13, "up", "double", "up", "up", "up"),
    tool=edit,
    answer="done",
    solved="passed",
    task_of=lambda number: f"task {number}: {_test(*_constants(number))}",
)

# --- maze -------------------------------------------------------------------------------------------------------------

_WAYS: Final[dict[str, Room]] = {"north": (0, -1), "south": (0, 1), "east": (1, 0), "west": (-1, 0)}
_SIZE: Final = (3, 2)
_SIZE_OF_EXAMPLES: Final = (3, 3)
_DOOR: Final = "here is the door"


def _rooms(number: int) -> tuple[Room, Room]:
    """The room at the start, and the one with the door."""
    chance = random.Random(f"maze{number}")  # noqa: S311 - no secret
    start, door = chance.sample([*product(range(_SIZE[0]), range(_SIZE[1]))], 2)
    return start, door


def _walk(room: Room, direction: str, size: tuple[int, int]) -> Room:
    """The next room in a direction; a wall leads nowhere."""
    x, y = room[0] + _WAYS[direction][0], room[1] + _WAYS[direction][1]
    return (x, y) if 0 <= x < size[0] and 0 <= y < size[1] else room


def _exits(room: Room, size: tuple[int, int]) -> str:
    return "no door, exits " + " ".join(direction for direction in _WAYS if _walk(room, direction, size) != room)


@tool(read_only=True)
def go(direction: Literal["north", "south", "east", "west"], context: ToolContext) -> str:  # noqa: ARG001 - see above
    """Walk one room."""
    room, door = _rooms(_number_of(context))
    for step in _calls_so_far(context, "direction"):
        if room != door:
            room = _walk(room, step, _SIZE)
    return _DOOR if room == door else _exits(room, _SIZE)


def _maze_example(room: Room, ways: str) -> str:
    lines = [f"task 0: {_exits(room, _SIZE_OF_EXAMPLES)}"]
    for direction in ways.split():
        room = _walk(room, direction, _SIZE_OF_EXAMPLES)
        lines += [f"> go {direction}", _exits(room, _SIZE_OF_EXAMPLES)]
    return _example(*lines[:-1], _DOOR, "> answer door")


MAZE: Final = TaskFamily(
    name="maze",
    prompt="Walk until you see the door. Then answer door."
    + _maze_example((0, 0), "east south west south east east north")
    + _maze_example((2, 1), "west west north east east")
    + _maze_example((1, 2), "north north west south south east north east"),
    tool=go,
    answer="door",
    solved=_DOOR,
    task_of=lambda number: f"task {number}: {_exits(_rooms(number)[0], _SIZE)}",
)

# --- lookup -----------------------------------------------------------------------------------------------------------

_FILES: Final = "abcdefghij"
_WORDS: Final = ("apple", "bridge", "candle", "forest", "lemon", "piano", "river", "tiger", "window")


def _places(number: int) -> tuple[str, str, str]:
    """The names of the files, the one that has the word, and the word."""
    chance = random.Random(f"lookup{number}")  # noqa: S311 - no secret
    files = _FILES[: chance.choice([3, 4, 6, 8, 10])]
    return files, chance.choice(files), chance.choice(_WORDS)


def _look(file: str, place: str) -> str:
    return f"found in {file}" if file == place else f"not in {file}"


@tool(read_only=True)
def look(file: Literal["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"], context: ToolContext) -> str:
    """Look into a file."""
    files, place, _ = _places(_number_of(context))
    return _look(file, place) if file in files else f"no file {file}"


def _lookup_example(word: str, files: str, looks: str) -> str:
    lines = [f"task 0: find {word} in {' '.join(files)}"]
    for file in looks:
        lines += [f"> look {file}", _look(file, looks[-1])]
    return _example(*lines, "> answer found")


def _lookup_task(number: int) -> str:
    files, _, word = _places(number)
    return f"task {number}: find {word} in {' '.join(files)}"


LOOKUP: Final = TaskFamily(
    name="lookup",
    prompt="Look into one file after the other until the word is found. Then answer found."
    + _lookup_example("honey", "abcdefg", "abcdef")
    + _lookup_example("water", "abcdefghi", "acbdfegh")
    + _lookup_example("music", "abcd", "abdc"),
    tool=look,
    answer="found",
    solved="found",
    task_of=_lookup_task,
)

FAMILIES: Final = {family.name: family for family in (FIX, MAZE, LOOKUP)}
