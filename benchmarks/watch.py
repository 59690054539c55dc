"""How soon `boolab watch` raises an alert, and what following costs: many logs that grow at once, and one long log.

200 sessions of Claude Code grow at the same time, each by a step a second (a call's line, then its result's, 3 kB), a
user's message after every sixth step, and begin with 60 steps. `boolab watch --max-steps 5 --json` runs as a process of
its own. The latency of an alert is the time from the write of the line that completes the fifth step of a turn to the
arrival of the alert in this process, through the pipe. Then one log of 50 MB grows by single lines.

    python -m benchmarks.watch [FILES] [SECONDS] [--write]
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

import boolab as bl
from benchmarks.results import Row, argument_parser, publish, ratio
from boolab.live.follow.log_file import LogFile

FILES, SECONDS = 200, 15.0
TURN = 6  # steps; the alert is at the fifth
BEFORE = 60  # steps that are in each log at the beginning
RESULT = "x" * 2_500
LONG_STEPS, LONG_RESULT = 6_000, "x" * 8_000


def lines_of(session: str, result: str, turn: int) -> Iterator[tuple[int, int, bytes]]:
    """The lines of a session without end: the turn, the step in it, and the line."""
    about: dict[str, Any] = {"sessionId": session, "isSidechain": False, "version": "2.1.38", "cwd": "/work"}
    parent = None
    number = 0

    def line(kind: str, **message: Any) -> bytes:  # noqa: ANN401 - JSON
        nonlocal parent, number
        number += 1
        at = f"2026-11-20T10:{number // 60 % 60:02d}:{number % 60:02d}.000Z"
        uuid = f"{session}-{number}"
        row = {"type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": at, **about, "message": message}
        parent = uuid
        return json.dumps(row).encode() + b"\n"

    usage = {"input_tokens": 900, "output_tokens": 60, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    turns = 0
    while True:
        turns += 1
        yield turns, 0, line("user", role="user", content="Go on")
        for step in range(1, turn + 1):
            call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"ls {number}"}}
            yield (
                turns,
                0,
                line(
                    "assistant",
                    id=f"m{number}",
                    role="assistant",
                    model="claude-sonnet-4-5",
                    content=[call],
                    usage=usage,
                ),
            )
            answer = {"type": "tool_result", "tool_use_id": call["id"], "content": result, "is_error": False}
            yield turns, step, line("user", role="user", content=[answer])


def started(folder: Path, files: int) -> dict[str, Iterator[tuple[int, int, bytes]]]:
    """The lines that each log gets next, after those that are written now."""
    logs = {f"session-{n}": lines_of(f"session-{n}", RESULT, TURN) for n in range(files)}
    for session, lines in logs.items():
        with (folder / f"{session}.jsonl").open("wb") as file:
            for turn, step, line in lines:
                file.write(line)
                if turn == BEFORE // TURN and step == TURN:
                    break
    return logs


class Watcher:
    """`boolab watch` in a process of its own, and when its alerts arrived."""

    def __init__(self, folder: Path, files: int) -> None:
        command = [sys.executable, "-m", "boolab", "watch", str(folder), "--max-steps", "5", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.arrived: dict[tuple[str, int], float] = {}
        self.peak = 0
        self._begun = threading.Semaphore(0)
        threading.Thread(target=self._listen, daemon=True).start()
        for _ in range(files):
            self._begun.acquire()
        self._measured = psutil.Process(self.process.pid)

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            now = time.perf_counter()
            change = json.loads(line)
            if change["kind"] == "begins":
                self._begun.release()
            elif change["kind"] == "fires":
                self.arrived[change["run_id"], change["fired"]["turn"]] = now

    @property
    def cpu(self) -> float:
        """The seconds of CPU that it used."""
        self.peak = max(self.peak, self._measured.memory_info().rss)
        return float(sum(self._measured.cpu_times()[:2]))


def written_to(
    folder: Path, logs: dict[str, Iterator[tuple[int, int, bytes]]], seconds: float, watcher: Watcher
) -> tuple[dict[tuple[str, int], float], int]:
    """When each line was written at which an alert is due, and how many lines were written."""
    due: dict[tuple[str, int], float] = {}
    handles = {session: (folder / f"{session}.jsonl").open("ab", buffering=0) for session in logs}
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for session, lines in logs.items():
            turn, step, line = next(lines)
            handles[session].write(line)
            if step == 5:
                due[session, turn] = time.perf_counter()
            count += 1
            time.sleep(max(0.0, start + count * 0.5 / len(logs) - time.perf_counter()))
        assert watcher.cpu > 0  # and its memory is measured
    for handle in handles.values():
        handle.close()
    return due, count


def grow(folder: Path, files: int, seconds: float) -> Iterator[Row]:
    """The latency, the CPU and the memory of following many logs."""
    logs = started(folder, files)
    start = time.perf_counter()
    watcher = Watcher(folder, files)
    first = time.perf_counter() - start
    cpu, start = watcher.cpu, time.perf_counter()
    due, count = written_to(folder, logs, seconds, watcher)
    took, used = time.perf_counter() - start, watcher.cpu - cpu
    deadline = time.perf_counter() + 5
    while due.keys() - watcher.arrived.keys() and time.perf_counter() < deadline:
        time.sleep(0.01)
    still = watcher.cpu
    time.sleep(3)
    idle = watcher.cpu - still
    watcher.process.terminate()
    watcher.process.wait()
    late = sorted(1000 * (watcher.arrived[key] - at) for key, at in due.items() if key in watcher.arrived)
    size = sum(path.stat().st_size for path in folder.iterdir())
    detail = f"{files} logs, {count / took:,.0f} lines a second, {size / 1e6:,.0f} MB in all"
    yield Row("first read", first, "s", detail=detail)
    arrived = 100 * len(late) / len(due)
    yield Row("alerts that arrived", arrived, "%", at_least=100, detail=f"{len(late):,} of {len(due):,}")
    detail = f"95% within {late[int(0.95 * len(late))]:.0f} ms, all within {late[-1]:.0f} ms"
    yield Row("latency from the line to the alert, median", statistics.median(late), "ms", detail=detail)
    yield Row("CPU of boolab watch", 100 * used / took, "% of one core")
    yield Row("CPU of boolab watch when nothing changes", 100 * idle / 3, "% of one core")
    yield Row("peak memory", watcher.peak / 2**20, "MiB")


def long_log(folder: Path) -> Iterator[Row]:
    """What one more line costs in a log of 50 MB."""
    path = folder / "long.jsonl"
    lines = lines_of("long", LONG_RESULT, LONG_STEPS)
    with path.open("wb") as file:
        while True:
            _, step, line = next(lines)
            file.write(line)
            if step == LONG_STEPS - 100:
                break
    start = time.perf_counter()
    bl.load_runs(path, prices=False)
    whole = time.perf_counter() - start
    log = LogFile(path)
    log.update()
    times = []
    with path.open("ab", buffering=0) as file:
        for _ in range(150):
            file.write(next(lines)[2])
            start = time.perf_counter()
            log.update()
            times.append(1000 * (time.perf_counter() - start))
    assert log.runs == bl.load_runs(path, prices=False)
    size = f"{path.stat().st_size / 1e6:.0f} MB, {log.runs[0].n_steps:,} steps"
    what = f"one more line in a log of {size} / a fresh read"
    yield ratio(what, [(statistics.median(times), 1000 * whole)], "ms")
    yield Row("one more line, the slowest", max(times), "ms")


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("files", nargs="?", type=int, default=FILES)
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as many, tempfile.TemporaryDirectory() as one:
        tables = {"Many logs": grow(Path(many), options.files, options.seconds), "One long log": long_log(Path(one))}
        publish(__doc__, tables, options, f"watchfiles {version('watchfiles')}")


if __name__ == "__main__":
    main()
