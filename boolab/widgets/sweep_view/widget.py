"""A sweep under way, or what a store holds of one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import traitlets

from boolab.core.run import Run
from boolab.core.text import count
from boolab.errors import SettingError
from boolab.sweeps.progress import Begun, CellResult, result_of
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets._base.widget import png_of
from boolab.widgets.replay.widget import MAX_RUNS, OpeningView, OpensRuns, replay_parts
from boolab.widgets.sweep_view.data import State, SweepCounts, first_runs, settings_of

_EVERY_S: Final = 0.25
_SHARE: Final = 0.02
"""Of the sweep's time that drawing may take."""
_BARS: Final = 24


class _SweepTable(OpeningView, module="sweep_view"):
    """What is drawn."""

    refreshed = traitlets.Int(0).tag(sync=True)


class SweepView(OpensRuns):
    """A sweep under way: how far it is, how runs end, a table by setting that fills, and what failed.

    Given to `sweep(..., progress=view)`, it is drawn while the sweep runs, at most four times a second, and keeps the
    end. Given a store, it shows what is in the store, and again at each refresh. A click on a setting lists its runs; a
    click on a run opens it in `Replay` below. The runs of a sweep without a store stay in memory as long as its view.

    Args:
        store: A store to read, also while another process writes a sweep there; None for a view that `sweep` gets.
        sweep: The number of one of its sweeps; the latest by default.

    Attributes:
        opened: `{"run": run_id, "step": n}`, what is open in `Replay` below; None for nothing.

    Raises:
        StoreError: if there is no such store, or it cannot be read.
        SettingError: if the store has no such sweep.

    Example:
        >>> import boolab as bl
        >>> view = bl.SweepView()
        >>> stuck = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}])
        >>> runs = asyncio.run(bl.sweep(bl.Agent("a"), "go", stuck, grid={"doom_loop": [2, 5]}, progress=view))
        >>> view
        SweepView(sweep: 2 of 2 runs, done)
        >>> view.opened = {"run": runs[0].run_id, "step": 2}
        >>> view.replay
        Replay(a, doom_loop, 2 steps)
    """

    refreshed = traitlets.Int(0)
    """How often a refresh was requested in the browser."""

    def __init__(self, store: str | Path | None = None, *, sweep: int | None = None) -> None:
        self._store = store
        self._sweep = sweep
        self._board = SweepCounts(None, {})
        self._state: State = "waiting"
        self._timer: asyncio.TimerHandle | None = None
        self._drew_s = 0.0
        self._outputs: list[list[Any]] = []
        self._find: Callable[[str], Sequence[Run]] = lambda _run_id: ()
        self._in_page: dict[str, PagePart] | None = None
        if store is not None:
            self._board, self._state = _board_of(store, sweep), "snapshot"
            self._find = _reader_of(store)
        self._data_shown = self._snapshot()
        super().__init__(_SweepTable(self._data_shown), {}, ("opened", "refreshed"))
        self.observe(lambda _change: self.refresh(), "refreshed")

    @property
    def data(self) -> Mapping[str, Any]:
        """What is shown, as plain data: `state`, `done`, `total`, `rows`, `reasons`, `failures`, ..."""
        return self._data_shown

    def refresh(self) -> None:
        """Read the store again. A view of a sweep under way follows it, and needs no refresh."""
        if self._store is not None:
            self._board = _board_of(self._store, self._sweep)
            self._draw()

    # --- What a sweep calls ------------------------------------------------------------------------------------------

    def begin(self, begun: Begun) -> None:
        """A sweep begins.

        Args:
            begun: The sweep.

        Raises:
            SettingError: if this is the view of a store, or of another sweep under way.
        """
        if self._state in ("snapshot", "running"):
            raise SettingError(f"progress={self!r} shows something else: expected a new SweepView()")
        self.set_trait("opened", None)
        self._find = begun.find
        self._board = SweepCounts(begun.total, begun.about, "" if begun.store is None else str(begun.store))
        for result in begun.earlier:
            self._board.add(result)
        self._board.begin(time.monotonic())
        self._state = "running"
        self._draw()

    def add(self, result: CellResult) -> None:
        """A cell is done: it is counted now, and drawn soon.

        Args:
            result: The result of the cell.
        """
        self._board.add(result)
        if self._timer is None:
            # One timer for all cells until then. A table that takes long to draw is drawn less often.
            pause = max(_EVERY_S, self._drew_s / _SHARE)
            self._timer = asyncio.get_running_loop().call_later(pause, self._draw)

    def end(self, error: BaseException | None) -> None:
        """The sweep is over.

        Args:
            error: What ended it early.
        """
        stopped = isinstance(error, KeyboardInterrupt | asyncio.CancelledError | GeneratorExit)
        self._state = "done" if error is None else "interrupted" if stopped else "failed"
        self._draw(None if stopped else error)
        bundles = list(self._bundles()) if self._outputs else []
        for outputs in self._outputs:
            for output, bundle in zip(outputs, bundles, strict=True):
                output.update(bundle, raw=True)

    # --- How it is shown ----------------------------------------------------------------------------------------------

    def _ipython_display_(self, **_: object) -> None:
        """Display it such that `end` can replace the output that a notebook keeps, which would show no progress."""
        from IPython.display import display

        outputs = [
            display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call] # IPython has no types
            for bundle in self._bundles()
        ]
        if None not in outputs:  # None where there is no IPython
            self._outputs.append(outputs)

    def _snapshot(self, error: BaseException | None = None) -> dict[str, Any]:
        data = self._board.snapshot(self._state, time.monotonic(), error)
        return data | {"refresh": self._store is not None, "opens": None}

    def _draw(self, error: BaseException | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        began = time.perf_counter()
        self._data_shown, self._in_page = self._snapshot(error), None
        self._view.show(self._data_shown)
        self._drew_s = time.perf_counter() - began

    def _title(self) -> str:
        data = self.data
        done_text = count(data["done"], "run")
        done_text = done_text if data["total"] is None else f"{data['done']:,} of {count(data['total'], 'run')}"
        store_text = f" in {Path(data['store']).name}" if data["store"] else ""
        return f"sweep: {done_text}{store_text}, {data['state']}"

    def _text(self) -> str:
        data = self.data
        lines = [", ".join(f"{reason['n']:,} {reason['reason']}" for reason in data["reasons"])]
        for name, row in settings_of(data):
            share = (
                f", {row['successes']:,} of {count(row['labelled'], 'success', 'successes')}" if row["labelled"] else ""
            )
            lines.append(f"{name}: {count(row['runs'], 'run')}{share}, {row['steps']:.1f} steps on average")
        lines += [f"{reason['runs']:,} failed: {reason['error']}" for reason in data["failures"]]
        return "\n".join(filter(None, [*lines, *data["notes"]]))

    def _parts(self) -> list[PagePart]:
        # A page has no kernel, no clock that runs, and the steps of some runs only.
        return [_SweepTable.part_of({**self.data, "refresh": False, "still": True, "opens": [*self._runs()]})]

    def _runs(self) -> dict[str, PagePart]:
        """Of each setting the first run, then the second, and so on, as many as a page holds."""
        if self._in_page is None:
            families = [*filter(None, map(self._find, first_runs(self.data)[:MAX_RUNS]))]
            subagent_runs = [*chain.from_iterable(family[1:] for family in families)]
            self._in_page = replay_parts((family[0] for family in families), subagent_runs)
        return self._in_page

    def _family(self, run_id: str) -> Sequence[Run]:
        return self._find(run_id)

    def _openable_runs(self) -> str:
        return "a run that is finished and, with a store, written"

    def _picture(self) -> bytes:
        reasons_by_setting = [(name, row["reasons"]) for name, row in settings_of(self.data) if row["reasons"]]
        names = list(dict.fromkeys(name for name, _ in reasons_by_setting))[:_BARS]
        if not names:
            return b""
        import pandas as pd

        from boolab.display.colours import LIGHT
        from boolab.plots.bars import plot_stop_reasons
        from boolab.plots.palette import Look

        rows: list[tuple[str, str]] = []
        for name, reasons in reasons_by_setting:
            for reason in reasons if name in names else ():
                rows += [(name, reason["reason"])] * reason["n"]
        table = pd.DataFrame(rows, columns=["setting", "stop_reason"])
        size = (7.2, max(2.2, 1.4 + 0.34 * len(names)))
        # As in the table that is drawn live: blue is a success, and a run that has finished may be a failure.
        looks = {"finished": Look(LIGHT["idle"], LIGHT["ink3"])}
        return png_of(lambda figure: plot_stop_reasons(table, by="setting", looks=looks, ax=figure.subplots()), size)


def _reader_of(store: str | Path) -> Callable[[str], Sequence[Run]]:
    from boolab.store.stored_runs import finished_run

    return partial(finished_run, store)


def _board_of(store: str | Path, sweep: int | None) -> SweepCounts:
    """What a store holds of a sweep: its finished runs."""
    from boolab.store import stored_runs
    from boolab.store.stored_runs import overview

    sweeps = {row.sweep: row for row in overview(store).sweeps}
    number = max(sweeps, default=None) if sweep is None else sweep
    if number is not None and number not in sweeps:
        sweep_numbers = ", ".join(map(str, sweeps)) or "it has none"
        raise SettingError(f"sweep={sweep!r}: {store} has no such sweep; there are: {sweep_numbers}")
    row = None if number is None else sweeps[number]
    board = SweepCounts(None if row is None else row.n_cells, {} if row is None else row.about, str(store))
    finished: tuple[stored_runs.State, ...] = ("finished",)
    for run in stored_runs.stored_runs(store, sweep=number, states=finished):
        if run.parent_run_id is None:
            board.add(result_of(run))
    return board
