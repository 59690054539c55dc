"""What benchmarks measured: printed, saved as JSON by their `--write`, and made into docs/tables/measured.md.

`python -m benchmarks.results` makes the page again from the JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

PAGE: Final = Path(__file__).parents[1] / "docs" / "tables" / "measured.md"
FOLDER: Final = PAGE.with_suffix("")
"""What each benchmark measured last: NAME.json."""

SECTIONS: Final[Mapping[str, str]] = {
    "loop": "The loop against a bare loop",
    "stream": "The client of real models against a bare httpx-sse loop",
    "monitor": "Monitors in foreign loops",
    "hook": "The hook of Claude Code",
    "sweep": "Sweeps, the store, simulated agents",
    "world": "Files of a run",
    "trials": "Trials",
    "counterfactual": "Counterfactuals",
    "scorecard": "Scorecards and survival",
    "ingest": "Readers",
    "recommendations": "Recommendations",
    "tails": "Budgets and tails",
    "outcomes": "Outcomes that few answers show",
    "context_policies": "Other context policies",
    "onpolicy": "Recordings of a real model, and what it then does",
    "widgets": "Widgets",
    "displays": "The first look, on real logs",
    "watch": "Logs that grow",
    "bombs": "Hostile and enormous inputs",
    "soak": "Soak",
    "fuzz": "Fuzzing",
    "compatibility": "Python versions and dependencies",
}
"""The sections of the page: the name of a JSON file, and its heading."""

HEAD: Final = """# What was measured

The tables behind [Measured](../measured.md), made from the JSON files in `docs/tables/measured`. A figure without a
unit is a ratio. The load is the average number of running processes, the benchmark's own among them.
"""


class Row(NamedTuple):
    """One figure; without a unit it is a ratio."""

    what: str
    figure: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    detail: str = ""

    @property
    def cells(self) -> dict[str, Any]:
        """The row as the JSON has it, by column."""
        target, met = "", True
        if self.at_most is not None:
            target, met = f"at most {self.at_most:,g}", self.figure <= self.at_most
        elif self.at_least is not None:
            target, met = f"at least {self.at_least:,g}", self.figure >= self.at_least
        return {
            "what": self.what,
            "figure": self.figure if isinstance(self.figure, int) else round(self.figure, _decimals(self.figure)),
            "unit": self.unit,
            "target": target,
            "verdict": "" if not target else "met" if met else "missed",
            "detail": self.detail,
        }


def ratio(
    what: str,
    pairs: Iterable[tuple[float, float]],
    unit: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Row:
    """The median of the ratios of pairs that were measured in turn; the figures of the pairs have the unit."""
    measured = [*pairs]
    ratios = [ours / theirs for ours, theirs in measured]
    medians = " against ".join(number(statistics.median(column)) for column in zip(*measured, strict=True))
    detail = f"{medians} {unit}"
    if len(ratios) > 1:
        low, _, high = statistics.quantiles(ratios, n=4)
        detail += f"; quartiles {number(low)} to {number(high)}"
    return Row(what, statistics.median(ratios), "", at_most, at_least, detail)


def number(value: float) -> str:
    """Three digits, with separators.

    Example:
        >>> [number(value) for value in (3.8641, 21.04, 180.4, 26990.6)]
        ['3.86', '21.0', '180', '26,991']
    """
    return f"{value:,.{_decimals(value)}f}"


def argument_parser(doc: str | None, parts: Collection[str] = ()) -> argparse.ArgumentParser:
    """The arguments that all benchmarks have.

    Args:
        doc: The benchmark's docstring; its last paragraph is the usage.
        parts: Tables that can be measured alone.
    """

    def part(name: str) -> str:
        if name not in parts:
            raise argparse.ArgumentTypeError(f"there is no part {name!r}; parts: {', '.join(parts)}")
        return name

    parser = argparse.ArgumentParser(description=_about(doc), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="save the figures, and make docs/tables/measured.md")
    if parts:
        parser.add_argument("parts", nargs="*", metavar="PART", type=part, help=f"some of {', '.join(parts)}; or all")
    return parser


def in_folders(parts: Mapping[str, Callable[..., Iterator[Row]]], **options: bool) -> dict[str, Iterator[Row]]:
    """The rows of each part, which is measured in a folder of its own."""

    def rows(part: Callable[..., Iterator[Row]]) -> Iterator[Row]:
        with tempfile.TemporaryDirectory(prefix="boolab-benchmark-") as folder:
            yield from part(Path(folder), **options)

    return {name: rows(part) for name, part in parts.items()}


def publish(
    doc: str | None, tables: Mapping[str, Iterable[Row]], options: argparse.Namespace, versions: str = ""
) -> None:
    """Print tables row by row as they are measured, and with `--write` save each that is complete.

    Args:
        doc: The benchmark's docstring.
        tables: Rows by the title of their table. Tables of other titles stay as they were saved.
        options: What `argument_parser` parsed.
        versions: Other packages that the figures depend on.
    """
    name = Path(sys.argv[0]).stem
    path = FOLDER / f"{name}.json"
    for title in getattr(options, "parts", None) or tables:
        before = os.getloadavg()[0]
        print(f"\n{title}\n")
        measured = []
        for row in tables[title]:
            measured.append(row.cells)
            print("  ".join([f"{row.what:<60}", *map(_cell, [*measured[-1].values()][1:])]).rstrip(), flush=True)
        if options.write and measured:
            saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tables": {}}
            saved["about"] = _about(doc)
            saved["tables"][title] = {
                "date": datetime.now(UTC).date().isoformat(),
                "python": platform.python_version(),
                "versions": versions,
                "machine": platform.machine(),
                "cores": os.cpu_count(),
                "load": f"{before:.1f} to {os.getloadavg()[0]:.1f}",
                "command": " ".join(["python -m", f"benchmarks.{name}", *(a for a in sys.argv[1:] if a != "--write")]),
                "rows": measured,
            }
            path.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
            PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page, as the JSON files give it."""
    parts = [HEAD]
    for name, heading in SECTIONS.items():
        saved = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        parts.append(f"## {heading}\n\n{saved['about']}\n")
        for title, table in saved["tables"].items():
            parts.append(f"### {title[:1].upper()}{title[1:].replace('_', ' ')}\n\n{_table(table)}")
    return "\n".join(parts)


def _decimals(value: float) -> int:
    return 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0


def _about(doc: str | None) -> str:
    return (doc or "").strip().rpartition("\n\n")[0]


def _table(table: Mapping[str, Any]) -> str:
    python = f"CPython {table['python']}" if table["python"] else ""
    state = f"{table['cores']} cores, load {table['load']}"
    about = ", ".join(filter(None, (table["date"], python, table["versions"], table["machine"], state)))
    rows = table["rows"]
    columns = [name for name in rows[0] if any(row[name] != "" for row in rows)]
    lines = [columns, ["-"] * len(columns), *([_cell(row[name]) for name in columns] for row in rows)]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{about}. `{table['command']}`\n\n{text}"


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return value.replace("|", "\\|")
    return f"{value:,}" if isinstance(value, int) else number(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
