"""The work that every peer does, how it is measured, and what is asked of its step limits.

This is the script that runs under a peer's own Python: JSON on standard input says which adapter, what to measure and
how; JSON on standard output is the answer. It needs the standard library, the bare loop and the adapter; what a package
prints goes to standard error.

The work is `steps` calls of the model: each but the last asks for one call of `add` with fresh arguments, the last says
"done". An adapter is a module with

- `VARIANTS`, the names of the ways in which it can do that,
- `prepare(variant, runs, steps, add)`, which builds what a user would build once and returns a function; that does the
  runs one after the other, and returns the final texts, or an awaitable of them,
- `LIMITS`, what the package calls each of its limits on steps, with the default that the installed package has,
- `limited(name, limit, turns, add)`, one run under such a limit, which returns an `End`, or an awaitable of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import importlib.metadata
import inspect
import json
import resource
import statistics
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from bare import bare

WARM_STEPS = 20
MOST_STEPS = 1_000
BARE_STEPS = 4_000
ENDLESS = 1_000


class Turns:
    """What the model says, turn by turn; starts anew after each end, so that one model serves runs in a row.

    Attributes:
        asked: How often the model was asked with tools on offer.
        wrapups: How often it was asked without.
    """

    def __init__(self, steps: int) -> None:
        self._steps = self._left = steps
        self.asked = 0
        self.wrapups = 0

    def next(self) -> int | None:
        """The first argument of the call to make; None to say "done"."""
        self.asked += 1
        self._left -= 1
        if self._left < 1:
            self._left = self._steps
            return None
        return self._left

    def wrap_up(self) -> str:
        """The text of a last request that offers no tools."""
        self.wrapups += 1
        return "Summary."


class Tally:
    """The tool, and the proof that it was called."""

    def __init__(self) -> None:
        self.calls = 0
        self.total = 0

    def add(self, a: int, b: int) -> int:
        """Add."""
        self.calls += 1
        self.total += a + b
        return a + b


class End(NamedTuple):
    """How a run under a limit ended.

    Attributes:
        how: What the caller sees, such as `raises UsageLimitExceeded`.
        said: The text or message that comes with it.
        left: Where something of the run is left, and how many of the model's responses and of the tool's results.
    """

    how: str
    said: str
    left: list[tuple[str, int, int]]


def raised(error: BaseException) -> tuple[str, str]:
    """The `how` and `said` of an end by an exception."""
    return f"raises {type(error).__name__}", str(error)


def cost(adapter: ModuleType, variant: str, steps: int, seconds: float) -> dict[str, Any]:
    """CPU time of the work, in turn with that of the bare loop.

    Args:
        adapter: The peer.
        variant: One of its ways.
        steps: Steps of each run.
        seconds: CPU time after which no further pair is begun. Runs that are shorter than that are timed several in a
            row, up to a thousand steps.

    Returns:
        Medians over the pairs: microseconds per step of both, and their ratio. From the start of this process until a
        first short run was done, with all that is imported only then: CPU seconds, and the memory that is held. The
        peak of memory.
    """
    clock = time.process_time
    with asyncio.Runner() as loop:

        def done(work: Any) -> Any:  # noqa: ANN401
            return loop.run(_awaited(work)) if inspect.isawaitable(work) else work

        def timed(runs: int, steps: int) -> float:
            tally = Tally()
            go = adapter.prepare(variant, runs, steps, tally.add)
            gc.collect()
            before = clock()
            texts = done(go())
            spent = clock() - before
            _prove(texts, tally, runs, steps)
            return spent / runs / steps * 1e6

        async def bare_runs(runs: int) -> None:
            for _ in range(runs):
                assert await bare(steps) == "done"

        def floor() -> float:
            runs = max(1, BARE_STEPS // steps)
            gc.collect()
            before = clock()
            loop.run(bare_runs(runs))
            return (clock() - before) / runs / steps * 1e6

        timed(1, WARM_STEPS)
        ready = {"ready_cpu_s": clock(), "ready_mib": memory()[0]}
        floor()
        expected = timed(1, WARM_STEPS) * steps / 1e6
        runs = max(1, min(MOST_STEPS // steps, int(seconds / expected)))
        pairs: list[tuple[float, float]] = []
        begun = clock()
        while not pairs or clock() - begun < seconds:
            before, ours, after = floor(), timed(runs, steps), floor()
            pairs.append((ours, (before + after) / 2))
    return ready | {
        "cpu_us": statistics.median(ours for ours, _ in pairs),
        "bare_us": statistics.median(theirs for _, theirs in pairs),
        "ratio": statistics.median(ours / theirs for ours, theirs in pairs),
        "pairs": len(pairs),
        "runs": runs,
        "peak_mib": memory()[1],
    }


def limit(adapter: ModuleType, name: str, at: int) -> dict[str, Any]:
    """What a limit does to a run that would go on, and to one that finishes with the last step that it allows."""

    def one(steps: int) -> tuple[End, Turns, Tally]:
        turns, tally = Turns(steps), Tally()
        work = adapter.limited(name, at, turns, tally.add)
        end = asyncio.run(_awaited(work)) if inspect.isawaitable(work) else work
        return end, turns, tally

    end, turns, tally = one(ENDLESS)
    within, _, _ = one(at)
    return {
        "default": adapter.LIMITS[name],
        "calls": turns.asked,
        "wrapups": turns.wrapups,
        "tools": tally.calls,
        **end._asdict(),
        "finishes": within.said.strip() == "done",
    }


def memory() -> tuple[float, float]:
    """Resident memory now and at its peak, in MiB.

    Linux hands `ru_maxrss` down from the process that started this one, so the kernel's own account goes first.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines() if ":" in line)
        return int(lines["VmRSS"].split()[0]) / 1024, int(lines["VmHWM"].split()[0]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return peak, peak


def _prove(texts: list[str], tally: Tally, runs: int, steps: int) -> None:
    assert [text.strip() for text in texts] == ["done"] * runs, f"the runs ended with {texts}"
    assert tally.calls == runs * (steps - 1), f"{tally.calls} calls of the tool, expected {runs * (steps - 1)}"
    expected = runs * sum(a + 1 for a in range(1, steps))
    assert tally.total == expected, f"the sums add up to {tally.total}, expected {expected}"


async def _awaited(work: Any) -> Any:  # noqa: ANN401
    return await work


def main() -> None:
    """Answer what is asked."""
    asked = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        cpu, wall = time.process_time(), time.perf_counter()
        adapter = importlib.import_module(asked["adapter"])
        imported = {"import_cpu_s": time.process_time() - cpu, "import_s": time.perf_counter() - wall}
        package = asked["package"]
        said: dict[str, Any] = {"version": importlib.metadata.version(package) if package else ""}
        if asked["measure"] == "limits":
            said["limits"] = {name: limit(adapter, name, asked["at"]) for name in adapter.LIMITS}
        else:
            said |= imported
            said |= cost(adapter, asked["variant"], asked["steps"], asked["seconds"])
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
