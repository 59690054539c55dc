"""What the loop costs, as ratios to a bare loop measured in the same process and event loop.

The work: S steps, each one tool call with fresh arguments, then text. The bare loop awaits a model, parses the
arguments, calls the function and appends the messages; the full loop does so with rules, validation, records, messages
and step_start. Times are of the CPU for each step; a ratio is the median over pairs that were measured in turn.

    python -m benchmarks.loop [--quick] [--write]
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version

from benchmarks.peers.adapters.bare import bare, plain_add
from benchmarks.results import Row, argument_parser, publish, ratio
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


def compare(
    what: str,
    work: Sequence[Work],
    steps: int,
    pairs: int,
    pair: Callable[[Sequence[float]], tuple[float, float]] = lambda us: (us[0], us[1]),
    at_most: float | None = None,
) -> Row:
    """The ratio of the costs of works that are measured in turn, in one event loop."""

    async def costs() -> list[list[float]]:
        for each in work:
            await each()
        return [[await cpu_us_per_step(each, steps) for each in work] for _ in range(pairs)]

    return ratio(what, map(pair, asyncio.run(costs())), "us", at_most=at_most)


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


def played(agent: Agent, *, repeats: bool = False, shadow: Sequence[StopRule] = ()) -> Work:
    """20 runs of 50 steps under limits that do not end them."""

    async def once() -> None:
        done = await run(agent, "go", model=FreshModel(50, repeats=repeats), shadow=shadow)
        assert done.n_tool_calls == 49, done

    return times(20, once)


def steps_of_loops(pairs: int) -> Iterator[Row]:
    """What a step of the loop costs."""
    n = 20
    plain, whole = times(n, lambda: bare(50)), times(n, lambda: full(50))
    script = ScriptedModel(
        [{"tool_calls": [{"name": "add", "arguments": {"a": i, "b": 1}}]} for i in range(49)] + ["done"]
    )
    scripted = times(n, lambda: run(LIMITED, "go", model=script))

    async def in_this_loop() -> None:
        for _ in range(n):
            run_sync(LIMITED, "go", model=FreshModel(50))

    yield compare("full loop / bare loop, S=50", (whole, plain), n * 50, pairs, at_most=5)
    yield compare("full loop with ScriptedModel / bare loop, S=50", (scripted, plain), n * 50, pairs)
    long, short = times(2, lambda: full(800)), times(32, lambda: full(50))
    yield compare("per step: S=800 / S=50", (long, short), 1600, pairs, at_most=1.25)
    long, short = lambda: full(10_000), times(200, lambda: full(50))
    yield compare("per step: S=10,000 / S=50", (long, short), 10_000, max(pairs // 4, 3))
    at_once, in_turn = lambda: together(200, 50), lambda: in_a_row(200, 50)
    yield compare("per step: 200 concurrent / 200 in a row", (at_once, in_turn), 10_000, pairs, at_most=1.2)
    free = times(n, lambda: full(50, UNLIMITED))
    yield compare("limits unset / limits set, S=50", (free, whole), n * 50, pairs, at_most=1)
    yield compare("run_sync inside a loop / await run, S=50", (in_this_loop, whole), n * 50, pairs)


def detectors_and_presets(pairs: int) -> Iterator[Row]:
    """What shadow detectors cost, and what policies do."""
    plain = times(20, lambda: bare(50))
    cap_only = replace(AGENT, policy=CAP_ONLY)
    for kind, repeats in (("drifting", False), ("repeating", True)):
        work = (played(cap_only, repeats=repeats, shadow=SHADOWS), played(cap_only, repeats=repeats), plain)
        what = f"ten shadow detectors / bare loop, {kind} calls"
        yield compare(what, work, 1000, pairs, lambda us: (us[0] - us[1], us[2]), at_most=2)
    for what, ours, theirs in (
        ("boocode / a policy of its limits alone", LIMITED, replace(LIMITED, policy=SAME_LIMITS)),
        ("boocode without limits / cap-only policy", UNLIMITED, cap_only),
    ):
        yield compare(what, (played(ours), played(theirs)), 1000, pairs)
    for name in COMPARED:
        agent = replace(AGENT, policy=name, tool_budget=None)
        yield compare(f"under {name} / bare loop, S=50", (played(agent), plain), 1000, pairs)


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


def folds(pairs: int) -> Iterator[Row]:
    """What the fold of each detector costs."""
    for chars in (60, 4000):
        for rule in FOLDED:
            both = [(fold_us(rule, chars), fold_us(doom_loop(3), chars)) for _ in range(pairs)]
            yield ratio(f"{rule} / doom_loop(3), {chars} chars", both, "us")


def imports(repeats: int) -> Iterator[Row]:
    """What imports cost in fresh processes, on the clock."""

    def milliseconds(code: str) -> float:
        timed = f"import time; t = time.perf_counter(); {code}; print(1000 * (time.perf_counter() - t))"
        return float(subprocess.run([sys.executable, "-c", timed], capture_output=True, check=True).stdout)

    for code, at_most in (("import boolab", 1.3), ("import boolab; boolab.run", 2.0)):
        both = [(milliseconds(code), milliseconds("import asyncio, pydantic")) for _ in range(repeats)]
        yield ratio(f"{code} / import asyncio, pydantic", both, "ms", at_most=at_most)


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    pairs = 5 if options.quick else 25
    tables = {
        "The loop": steps_of_loops(pairs),
        "Detectors and presets": detectors_and_presets(pairs),
        "Detectors alone": folds(pairs),
        "Imports": imports(5 if options.quick else 15),
    }
    versions = f"pandas {version('pandas')}, pydantic {version('pydantic')}"
    publish(__doc__, tables, options, versions)


if __name__ == "__main__":
    main()
