"""boolab beside its peers: the work is done and proven, and the tables say what was measured."""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.environments import REQUIREMENTS, Skipped, answer
from benchmarks.peers.chart import PICTURE, draw, save
from benchmarks.peers.measuring import measure
from benchmarks.peers.page import PAGE, cost_table, failures, limit_table, page
from benchmarks.peers.rows import OWN, PEERS, ROWS, WORK
from benchmarks.peers.summary import figures, spread

PYTHON = Path(sys.executable)


def sample(ratio: float, *, cpu_us: float = 8.0, peak_mib: float = 40.0) -> dict[str, Any]:
    return {
        "ratio": ratio,
        "cpu_us": cpu_us,
        "import_cpu_s": 0.25,
        "ready_cpu_s": 0.5,
        "ready_mib": 30.0,
        "peak_mib": peak_mib,
    }


MEASURED: dict[str, Any] = {
    "date": "2026-01-02",
    "machine": "a machine",
    "cores": 2,
    "load": 7.6,
    "at": 10,
    "steps": [50, 800],
    "rows": {
        "fast": {
            "version": "1.0",
            "samples": {
                "50": [sample(4.0), sample(2.0), sample(3.0)],
                "800": [sample(6.0, cpu_us=1234.5), sample(6.0, cpu_us=1234.5, peak_mib=60.0)],
            },
            "failed": {},
        },
        "fails | late": {"version": "2.0", "samples": {"50": [sample(100.0)]}, "failed": {"800": "RecursionError"}},
        "never": {"version": "", "samples": {}, "failed": {"50": "not installed", "800": "not installed"}},
    },
    "limits": {
        "some-package": {
            "version": "1.0",
            "limits": {
                "max_steps": {
                    "default": None,
                    "calls": 10,
                    "wrapups": 1,
                    "tools": 9,
                    "how": "raises TooMany",
                    "said": "too many",
                    "left": [["the exception", 0, 0], ["the memory", 10, 9]],
                    "finishes": False,
                }
            },
        },
        "lost": {"version": "", "limits": {}, "failed": "no such package"},
    },
}


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row.package in OWN], ids=lambda row: row.label)
def test_what_runs_here_does_the_work_and_proves_it(row: Any) -> None:
    peer = next(one for one in PEERS if one.package == row.package)
    package = "" if row.package == "bare" else row.package
    asked = {"measure": "cost", "variant": row.variant, "steps": 20, "seconds": 0.0}
    said = answer(PYTHON, WORK, {"adapter": peer.adapter, "package": package, **asked}, 60)
    assert said["pairs"] == said["runs"] == 1
    assert said["cpu_us"] > 0
    assert said["ratio"] == pytest.approx(said["cpu_us"] / said["bare_us"])
    assert 0 < said["import_cpu_s"] < said["ready_cpu_s"]
    assert 0 < said["ready_mib"] <= said["peak_mib"]


LAZY = """
from work import Turns
VARIANTS = ("no calls", "wrong sums", "no end")
def prepare(variant, runs, steps, add):
    def go():
        if variant != "no calls":
            for a in range(1, steps):
                add(a, 1 if variant == "no end" else 2)
        return ["more" if variant == "no end" else "done"] * runs
    return go
"""


@pytest.mark.parametrize(
    ("variant", "why"),
    [
        ("no calls", "0 calls of the tool, expected 19"),
        ("wrong sums", "the sums add up to 228, expected 209"),
        ("no end", "ended with"),
    ],
)
def test_adapter_that_skips_the_work_is_a_row_with_the_reason(variant: str, why: str, tmp_path: Path) -> None:
    for script in ("work.py", "bare.py"):
        (tmp_path / script).write_bytes((WORK.parent / script).read_bytes())
    (tmp_path / "lazy_peer.py").write_text(LAZY)
    asked = {"adapter": "lazy_peer", "package": "", "measure": "cost", "variant": variant, "steps": 20, "seconds": 0.0}
    with pytest.raises(Skipped, match=why):
        answer(PYTHON, tmp_path / "work.py", asked, 60)


def test_a_limit_of_boolab_is_exact_and_leaves_the_whole_record() -> None:
    measured = next(measure([row for row in ROWS if row.label == "boolab"], 0, lambda _: None))
    one = measured["limits"]["boolab"]["limits"]["max_steps"]
    assert (one["calls"], one["wrapups"], one["tools"], one["finishes"]) == (10, 0, 10, True)
    assert one["left"] == [["the run", 10, 10]]


def test_quartiles_lie_around_the_median_of_what_was_measured() -> None:
    assert spread([1.0, 3.0, 2.0, 5.0, 4.0]) == (3.0, 2.0, 4.0)
    assert spread([7.0]) == (7.0, 7.0, 7.0)


def test_growth_is_of_ratios_and_peak_is_of_the_longest_runs() -> None:
    found = figures(MEASURED["rows"]["fast"]["samples"], [50, 800])
    assert found is not None
    assert found.ratio == {50: (3.0, 2.5, 3.5), 800: (6.0, 6.0, 6.0)}
    assert (found.growth, found.peak_mib) == (2.0, 50.0)
    late = figures(MEASURED["rows"]["fails | late"]["samples"], [50, 800])
    assert late is not None
    assert late.growth is None
    assert figures({}, [50, 800]) is None


def test_cost_table_has_measured_figures_and_reasons_elsewhere() -> None:
    head, _, fast, late, never = cells(cost_table(MEASURED))
    assert len({len(head), len(fast), len(late), len(never)}) == 1
    told = dict(zip(head, fast, strict=True))
    assert (told["S=50 / bare"], told["S=800 / bare"], told["growth 800/50"]) == ("3.00 [2.50, 3.50]", "6.00", "2.00")
    assert (told["S=800, us"], told["held, MiB"], told["peak, MiB"]) == ("1,234", "30", "50")
    assert dict(zip(head, late, strict=True))["S=800 / bare"] == "-"
    assert set(never[1:]) == {"-"}
    assert "fails | late at S=800: RecursionError" in failures(MEASURED)


def test_limit_table_says_how_exact_limits_are_and_what_is_left() -> None:
    head, _, line = cells(limit_table(MEASURED))
    told = dict(zip(head, line, strict=True))
    assert (told["default"], told["model calls"], told["tools run"]) == ("-", "10 + 1 without tools", "9")
    assert (told["ends at call 10"], told["the caller sees"]) == ("is cut", 'raises TooMany: "too many"')
    assert told["left"] == "the exception: 0 and 0; the memory: 10 and 9"


def test_peer_chart_has_a_row_per_tool_and_a_marker_per_length(tmp_path: Path) -> None:
    ax = draw(MEASURED, Figure().add_subplot())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["fast", "fails | late"]
    assert ax.get_xscale() == "log"
    points = sorted(x for line in ax.lines for x in [np.asarray(line.get_xdata()).tolist()] if len(x) == 1)
    assert points == [[3.0], [6.0], [100.0]]
    save(MEASURED, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_page_holds_both_tables_failures_and_package_notes() -> None:
    written = page(MEASURED, "pictures/peers.png")
    assert cost_table(MEASURED) in written
    assert limit_table(MEASURED) in written
    assert "lost: no such package" in written
    assert "load average up to 8" in written
    assert "load average" not in page(MEASURED | {"load": 1.2}, "pictures/peers.png")
    assert all(f"**{peer.package}**: {peer.does}" in written for peer in PEERS)


def test_every_peer_has_rows_an_adapter_and_pinned_requirements() -> None:
    assert {row.package for row in ROWS} == {peer.package for peer in PEERS}
    assert len({row.label for row in ROWS}) == len(ROWS)
    order = [[peer.package for peer in PEERS].index(row.package) for row in ROWS]
    assert all(a <= b for a, b in pairwise(order))
    for peer in PEERS:
        assert (WORK.parent / f"{peer.adapter}.py").exists()
        lines = () if peer.package in OWN else (REQUIREMENTS / f"{peer.package}.txt").read_text().split()
        assert peer.package in OWN or any(line.startswith(f"{peer.package}==") for line in lines)


def test_the_documentation_shows_what_the_rows_are_now() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert all(f"| {row.label} |" in written for row in ROWS), "run: make bench-peers"
    assert all(f"**{peer.package}**: {peer.does}" in written for peer in PEERS), "run: make bench-peers"
    assert PICTURE.exists()
