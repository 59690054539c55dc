"""All targets with both engines, two at a time: `python -m tests.fuzz [TARGET ...]`; or one input again.

The table at the end says what was tried and found. It exits with 1 if there is a fault; the input that shows it is in
out/fuzz, and the table has the command that replays it.
"""

import argparse
import subprocess
import sys
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.fuzz.guided import guide, missing
from tests.fuzz.log import Log, opened
from tests.fuzz.targets import TARGETS

ENGINES: Final = ("drawn", "guided")
AT_ONCE: Final = 2
_MOST_SECONDS: Final = 7_200


def main() -> int:
    """Do what the command line says; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"all, unless some are named: {', '.join(TARGETS)}"
    )
    parser.add_argument("--runs", type=int, default=10_000, help="how many inputs each engine tries on each target")
    parser.add_argument("--seed", type=int, default=1, help="the same number, the same inputs")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, help="both, where atheris can be had")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"), help="try one input again")
    given = parser.parse_args()
    if given.replay:
        return replay(given.replay[0], Path(given.replay[1]))
    unknown = [name for name in given.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are: {', '.join(TARGETS)}")
    engines, runs = given.engines or ENGINES, given.runs
    if why := "guided" in engines and missing():
        if given.engines:
            parser.error(why)
        engines, runs = ("drawn",), runs * len(ENGINES)
        print(f"{why}\nUntil then hypothesis alone tries {runs:,} inputs on each target.")  # noqa: T201 - a command
    work = [(engine, name) for name in given.targets or TARGETS for engine in engines]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        logs = list(threads.map(lambda job: _one(job[0], job[1], runs, given.seed), work))
    print("\n".join(table(logs)))  # noqa: T201 - a command
    return any(log.faults for log in logs)


def replay(name: str, path: Path) -> int:
    """Try one input again, outside of the contract, so that the trace of its error is seen."""
    with warnings.catch_warnings(), opened(TARGETS[name]) as act:
        warnings.simplefilter("always")
        act(path.read_bytes())
    return 0


def _one(engine: str, name: str, runs: int, number: int) -> Log:
    """One engine on one target, in a process of its own."""
    if engine == "guided":
        log = guide(name, runs, number)
    else:
        log = Log(name, engine)
        log.path.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.fuzz.drawn", name, "--runs", str(runs), "--seed", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS)
        if log.path.exists():
            log = Log.load(log.path)
        log.ended(done.returncode, done.stderr)
    print(_row(log), flush=True)  # noqa: T201 - a command
    return log


def table(logs: Iterable[Log]) -> list[str]:
    """The lines of a table of accounts, and below it the faults."""
    logs = list(logs)
    lines = [
        "",
        "| target | engine | inputs | read | inputs/s of CPU | slowest, ms | reached | faults |",
        "|---|---|---|---|---|---|---|---|",
        *map(_row, logs),
    ]
    inputs, faults = sum(log.inputs for log in logs), sum(len(log.faults) for log in logs)
    lines.append(f"\n{inputs:,} inputs on {len({log.target for log in logs})} targets, {faults} faults")
    for log in logs:
        for place, (told, again) in log.faults.items():
            lines.append(f"\n{log.target}, {log.engine}: {place}\n  {told}\n  {again}")
    return lines


def _row(log: Log) -> str:
    rate = f"{log.inputs / log.seconds:,.0f}" if log.seconds else "-"
    cells = (
        log.target,
        log.engine,
        f"{log.inputs:,}",
        f"{log.read:,}",
        rate,
        f"{log.slowest * 1000:,.0f}",
        log.covered,
    )
    return f"| {' | '.join(cells)} | {len(log.faults)} |"


if __name__ == "__main__":
    sys.exit(main())
