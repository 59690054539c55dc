"""What runs show where no limit is shown yet to keep enough: lengths, repeats, failing calls, cost, runs to open."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from boolab.core.text import count, shorten
from boolab.display.numbers import level, money
from boolab.display.text import align_columns, wrap_text
from boolab.frames.dtypes import is_missing
from boolab.limits.table import LIMITS
from boolab.plots import style
from boolab.plots.palette import KEPT
from boolab.report.study import Study
from boolab.stats.recommend.decide import GroupDecision
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.grid import settings_of

_REPEATS: Final = 3
"""So many equal calls in a row are counted as repeats."""
_TO_LABEL: Final = 5
_MARK: Final = {True: "✓", False: "✕", None: "·"}
_LEAST_KEEP: Final = 0.5


@dataclass(frozen=True)
class RecordOverview:
    """What the runs of the groups without enough data show."""

    study: Study
    groups: Sequence[GroupDecision]
    units: Sequence[int]
    label_command: str = ""
    """The command that asks for labels; "" if there is none for these logs."""

    @property
    def title(self) -> str:
        """What it is about."""
        if len(self.groups) == len(self.study.found.groups):
            return "What these runs do show"
        names = [name for name, group in self.study.decisions.items() if group in self.groups]
        if len(names) == 1:
            return f"What the runs of {shorten(names[0])} do show"
        return f"What the runs of the other {count(len(names), self.study.group_noun)} do show"

    @cached_property
    def _frame(self) -> pd.DataFrame:
        frame = self.study.units_frame().iloc[list(self.units)].reset_index(drop=True)
        amounts = ["cost_usd", "input_tokens", "output_tokens"]
        return frame.assign(**{name: frame[name].mask(frame["n_steps"] == 0) for name in amounts})

    @property
    def _noun(self) -> str:
        return self.groups[0].noun

    @cached_property
    def _repeats(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Of each unit, how often the same call comes in a row at most; -1 where that is not on record."""
        rule = settings_of({"doom_loop": [2]}, identity=self.study.question.call_identity).axes[0].rules[0]
        assert rule.detector is not None  # noqa: S101 - repeats are what a detector counts
        runs = [self.study.units[unit].run for unit in self.units]
        peaks = ledger_of(runs, [rule.detector], self.study.question.scope).peak(rule.counter)
        return np.where(peaks == np.iinfo(np.int64).max, -1, peaks)

    def sentences(self) -> Iterator[str]:
        """The lengths, the repeats, the failing calls and the cost, and what may be promised today."""
        yield self._lengths()
        yield from self._calls()
        yield from self._amounts()
        if len(self.groups) < len(self.study.found.groups) or len(self.groups) > 1:
            return
        group = self.groups[0]
        keep = math.floor(100 * group.choice.keep_possible) / 100
        if group.reason == "too_few" and _LEAST_KEEP <= keep < group.question.keep:
            yield (
                f"To keep {keep:.0%} (--keep {keep:.2g}) in place of {level(group.question.keep)}, these runs are "
                "enough for an answer."
            )

    def _lengths(self) -> str:
        steps = self._frame["n_steps"].to_numpy(np.float64)
        who = count(len(steps), self._noun)
        if not len(steps):
            return f"Lengths: {who}."
        middle, most = np.quantile(steps, [0.5, 0.9], method="inverted_cdf").astype(int)
        return (
            f"Lengths of {who}: half end within {count(int(middle), 'step')}, 90% within {most:,}, the longest takes "
            f"{int(steps.max()):,}."
        )

    def _calls(self) -> Iterator[str]:
        known = self._repeats[self._repeats >= 0]
        if len(known):
            often = int((known >= _REPEATS).sum())
            verb = "makes" if often == 1 else "make"
            yield (
                f"Repeats: {often:,} of {count(len(known), self._noun)} {verb} the same call {_REPEATS} times in a row "
                f"or more; the most is {int(known.max()):,}."
            )
        else:
            yield "Repeats: not known, because the arguments of calls are not on record."
        calls = int(self._frame["n_tool_calls"].sum())
        unknown = int(self._frame["n_results_unknown"].sum())
        failed = int(self._frame["n_errors_at_least"].sum())
        if calls > unknown:
            note = f"; of {unknown:,} more it is not known" if unknown else ""
            yield f"Failing calls: {failed:,} of {count(calls - unknown, 'tool call')}{note}."

    def _amounts(self) -> Iterator[str]:
        cost = self._frame["cost_usd"].dropna().to_numpy(np.float64)
        if len(cost):
            whose = "" if len(cost) == len(self._frame) else f" of the {count(len(cost), self._noun)} that report it"
            middle = money(float(np.median(cost)))
            yield f"Cost{whose}: {money(cost.sum())} together, {middle} in the middle, {money(cost.max())} at most."
            return
        tokens = (self._frame["input_tokens"] + self._frame["output_tokens"]).dropna().to_numpy(np.float64)
        if len(tokens):
            middle = f"{np.median(tokens):,.0f}"
            yield f"Tokens: {tokens.sum():,.0f} together, {middle} in the middle, {tokens.max():,.0f} at most."

    @cached_property
    def to_open(self) -> list[tuple[int, str]]:
        """The units to look at first, and why: the longest, the one that repeats most, and the dearest."""
        found: dict[int, list[str]] = {}
        steps = self._frame["n_steps"].to_numpy(np.float64)
        cost = self._frame["cost_usd"].to_numpy(np.float64, na_value=-1)
        for values, why, least in (
            (steps, "the longest", 1),
            (self._repeats, f"{int(self._repeats.max(initial=0)):,} equal calls in a row", _REPEATS),
            (cost, "the dearest", 1e-9),
        ):
            if len(values) and values.max() >= least:
                found.setdefault(self.units[int(np.argmax(values))], []).append(why)
        return [(unit, ", ".join(why)) for unit, why in found.items()]

    @cached_property
    def to_label(self) -> tuple[str, list[int]]:
        """The units to label next: without a label, and stopped by the values that come first; and what these are."""
        open_units = [unit for unit in self.units if self._is_open(unit)]
        for axis, frame in self.study.margins.items():
            values = [value for value in frame[axis].unique() if not is_missing(value)]
            tight = self._tightest(axis)
            if tight not in values:
                continue
            stopped = [cut.unit for cut in self.study.cuts(axis, [tight])[tight]]
            wanted = sorted(set(stopped) & set(open_units), key=lambda unit: -self.study.units[unit].run.n_steps)
            if wanted:
                return LIMITS[axis].with_value(tight), wanted
        return "", sorted(open_units, key=lambda unit: -self.study.units[unit].run.n_steps)

    def _is_open(self, unit: int) -> bool:
        """Whether a unit has no label, and is no subagent's, whose success is that of its family."""
        of = self.study.units[unit].of
        return self.study.runs[of].success is None and self.study.is_root[of]

    def _tightest(self, axis: str) -> Any:  # noqa: ANN401 - a value of an axis
        keys = {key for key, group in self.study.decisions.items() if group in self.groups}
        for key, part in self.study.groups(axis):
            if key in keys:
                return next(
                    (row.value for row in self.study.limit_rows(axis, key, part) if row.mark == "tightest"), None
                )
        return None

    def label_sentence(self) -> str:
        """What to label next, and how; "" if all is labelled."""
        limit, units = self.to_label
        runs = list(dict.fromkeys(self.study.runs[self.study.units[unit].of].run_id for unit in units))
        if not runs:
            return ""
        why = f"{limit} would stop them" if limit else "the longest come first, because a limit stops them first"
        sentence = f"Label next ({why}): {', '.join(shorten(run) for run in runs[:_TO_LABEL])}."
        if self.label_command:
            return f"{sentence} The command below asks about few of them, and of the others, in a terminal."
        return (
            f"{sentence} boolab label asks about the logs of one agent at a time. A file labels.csv with the columns "
            "run_id and success (1 or 0) is enough too: --labels labels.csv."
        )

    def run_cells(self, unit: int) -> tuple[str, str, str]:
        """The outcome of a unit as a mark, its run, and its length."""
        run = self.study.units[unit].run
        success = self.study.units[unit].run.success
        return _MARK[success], shorten(run.run_id), count(run.n_steps, "step")

    def draw(self, ax: Axes | None) -> Axes:
        """Draw each unit as a dot, by its length and its outcome."""
        ax = style.axes_for(ax)
        steps = self._frame["n_steps"].to_numpy(np.int64)
        outcomes = [self.study.units[unit].run.success for unit in self.units]
        names = {True: "success", False: "failure", None: "no label"}
        shown = [outcome for outcome in names if outcome in outcomes]
        colours = {True: style.tint(ax, KEPT), False: style.fade(ax, 0.55), None: style.fade(ax, 0.35)}
        most = 1
        for row, outcome in enumerate(shown):
            mine = np.sort(steps[[one is outcome for one in outcomes]])
            height = np.arange(len(mine)) - np.searchsorted(mine, mine)
            most = max(most, int(height.max(initial=0)) + 1)
            ax.plot(mine, -row + 0.8 * height / max(most, 8), "o", markersize=4, color=colours[outcome], linestyle="")
        ax.set_yticks([-row for row in range(len(shown))], [names[outcome] for outcome in shown])
        ax.set(ylim=(-len(shown) + 0.7, 1), xlim=(0, steps.max(initial=1) * 1.05))
        title = f"How long the {self._noun}s are, by outcome"
        return style.finish(ax, title=title, xlabel="steps", ylabel="", grid=ax.xaxis, key=[], notes=[])

    def lines(self) -> Iterator[str]:
        """The overview for a terminal."""
        yield from map(wrap_text, self.sentences())
        rows = [[*self.run_cells(unit), why] for unit, why in self.to_open]
        if rows:
            yield "\nOpen these first (✓ success, ✕ failure, · no label):"
            yield from (f"  {line}" for line in align_columns(rows, left=(0, 1, 3)))
        if sentence := self.label_sentence():
            yield f"\n{wrap_text(sentence)}"
            if self.label_command:
                yield f"\n  {self.label_command}"


def overview_of(study: Study, label_command: str = "") -> RecordOverview | None:
    """The overview of the groups with too few data; None if there is none."""
    groups = [group for group in study.found.groups if group.action == "not_yet" and group.units.n_runs]
    keys = {key for key, group in study.decisions.items() if group in groups}
    units = [unit for unit, key in enumerate(study.unit_keys) if not study.keys or key in keys]
    return RecordOverview(study, groups, units, label_command) if groups and units else None
