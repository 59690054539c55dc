"""Measure how long a process of `boolab hook` takes, beside `python -c pass`.

The events are those of a session under way: a journal of 50 steps. Each process is started as Claude Code starts it.
The medians of a round are compared, so that a machine that is busy slows both.

Usage: python -m benchmarks.hook [ROUNDS]
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Final

from boolab.core.text import aligned
from boolab.hooks.options import Options
from boolab.hooks.settings import command_of
from tests.support.hook_events import Did, Session

OPTIONS: Final = Options({"max_steps": 1000, "doom_loop": 5, "error_streak": 9})
STEPS: Final = 50
LIMIT: Final = 10
"""Times `python -c pass`: 100 ms on a machine on which that takes 10."""
CALL: Final[dict[str, Any]] = {"tool_name": "Bash", "tool_input": {"command": "make test"}, "tool_use_id": "toolu_x"}
EVENTS: Final[dict[str, dict[str, Any]]] = {
    "PreToolUse": CALL,
    "PostToolUse": CALL | {"tool_response": {"stdout": "ok\n" * 2000}},
    "PostToolBatch": {"tool_calls": [CALL | {"tool_response": "ok\n" * 2000}]},
    "UserPromptSubmit": {"prompt": "Go on."},
}


def milliseconds(command: list[str], given: str) -> float:
    """How long a process takes, from its start to its end."""
    start = time.perf_counter()
    subprocess.run(command, input=given, text=True, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000


def main() -> int:
    """The command."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    hook = shlex.split(command_of(OPTIONS))
    taken: dict[str, list[float]] = {name: [] for name in ("python -c pass", *EVENTS)}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        session = Session(str(OPTIONS), "bench")
        session.prompt()
        for number in range(STEPS):
            session.step(Did(arguments={"number": number}))
        for number in range(rounds + 2):  # the first two fill the caches
            for name, values in taken.items():
                event = {**session.about, "hook_event_name": name, **EVENTS.get(name, {})}
                command = [sys.executable, "-c", "pass"] if name not in EVENTS else hook
                if name == "UserPromptSubmit":  # of another session: this one keeps its turn
                    event["session_id"] = "other"
                passed = milliseconds(command, json.dumps(event).replace("toolu_x", f"toolu_{number}"))
                if number > 1:
                    values.append(passed)
    least = statistics.median(taken["python -c pass"])
    medians = {name: statistics.median(values) for name, values in taken.items()}
    rows = [[name, f"{value:.1f}", f"{value / least:.2f}"] for name, value in medians.items()]
    print("\n".join(aligned([["one process", "median ms", "of python -c pass"], *rows])))
    return 0 if max(medians.values()) <= LIMIT * least else 1


if __name__ == "__main__":
    sys.exit(main())
