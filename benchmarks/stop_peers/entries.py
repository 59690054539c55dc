"""The packages, and how each is used."""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A package.

    Attributes:
        package: The distribution.
        authors: Who made it.
        url: Where it is developed.
        learns: Whether it learns from past successes, so that it is given the training runs of each split first.
        stops: When it stops a run, with its defaults.
        changed: What is different here from its defaults, and why; empty for nothing.
    """

    package: str
    authors: str
    url: str
    learns: bool
    stops: str
    changed: str = ""


ENTRIES: Final = (
    Entry(
        "loopbrake",
        "Sahil Selokar",
        "https://github.com/SahilSelokar/LoopBrake",
        learns=True,
        stops="more actions than 95% of the past successes of the same agent needed (the k-th smallest of n lengths, "
        "k = ceil(0.95 (n + 1)), one success for each task); never with fewer than 19 such tasks",
    ),
    Entry(
        "agent-loop-guard",
        "hmj",
        "https://github.com/QuartzUnit/agent-loop-guard",
        learns=False,
        stops="four calls in a row with a score above 0.3, which equal calls in a row, cycles of tools, and similar "
        "arguments and results (0.85) among the last ten raise",
        changed="rapidfuzz computes its edit distance: the same numbers, faster",
    ),
    Entry(
        "agent-watchdog",
        "Water Woods",
        "https://github.com/woodwater2026/agent-watchdog",
        learns=False,
        stops="three equal calls in a row, eight calls that repeat a pattern of two or four, or an estimated cost of "
        "one dollar",
        changed="no limit of 300 seconds: it is on the clock of its own process. Without tokens it sees no cost",
    ),
    Entry(
        "agentloopguard-sdk",
        "Mohammed Rizwan Shaik",
        "https://github.com/mohammedshaik/agentloopguard",
        learns=False,
        stops="three equal calls in a row, three results in a row that are similar (0.92), or the same two or three "
        "calls three times over",
        changed="no limit of two dollars a minute: it is on the clock of its own process",
    ),
    Entry(
        "loopguard-runtime",
        "Mahima Thacker",
        "https://github.com/mahimathacker/loopguard",
        learns=False,
        stops="a result that looks like a permanent failure, twice; or calls that repeat (three equal in twelve, "
        "or a cycle) while results do not change or look like failures",
    ),
)
