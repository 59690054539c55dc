"""Two settings against a measure, each cell with its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
import traitlets

from boolab.core.types import Identities, Scope
from boolab.errors import SettingError
from boolab.frames.runs import Runs, as_runs
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import identity_under
from boolab.limits.table import LIMITS
from boolab.plots._grid import Point
from boolab.plots._grid_cells import square_of
from boolab.plots.heatmap import plot_heatmap
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets._base.widget import png_of
from boolab.widgets.heatmap.data import heatmap_data, heatmap_text
from boolab.widgets.heatmap.layers import metrics_in
from boolab.widgets.heatmap.sources import SHARE, Origin, source_of, source_of_sweep
from boolab.widgets.replay.widget import OpeningView, OpensRuns, replay_parts

_USUAL: Final = ("max_steps", "tool_budget")


class _Cells(OpeningView, module="heatmap"):
    """The grid and the list of the chosen cell's runs."""

    selected = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    metric = traitlets.Unicode("").tag(sync=True)

    def __init__(self, data: Mapping[str, Any], title: str, text: str) -> None:
        self._words = title, text
        super().__init__(data)

    def _title(self) -> str:
        return self._words[0]

    def _text(self) -> str:
        return self._words[1]


class Heatmap(OpensRuns):
    """Two settings against a measure: each cell has its number, what that is of, and its runs.

    A click, or the arrow keys and Enter, choose a cell. Its runs are listed, successes that the setting loses
    first. A run opens in `Replay` below, at the step after which that setting stops it.

    Args:
        table: What `counterfactual` returns, with `aggregate=True` or a row for each run; or the runs of a sweep of two
            settings or more.
        runs: The runs that the table was made of. Without them the runs of an aggregate cannot be listed, and those of
            a table not opened.
        x: The axis to the right: `max_steps`, `tool_budget`, `doom_loop` and so on. By default cap and
            budget, or else the first two that vary.
        y: The axis upwards.
        value: A column, as for `plot_heatmap`; of a sweep `success_share`, `mean_steps`, `mean_tokens`,
            `mean_cost_usd`, or `n_step_cap` and the like. By default what is kept on record, of a sweep the share of
            runs that succeed.
        keep: The share of successes, kept on record, around which a line is drawn; None for no line. A sweep has
            no such line: there is no recording to compare with.
        at: Values of the other axes, as for `plot_heatmap`.
        recommended: Values by axis to mark, or what `recommend` returns. Where no limit is to be set,
            none is marked, and the title is its answer. Without it no setting is marked.
        scope: The scope that an aggregate was made with: see `counterfactual`.
        policy: The policy that an aggregate was made with.
        identity: The identity that an aggregate was made with.
        exempt: The exempt tools that an aggregate was made with.

    Attributes:
        selected: The chosen cell by axis, such as `{"max_steps": 10, "tool_budget": None}`; None for none.
        metric: The column that the cells show, or "frontier": what is kept, in colour where no other setting is better.
        opened: `{"run": run_id, "step": n}`, what is open below; None for nothing.

    Raises:
        SettingError: as `plot_heatmap` does; or if the runs do not give the numbers of the table.

    Example:
        >>> import boolab as bl
        >>> script = [{"tool_calls": [{"name": "grep"}], "repeat": 4}, "Done."]
        >>> run = bl.run_sync(None, "Look", model=bl.ScriptedModel(script), policy="naive")
        >>> table = bl.counterfactual(run, grid={"max_steps": [2, 9], "tool_budget": [3, None]}, aggregate=True)
        >>> heatmap = bl.Heatmap(table, run)
        >>> heatmap.selected = {"max_steps": 2, "tool_budget": None}
        >>> heatmap.opened = {"run": run.run_id, "step": 2}
        >>> heatmap.replay.step
        2
    """

    selected = traitlets.Dict(allow_none=True, default_value=None)
    metric = traitlets.Unicode("")

    def __init__(
        self,
        table: pd.DataFrame | Runs,
        runs: Runs | None = None,
        *,
        x: str | None = None,
        y: str | None = None,
        value: str | None = None,
        keep: float | None = 0.95,
        at: Mapping[str, Any] | None = None,
        recommended: Point | None = None,
        scope: Scope = "auto",
        policy: str | Policy | None = None,
        identity: Identities | None = None,
        exempt: Sequence[str] = (),
    ) -> None:
        identity = identity_under(policy, identity, exempt)
        if isinstance(table, pd.DataFrame):
            listed = None if runs is None else as_runs(runs)
            source = source_of(table, listed, Origin(scope, policy, identity))
            value = value or "kept_lower"
        else:
            listed = as_runs(table)
            source = source_of_sweep(listed)
            value, keep = value or SHARE, None
        x, y = _axes(source.tally, x, y)
        self._drawn: dict[str, Any] = {
            "x": x, "y": y, "value": value, "keep": keep, "at": at, "recommended": recommended,
        }  # fmt: skip
        self._tally = source.tally
        self._kept_parts: dict[str, PagePart] | None = None
        squares = [square_of(source.tally, **self._drawn | {"value": name}) for name in metrics_in(source.tally, value)]
        square = squares[0]
        by_id = {run.run_id: run for run in listed or ()}
        rows = None if source.rows is None or square.empty else source.rows(square, x, y)
        self._data_shown = heatmap_data(squares, x, y, rows, by_id if listed is not None else None)
        ids = {run["id"] for run in self._data_shown["runs"]}
        if ids and listed is not None and not ids & set(by_id):
            raise SettingError(f"runs: none of the {len(listed):,} is in the table, whose first is {min(ids)!r}")
        self._places = {
            (_plain(data_x), _plain(data_y)): None for data_x in square.across for data_y in square.up_values
        }
        cells = _Cells(self._data_shown, self._data_shown["title"], heatmap_text(self._data_shown))
        cells.metric = value
        super().__init__(cells, by_id, ("opened", "selected", "metric"))

    @traitlets.validate("selected")
    def _in_the_grid(self, proposal: dict[str, Any]) -> dict[str, Any] | None:
        value: dict[str, Any] | None = proposal["value"]
        x, y = self._drawn["x"], self._drawn["y"]
        if value is not None and (set(value) != {x, y} or (value[x], value[y]) not in self._places):
            sides = {name: self._data_shown[side]["values"] for side, name in (("x", x), ("y", y))}
            raise SettingError(f"selected={value!r}: expected one value of each of {sides}")
        return value

    @traitlets.validate("metric")
    def _is_shown(self, proposal: dict[str, Any]) -> str:
        known = [layer["value"] for layer in self._data_shown["layers"]]
        if known and proposal["value"] not in known:
            raise SettingError(f"metric={proposal['value']!r}: expected one of {', '.join(known)}")
        return str(proposal["value"])

    def _title(self) -> str:
        return str(self._data_shown["title"])

    def _text(self) -> str:
        return heatmap_text(self._data_shown)

    def _picture(self) -> bytes:
        return png_of(
            lambda figure: plot_heatmap(self._tally, ax=figure.subplots(), **self._drawn), (7.2, 4.6), dpi=110
        )

    def _runs(self) -> dict[str, PagePart]:
        """Of the runs that are listed, those that most cells lose, then those that most cells stop."""
        if self._kept_parts is None:
            self._kept_parts = replay_parts(self._by_id[run_id] for run_id in self._wanted() if run_id in self._by_id)
        return self._kept_parts

    def _wanted(self) -> list[str]:
        wanted: dict[int, tuple[int, int]] = {}
        whys = self._data_shown["whys"]
        for row in self._data_shown["rows"]:
            for cell in row:
                for place, why in zip(cell["listed"]["run"], cell["listed"]["why"], strict=True):
                    cut, stopped = wanted.get(place, (0, 0))
                    wanted[place] = (cut - whys[why]["cut"], stopped - whys[why]["stopped"])
        return [self._data_shown["runs"][place]["id"] for place in sorted(wanted, key=lambda place: wanted[place])]


def _plain(value: float | None) -> float | None:
    return None if value is None else int(value) if value == int(value) else float(value)


def _axes(tally: pd.DataFrame, x: str | None, y: str | None) -> tuple[str, str]:
    """The two axes that are drawn: those that were given, then cap and budget, then whatever varies."""
    chosen = [x, y]
    known = [name for name in LIMITS if name in tally]
    free = [name for name in known if name not in chosen and len(tally[name].unique()) > 1]
    free.sort(key=lambda name: name not in _USUAL)
    for place, name in enumerate(chosen):
        if name is None:
            if not free:
                msg = f"the table varies {len(known)} axes of {', '.join(LIMITS)}: expected two; plot_caps draws one"
                raise SettingError(msg)
            chosen[place] = free.pop(0)
    return str(chosen[0]), str(chosen[1])
