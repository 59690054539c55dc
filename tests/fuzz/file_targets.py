"""What people write: files of agents, scripts, profiles; and recordings of models, which they hand around."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import boolab as bl
from boolab.errors import BoolabError
from boolab.io.resources import data_path
from boolab.runtime.models.base import Model
from tests.fuzz.contract import BrokenError
from tests.fuzz.mutation import YAML_WORDS, agents_text, json_or_lines, yaml_value
from tests.fuzz.target import Act, Target
from tests.support.helpers import QUIET, TOOLS, call, distinct

_MOST_SEED: Final = 4_000
"""The longest seed of YAML, in bytes: reading it takes a millisecond for each hundred."""
_YAML: Final = tuple(word.encode() for word in YAML_WORDS)


def file_targets() -> Iterator[Target]:
    """One for each kind of file."""
    agents, data = data_path("agents"), data_path("datasets")
    yield Target(
        "agents",
        _reading("AGENTS.md", _agents),
        lambda: [path.read_bytes() for path in sorted(agents.glob("*.md"))],
        agents_text,
        _YAML,
    )
    yield Target("script", _reading("script.yaml", _script), _files(data / "scripts", "*.yaml"), yaml_value, _YAML)
    yield Target("profile", _reading("profile.yaml", _profile), _files(data / "profiles", "*.yaml"), yaml_value, _YAML)
    yield Target("recording", _reading("recording.jsonl", _recording), _recordings, json_or_lines)


def _files(folder: Path, pattern: str) -> Callable[[], list[bytes]]:
    return lambda: [path.read_bytes() for path in sorted(folder.glob(pattern)) if path.stat().st_size < _MOST_SEED]


def _reading(name: str, read: Callable[[Path], None]) -> Callable[[Path], AbstractContextManager[Act]]:
    @contextmanager
    def opened(folder: Path) -> Iterator[Act]:
        path = folder / name

        def act(data: bytes) -> None:
            path.write_bytes(data)
            read(path)

        yield act

    return opened


def _agents(path: Path) -> None:
    for name, agent in bl.load_agents(path).items():
        if name != agent.name:
            raise BrokenError("an agent has another name than its key")
        repr(agent)


def _script(path: Path) -> None:
    _played(bl.ScriptedModel.load(path))


def _profile(path: Path) -> None:
    bl.SimulatedModel.load(path)


def _recording(path: Path) -> None:
    _played(bl.RecordedModel(path))
    _played(bl.RecordedModel(path, match="request"))


def _played(model: Model) -> None:
    """Play some steps: a model may fail, which is part of the record, but the run is made."""

    async def play() -> bl.Run:
        return await bl.run(bl.Agent("tester", tools=TOOLS, policy=QUIET, max_steps=3), "go", model=model)

    try:
        run = asyncio.run(play())
    except BoolabError as error:
        raise BrokenError(f"what was read cannot be played: {error}") from error
    bl.steps_df(run)


def _recordings() -> list[bytes]:
    script = bl.ScriptedModel(
        [
            {"text": "ä", "reasoning": "so", "tool_calls": [call("look", what="\ud83d")]},
            *distinct(2),
            {"error": {"status": 500}},
        ],
        summary="All in all.",
    )
    agent = bl.Agent("tester", tools=TOOLS, policy="boocode")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.jsonl"
        model = bl.record(script, path)
        for steps in (1, 10):
            bl.run_sync(agent, "go", model=model, policy="boocode", seed=steps)
        return [path.read_bytes()]
