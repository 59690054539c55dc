"""How long a process of `boolab hook` takes, beside `python -c pass`.

The events are those of a session under way: a journal of 50 steps. Each process is started as Claude Code starts it,
and timed from start to end. A machine that is busy, or slow, slows both, so there are two limits: 100 ms, and 10 times
`python -c pass`. `PostToolBatch` comes once a step and evaluates the rule; the others come around each call or once a
message. Where Python may not keep compiled modules (`PYTHONDONTWRITEBYTECODE`), each start compiles the package anew.

Then the event at the end of a step, and the one before a call, in sessions of 10, 1,000 and 60,000 steps of one turn.

Usage: python -m benchmarks.hook [ROUNDS] [--write]
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
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.results import Row, argument_parser, number, publish, ratio
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
    for step in range(1, steps + 1):
        if step % BATCH == 0 or step == steps:
            session.step(Did(arguments={"number": step}))
            continue
        for kind in ("asked", "ran"):
            append(path, {"e": kind, "id": f"toolu_kept_{step}"})
        append(path, boundary_of("step", calls=[[f"toolu_kept_{step}", "Bash", step, step, step, ""]]))


def by_event(rounds: int) -> Iterator[Row]:
    """The time of each event.

    Args:
        rounds: How many processes are started for each.
    """
    hook = shlex.split(command_of(OPTIONS))
    times: dict[str, list[float]] = {name: [] for name in ("python -c pass", *EVENTS)}
    session = Session(str(OPTIONS), "bench")
    session.prompt()
    for step in range(STEPS):
        session.step(Did(arguments={"number": step}))
    for turn in range(rounds + 2):  # the first two fill the caches
        for name, values in times.items():
            event = {**session.about, "hook_event_name": name, **EVENTS.get(name, {})}
            command = [sys.executable, "-c", "pass"] if name not in EVENTS else hook
            if name == "UserPromptSubmit":  # of another session: this one keeps its turn
                event["session_id"] = "other"
            passed = milliseconds(command, json.dumps(event).replace("toolu_x", f"toolu_{turn}"))
            if turn > 1:
                values.append(passed)
    least = times.pop("python -c pass")
    for name, values in times.items():
        yield Row(name, statistics.median(values), "ms", at_most=LIMIT_MS)
        yield ratio(f"{name} / python -c pass", zip(values, least, strict=True), "ms", at_most=LIMIT)


def by_length(rounds: int) -> Iterator[Row]:
    """The time of an event late in a session, beside one early in it.

    Args:
        rounds: How many processes are started for each.
    """
    hook = shlex.split(command_of(Options({"max_steps": 10_000_000, "doom_loop": 5, "error_streak": 9})))
    names = ("PreToolUse", "PostToolBatch")
    times: dict[tuple[str, int], list[float]] = {(name, length): [] for name in names for length in LENGTHS}
    for length in LENGTHS:
        session = Session("--max-steps 10000000 --doom-loop 5 --error-streak 9", f"steps-{length}")
        session.prompt()
        lengthen(session, length)
    for turn in range(rounds + 2):  # the first two fill the caches
        for (name, length), values in times.items():
            event = {"session_id": f"steps-{length}", "hook_event_name": name, **EVENTS[name]}
            passed = milliseconds(hook, json.dumps(event).replace("toolu_x", f"toolu_{turn}"))
            if turn > 1:
                values.append(passed)
    for name in names:
        medians = [statistics.median(times[name, length]) for length in LENGTHS]
        detail = f"{', '.join(map(number, medians))} ms at step {', '.join(f'{length:,}' for length in LENGTHS)}"
        yield Row(f"{name}, the last step / the first", medians[-1] / medians[0], detail=detail)


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=40, help="processes for each event (default: 40)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        publish(__doc__, {"Events": by_event(options.rounds), "Long sessions": by_length(options.rounds)}, options)


if __name__ == "__main__":
    main()
