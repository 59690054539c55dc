"""`python -m tests.soak`: soaks, prints one table in Markdown, and fails if anything grew or went wrong."""

import argparse
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.soak.mixed import Mixed, Soaked
from tests.soak.together import Round, play
from tests.soak.vitals import Vitals, growth

MOST_BLOCKS: Final = 0.01
MOST_KIB: Final = 0.03
"""By which part Python's blocks, and the resident memory, may grow from the end of the warm-up to the end."""
MOST_WAL_KIB: Final = 64 * 1024
WARMING: Final = 0.25
"""Which part of the mixed sweep is its warm-up: caches fill, and each kind of failure is met for the first time."""


class Row(NamedTuple):
    """A line of the table."""

    what: str
    figure: str
    bound: str
    holds: bool


def of_rounds(rounds: Sequence[Round], n: int) -> Iterator[Row]:
    """What so many runs at once took, and what was left of them; the first round is the warm-up."""
    first, last = rounds[0], rounds[-1]
    blocks = last.after.blocks / first.after.blocks - 1
    kib = last.after.kib / rounds[min(1, len(rounds) - 1)].after.kib - 1
    each = (first.amid.kib - first.before.kib) / n
    many = f"{n:,} runs at once, {len(rounds)} rounds"
    yield Row(f"{many}: memory amid the first", f"{first.amid.kib / 1024:.0f} MiB", "-", holds=True)
    yield Row("memory for each run under way", f"{each:.1f} KiB", "-", holds=True)
    yield Row("tasks amid, after", f"{last.amid.tasks:,}, {last.after.tasks}", "1 after", last.after.tasks == 1)
    yield Row("Python's blocks, last round to first", f"{blocks:+.2%}", f"{MOST_BLOCKS:.0%}", blocks <= MOST_BLOCKS)
    yield Row("resident memory, last round to second", f"{kib:+.2%}", f"{MOST_KIB:.0%}", kib <= MOST_KIB)
    yield from _unchanged([one.after for one in rounds])


def of_mixed(out: Soaked) -> Iterator[Row]:
    """What became of the mixed sweep, and what it held between sweeps."""
    quiet = out.quiet[int(len(out.quiet) * WARMING) :]
    blocks, kib = growth([one.blocks for one in quiet]), growth([one.kib for one in quiet])
    looks, faults = out.found.get("looks", {}), out.found.get("faults", out.found)
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in out.reasons.most_common())
    ends = f"{out.cancelled} cancelled and taken up again, {out.finished} brought to their end"
    samples = f"{len(quiet)} moments of rest, {quiet[0].kib / 1024:.0f} to {quiet[-1].kib / 1024:.0f} MiB"
    yield Row(f"mixed sweep, {out.seconds / 60:.1f} minutes: sweeps", ends, "-", holds=True)
    yield Row("cells, each with one finished run", f"{out.cells:,}: {reasons}", "all", holds=True)
    yield Row("a cancelled sweep ends within", f"{out.slowest_cancel_s:.2f} s", "30 s", holds=True)
    yield Row("Python's blocks after warm-up", f"{blocks:+.2%}", f"{MOST_BLOCKS:.0%}", blocks <= MOST_BLOCKS)
    yield Row(f"resident memory, {samples}", f"{kib:+.2%}", f"{MOST_KIB:.0%}", kib <= MOST_KIB)
    yield from _unchanged(quiet)
    amid = [one for _, one in out.amid]
    most = f"{max(one.kib for one in amid) / 1024:.0f} MiB, {max(one.files for one in amid)} files"
    yield Row("most while sweeping", f"{most}, {max(one.tasks for one in amid)} tasks", "-", holds=True)
    wal = f"{out.most_wal_kib / 1024:.1f} MiB, {out.wal_kib} KiB"
    fits = out.most_wal_kib <= MOST_WAL_KIB and not out.wal_kib
    yield Row("write-ahead log: most, at the end", wal, f"{MOST_WAL_KIB // 1024} MiB, 0", fits)
    read = f"{sum(looks.values()):,} looks, {sum(faults.values())} faults"
    yield Row("a reader on the store meanwhile", read, "0", bool(looks) and not faults)
    said = f"{len(out.complaints)}"
    yield Row("complaints of the event loop", said, "0", not out.complaints)


def _unchanged(rest: Sequence[Vitals]) -> Iterator[Row]:
    for what in ("files", "tasks", "threads"):
        first, last = getattr(rest[0], what), getattr(rest[-1], what)
        yield Row(f"{what} at rest: first, last", f"{first}, {last}", "no more", last <= first)


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    lines = [f"| {row.what} | {row.figure} | {row.bound}{'' if row.holds else ': **missed**'} |" for row in rows]
    return "\n".join(["| what | figure | bound |", "|---|---|---|", *lines])


def main() -> int:
    """Soak, and say what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="runs at once (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="how often (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=10, help="of the mixed sweep (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of its cancellations (default: %(default)s)")
    given = parser.parse_args()

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress

    rounds = play(given.runs, given.rounds, lambda number, one: tell(f"round {number}: {one.after}"))
    with tempfile.TemporaryDirectory(prefix="boolab-soak-") as folder:
        soaked = Mixed(Path(folder), 60 * given.minutes, given.seed, tell=tell).play()
    rows = [*of_rounds(rounds, given.runs), *of_mixed(soaked)]
    print(f"CPython {platform.python_version()}, {platform.machine()}\n\n{table(rows)}")  # noqa: T201 - the answer
    for fault in [*soaked.found.get("faults", ["the reader died"]), *soaked.complaints]:
        tell(fault)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
