"""What reading logs costs: a synthetic file of each format, real runs where they lie beside, and tables of steps.

See `benchmarks/formats.py` for the files. Each figure is the median of several readings, each in a fresh process;
memory is how far the peak rises above what it was after a warm-up with a small file. MB are millions of bytes; those of
compressed files are counted as they come out. pandas' own reader of JSON Lines is timed on a tenth of the rows.
For rows of short fields, most of the time is pyarrow's parser's.

    python -m benchmarks.ingest [--formats a,b] [--megabytes N] [--repeats N] [--write]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyarrow import parquet

import boolab as bl
from benchmarks.formats import FORMATS, Agent, Format
from benchmarks.results import Row, argument_parser, publish
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


def rows(name: str, small: Path, large: Path, reader: str, repeats: int, *, is_session: bool = False) -> Iterator[Row]:
    """Read a file in fresh processes: the speed, and for a session the memory."""
    figures = []
    for _ in range(repeats):
        command = [sys.executable, "-c", READ, str(small), str(large), reader]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures.append(json.loads(out.stdout))
    (_, _, runs, steps), size = figures[0], size_of(large)
    assert steps > 0, f"no steps in {large}"
    seconds, growth = (statistics.median(figure[i] for figure in figures) for i in (0, 1))
    detail = f"{size / 1e6:.1f} MB, runs: {runs:,}, steps: {steps:,}; {seconds:.3f} s; memory {growth / 1e6:+.1f} MB"
    yield Row(name, size / 1e6 / seconds, "MB/s", at_least=SPEED, detail=detail)
    if is_session:
        yield Row(f"{name}: memory / size", growth / size, at_most=GROWTH)


def write(form: Format, folder: Path, size: int) -> Path:
    """A synthetic log in a folder of its own."""
    folder.mkdir()
    path = folder / form.file
    form.write(path, size)
    return path


def formats(names: list[str], megabytes: int, repeats: int) -> Iterator[Row]:
    """The part about formats, and real runs."""
    for name in names:
        form = FORMATS[name]
        size = megabytes * (1_000_000 if form.is_session else 500_000)
        with tempfile.TemporaryDirectory() as folder:
            small, large = (write(form, Path(folder) / kind, n) for kind, n in (("small", 100_000), ("large", size)))
            yield from rows(name, small, large, form.reader, repeats, is_session=form.is_session)
    if REAL.exists() and "tau_bench" in names:
        yield from rows("tau_bench, real runs", REAL, REAL, "tau_bench", repeats)


def tables(megabytes: int, repeats: int) -> Iterator[Row]:
    """The part about tables: steps to a DataFrame, from JSON Lines and from Parquet, and by pandas."""
    counters = json.loads(bl.steps_df(bl.load_runs(data_path("datasets") / "runs")).to_json(orient="records"))
    words = Agent(1)
    texts = [{"text": words.prose(200), "arguments": words.prose(80), "result": words.prose(900)} for _ in counters]
    yield from table("counters alone", counters, megabytes, repeats)
    yield from table("with their texts", [a | b for a, b in zip(counters, texts, strict=True)], megabytes, repeats)


def table(title: str, records: list[dict[str, Any]], megabytes: int, repeats: int) -> Iterator[Row]:
    """One kind of rows, over and over, with other ids."""
    text = "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in records)
    with tempfile.TemporaryDirectory() as folder:
        lines, columns = Path(folder) / "steps.jsonl", Path(folder) / "steps.parquet"
        with lines.open("w") as file:
            for copy in range(megabytes * 1_000_000 // len(text.encode()) + 1):
                file.write(text.replace('"run_id":"coder', f'"run_id":"{copy}-coder'))
        bl.read_steps(lines).to_parquet(columns)
        size = lines.stat().st_size / 1e6
        command = [sys.executable, "-c", TABLES, str(lines), str(columns)]
        out = [subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True) for _ in range(repeats)]
        times = [json.loads(one.stdout) for one in out]
        seconds = [statistics.median(row[place] for row in times) for place in range(3)]
        detail = f"{times[0][3]:,} rows, {size:.0f} MB; {columns.stat().st_size / 1e6:.1f} MB of Parquet"
        speeds = [size / time for time in seconds]
        yield Row(f"{title}: JSON Lines, read_steps", speeds[0], "MB/s", at_least=TABLE_SPEED, detail=detail)
        yield Row(f"{title}: Parquet, read_steps / JSON Lines", speeds[1] / speeds[0], at_least=1)
        yield Row(f"{title}: JSON Lines, pandas.read_json", speeds[2], "MB/s")


def main() -> None:
    """Measure part by part."""
    parser = argument_parser(__doc__)
    parser.add_argument("--formats", default=",".join(FORMATS), help="rows to measure, with commas; default: all")
    parser.add_argument("--megabytes", type=int, default=100, help="size of sessions; other files have half of it")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    names = options.formats.split(",")
    unknown = set(names) - set(FORMATS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(FORMATS)}")
    parts = {"Logs to runs": formats(names, options.megabytes, options.repeats)}
    if len(names) == len(FORMATS):
        parts["Steps to a DataFrame"] = tables(2 * options.megabytes, options.repeats)
    publish(__doc__, parts, options)


if __name__ == "__main__":
    main()
