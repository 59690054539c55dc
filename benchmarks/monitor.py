"""What a monitor costs: microseconds a step, alone and beside the own step of four frameworks.

- *Alone*: `before` and `after` of one call a step, under a rule on steps, calls, tokens, repeated calls and errors; by
  how the call differs from the one before.
- *In a framework*: its adapter in shadow, with a scripted model and a tool that return at once, 100 steps, the fastest
  of five runs. One run gives both figures: the time in the monitor, and all the rest of the step.

    python -m benchmarks.monitor [--write]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import boolab as bl
from benchmarks.conformance.monitors import ADAPTERS, DRIVERS, PLAY_S
from benchmarks.conformance.scenarios import call, looks, turn
from benchmarks.environments import ROOT, Skipped, answer, environment
from benchmarks.results import Row, argument_parser, publish

STEPS = 2_000
FRAMEWORK_STEPS = 100
SPEC = ((("max_steps", 10_000),), (("tool_budget", 10_000),), (("max_tokens", 10**9),), (("doom_loop", 500),))
USAGE = {"input_tokens": 60, "output_tokens": 40}


def alone(arguments: Callable[[int], object]) -> float:
    """Microseconds a step: the least of seven runs."""
    best = float("inf")
    for _ in range(7):
        rule = bl.max_steps(10_000) | bl.tool_budget(10_000) | bl.max_tokens(10**9) | bl.doom_loop(9_999)
        monitor = bl.Monitor(rule | bl.error_streak(9_999))
        steps = [[("look", arguments(n))] for n in range(STEPS)]
        began = time.perf_counter()
        for calls in steps:
            monitor.before(calls, USAGE)
            monitor.after(calls, ["seen"], USAGE)
        best = min(best, time.perf_counter() - began)
    return 1e6 * best / STEPS


def by_difference() -> Iterator[Row]:
    """The monitor alone."""
    yield Row("the same text", alone(lambda _: '{"what": "A"}'), "us")
    yield Row("another text", alone(lambda n: f'{{"what": "{n}"}}'), "us")
    yield Row("a dict", alone(lambda n: {"what": n}), "us")


def by_framework() -> Iterator[Row]:
    """The monitor beside the own step of each framework that can be installed."""
    for name, adapter in ADAPTERS.items():
        finish = turn(call("final_answer", "done")) if name == "smolagents" else turn(text="done")
        case = {"script": [*looks(FRAMEWORK_STEPS), finish], "rule": SPEC, "action": "shadow"}
        try:
            python = environment(adapter.environment)
            asked = {"root": str(ROOT), "cases": [], "timed": case}
            said = answer(python, DRIVERS / f"{adapter.driver}_monitor.py", asked, PLAY_S)
        except Skipped as why:
            print(f"{name}: skipped: {why}")
            continue
        inside, total = min(said["timed"], key=lambda pair: pair[1])
        own, micro = total - inside, 1e6 / FRAMEWORK_STEPS
        detail = f"{micro * inside:.1f} us against {micro * own:,.0f} us"
        yield Row(f"{name} {said['version']}: monitor / its own step", 100 * inside / own, "%", detail=detail)


def main() -> None:
    """Run the benchmark."""
    options = argument_parser(__doc__).parse_args()
    publish(__doc__, {"Alone": by_difference(), "In a framework": by_framework()}, options)


if __name__ == "__main__":
    main()
