"""The four numbers of a setting: each with its base, and its bound or its measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from boolab.core.text import count
from boolab.display.numbers import level, percent, rounded_down
from boolab.stats.trade import Trade
from boolab.widgets.caplab.curve import amounts


def numbers_of(
    answer: Mapping[str, Any], trade: Trade, of: int, confidence: float, *, proxy: bool, noun: str = "run"
) -> list[Number]:
    """What is kept, saved, stopped and traded, as texts.

    `answer`: `kept`, `at_least`, `saved`, `saved_least` and `cut` of a setting. `proxy`: whether a success is a run or
    turn that ended by itself. Returns for each: `key`, `label`, `value`, `of` (its base), `below` (its bound), `wrong`
    (what is lost).
    """
    sure = f"({level(confidence)} confidence)"
    return [
        _kept(answer["kept"], answer["at_least"], sure, proxy=proxy),
        _saved(answer["saved"], answer["saved_least"], sure),
        _stopped(answer["cut"], of, noun, proxy=proxy),
        _traded(answer["saved"][0]["label"], trade),
    ]


Number = dict[str, str]


def _kept(kept: Mapping[str, int], least: float, sure: str, *, proxy: bool) -> Number:
    label = "Ended by themselves (proxy), kept" if proxy else "Successes kept"
    lower, upper, of = kept["lower"], kept["upper"], kept["of"]
    if not of:
        return {"key": "kept", "label": label, "value": "none", "of": "to keep", "below": "", "wrong": ""}
    shares = "\u2013".join(dict.fromkeys([rounded_down(lower / of), rounded_down(upper / of)]))
    return {
        "key": "kept",
        "label": label,
        "value": f"{lower:,}" if lower == upper else f"{lower:,}\u2013{upper:,}",
        "of": f"of {of:,}, {shares}",
        "below": "no limit is set" if least == 1 else f"at least {rounded_down(least)} {sure}",
        "wrong": "",
    }


def _saved(saved: Sequence[Mapping[str, Any]], least: float | None, sure: str) -> Number:
    first = saved[0]
    of = "not on record" if first["share"] is None else amounts(first["saved"], first["of"], first["measure"])
    others = [f"{percent(one['share'])} of the {one['label']}" for one in saved[1:] if one["share"] is not None]
    bound = f"at least {rounded_down(least)} {sure}" if least is not None and first["saved"] else ""
    return {
        "key": f"saved-{first['measure']}",
        "label": f"{first['label'].capitalize()} saved",
        "value": "?" if first["share"] is None else percent(first["share"]),
        "of": ", ".join([of, *others]),
        "below": bound,
        "wrong": "",
    }


def _stopped(cut: Mapping[str, int], of: int, noun: str, *, proxy: bool) -> Number:
    lost = cut["succeeded"]
    ended = count(lost, f"{noun} that had ended by itself", f"{noun}s that had ended by themselves") if proxy else ""
    successes = ended or count(lost, "success", "successes")
    failures = count(cut["failed"], *(("other", "others") if proxy else ("failure",))) if cut["failed"] else ""
    none = f"no {f'{noun} that had ended by itself' if proxy else 'success'} is stopped"
    return {
        "key": "cut",
        "label": f"{noun.capitalize()}s stopped",
        "value": f"{cut['n']:,}",
        "of": f"of {of:,}",
        "below": ", ".join(filter(None, [failures, "" if lost else none])),
        "wrong": successes if lost else "",
    }


def _traded(label: str, trade: Trade) -> Number:
    lost = trade.each is not None
    even = "at" if trade.is_even else "below" if trade.is_poor else "above"
    return {
        "key": "trade",
        "label": f"{label.capitalize()} saved per lost success",
        "value": str(trade.each).split(" ")[0] if lost else "\u2013",
        "of": f"{even} the even trade" if lost else "none is lost",
        "below": "" if trade.costs is None else f"a success costs {trade.costs} on record",
        "wrong": "",
    }
