"""The result of a trial in CapLab: its first sentence, its evidence, and what the figure draws of a looser step cap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from boolab.core.run import Run
from boolab.core.text import count
from boolab.display.numbers import percent
from boolab.errors import SettingError
from boolab.harnesses.setting import ALL_AGENTS
from boolab.trials.result import TrialEstimate, TrialResult
from boolab.trials.trial import Trial
from boolab.widgets.caplab.controls import is_log
from boolab.widgets.caplab.question import RunGroup
from boolab.widgets.caplab.table import CapTable

FAR: Final = 4
"""How many times as many steps as the longest run a cap may be on a linear axis."""
PROXY: Final = "runs that end by themselves"
"""What a trial counts where no run has a label."""


class TrialEvidence:
    """The result of a trial of the runs of a lab.

    `trial`: a plan, whose result so far is taken, or a result.
    """

    def __init__(self, trial: object, runs: Sequence[Run], groups: Sequence[RunGroup]) -> None:
        if not isinstance(trial, Trial | TrialResult):
            raise SettingError(f"trial={type(trial).__name__}: expected the plan that bl.trial returns, or its result")
        self.result: TrialResult = trial.result if isinstance(trial, Trial) else trial
        tried_ids = set(self.result.runs["run_id"])
        roots = {index: run.run_id for index, run in enumerate(runs) if run.parent_run_id is None}
        group_names = [
            group.name for group in groups if {roots[index] for index in group.runs if index in roots} == tried_ids
        ]
        if not group_names and tried_ids != set(roots.values()):
            strange = len(tried_ids - set(roots.values()))
            reason = f"it has {len(tried_ids):,} of the {count(len(roots), 'run')} of this lab"
            if strange:
                reason = f"{count(strange, 'run')} of it {'is' if strange == 1 else 'are'} not in this lab"
            raise SettingError(
                f"trial: it is a trial of other runs: {reason}; expected a trial of the runs of CapLab, or of one agent"
            )
        self.groups = [*group_names, ALL_AGENTS] if group_names and len(groups) == 1 else group_names
        """The agents of settings whose runs are those of the trial; empty if it is of several with subagents."""
        self._rows = self.result.table
        self._sentence = self.result.sentences[0]

    def is_of(self, agent: str) -> bool:
        """Whether it is shown with the runs of a group."""
        return not self.groups or agent in self.groups

    def cap_beyond(self, table: CapTable) -> int | None:
        """The step cap that is tried, if it is beyond all runs of a table, and counts the same successes."""
        result, cap = self.result, self.result.settings.get("max_steps")
        if list(result.settings) != ["max_steps"] or cap is None or int(cap) <= table.longest_run:
            return None
        same_successes = result.successes == table.successes and (result.success == PROXY) == table.base["proxy"]
        return int(cap) if self.groups and same_successes and result.successes and result.n_open else None

    def base(self, table: CapTable) -> dict[str, Any]:
        """What the figure shows whatever the limits are, on an axis that reaches to the cap that is tried."""
        cap = self.cap_beyond(table)
        if cap is None:
            return table.base
        caps = [value for value in table.options["max_steps"] if value is not None]
        far = cap > FAR * table.longest_run and is_log([*caps, cap])
        return {
            **table.base,
            "end": cap,
            "known_to": table.longest_run,
            "longer": 0,
            "log": table.base["log"] or far,
        }

    def page_data(self, table: CapTable) -> dict[str, Any]:
        """The sentence, the evidence, and, for a cap beyond the record, the marks of the figure, as plain data."""
        columns, rows = self._rows
        cap = self.cap_beyond(table)
        mark = None if cap is None else self._mark(cap)
        return {"sentence": self._sentence, "columns": columns, "rows": rows, "mark": mark}

    def _mark(self, cap: int) -> dict[str, Any]:
        result = self.result
        by_kind = {str(row["evidence"]): row for row in result.evidence.to_dict("records")}
        estimates = {name: None if pd.isna(row["low"]) else self._shares(row) for name, row in by_kind.items()}
        return {
            "cap": cap,
            "label": f"trial: {result.n_branches:,} of {count(result.n_open, 'branch', 'branches')}",
            "tips": self._tips(),
            "note": self._note(),
            **estimates,
        }

    def _note(self) -> str:
        """What the marks are."""
        result = self.result
        kinds = [
            f"Dot and bar: the branches, at {100 * result.confidence:.4g}% confidence." if result.n_branches else "",
            "Gray bar: bounds by the record alone.",
            "Diamond: hazards, if longer runs are alike." if result.hazards.gain is not None else "",
        ]
        shares = f"Shares are of the {result.counted(result.successes, result.successes)} on record."
        return " ".join(filter(None, [*kinds, "Beyond the dotted line nothing is on record.", shares]))

    def _shares(self, row: dict[Any, Any]) -> dict[str, float | None]:
        """An estimate of the gain as the number of successes that is kept, divided by that on record."""
        successes = self.result.successes
        value = row["gain"]
        has_value = not pd.isna(value)
        return {
            "value": round((successes + float(value)) / successes, 4) if has_value else None,
            "low": round((successes + float(row["low"])) / successes, 4),
            "high": round((successes + float(row["high"])) / successes, 4),
        }

    def _tips(self) -> list[list[str]]:
        """What is shown beside the pointer: a name and an amount each."""
        result = self.result
        texts = {row[0]: row[1:4] for row in self._rows[1]}
        tips = []
        if result.n_branches:
            gain, low, high = texts["branches"]
            tips.append(["gain", f"{gain} {result.success}"])
            tips.append([f"{100 * result.confidence:.4g}% interval", _span(low, high)])
            if result.gain.value is not None:
                share = (result.successes + result.gain.value) / result.successes
                tips.append(["of those on record", percent(share)])
            tips.append(["an additional success costs", result.price or "not known"])
            if result.extra_steps is not None:
                tips.append(["more steps", _steps(result.extra_steps)])
        tips.append(["bounds, by the record alone", _span(*texts["bounds"][1:])])
        gain, low, high = texts["hazards"]
        if gain != "-":
            tips.append(["hazards of longer runs", f"{gain} ({_span(low, high)})"])
        return tips


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _steps(added: TrialEstimate) -> str:
    ends = f"{added.low:+,.0f} to {added.high:+,.0f}"
    return ends if added.value is None else f"{added.value:+,.0f} ({ends})"
