"""What the drivers of the adapters share: cases on standard input, what became of each on standard output.

A case is a script, a rule and an action. boolab itself is imported from the checkout, whose path comes with the cases:
rules and adapters need nothing but the package that they are for.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import json
import operator
import sys
import time
from collections.abc import Callable
from typing import Any

from exchange import Script, ScriptOver


class Case:
    """One case.

    Attributes:
        script: The script.
        rule: The rule at a boundary, or None.
        options: What else the adapter takes.
        stops: The stops that the adapter reported.
        end: How the package ended, in its own word; set by the driver.
        kept: How many of the calls' results its own record holds; set by the driver.
        reason: The reason as the package shows it; set by the driver.
        nudged: Whether a request held the message of a nudge.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        import boolab as bl
        from boolab.limits.stop import Threshold

        def leaf(name: str, *arguments: Any) -> Any:  # noqa: ANN401
            if name == "max_tool_steps":
                return Threshold("step_cap", "tool_steps", arguments[0] + 1, f"max_tool_steps({arguments[0]})")
            return (getattr(bl, name, None) or getattr(bl.detectors, name))(*arguments)

        self.script = Script(given["script"])
        parts = (functools.reduce(operator.and_, (leaf(*one) for one in both)) for both in given["rule"])
        self.rule = functools.reduce(operator.or_, parts)
        self.stops: list[Any] = []
        self.action = given["action"]
        self.options = {"on_stop": self.stops.append}
        self.end, self.kept, self.reason, self.nudged = "", 0, "", False

    def look_at(self, messages: object) -> None:
        """Look for the message of a nudge in a request."""
        self.nudged = self.nudged or "A limit is reached" in str(messages)


def endless(n: int = 100) -> Script:
    """A script that searches for the same again and again, for the snippets of the documentation."""
    said = {
        "text": "",
        "calls": [{"name": "search", "arguments": {"query": "timeout"}}],
        "tokens": [60, 40],
        "cost": 1.0,
    }
    return Script([said | {"finish_reason": "tool_calls"}] * n)


def search(query: str) -> str:
    """Search.

    Args:
        query: What for.
    """
    return f"no match for {query}"


def serve(package: str, play: Callable[[Case], None], names: Callable[[], dict[str, Any]]) -> None:
    """Play every case on standard input; write the version and what became of each to standard output.

    Args:
        package: The distribution, for its version.
        play: Plays a case.
        names: Makes the names that a snippet of the documentation may use: `model` and `search`.
    """
    asked = json.load(sys.stdin)
    sys.path.insert(0, asked["root"])
    found = []
    with contextlib.redirect_stdout(sys.stderr):
        for given in asked["cases"]:
            case = Case(given)
            try:
                play(case)
            except ScriptOver:
                case.end = "script over"
            stop = case.stops[0] if case.stops else None
            found.append(
                {
                    "stop": None if stop is None else [stop.reason, stop.step, stop.rule],
                    "model_calls": case.script.model_calls,
                    "tools_run": case.script.tools_run,
                    "end": case.end,
                    "kept": case.kept,
                    "reason": case.reason,
                    "nudged": case.nudged,
                }
            )
    timed = _timed(asked["timed"], play) if "timed" in asked else None
    printed = io.StringIO()
    if "snippet" in asked:
        with contextlib.redirect_stdout(printed):
            exec(asked["snippet"], names())  # noqa: S102 - a page of this repository
    said = {
        "version": importlib.metadata.version(package),
        "found": found,
        "printed": printed.getvalue(),
        "timed": timed,
    }
    json.dump(said, sys.stdout)


def _timed(given: dict[str, Any], play: Callable[[Case], None]) -> list[tuple[float, float]]:
    """Seconds in the monitor and in all, of each of five runs of a case."""
    from boolab.limits.monitor import Monitor

    inside = [0.0]

    def clocked(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapped(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            began = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                inside[0] += time.perf_counter() - began

        return wrapped

    Monitor.before, Monitor.after = clocked(Monitor.before), clocked(Monitor.after)
    found = []
    with contextlib.redirect_stdout(sys.stderr):
        for _ in range(5):
            inside[0], began = 0.0, time.perf_counter()
            play(Case(given))
            found.append((inside[0], time.perf_counter() - began))
    return found
