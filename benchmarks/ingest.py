"""What reading logs costs: a synthetic file of each format, real runs where they lie beside, and tables of steps.

See `benchmarks/formats.py` for the files. Each figure is the median of several readings, each in a fresh process;
memory is how far the peak rises above what it was after a warm-up with a small file. MB are millions of bytes; those of
compressed files are counted as they come out. pandas' own reader of JSON Lines is timed on a tenth of the rows.

    python benchmarks/ingest.py [--formats a,b] [--megabytes N] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import parquet

import boolab as bl
from benchmarks.formats import FORMATS, Agent, Format
from boolab.io.resources import data_path

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "tau-bench" / "gpt-4o-airline.trial0.json"

SPEED = 25
"""How many MB a second are wanted, at least."""
TABLE_SPEED = 300
"""The same of a table in JSON Lines."""
GROWTH = 1.5
"""How far memory may grow while a session is read, as a multiple of its size."""

READ = """
import json, resource, sys, time
from pathlib import Path
from boolab.logs.load import read_logs

def peak():
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would hold the parent's peak too
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

small, large, reader = sys.argv[1:4]
read_logs(small, progress=False, prices=False)
before = peak()
start = time.perf_counter()
reading = read_logs(large, progress=False, prices=False)
seconds = time.perf_counter() - start
assert [(row.format, row.skipped, row.warnings) for row in reading.files] == [(reader, None, ())], reading.files
print(json.dumps([seconds, peak() - before, len(reading.runs), sum(run.n_steps for run in reading.runs)]))
"""


TABLES = """
import json, sys, time
import pandas as pd, pyarrow.json, pyarrow.parquet
from boolab.whatif.step_files import read_steps

def timed(read):
    start = time.perf_counter()
    frame = read()
    return time.perf_counter() - start, len(frame)

lines, table = sys.argv[1:3]
whole, rows = timed(lambda: read_steps(lines))
columns, again = timed(lambda: read_steps(table))
part, some = timed(lambda: pd.read_json(lines, orient="records", lines=True, nrows=rows // 10))
assert rows == again
print(json.dumps([whole, columns, part * rows / some, rows]))
"""


class Cost(NamedTuple):
    """What reading cost: the medians."""

    size: int
    runs: int
    steps: int
    seconds: float
    growth: float

    @property
    def speed(self) -> float:
        """MB a second."""
        return self.size / 1e6 / self.seconds

    def verdict(self, *, is_session: bool) -> str:
        """Whether it is as fast and as frugal as it should be."""
        missed = [f"below {SPEED} MB/s"] if self.speed < SPEED else []
        missed += [f"more than {GROWTH} x its size"] if is_session and self.growth > GROWTH * self.size else []
        return ", ".join(missed) or "met"


def size_of(path: Path) -> int:
    """How many bytes there are to read, unpacked."""
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    if path.suffix == ".parquet":
        about = parquet.read_metadata(path)
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        columns = [group.column(number) for group in groups for number in range(group.num_columns)]
        return sum(column.total_uncompressed_size for column in columns if "record" in column.path_in_schema)
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*.json")))


def measure(small: Path, large: Path, reader: str, repeats: int) -> Cost:
    """Read a file in fresh processes."""
    figures = []
    for _ in range(repeats):
        command = [sys.executable, "-c", READ, str(small), str(large), reader]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures.append(json.loads(out.stdout))
    assert figures[0][3] > 0, f"no steps in {large}"
    seconds, growth = (statistics.median(figure[i] for figure in figures) for i in (0, 1))
    return Cost(size_of(large), figures[0][2], figures[0][3], seconds, growth)


def write(form: Format, folder: Path, size: int) -> Path:
    """A synthetic log in a folder of its own."""
    folder.mkdir()
    path = folder / form.file
    form.write(path, size)
    return path


def show(name: str, cost: Cost, *, is_session: bool = False) -> None:
    """Print a row."""
    print(
        f"{name:20} {cost.size / 1e6:7.1f} {cost.runs:6} {cost.steps:7} {cost.seconds:8.3f} {cost.speed:7.1f}"
        f" {cost.growth / 1e6:+8.1f}  {cost.verdict(is_session=is_session)}",
        flush=True,
    )


def formats(names: list[str], megabytes: int, repeats: int) -> None:
    """The part about formats: a row for each, and one for real runs."""
    print(f"{'format':20} {'MB':>7} {'runs':>6} {'steps':>7} {'seconds':>8} {'MB/s':>7} {'peak MB':>8}  target")
    for name in names:
        form = FORMATS[name]
        size = megabytes * (1_000_000 if form.is_session else 500_000)
        with tempfile.TemporaryDirectory() as folder:
            small, large = (write(form, Path(folder) / kind, n) for kind, n in (("small", 100_000), ("large", size)))
            show(name, measure(small, large, form.reader, repeats), is_session=form.is_session)
    if REAL.exists() and "tau_bench" in names:
        show("tau_bench, real runs", measure(REAL, REAL, "tau_bench", repeats))


def tables(megabytes: int, repeats: int) -> None:
    """The part about tables: steps to a DataFrame, from JSON Lines and from Parquet, and by pandas."""
    rows = json.loads(bl.steps_df(bl.load_runs(data_path("datasets") / "runs")).to_json(orient="records"))
    words = Agent(1)
    texts = [{"text": words.prose(200), "arguments": words.prose(80), "result": words.prose(900)} for _ in rows]
    table("counters alone", rows, megabytes, repeats)
    table("with their texts", [row | text for row, text in zip(rows, texts, strict=True)], megabytes, repeats)


def table(title: str, rows: list[dict[str, Any]], megabytes: int, repeats: int) -> None:
    """One kind of rows, over and over, with other ids."""
    text = "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        lines, columns = Path(folder) / "steps.jsonl", Path(folder) / "steps.parquet"
        with lines.open("w") as file:
            for copy in range(megabytes * 1_000_000 // len(text.encode()) + 1):
                file.write(text.replace('"run_id":"coder', f'"run_id":"{copy}-coder'))
        bl.read_steps(lines).to_parquet(columns)
        size = lines.stat().st_size / 1e6
        command = [sys.executable, "-c", TABLES, str(lines), str(columns)]
        out = [subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True) for _ in range(repeats)]
        taken = [json.loads(one.stdout) for one in out]
        seconds = [statistics.median(row[place] for row in taken) for place in range(3)]
        print(f"\nsteps, {title}: {taken[0][3]:,} rows, {size:.0f} MB of JSON Lines, "
              f"{columns.stat().st_size / 1e6:.1f} MB of Parquet")  # fmt: skip
        told = ("JSON Lines, read_steps", "Parquet, read_steps", "JSON Lines, pandas.read_json")
        targets = (f"at least {TABLE_SPEED} MB/s", "faster than JSON Lines", "")
        for name, time, target in zip(told, seconds, targets, strict=True):
            print(f"{name:30} {time:8.3f} s {size / time:8.1f} MB/s  {seconds[0] / time:6.2f} x  {target}")


def main() -> None:
    """Measure part by part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--formats", default=",".join(FORMATS), help="rows to measure, with commas; default: all")
    parser.add_argument("--megabytes", type=int, default=100, help="size of sessions; other files have half of it")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    names = options.formats.split(",")
    unknown = set(names) - set(FORMATS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(FORMATS)}")
    print(f"Python {platform.python_version()}, {platform.machine()}")
    formats(names, options.megabytes, options.repeats)
    if len(names) == len(FORMATS):
        tables(2 * options.megabytes, options.repeats)


if __name__ == "__main__":
    main()
