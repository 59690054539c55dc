"""What an engine tried on one target, and the faults that it found: each once, with its input and how to replay it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.fuzz.contract import Held, hold
from tests.fuzz.target import Act, Target

OUT: Final = Path(__file__).resolve().parents[2] / "out" / "fuzz"
"""Where failing inputs and accounts are put."""


def memory() -> Path | None:
    """A folder in memory, where the system has one: a disk is a hundred times slower."""
    found = Path("/dev/shm")  # noqa: S108 - the system's own
    return found if found.is_dir() else None


@contextmanager
def opened(target: Target) -> Iterator[Act]:
    """What does something with an input of a target, in a folder of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory()) as folder,
        target.open(Path(folder)) as act,
    ):
        yield act


@dataclass
class Log:
    """The account of one engine on one target."""

    target: str
    engine: str
    inputs: int = 0
    read: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    covered: str = "-"
    faults: dict[str, list[str]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file in which this is kept."""
        return OUT / f"{self.target}.{self.engine}.json"

    @property
    def latest(self) -> Path:
        """The file that has the latest input, for where it ends the whole process."""
        return OUT / f"{self.target}.{self.engine}.latest"

    def tried(self, act: Callable[[bytes], object], data: bytes) -> Held:
        """Try an input, and keep account of it; if it fails, keep it."""
        OUT.mkdir(parents=True, exist_ok=True)
        self.latest.write_bytes(data)
        held = hold(lambda: act(data), len(data))
        self.inputs += 1
        self.read += held.read
        self.seconds += held.seconds
        self.slowest = max(self.slowest, held.seconds)
        if held.fault and held.place not in self.faults:
            kept = OUT / f"{self.target}.{self.engine}.{len(self.faults) + 1}.input"
            kept.write_bytes(data)
            self.faults[held.place] = [held.fault, self._again(kept)]
        return held

    def ended(self, status: int, said: str) -> None:
        """Take down how the engine's process ended: if that was before its end, the latest input is the fault."""
        if status:
            self.faults["the process"] = [f"it ended with {status}: {said[-2_000:]}", self._again(self.latest)]
        else:
            self.latest.unlink(missing_ok=True)
        self.save()

    def _again(self, kept: Path) -> str:
        return f"python -m tests.fuzz --replay {self.target} {kept.relative_to(OUT.parents[1])}"

    def save(self) -> None:
        """Write the account down, as it is now."""
        OUT.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Log:
        """An account that was written down."""
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(**kept)
