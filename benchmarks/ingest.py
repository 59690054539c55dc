"""What reading logs costs: a synthetic session of Claude Code, and 200 runs of tau-bench.

The session has the shape of real ones: a line for each block of a response, usage repeated on each, hook and shell
progress between them, parallel calls, results that the line holds a second time as `toolUseResult`. Each figure is the
median of several readings, each in a fresh process; memory is how far the peak rises above what it was after a
warm-up with a small file.

    python benchmarks/ingest.py [--megabytes N] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "tau-bench" / "gpt-4o-airline.trial0.json"
START = datetime(2026, 2, 1, tzinfo=UTC)
SESSION = "11111111-2222-4333-8444-555555555555"
WORDS = ("the", "of", "a", "to", "test", "module", "error", "file", "line", "value", "import", "return", "path", "name")

READ = """
import json, resource, sys, time
from pathlib import Path
from boolab.reading import read_logs

def peak():
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would hold the parent's peak too
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * (1024 if sys.platform == "darwin" else 1))

small, large = sys.argv[1:3]
read_logs(small, progress=False)
before = peak()
start = time.perf_counter()
runs = read_logs(large, progress=False).runs
seconds = time.perf_counter() - start
print(json.dumps([seconds, peak() - before, len(runs), sum(run.n_steps for run in runs)]))
"""


class Session:
    """Lines of a session, with a clock, a tree of uuids, and texts of realistic lengths."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.number = 0
        self.parent: str | None = None
        self.time = START

    def prose(self, chars: float) -> str:
        """Words, about so many characters of them."""
        size = int(self.random.lognormvariate(0, 0.8) * chars)
        return " ".join(self.random.choices(WORDS, k=size // 5 + 1))

    def line(self, kind: str, **more: Any) -> bytes:  # noqa: ANN401 - any JSON
        """One line."""
        self.number += 1
        self.time += timedelta(milliseconds=self.random.randint(5, 900))
        uuid = f"{self.number:08x}-aaaa-4bbb-8ccc-{self.random.getrandbits(48):012x}"
        row = {
            "parentUuid": self.parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/someone/projects/something",
            "sessionId": SESSION,
            "version": "2.1.39",
            "gitBranch": "main",
            "type": kind,
            **more,
            "uuid": uuid,
            "timestamp": self.time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        self.parent = uuid
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"

    def lines(self) -> Iterator[bytes]:
        """Turns without end."""
        while True:
            yield json.dumps({"type": "file-history-snapshot", "snapshot": {"files": self.prose(600)}}).encode() + b"\n"
            yield self.line("user", message={"role": "user", "content": self.prose(300)})
            for _ in range(self.random.randint(3, 40)):
                yield from self.step()
            yield from self.response([{"type": "text", "text": self.prose(900)}])

    def step(self) -> Iterator[bytes]:
        """A response with calls, and their results."""
        calls = []
        for number in range(self.random.choice((1, 1, 1, 1, 2, 3))):
            given = {"command": self.prose(120), "description": self.prose(40)}
            calls.append({"type": "tool_use", "id": f"toolu_{self.number}_{number}", "name": "Bash", "input": given})
        blocks = [{"type": "thinking", "thinking": self.prose(400), "signature": "x" * 400}] * (
            self.random.random() < 0.5
        )
        yield from self.response([*blocks, {"type": "text", "text": self.prose(200)}, *calls])
        for call in calls:
            for _ in range(self.random.choice((0, 1, 2, 3))):
                yield self.line(
                    "progress", data={"type": "bash_progress", "output": self.prose(500)}, toolUseID=call["id"]
                )
            text = self.prose(2_500)
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": False}
            told = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
            yield self.line("user", message={"role": "user", "content": [result]}, toolUseResult=told)

    def response(self, blocks: list[dict[str, Any]]) -> Iterator[bytes]:
        """A response: a line for each of its blocks."""
        name = f"msg_{self.number:024d}"
        for block in blocks:
            usage = {
                "input_tokens": 3,
                "cache_creation_input_tokens": 410,
                "cache_read_input_tokens": 52_000,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 410},
                "output_tokens": self.random.randint(1, 700),
                "service_tier": "standard",
            }
            message = {"model": "claude-x", "id": name, "type": "message", "role": "assistant", "content": [block]}
            yield self.line(
                "assistant", message=message | {"stop_reason": None, "usage": usage}, requestId=f"req_{name}"
            )


def write_session(path: Path, size: int) -> None:
    """A session of about so many bytes."""
    with path.open("wb") as file:
        for line in Session(1).lines():
            file.write(line)
            if file.tell() >= size:
                return


def write_tau_bench(path: Path, runs: int) -> None:
    """A file of runs of 12 steps each."""
    words = Session(2)
    entries = []
    for number in range(runs):
        talk: list[dict[str, Any]] = [{"role": "system", "content": words.prose(6_000)}]
        for step in range(6):
            call = {"id": f"call_{step}", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
            talk += [
                {"role": "user", "content": words.prose(100)},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"call_{step}", "name": "look", "content": words.prose(500)},
                {"role": "assistant", "content": words.prose(300)},
            ]
        talk.append({"role": "user", "content": "###STOP###"})
        entries.append({"task_id": number % 50, "reward": 1.0, "info": {}, "traj": talk, "trial": number // 50})
    path.write_text(json.dumps(entries))


def measure(small: Path, large: Path, repeats: int) -> None:
    """Read a file in fresh processes, and print what it cost."""
    figures = []
    for _ in range(repeats):
        out = subprocess.run([sys.executable, "-c", READ, small, large], check=True, capture_output=True, text=True)
        figures.append(json.loads(out.stdout))
    seconds, growth = (statistics.median(figure[i] for figure in figures) for i in (0, 1))
    size = large.stat().st_size / 1e6
    print(
        f"{large.name:32} {size:7.1f} MB {figures[0][2]:5} runs {figures[0][3]:7} steps"
        f" {seconds:7.3f} s {size / seconds:7.1f} MB/s {growth:+7.1f} MiB peak"
    )


def main() -> None:
    """Make the files, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}")
    with tempfile.TemporaryDirectory() as folder:
        small, session, talks = (Path(folder) / name for name in ("small.jsonl", "session.jsonl", "tau-bench.json"))
        write_session(small, 100_000)
        write_session(session, options.megabytes * 1_000_000)
        write_tau_bench(talks, 200)
        for path in (session, talks, *([REAL] if REAL.exists() else [])):
            measure(small, path, options.repeats)


if __name__ == "__main__":
    main()
