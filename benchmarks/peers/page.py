"""The tables and the page of documentation, from what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.measuring import Measured
from benchmarks.peers.rows import NOTES, PEERS
from benchmarks.peers.summary import Figures, Spread, figures
from benchmarks.results import number

PAGE: Final = Path(__file__).parents[2] / "docs" / "peers.md"
"""Where the page lies."""

NONE: Final = "-"

HEAD: Final = """# boolab beside its peers

The cost of a step of the loop in boolab and in released packages, on the same work; and the effect of a limit on
steps in each, with the record that it leaves. `make bench-peers` makes this page.

The cost is that of the loop alone. With a real model, whose answer takes a second, a few milliseconds per step do not
matter. They matter if models take no time: in sweeps of scripted, simulated or recorded runs, and in tests; and in
long runs, if the cost grows with the length of the run. Each package has features that cost time; [they are listed
below](#what-each-does).
"""

METHOD: Final = """## How it was measured

The work is S steps: a model that costs nothing makes S - 1 responses with one call of a tool that adds two numbers,
each time with new arguments, and then the text "done". Every row proves that it did the work: the number of calls,
the sum of all results and the last text must be correct; otherwise the row has the reason of its failure.

Each measurement is a separate process, in an environment that has the package with pinned dependencies
(`benchmarks/requirements`), with its own home and no keys. The rows take turns, so that a slow minute of the machine
affects all of them. In each process the bare loop ([bare.py](../benchmarks/peers/adapters/bare.py)) runs before and
after each measurement, and the ratio is taken there, pair by pair: compare the ratios, since microseconds depend on
the machine. Figures are CPU time of all threads, medians over processes with quartiles in brackets. Agents are built
before the clock starts; an agent that remembers its runs is built for each run. *Growth* is the ratio at the longest
runs divided by that at the shortest. *Import* is the time of the imports, *first run* the time from the start of
Python to the end of a first short run, including late imports; both are CPU seconds. Memory is resident, after that
first run and at its peak in the longest runs. The adapters are in `benchmarks/peers/adapters`, one short file each.
"""

LIMITS: Final = """## Limits, and the record that they leave

Each limit is set to {at}, on a run that never ends, and on one that ends with the {at}th call of the model. *Left* is
the number of responses of the model, and of results of the tool, that are available afterwards, and their place. A
dash as the default is no limit. The defaults are read from the installed packages.
"""


def cost_table(measured: Measured) -> str:
    """What a step costs, as Markdown."""
    steps = [int(n) for n in measured["steps"]]
    head = ["", "version", *(f"S={n}, us" for n in steps), *(f"S={n} / bare" for n in steps)]
    head += [f"growth {steps[-1]}/{steps[0]}", "import, s", "first run, s", "held, MiB", "peak, MiB"]
    lines = [_cost_line(label, one, steps) for label, one in measured["rows"].items()]
    return _table(head, lines)


def failures(measured: Measured) -> list[str]:
    """Why some rows have no figure, a sentence each."""
    return [f"{label} at S={n}: {why}" for label, one in measured["rows"].items() for n, why in one["failed"].items()]


def limit_table(measured: Measured) -> str:
    """What limits do and leave, as Markdown."""
    at = measured["at"]
    head = ["package", "limit", "default", "model calls", "tools run", f"ends at call {at}", "the caller sees", "left"]
    lines = [
        [
            f"{package} {said['version']}",
            f"`{name}`",
            NONE if one["default"] is None else str(one["default"]),
            f"{one['calls']} + {one['wrapups']} without tools" if one["wrapups"] else str(one["calls"]),
            str(one["tools"]),
            "finishes" if one["finishes"] else "is cut",
            one["how"] + (f': "{_short(one["said"])}"' if one["said"] else ""),
            "; ".join(f"{where}: {responses} and {results}" for where, responses, results in one["left"]),
        ]
        for package, said in measured["limits"].items()
        for name, one in said["limits"].items()
    ]
    return _table(head, lines)


def notes(measured: Measured) -> list[str]:
    """What is to be said of each limit beside its line."""
    asked = [(package, name) for package, said in measured["limits"].items() for name in said["limits"]]
    return [f"{package}, `{name}`: {NOTES[package, name]}" for package, name in asked if (package, name) in NOTES]


def page(measured: Measured, picture: str) -> str:
    """The page.

    Args:
        measured: What was measured.
        picture: The chart's path, as seen from the page.
    """
    failed = failures(measured)
    missing = [f"{package}: {one['failed']}" for package, one in measured["limits"].items() if one.get("failed")]
    parts = [
        HEAD,
        f"{measured['date']}, {measured['machine']}.{_busy(measured)}\n",
        f"![CPU per step beside the bare loop, by package and length of run]({picture})\n",
        cost_table(measured),
        *(["No figure, and why:\n\n" + _bullets(failed)] if failed else []),
        METHOD,
        LIMITS.format(at=measured["at"]),
        limit_table(measured),
        _bullets(notes(measured)),
        *(["Could not be asked:\n\n" + _bullets(missing)] if missing else []),
        "## What each does\n",
        _bullets(f"**{peer.package}**: {peer.does}" for peer in PEERS),
    ]
    return "\n".join(parts)


def _busy(measured: Measured) -> str:
    """What is to be said where the machine had more to do than this."""
    if measured["load"] <= measured["cores"]:
        return ""
    return (
        f" It was busy with other work (load average up to {measured['load']:.0f}): microseconds are too high, and "
        "ratios wander."
    )


def _cost_line(label: str, one: dict[str, Any], steps: Sequence[int]) -> list[str]:
    found = figures(one["samples"], steps)
    version = one["version"] or NONE
    if found is None:
        return [label, version, *[NONE] * (2 * len(steps) + 5)]
    return [
        label,
        version,
        *(_spread(found.cpu_us.get(n)) for n in steps),
        *(_spread(found.ratio.get(n)) for n in steps),
        *_rest(found),
    ]


def _rest(found: Figures) -> list[str]:
    growth = NONE if found.growth is None else f"{found.growth:.2f}"
    times = (f"{found.import_s:.2f}", f"{found.ready_s:.2f}")
    return [growth, *times, f"{found.ready_mib:.0f}", f"{found.peak_mib:.0f}"]


def _spread(one: Spread | None) -> str:
    if one is None:
        return NONE
    middle, low, high = map(number, one)
    return middle if low == high else f"{middle} [{low}, {high}]"


def _short(text: str) -> str:
    """The first sentence or line."""
    return text.partition("\n")[0].partition(". ")[0].rstrip(".")


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["-"] * len(head), *lines]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)


def _bullets(texts: Iterable[str]) -> str:
    return "".join(f"- {text}\n" for text in texts)
