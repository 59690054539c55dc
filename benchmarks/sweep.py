"""What sweeps, the store and simulated agents cost.

Each part runs in a process of its own, so that its memory is its own. A bare step is one step of the bare loop of
`benchmarks/peers/adapters/bare.py`, measured in the same process, in turn with what is held against it.

    python -m benchmarks.sweep [PART ...] [--quick] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import boolab as bl
from benchmarks.loop import cpu_us_per_step
from benchmarks.peers.adapters.bare import bare
from benchmarks.results import Row, argument_parser, in_folders, publish, ratio
from boolab.runtime.models.profile import Profile
from boolab.sweeps.driver import sweep

MIB: Final = 2**20
TOOLS: Final = ("list_files", "search_text", "read_file", "edit_file", "run_tests")


def agent_of(hazard: float, loops: float = 0.01) -> bl.SimulatedModel:
    """An agent with five tools, one call in most steps, errors, loops, tokens and times."""
    tools = {
        name: {"next": {other: 3 if other != name else 1 for other in TOOLS}, "error_rate": 0.05, "latency_ms": 40}
        for name in TOOLS
    }
    return bl.SimulatedModel(
        Profile.of(
            {
                "name": "benchmark",
                "tools": tools,
                "calls": {1: 9, 2: 1},
                "finish": {"hazard": hazard},
                "loop": {"rate": loops, "again": 0.7},
                "revisit": {"rate": 0.05},
                "tokens": {"prompt": 3000, "output": {"median": 150, "sigma": 0.8}},
                "price": {"input": 3, "output": 15},
            }
        )
    )


AGENT: Final = bl.Agent("worker", max_steps=1_000_000, tool_budget=1_000_000, doom_loop=1_000)
UNBOUNDED: Final = bl.policies["boocode"].vary(name="unbounded", cap={"ceiling": None})


def swept(folder: Path | None, tasks: int, **options: Any) -> Sequence[bl.Run]:  # noqa: ANN401 - those of sweep
    """A sweep of so many tasks, into a store of its own if there is a folder."""
    store: dict[str, Any] = {} if folder is None else {"store": folder / f"{time.monotonic_ns()}.db"}
    names = [f"task {n}" for n in range(tasks)]
    runs: Sequence[bl.Run] = asyncio.run(sweep(AGENT, names, progress=False, **options, **store))
    return runs


def measure_step(folder: Path, *, quick: bool) -> Iterator[Row]:
    """What a simulated step costs, all told, in bare steps."""
    model, tasks, pairs = agent_of(0.02), 40 if quick else 200, 5 if quick else 11

    def cost(work: Callable[[], Sequence[bl.Run]]) -> float:
        gc.collect()
        before = time.process_time()
        runs = work()
        spent = time.process_time() - before
        return spent / int(sum(run.n_steps for run in runs)) * 1e6

    def plain() -> float:
        return asyncio.run(cpu_us_per_step(lambda: _bare_often(100), 100 * 50))

    kinds: dict[str, Callable[[], Sequence[bl.Run]]] = {
        "sweep and store together": lambda: swept(folder, tasks, model=model, grid={"policy": [UNBOUNDED]}),
        "sweep without a store": lambda: swept(None, tasks, model=model, grid={"policy": [UNBOUNDED]}),
        "bl.run alone": lambda: _runs(model, tasks),
    }
    for work in kinds.values():
        work()
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for _ in range(pairs):
        for name, work in kinds.items():
            rows[name].append((cost(work), plain()))
    for name, costs in rows.items():
        at_most = 10 if "store together" in name else None
        yield ratio(f"a simulated step, {name} / bare step", costs, "us of CPU", at_most=at_most)


async def _bare_often(times: int) -> None:
    for _ in range(times):
        await bare(50)


def _runs(model: bl.SimulatedModel, tasks: int) -> list[bl.Run]:
    async def all_of_them() -> list[bl.Run]:
        return [await bl.run(AGENT, f"task {n}", model=model, policy=UNBOUNDED, seed=n) for n in range(tasks)]

    return asyncio.run(all_of_them())


def measure_resume(folder: Path, *, quick: bool) -> Iterator[Row]:
    """How long a sweep takes of which every cell is there already."""
    model, repeats = agent_of(0.5), 10 if quick else 100
    grid: dict[str, Any] = {"max_steps": [5, 10, 20, 40, None], "doom_loop": [2, 3], "policy": ["boocode"]}
    tasks, store = [f"task {n}" for n in range(10)], folder / "resume.db"

    def go() -> Sequence[bl.Run]:
        return asyncio.run(sweep(AGENT, tasks, model, grid=grid, repeats=repeats, store=store, progress=False))

    cells = len(go())
    seconds = []
    for _ in range(3):
        before = time.perf_counter()
        assert len(go()) == cells
        seconds.append(time.perf_counter() - before)
    what = f"resume of a finished sweep of {cells:,} cells"
    yield Row(what, min(seconds), "s", at_most=2, detail="the best of three, wall")


def measure_memory(folder: Path, *, quick: bool) -> Iterator[Row]:
    """How memory grows with the number of cells when there is a store."""
    few, many = (500, 3_000) if quick else (2_000, 20_000)
    peaks = []
    for cells in (few, many):
        command = [sys.executable, "-m", "benchmarks.sweep", "--child", "cells", str(folder), str(cells)]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    per_cell = (peaks[1] - peaks[0]) * 1024 / (many - few)
    detail = f"peak {peaks[0] / 1024:.0f} MiB with {few:,} cells, {peaks[1] / 1024:.0f} MiB with {many:,}"
    yield Row("memory for each further cell, with a store", per_cell, "bytes", detail=detail)


def child_cells(folder: Path, cells: int) -> None:
    """Run so many cells of about 20 steps, and print the peak of memory in KiB."""
    swept(folder, cells // 10, model=agent_of(0.05), grid={"policy": [UNBOUNDED]}, repeats=10)
    print(peak())


def peak() -> int:
    """The peak of this process's resident memory in KiB. `ru_maxrss` would hold that of its parent as well."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)


def measure_processes(folder: Path, *, quick: bool) -> Iterator[Row]:
    """How much faster two processes are than one."""
    model, tasks = agent_of(0.02), 200 if quick else 5_000

    def seconds(**options: Any) -> float:  # noqa: ANN401 - those of sweep
        before = time.perf_counter()
        swept(folder, tasks, model=model, grid={"policy": [UNBOUNDED]}, **options)
        return time.perf_counter() - before

    pairs = [(seconds(), seconds(executor="processes")) for _ in range(1 if quick else 3)]
    what = 'one event loop / executor="processes" on two cores'
    yield ratio(what, pairs, "s (wall, start included)", at_least=1.6)


def measure_derive(folder: Path, *, quick: bool) -> Iterator[Row]:
    """How much faster a grid of rules is when all but the loosest setting are cut from its run."""
    caps = range(20, 1_020, 100 if quick else 20)
    policy = bl.Policy(name="plain", order=("max_steps", "doom_loop", "tool_budget")).vary(cap={"ceiling": None})
    rules = {"tool_budget": range(110, 1_110, 100), "doom_loop": range(3, 13), "policy": [policy]}
    grid: dict[str, Any] = {"max_steps": caps, **rules}
    model = agent_of(0.0005, loops=0.002)

    def seconds(**options: Any) -> tuple[float, Sequence[bl.Run]]:  # noqa: ANN401 - those of sweep
        gc.collect()
        before = time.perf_counter()
        runs = asyncio.run(sweep(AGENT, "the task", model, grid=grid, progress=False, **options))
        return time.perf_counter() - before, runs

    slow, ran = seconds()
    fast = []
    for _ in range(3):
        spent, cut = seconds(reuse_prefixes=True)
        fast.append(spent)
    assert cut == ran
    steps = sum(run.n_steps for run in ran) / len(ran)
    detail = f"{slow:.1f} s against {min(fast):.2f} s; {steps:.0f} steps a run; the runs are equal"
    yield Row(f"every cell / reuse_prefixes=True, {len(ran):,} cells", slow / min(fast), at_least=100, detail=detail)
    store = folder / "derived.db"
    spent, _ = seconds(reuse_prefixes=True, store=store)
    detail = f"{store.stat().st_size / MIB:.1f} MiB"
    yield Row("reuse_prefixes=True into a store", spent, "s", detail=detail)


def measure_tallies(folder: Path, *, quick: bool) -> Iterator[Row]:
    """How much memory aggregates of 5,000 settings take over a large Parquet set."""
    import pyarrow as pa
    from pyarrow import parquet

    part = bl.recording_df(swept(None, 300, model=agent_of(0.02), grid={"policy": [UNBOUNDED]}))
    steps, files = 200_000 if quick else 10_000_000, 10
    times = -(-steps // files // len(part))
    where = folder / "set"
    where.mkdir()
    table = pa.Table.from_pandas(part, preserve_index=False)
    place = table.schema.get_field_index("run_id")
    names = np.asarray(table.column("run_id"))
    for number in range(files):
        with parquet.ParquetWriter(where / f"{number}.parquet", table.schema, compression="zstd") as writer:
            for copy in range(times):
                renamed = pa.array([f"{number}-{copy}-{name}" for name in names], type=table.schema.field(place).type)
                writer.write_table(table.set_column(place, "run_id", renamed))
    total = files * times * len(part)
    for kind in ("here", "processes"):
        command = [sys.executable, "-m", "benchmarks.sweep", "--child", f"aggregates-{kind}", str(where), "0"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        own, worker, seconds, digest = int(told[0]) / 1024, int(told[1]) / 1024, float(told[2]), told[3]
        detail = f"{seconds:.0f} s; largest worker {worker:,.0f} MiB; sums {digest}"
        what = f"peak memory, 5,000 settings over {total:,} steps, {kind}"
        yield Row(what, own, "MiB", at_most=1024, detail=detail)


def child_tallies(where: Path, client: str | None) -> None:
    """Tally, and print the peaks of memory in KiB, own and of the largest worker, the seconds, and a digest."""
    grid = {"max_steps": range(2, 102, 2), "tool_budget": range(5, 55, 5), "doom_loop": range(2, 12)}
    before = time.perf_counter()
    more: dict[str, Any] = {} if client is None else {"client": client}
    table = bl.counterfactual(where, grid=grid, aggregate=True, **more)
    seconds = time.perf_counter() - before
    assert len(table) == 5_000
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(peak(), workers, seconds, f"{int(table['steps'].sum()):x}-{int(table['n_truncated'].sum()):x}")


PARTS: Final[dict[str, Callable[..., Iterator[Row]]]] = {
    "step": measure_step,
    "resume": measure_resume,
    "memory": measure_memory,
    "processes": measure_processes,
    "derive": measure_derive,
    "aggregates": measure_tallies,
}


def main() -> None:
    """Measure the parts that were asked for."""
    parser = argument_parser(__doc__, PARTS)
    parser.add_argument("--quick", action="store_true", help="less work, and rougher figures")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, folder, number = options.child
        if what == "cells":
            child_cells(Path(folder), int(number))
        else:
            child_tallies(Path(folder), "processes" if what == "aggregates-processes" else None)
        return
    publish(__doc__, in_folders(PARTS, quick=options.quick), options)


if __name__ == "__main__":
    main()
