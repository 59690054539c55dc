"""How titles, notes and labels say numbers and names."""

from __future__ import annotations

import pandas as pd

NAME_CHARS = 32


def count(n: int, noun: str) -> str:
    """A number of things: "1 run", "1,200 runs"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def number(value: float) -> str:
    """A number with one decimal, where it is not whole."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}"


def percent(part: float, base: float) -> str:
    """A share in whole percent; what is not all of it is never 100%, and what is something never 0%."""
    share = 100 * part / base
    return f"{min(max(round(share), share > 0), 99 if share < 100 else round(share)):.0f}%"  # noqa: PLR2004


def span(low: float, high: float) -> str:
    """A number with its bounds: "21", or "17-18" where they differ."""
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def plural(n: int, one: str, several: str) -> str:
    """A number of things whose plural is irregular."""
    return f"{n:,} {one if n == 1 else several}"


def all_of(n: int, noun: str) -> str:
    """The beginning of a title about all of them: "The one run", "Both runs", "All 3 runs"."""
    return {1: f"The one {noun}", 2: f"Both {noun}s"}.get(n, f"All {n:,} {noun}s")


def shorten(name: str, most: int = NAME_CHARS) -> str:
    """A name in one line; of a long one, its ends, because names of tools often start alike."""
    name = " ".join(name.split())
    if len(name) <= most:
        return name
    tail = (most - 1) // 2
    return f"{name[: most - 1 - tail]}…{name[-tail:]}"


def sample(runs: pd.DataFrame) -> str:
    """For a note: the runs that a figure is drawn from."""
    parts = [count(len(runs), "run")]
    for name in ("agent", "task"):
        if name in runs:
            n = runs.loc[runs[name] != "", name].nunique()
            parts += [count(n, name)] if n else []
    return f"{', '.join(parts)}."


def missing(n: int, noun: str, what: str) -> str:
    """For a note: what so many lack; nothing, where there are none."""
    return f"{count(n, noun)} {what}." if n else ""
