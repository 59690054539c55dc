"""Measure how long a process of `boolab hook` takes, beside `python -c pass`.

The events are those of a session under way: a journal of 50 steps. Each process is started as Claude Code starts it.
The limit is a median of 100 ms for each event. A machine that is busy, or slow, slows both, so the ratio to `python -c
pass` is printed too, with a limit of 10: 100 ms where that takes 10. What is missed is printed; the exit status is 0.

Then the event at the end of a step, and the one before a call, in sessions of 10, 1,000 and 60,000 steps of one turn.

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
from collections.abc import Sequence
from typing import Any, Final

from boolab.display.text import aligned
from boolab.live.hooks.journal import append, boundary_of, journal_path
from boolab.live.hooks.options import Options
from boolab.live.hooks.settings import command_of
from tests.support.hook_events import Did, Session

OPTIONS: Final = Options({"max_steps": 1000, "doom_loop": 5, "error_streak": 9})
STEPS: Final = 50
LENGTHS: Final = (10, 1_000, 60_000)
"""The steps of the sessions that are compared."""
BATCH: Final = 30
"""After so many steps that are only kept, one is counted: before a journal is written anew."""
LIMIT_MS: Final = 100
"""No event takes longer, by its median."""
LIMIT: Final = 10
"""The same in times of `python -c pass`."""
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


def lengthen(session: Session, steps: int) -> None:
    """Give a session more steps.

    Args:
        session: The session.
        steps: How many.
    """
    path = journal_path(str(session.about["session_id"]), None)
    for number in range(1, steps + 1):
        if number % BATCH == 0 or number == steps:
            session.step(Did(arguments={"number": number}))
            continue
        for kind in ("asked", "ran"):
            append(path, {"e": kind, "id": f"toolu_kept_{number}"})
        append(path, boundary_of("step", calls=[[f"toolu_kept_{number}", "Bash", number, number, number, ""]]))


def by_length(rounds: int, lengths: Sequence[int] = LENGTHS) -> list[str]:
    """The median of an event in sessions of different lengths, as lines.

    Args:
        rounds: How many processes are started for each.
        lengths: The steps of the sessions.
    """
    hook = shlex.split(command_of(Options({"max_steps": 10_000_000, "doom_loop": 5, "error_streak": 9})))
    names = ("PreToolUse", "PostToolBatch")
    taken: dict[tuple[str, int], list[float]] = {(name, length): [] for name in names for length in lengths}
    for length in lengths:
        session = Session("--max-steps 10000000 --doom-loop 5 --error-streak 9", f"steps-{length}")
        session.prompt()
        lengthen(session, length)
    for number in range(rounds + 2):  # the first two fill the caches
        for (name, length), values in taken.items():
            event = {"session_id": f"steps-{length}", "hook_event_name": name, **EVENTS[name]}
            passed = milliseconds(hook, json.dumps(event).replace("toolu_x", f"toolu_{number}"))
            if number > 1:
                values.append(passed)
    rows = [["one process", *(f"ms at step {length:,}" for length in lengths), "last / first"]]
    for name in names:
        medians = [statistics.median(taken[name, length]) for length in lengths]
        rows.append([name, *(f"{value:.1f}" for value in medians), f"{medians[-1] / medians[0]:.2f}"])
    return aligned(rows, left=(0,))


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
        medians = {name: statistics.median(values) for name, values in taken.items()}
        print("\n".join([*table(medians), "", *by_length(rounds)]))
    return 0


def table(medians: dict[str, float]) -> list[str]:
    """The medians beside both limits, as lines.

    Args:
        medians: Of each process, in ms; the first is `python -c pass`.
    """
    least = next(iter(medians.values()))
    rows = [["one process", "median ms", f"at most {LIMIT_MS} ms", "of python -c pass", f"at most {LIMIT}"]]
    held = [0, 0]
    for number, (name, value) in enumerate(medians.items()):
        verdicts = ["", ""]
        if number:
            holds = (value <= LIMIT_MS, value <= LIMIT * least)
            verdicts = ["holds" if one else "MISSED" for one in holds]
            held = [total + one for total, one in zip(held, holds, strict=True)]
        rows.append([name, f"{value:.1f}", verdicts[0], f"{value / least:.2f}", verdicts[1]])
    events = f"of {len(medians) - 1} events"
    by_ms, by_ratio = (f"{total} {events}" for total in held)
    last = f"at most {LIMIT_MS} ms: {by_ms}; at most {LIMIT} times python -c pass: {by_ratio}"
    return [*aligned(rows, left=(0, 2, 4)), "", last]


if __name__ == "__main__":
    sys.exit(main())
