"""The answer of a setting in a sentence, with the bound of what it keeps and what it trades."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boolab.display.numbers import level, percent, rounded_down
from boolab.harnesses.setting import Setting
from boolab.limits.table import LIMITS
from boolab.stats.trade import BETTER_OFF, Trade


def trade_in_numbers(kept: Mapping[str, int], saved: Mapping[str, Any]) -> Trade:
    """What a setting saves for the successes that it may lose."""
    unit = "cost" if saved["measure"] == "cost" else saved["label"]
    return Trade(saved["saved"], kept["of"] - kept["lower"], saved["of"], kept["of"], unit)


def verdict_of(
    setting: Setting, kept: Mapping[str, int], saved: Mapping[str, Any], success: str, keep: float = 0.0
) -> list[str]:
    """What a setting keeps and saves, and whether that is a good trade; if it keeps too little, that comes first."""
    limits = [LIMITS[name].with_value(value) for name, value in setting.limits.items() if value is not None]
    if not limits:
        return ["No limit is set: nothing is stopped, and nothing is saved.", ""]
    named = limits[0] if len(limits) == 1 else f"{', '.join(limits[:-1])} and {limits[-1]}"
    several = len(limits) > 1
    lower, upper = kept["lower"], kept["upper"]
    most = "" if lower == upper else f" ({upper:,} at most)"
    keeps = f"{'keep' if several else 'keeps'} {lower:,} of {kept['of']:,} {success}{most}"
    too_few = kept["of"] and lower / kept["of"] < keep - 1e-12
    less = f", {_shares(kept)}, less than the {level(keep)} to keep," if too_few else ""
    what = [f"{keeps}{less}"] if kept["of"] else []
    known = saved["share"] is not None
    if known:
        what.append(f"{'save' if several else 'saves'} {percent(saved['share'])} of the {saved['label']}")
    if not what:
        return ["Nothing is on record to keep or to save.", ""]
    sentence = f"{named} {' and '.join(what)}."
    first = f"{sentence[0].upper()}{sentence[1:]}"
    found = trade_in_numbers(kept, saved)
    trade = found.sentence.partition(":")[0].rstrip(".")  # its numbers are among the four below
    advice = f": {BETTER_OFF}" if found.is_poor else ""
    return [first, f"{trade}{advice}." if known and trade else ""]


def _shares(kept: Mapping[str, int]) -> str:
    """The share that is kept, or where it is not known for certain, from the least to the most."""
    ends = dict.fromkeys(rounded_down(kept[end] / kept["of"]) for end in ("lower", "upper"))
    return " to ".join(ends)
