"""What the loop costs, as ratios to a bare loop measured in the same process and event loop.

The work: S steps, each one tool call with fresh arguments, then text. The bare loop awaits a model, parses the
arguments, calls the function and appends the messages; the full loop does so with rules, validation, records, messages
and step_start. Figures are CPU time; each is the median over pairs that were measured in turn, and what detectors and
presets cost comes with the quartiles.

    python -m benchmarks.loop [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from benchmarks.peers.adapters.bare import bare, plain_add
from boolab.core.run import Run
from boolab.core.types import Response, ToolCall, ToolResult, Usage
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import policies
from boolab.limits.catalog import doom_loop, error_streak
from boolab.limits.detectors.context import compaction_thrash, context_growth
from boolab.limits.detectors.cycles import cycle
from boolab.limits.detectors.openhands import alternating_actions, failing_actions
from boolab.limits.detectors.similar import similar_calls
from boolab.limits.detectors.streaks import same_error
from boolab.limits.detectors.windows import call_window, step_repeats, tool_window
from boolab.limits.ladder import Watch
from boolab.limits.stop import StopRule
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.runner import run, run_sync
from boolab.runtime.models.base import Emit, Request
from boolab.runtime.models.scripted import ScriptedModel
from boolab.runtime.tools.tool import tool

Work = Callable[[], Awaitable[object]]
UNBOUNDED = policies["boocode"].vary(cap={"ceiling": None})


class FreshModel:
    """Makes a response for each request, as the bare model does."""

    name = "fresh"
    virtual = False
    summarises = False

    def __init__(self, steps: int, *, repeats: bool = False) -> None:
        self.steps = steps
        self.repeats = repeats

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:  # noqa: ARG002 - nobody listens
        left = self.steps - 1 - request.index
        if left < 1:
            return Response("done", (), "stop")
        a = 1 if self.repeats else left
        return Response("", (ToolCall(f"call_{left}", "add", f'{{"a":{a},"b":1}}'),), "tool_calls")


ADD = tool(name="add")(plain_add)
AGENT = Agent("adder", prompt="Add.", tools=(ADD,), policy=UNBOUNDED)
LIMITED = replace(AGENT, max_steps=1_000_000, tool_budget=1_000_000, doom_loop=3)
UNLIMITED = replace(AGENT, max_steps=None, tool_budget=None, doom_loop=None)
SAME_LIMITS = Policy(name="same_limits", order=("max_steps", "doom_loop", "tool_budget")).vary(cap={"ceiling": None})
CAP_ONLY = Policy(name="cap_only").vary(cap={"ceiling": None})
COMPARED = ("boocode", "crush", "roo", "gemini_cli", "openhands", "openrouter")
SHADOWS = (
    doom_loop(3),
    doom_loop(3, "call+result"),
    cycle(2, 3),
    cycle(None, 3),
    step_repeats(6),
    tool_window(8, 10),
    error_streak(3),
    same_error(3),
    failing_actions(3),
    alternating_actions(6),
)

FOLDED = (
    doom_loop(3, "call+result"),
    cycle(None, 3),
    tool_window(8, 10),
    step_repeats(6),
    call_window(6, 16),
    call_window(3, 16, "call+result"),
    similar_calls(5),
    similar_calls(5, 0.9, "call+result"),
    context_growth(50_000),
    compaction_thrash(3),
)
"""Rules whose detectors are timed alone, as ratios to that of `doom_loop(3)`."""


async def full(steps: int, agent: Agent = LIMITED) -> Run:
    """The whole loop, with everything that a run records."""
    done = await run(agent, "go", model=FreshModel(steps))
    assert (done.stop_reason, done.n_steps, done.n_tool_calls) == ("finished", steps, steps - 1), done
    assert not any(result and result.is_error for step in done.steps for result in step.results)
    return done


async def cpu_us_per_step(work: Work, steps: int) -> float:
    """CPU microseconds that one step of `work` takes."""
    gc.collect()
    before = time.process_time()
    await work()
    return (time.process_time() - before) / steps * 1e6


async def compare(a: Work, b: Work, steps_a: int, steps_b: int, pairs: int) -> tuple[float, float, float]:
    """Median cost per step of a and of b, and the median of the ratios pair by pair."""
    await a()
    await b()
    costs = [(await cpu_us_per_step(a, steps_a), await cpu_us_per_step(b, steps_b)) for _ in range(pairs)]
    ratios = [x / y for x, y in costs]
    return (
        statistics.median(x for x, _ in costs),
        statistics.median(y for _, y in costs),
        statistics.median(ratios),
    )


def times(n: int, work: Callable[[], Awaitable[object]]) -> Work:
    """The same work n times in a row."""

    async def repeated() -> None:
        for _ in range(n):
            await work()

    return repeated


async def together(n: int, steps: int) -> list[Run]:
    """N runs at once."""
    return await asyncio.gather(*(full(steps) for _ in range(n)))


async def in_a_row(n: int, steps: int) -> list[Run]:
    """N runs, one after the other, kept likewise."""
    return [await full(steps) for _ in range(n)]


async def spread(
    work: Sequence[Work], steps: int, pairs: int, figure: Callable[[Sequence[float]], float]
) -> tuple[float, str]:
    """The median of a figure from several works that are measured in turn, and its quartiles in words."""
    for each in work:
        await each()
    figures = [figure([await cpu_us_per_step(each, steps) for each in work]) for _ in range(pairs)]
    low, middle, high = statistics.quantiles(figures, n=4)
    return middle, f"quartiles {low:.2f} to {high:.2f}"


def played(agent: Agent, *, repeats: bool = False, shadow: Sequence[StopRule] = ()) -> Work:
    """20 runs of 50 steps under limits that do not end them."""

    async def once() -> None:
        done = await run(agent, "go", model=FreshModel(50, repeats=repeats), shadow=shadow)
        assert done.n_tool_calls == 49, done

    return times(20, once)


async def measure_watching(pairs: int) -> None:
    """Print what shadow detectors cost, and what policies do."""
    plain = times(20, lambda: bare(50))
    cap_only = replace(AGENT, policy=CAP_ONLY)
    for kind, repeats in (("drifting", False), ("repeating", True)):
        free, watched = played(cap_only, repeats=repeats), played(cap_only, repeats=repeats, shadow=SHADOWS)
        ratio, detail = await spread((watched, free, plain), 1000, pairs, lambda us: (us[0] - us[1]) / us[2])
        show(f"ten shadow detectors / bare loop, {kind} calls", ratio, "at most 2", detail)
    for what, ours, theirs in (
        ("boocode / a policy of its limits alone", LIMITED, replace(LIMITED, policy=SAME_LIMITS)),
        ("boocode without limits / cap-only policy", UNLIMITED, cap_only),
    ):
        ratio, detail = await spread((played(ours), played(theirs)), 1000, pairs, lambda us: us[0] / us[1])
        show(what, ratio, "about 1", detail)
    for name in COMPARED:
        agent = replace(AGENT, policy=name, tool_budget=None)
        ratio, detail = await spread((played(agent), plain), 1000, pairs, lambda us: us[0] / us[1])
        show(f"under {name} / bare loop, S=50", ratio, "-", detail)


def fold_us(rule: StopRule, chars: int) -> float:
    """CPU microseconds for each of 1,000 steps of one call, whose arguments drift and have so many characters."""
    calls = [f'{{"path":"{"x" * chars}","offset":{n}}}' for n in range(1000)]
    steps = [
        (Response("", (ToolCall("", "read", one),), usage=Usage(n)), [ToolResult("", f"line {n}\n" * (chars // 7))])
        for n, one in enumerate(calls)
    ]
    counts: dict[str, int | None] = {}
    watch = Watch(rule.detectors())
    gc.collect()
    before = time.process_time()
    for response, results in steps:
        watch.complete(response, results, counts)
    return (time.process_time() - before) / len(steps) * 1e6


def measure_folds(pairs: int) -> None:
    """Print what the fold of each detector costs."""
    for chars in (60, 4000):
        for rule in FOLDED:
            both = [(fold_us(rule, chars), fold_us(doom_loop(3), chars)) for _ in range(pairs)]
            ratio = statistics.median(ours / theirs for ours, theirs in both)
            detail = " against ".join(f"{statistics.median(us):.2f}" for us in zip(*both, strict=True))
            show(f"{rule} / doom_loop(3), {chars} chars", ratio, "-", detail)


def show(what: str, ratio: float, limit: str, detail: str) -> None:
    """One line of the report."""
    print(f"{what:<54}{ratio:6.2f}   {limit:<26}{detail}")


def import_ratio(module: str, repeats: int) -> tuple[float, float, float]:
    """Seconds to import `module`, to import asyncio and pydantic, and the ratio, in fresh processes."""

    def seconds(code: str) -> float:
        timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        return float(subprocess.run([sys.executable, "-c", timed], capture_output=True, check=True).stdout)

    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(seconds(module))
        theirs.append(seconds("import asyncio, pydantic"))
    ratio = statistics.median(x / y for x, y in zip(ours, theirs, strict=True))
    return statistics.median(ours), statistics.median(theirs), ratio


async def measure(pairs: int) -> None:
    """Print all ratios."""
    print(f"Python {platform.python_version()}, {platform.machine()}; CPU time, median of {pairs} pairs\n")
    print(f"{'':<54}{'ratio':>6}   {'target':<26}microseconds per step")
    n = 20
    a, b, ratio = await compare(times(n, lambda: full(50)), times(n, lambda: bare(50)), n * 50, n * 50, pairs)
    show("full loop / bare loop, S=50", ratio, "at most 5", f"{a:.2f} against {b:.2f}")
    bare_us = b
    script = ScriptedModel(
        [{"tool_calls": [{"name": "add", "arguments": {"a": i, "b": 1}}]} for i in range(49)] + ["done"]
    )
    a, b, ratio = await compare(
        times(n, lambda: run(LIMITED, "go", model=script)), times(n, lambda: bare(50)), n * 50, n * 50, pairs
    )
    show("full loop with ScriptedModel / bare loop, S=50", ratio, "-", f"{a:.2f} against {b:.2f}")
    a, b, ratio = await compare(times(2, lambda: full(800)), times(32, lambda: full(50)), 1600, 1600, pairs)
    more = f"at most 1.25, or +{bare_us / 2:.2f} us"
    show("per step: S=800 / S=50", ratio, more, f"{a:.2f} against {b:.2f} ({a - b:+.2f})")
    a, b, ratio = await compare(lambda: full(10_000), times(200, lambda: full(50)), 10_000, 10_000, max(pairs // 4, 3))
    show("per step: S=10,000 / S=50", ratio, "works", f"{a:.2f} against {b:.2f}")
    a, b, ratio = await compare(lambda: together(200, 50), lambda: in_a_row(200, 50), 10_000, 10_000, pairs)
    show("per step: 200 concurrent / 200 in a row", ratio, "at most 1.2", f"{a:.2f} against {b:.2f}")
    a, b, ratio = await compare(
        times(n, lambda: full(50, UNLIMITED)), times(n, lambda: full(50)), n * 50, n * 50, pairs
    )
    show("limits unset / limits set, S=50", ratio, "below 1", f"{a:.2f} against {b:.2f}")

    async def in_this_loop() -> None:
        for _ in range(n):
            run_sync(LIMITED, "go", model=FreshModel(50))

    a, b, ratio = await compare(in_this_loop, times(n, lambda: full(50)), n * 50, n * 50, pairs)
    show("run_sync inside a loop / await run, S=50", ratio, "works", f"{a:.2f} against {b:.2f}")
    await measure_watching(pairs)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    quick = parser.parse_args().quick
    asyncio.run(measure(5 if quick else 25))
    measure_folds(5 if quick else 25)
    for module in ("import boolab", "import boolab; boolab.run"):
        ours, theirs, ratio = import_ratio(module, 5 if quick else 15)
        limit = "at most 1.3" if module == "import boolab" else "at most 2.0"
        detail = f"{ours * 1e3:.0f} against {theirs * 1e3:.0f} ms (wall)"
        show(f"{module} / import asyncio, pydantic", ratio, limit, detail)


if __name__ == "__main__":
    main()
