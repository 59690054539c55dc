"""A view, and below it a run that is chosen in the view, in Replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import ipywidgets
import traitlets

from boolab.core.types import Run
from boolab.errors import SettingError
from boolab.io.checks import is_whole
from boolab.widgets._base.standalone_html import Part
from boolab.widgets._base.widget import Shown, View
from boolab.widgets.replay.data import replays_data
from boolab.widgets.replay.widget import Replay

MAX_RUNS: Final = 12
MAX_STEPS: Final = 12_000
"""Of all runs in a page together: about a megabyte."""


def replay_parts(runs: Iterable[Run], others: Sequence[Run] = ()) -> dict[str, Part]:
    """By run_id, the views that a page without a kernel can open: of these runs, most wanted first, those that fit.

    `others` are runs among which there may be those of their subagents.
    """
    chosen: dict[str, Run] = {}
    steps = 0
    for run in runs:
        steps += len(run.steps)
        if len(chosen) == MAX_RUNS or (chosen and steps > MAX_STEPS):
            break
        chosen[run.run_id] = run
    return dict(zip(chosen, map(Replay.part_of, replays_data([*chosen.values()], runs=others)), strict=True))


class OpeningView(View):
    """A view in which a run can be chosen.

    Attributes:
        opened: `{"run": run_id, "step": n}`, the chosen run and its step; None for none.
    """

    opened = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)


class OpensRuns(Shown, ipywidgets.VBox):  # type: ignore[misc] # ipywidgets has no types
    """A view, and below it the run that was chosen in it.

    Attributes:
        opened: `{"run": run_id, "step": n}`, what is open below and its step; None for nothing. Setting it opens a run.
    """

    opened = traitlets.Dict(allow_none=True, default_value=None)

    def __init__(self, view: OpeningView, runs: Mapping[str, Run], names: Iterable[str] = ("opened",)) -> None:
        """Put the view on top. `runs` are those that can be opened, `names` the traits that both have in common."""
        self._view = view
        self._by_id: Mapping[str, Run] = dict(runs)
        self._replay: Replay | None = None
        self._below = ipywidgets.VBox()
        super().__init__([view, self._below])
        self.add_class("boolab-whole")
        for name in names:
            traitlets.link((view, name), (self, name))
        self.observe(self._open, "opened")

    def _family(self, run_id: str) -> Sequence[Run]:
        """The run of this id, then those of its subagents that it does not hold; empty if it cannot be opened."""
        run = self._by_id.get(run_id)
        return () if run is None else (run,)

    def _openable(self) -> str:
        """Which runs can be opened, for an error."""
        return "the one run here" if len(self._by_id) == 1 else f"one of the {len(self._by_id):,} runs here"

    @traitlets.validate("opened")
    def _known(self, proposal: dict[str, Any]) -> dict[str, Any] | None:
        value: dict[str, Any] | None = proposal["value"]
        if value is None:
            return None
        chosen = value.get("run")
        family = self._family(chosen) if isinstance(chosen, str) else ()
        if not family or set(value) != {"run", "step"} or not is_whole(value["step"]):
            raise SettingError(f"opened={value!r}: expected {{'run': run_id, 'step': n}} with {self._openable()}")
        return {"run": chosen, "step": min(max(1, value["step"]), max(1, len(family[0].steps)))}

    def _open(self, change: dict[str, Any]) -> None:
        value = change["new"]
        before = self._replay
        if value is not None and before is not None and before.run.run_id == value["run"]:
            before.step = value["step"]
            return
        self._replay = None
        if value is not None:
            run, *others = self._family(value["run"])
            self._replay = Replay(run, step=value["step"], runs=others)
            self._replay.observe(self._moved, "step")
        self._below.children = () if self._replay is None else (self._replay,)
        if before is not None:
            before.close()  # otherwise the kernel and the page would keep every run that was ever opened

    def _moved(self, _: object) -> None:
        if self._replay is not None:
            self.opened = {"run": self._replay.run.run_id, "step": self._replay.step}

    @property
    def replay(self) -> Replay | None:
        """The run that is open below."""
        return self._replay

    def _parts(self) -> list[Part]:
        return self._view._parts()  # noqa: SLF001 - both are widgets
