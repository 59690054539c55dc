"""Reads a store all the time that others write it, in a process of its own: `python -m tests.soak.reader runs.db`.

Until its input ends it looks at the store in each way that there is, and prints one line of JSON at the end: how often
it looked, and what was wrong.
"""

import json
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import boolab as bl
from boolab.store.stored_runs import overview


def check(run: bl.Run) -> None:
    """A run that can be read is whole."""
    for step in run.steps:
        told = [one.call_id for one in step.results if one is not None]
        calls = [one.id for one in step.response.tool_calls if one not in step.dropped]
        if told != calls or (step.dropped and not step.broke_off and step is not run.steps[-1]):
            msg = f"step {step.index} of {run.run_id}: calls {calls}, results {told}"
            raise AssertionError(msg)


def by_overview(path: Path) -> None:
    about = overview(path)
    if any(sweep.finished > sweep.n_cells for sweep in about.sweeps):
        raise AssertionError(about)


def by_runs(path: Path) -> None:
    runs = bl.stored_runs(path)
    for run in [*runs[:5], *runs[-20:]]:
        check(run)


def by_frames(path: Path) -> None:
    runs = list(bl.stored_runs(path)[-50:])
    steps = bl.steps_df(runs)
    if len(steps) != sum(len(run.steps) for run in runs):
        raise AssertionError(len(steps))


def by_loading(path: Path) -> None:
    for run in bl.load_runs(path)[-20:]:
        check(run)


def by_sql(path: Path) -> None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        orphans = "SELECT count(*) FROM steps WHERE run NOT IN (SELECT id FROM runs)"
        (n,) = connection.execute(orphans).fetchone()
        if n:
            msg = f"{n} steps of no run"
            raise AssertionError(msg)


WAYS: tuple[Callable[[Path], None], ...] = (by_overview, by_runs, by_frames, by_sql)


@contextmanager
def reading(path: Path) -> Iterator[dict[str, Any]]:
    """Have a store read meanwhile; what the reader found is in the mapping afterwards."""
    found: dict[str, Any] = {}
    command = [sys.executable, "-m", "tests.soak.reader", str(path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        try:
            yield found
        finally:
            reader.stdin.close()
            found |= json.loads(reader.stdout.readline() or '{"died": true}')


def main() -> None:
    """Read until the input ends."""
    path, over = Path(sys.argv[1]), threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    looks: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    while not over.is_set():
        for way in (*WAYS, *([by_loading] if not looks["by_runs"] % 20 else [])):
            try:
                way(path)
            except (bl.BoolabError, AssertionError, sqlite3.Error) as fault:
                faults[f"{way.__name__}: {type(fault).__name__}: {fault}"] += 1
            looks[way.__name__] += 1
        over.wait(0.02)
    print(json.dumps({"looks": looks, "faults": faults}), flush=True)  # noqa: T201 - that is the answer


if __name__ == "__main__":
    main()
