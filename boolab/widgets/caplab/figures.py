"""The texts of CapLab: the answer of a setting, its four numbers, what each cap keeps and saves, and the notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boolab.core.text import count
from boolab.display.numbers import floor_percent, level, money, percent, short_number
from boolab.display.text import capitalize, joined
from boolab.harnesses.setting import Setting
from boolab.limits.table import LIMITS, MEASURES
from boolab.stats.recommend.units import success_of_units
from boolab.stats.trade import BETTER_OFF, Trade
from boolab.whatif.step_table import LABEL, Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class CapCurve:
    """By cap, off being the last, what is kept, saved and stopped."""

    caps: Sequence[int | None]  # the caps, ascending; None is no cap
    kept_lower: Sequence[int]  # how many successes are kept at least
    upper: Sequence[int]  # how many may be kept
    at_least: Sequence[float]  # the lower bound of the share of future successes that is kept
    saved: Sequence[float]  # what is saved, in the unit of `measure`
    totals: Sequence[float]  # what is on record
    stopped: Sequence[int]  # how many runs are stopped
    total: int  # how many successes there are
    measure: str  # what is saved, in the plural, or "cost"
    success: str = "successes"  # what a success is, in the plural
    noun: str = "run"  # what is stopped: "run" or "turn"

    @property
    def shares(self) -> list[float | None]:
        """By cap, the share that is saved; None where nothing is on record."""
        return [saved / total if total else None for saved, total in zip(self.saved, self.totals, strict=True)]


def title_of(
    curve: CapCurve, keep: float, advised: int | None = None, confidence: float = 0.95, *, is_alone: bool = True
) -> str:
    """What the curve shows: the cap that is to be set, if `advised`, else the tightest one that does on record.

    What is saved is that of the cap only where it `is_alone`; else other limits save some of it.
    """
    if not curve.total:
        return f"What each cap saves of the {curve.measure}"
    if not _keeps(curve.kept_lower[-1], curve.total, keep):
        return f"Under these other limits no cap keeps {level(keep)} of the {curve.success}"
    cap = find_tightest(curve, keep) if advised is None else advised
    if cap is None:
        return f"No cap that stops a {curve.noun} keeps {level(keep)} of the {curve.success}"
    share = curve.shares[[*curve.caps].index(cap)]
    kept_text = f"{level(keep)} of the {curve.success}"
    title = (
        f"On record the tightest cap that keeps {kept_text} is {cap:,}"
        if advised is None
        else f"With {level(confidence)} confidence a cap of {cap:,} keeps {kept_text}"
    )
    if share is None or not is_alone:
        return title
    return f"{title}: it saves {percent(share) if share else 'none'} of the {curve.measure}"


def note_of(curve: CapCurve, confidence: float, other_limits: str = "", *, turns: bool) -> str:
    """What is drawn, on which data, and which other limits are set."""
    of_turns = "steps in a turn" if curve.noun == "turn" else "steps in the longest turn of a run"
    steps = of_turns if turns else "steps"
    upper_text = "what may be kept" if [*curve.upper] != [*curve.kept_lower] else "what is kept"
    sentence = f"On record, by step cap ({steps}){f', with {other_limits}' if other_limits else ''}."
    band = f" Band: from the lower bound ({level(confidence)} confidence) to {upper_text}." if curve.total else ""
    return f"{sentence}{band}"


def find_tightest(curve: CapCurve, keep: float) -> int | None:
    """The tightest cap that keeps a share of the successes on record; None if none does."""
    rows = zip(curve.caps, curve.kept_lower, strict=True)
    return next((cap for cap, kept_count in rows if curve.total and _keeps(kept_count, curve.total, keep)), None)


def _keeps(kept_count: int, total: int, keep: float) -> bool:
    return kept_count / total >= keep - 1e-12


def tips_of(curve: CapCurve) -> list[list[list[str]]]:
    """By cap, the rows of what is shown beside the pointer: a name, an amount and a share each."""
    return [_tip(curve, n, share) for n, share in enumerate(curve.shares)]


def _tip(curve: CapCurve, n: int, share: float | None) -> list[list[str]]:
    rows = []
    if curve.total:
        lower, upper = curve.kept_lower[n], curve.upper[n]
        kept_range = f"{lower:,}" if lower == upper else f"{lower:,}\u2013{upper:,}"
        rows.append(["kept", f"{kept_range} of {curve.total:,}", floor_percent(lower / curve.total)])
        rows.append(["at least", "", floor_percent(curve.at_least[n])])
    if share is not None:
        amount_text = amounts(curve.saved[n], curve.totals[n], curve.measure)
        rows.append(
            ["saved", amount_text if curve.measure == "cost" else f"{amount_text} {curve.measure}", percent(share)]
        )
    rows.append(["stopped", count(curve.stopped[n], curve.noun), ""])
    trade = Trade(curve.saved[n], curve.total - curve.kept_lower[n], curve.totals[n], curve.total, curve.measure)
    if trade.each is not None and share is not None:
        rows.append(["saved per lost success", trade.each, ""])
    return rows


def amounts(saved: float, total: float, measure: str) -> str:
    """How much is saved, of how much."""
    if measure == "cost":
        return f"{money(saved)} of {money(total)}"
    if total < 1_000_000:  # noqa: PLR2004 - read at a glance up to here
        return f"{round(saved):,} of {round(total):,}"
    return f"{short_number(round(saved))} of {short_number(round(total))}"


def frontier_title(curve: CapCurve) -> str:
    """Whether a cap in the frontier saves a larger share than it loses of the successes, in a sentence."""
    comparison = f"a larger share of the {curve.measure} than it loses of the {curve.success}"
    rows = zip(curve.caps, curve.kept_lower, curve.shares, curve.stopped, strict=True)
    better = {
        cap: share is not None and share > 1 - kept_count / curve.total
        for cap, kept_count, share, stopped in rows
        if cap is not None and stopped
    }
    idle = len(better) < sum(cap is not None for cap in curve.caps)
    condition = f" that stops a {curve.noun}" if idle else ""
    good = [cap for cap, is_good in better.items() if is_good]
    if not better:
        return f"No cap stops a {curve.noun}"
    if not good:
        return f"No cap saves {comparison}"
    if len(good) == len(better):
        return f"Every cap{condition} saves {comparison}"
    highest = max(good)
    if highest < max(better):
        return f"No cap above {highest:,} saves {comparison}"
    lowest = min(cap for cap in good if all(better[other] for other in better if other >= cap))
    return f"A cap of {lowest:,} or more{condition} saves {comparison}"


def figures_of(
    answer: Mapping[str, Any], trade: Trade, total: int, confidence: float, *, proxy: bool, noun: str = "run"
) -> list[Number]:
    """What is kept, saved and stopped, and the trade; with `proxy`, a success is a run that ended by itself."""
    sure = f"({level(confidence)} confidence)"
    return [
        _kept_number(answer["kept"], answer["at_least"], sure, proxy=proxy) | _open(_kept_open(answer)),
        _saved_number(answer["saved"], answer["saved_interval"]),
        _stopped_number(answer, total, noun, proxy=proxy) | _open("" if proxy else _stopped_open(answer)),
        _trade_number(answer["saved"][0]["label"], trade),
    ]


Number = dict[str, str]


def _kept_number(kept_counts: Mapping[str, int], min_share: float, sure: str, *, proxy: bool) -> Number:
    label = "Ended by themselves (proxy), kept" if proxy else "Successes kept"
    lower, upper, total = kept_counts["lower"], kept_counts["upper"], kept_counts["of"]
    if not total:
        return {"key": "kept", "label": label, "value": "none", "of": "to keep", "below": "", "wrong": ""}
    shares = "\u2013".join(dict.fromkeys([floor_percent(lower / total), floor_percent(upper / total)]))
    return {
        "key": "kept",
        "label": label,
        "value": f"{lower:,}" if lower == upper else f"{lower:,}\u2013{upper:,}",
        "of": f"of {total:,}, {shares}",
        "below": "no limit is set" if min_share == 1 else f"at least {floor_percent(min_share)} {sure}",
        "wrong": "",
    }


def _open(text: str) -> Number:
    """What unknown outcomes leave open, where they leave something open."""
    return {"open": text} if text else {}


def _kept_open(answer: Mapping[str, Any]) -> str:
    is_open = answer["kept_shares"] and answer["cut"]["n"]
    return f"keeps {answer['kept_shares']}, whatever unknown ones are" if is_open else ""


def _stopped_open(answer: Mapping[str, Any]) -> str:
    n_unknown = (answer["families"] or answer["cut"])["unknown"]
    return f"{n_unknown:,} of unknown outcome" if n_unknown else ""


def _saved_number(saved: Sequence[Mapping[str, Any]], interval: Sequence[float] | None) -> Number:
    first = saved[0]
    base_text = "not on record" if first["share"] is None else amounts(first["saved"], first["of"], first["measure"])
    other_texts = [
        f"{percent(saved_measure['share'])} of the {saved_measure['label']}"
        for saved_measure in saved[1:]
        if saved_measure["share"] is not None
    ]
    ends = "" if interval is None or not first["saved"] else " to ".join(map(percent, interval))
    costs = [_costs_text(measure) for measure in saved if measure["measure"] == "cost" and measure["share"] is not None]
    return {
        "key": f"saved-{first['measure']}",
        "label": f"{first['label'].capitalize()} saved",
        "value": "?" if first["share"] is None else percent(first["share"]),
        "of": ", ".join([base_text, *other_texts]),
        "below": ", ".join([*costs, *([f"95% interval {ends}"] if ends else [])]),
        "wrong": "",
    }


def _costs_text(cost: Mapping[str, Any]) -> str:
    return f"costs {money(cost['of'] - cost['saved'])}{' where it is known' if cost['left_out'] else ''}"


def _stopped_number(answer: Mapping[str, Any], total: int, noun: str, *, proxy: bool) -> Number:
    of_rows, families = answer["cut"], answer["families"]
    stopped_counts = families or of_rows
    lost_count = stopped_counts["succeeded"]
    ended = (
        count(lost_count, f"{noun} that had ended by itself", f"{noun}s that had ended by themselves") if proxy else ""
    )
    successes = ended or count(lost_count, "success", "successes")
    failures = (
        count(stopped_counts["failed"], *(("other", "others") if proxy else ("failure",)))
        if stopped_counts["failed"]
        else ""
    )
    none_text = f"no {f'{noun} that had ended by itself' if proxy else 'success'} is stopped"
    return {
        "key": "cut",
        "label": f"Families with a stopped {noun}" if families else f"{noun.capitalize()}s stopped",
        "value": f"{stopped_counts['n']:,}",
        "of": f"of {families['of']:,}, {of_rows['n']:,} of {total:,} {noun}s" if families else f"of {total:,}",
        "below": ", ".join(filter(None, [failures, "" if lost_count else none_text])),
        "wrong": successes if lost_count else "",
    }


def _trade_number(label: str, trade: Trade) -> Number:
    has_losses = trade.each is not None
    even = "at" if trade.is_even else "below" if trade.is_poor else "above"
    return {
        "key": "trade",
        "label": f"{label.capitalize()} saved per lost success",
        "value": str(trade.each).split(" ")[0] if has_losses else "\u2013",
        "of": f"{even} the even trade" if has_losses else "none is lost",
        "below": "" if trade.costs is None else f"a success costs {trade.costs} on record",
        "wrong": "",
    }


def trade_in_numbers(kept: Mapping[str, int], saved: Mapping[str, Any], noun: str) -> Trade:
    """What a setting saves for the successes that it may lose."""
    unit = "cost" if saved["measure"] == "cost" else saved["label"]
    return Trade(saved["saved"], kept["of"] - kept["lower"], saved["of"], kept["of"], unit, noun)


def position_verdict(
    setting: Setting,
    kept: Mapping[str, int],
    saved: Mapping[str, Any],
    success: str,
    noun: str,
    *,
    keep: float = 0.0,
    at_least: float = 1.0,
    is_set: bool = True,
) -> list[str]:
    """What a setting keeps and saves on record; then the one thing to know: a broken promise, or a poor trade.

    A trade is called good only where limits are to be set: `is_set`.
    """
    limits = [LIMITS[name].with_value(value) for name, value in setting.limits.items() if value is not None]
    if not limits:
        return ["No limit is set: nothing is stopped, and nothing is saved."]
    s = "" if len(limits) > 1 else "s"
    lower, upper, total = kept["lower"], kept["upper"], kept["of"]
    what = []
    if total:
        most = "" if lower == upper else f" ({upper:,} at most)"
        too_few = lower / total < keep - 1e-12
        less = f", less than the {level(keep)} to keep," if too_few else ""
        what.append(f"keep{s} {lower:,} of {total:,} {success}{most}{less}")
    known = saved["share"] is not None
    if known:
        what.append(f"save{s} {percent(saved['share'])} of the {saved['label']}")
    if not what:
        return ["Nothing is on record to keep or to save."]
    first = capitalize(f"{joined(limits)} {' and '.join(what)}.")
    if total and lower / total < keep - 1e-12:
        return [first]
    if total and at_least < keep:
        shown = f"{'It is' if s else 'They are'} shown to keep at least {floor_percent(at_least)} of future ones"
        return [first, f"{shown}, less than the {level(keep)} to keep."]
    trade = trade_in_numbers(kept, saved, noun)
    if not known or not trade.sentence:
        return [first]
    finding = trade.sentence.partition(":")[0].rstrip(".")  # its numbers are among the four below
    if trade.is_poor:
        return [first, f"{finding}: {BETTER_OFF}."]
    if is_set or not trade.lost:
        return [first, f"{finding}."]
    return [first]


def notes_of(
    ledger: Ledger, sums: Mapping[str, int], measure: str, objective: str, *, n_runs: int, noun: str, turns: bool
) -> Iterable[str]:
    """What is to be known of the runs and of what is saved, a sentence each."""
    n = ledger.n_runs
    tasks = ledger.runs["task"].replace("", None).nunique()
    of_turns = f" with {count(n, 'turn')}" if noun == "turn" else ""
    yield f"{count(n_runs, 'run')}{of_turns}, {count(int(tasks), 'task') if tasks else 'tasks not named'}."
    if not n:
        return
    if ledger.success_by != LABEL:
        yield (
            f"No run has a label. A proxy stands in for success: the {noun} ended by itself. The proxy does not show "
            "whether the work was good."
        )
    elif unlabelled := int((success_of_units(ledger) < 0).sum()):
        yield (
            f"{count(unlabelled, 'run')} without a label: counted in what is saved, not in what is kept. In the lower "
            "bound, each that a limit stops is a lost success."
        )
    if cut := int((~ledger.terminated).sum()):
        won = count(int(((success_of_units(ledger) == 1) & ~ledger.terminated).sum()), "success", "successes")
        broken = ", with an error, or by an interruption" if noun == "turn" else ", or with an error"
        yield (
            f"{count(cut, noun)} ended at a limit of the recording{broken} ({won} "
            f"among them), and {'has its' if cut == 1 else 'have their'} recorded outcome: a looser limit changes "
            "nothing here."
        )
    if measure != objective:
        known = int((ledger.used[objective] >= 0).sum())
        few = (
            f"Only {known:,} of {count(ledger.n_steps, 'step')} have a known" if known else "The source does not record"
        )
        yield f"{few} {MEASURES[objective].label}: what is saved is counted in {MEASURES[measure].label}."
    elif left := sums.get(f"n_unknown_{measure}", 0):
        yield f"{count(left, noun)} of unknown {MEASURES[measure].label} left out of what is saved."
    if turns:
        yield (
            "Each turn is limited by itself, and later turns stand as recorded: what is saved of tokens and cost "
            "is an estimate where a turn is stopped that others follow."
        )


def skipped_values(options: Mapping[str, Sequence[int | None]], whole: Mapping[str, bool]) -> Iterable[str]:
    """Which sliders have not all whole numbers, and how many they have."""
    some = [
        f"{len(values) - 1:,} up to {values[-2]:,} ({LIMITS[name].label})"
        for name, values in options.items()
        if not whole[name]
    ]
    if some:
        yield f"The sliders skip values of a long range: {', '.join(some)}."
