"""A run, played."""

from __future__ import annotations

from collections.abc import Sequence

import traitlets

from boolab.errors import SettingError
from boolab.frames import Runs, as_runs
from boolab.policy import Policy
from boolab.stop import StopRule
from boolab.types import Run
from boolab.widgets.replay_data import replay_data
from boolab.widgets.shown import View


class Replay(View, module="replay"):
    """A run, played step by step."""

    step = traitlets.Int(1).tag(sync=True)
    playing = traitlets.Bool(default_value=False).tag(sync=True)
    speed = traitlets.Int(1).tag(sync=True)
    axis = traitlets.Enum(["count", "time"], default_value="count").tag(sync=True)
    query = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        run: Runs,
        *,
        step: int = 1,
        policies: Sequence[str | Policy] | None = None,
        rules: Sequence[StopRule] = (),
        runs: Runs = (),
    ) -> None:
        listed = as_runs(run)
        if len(listed) != 1:
            msg = f"Replay plays one run, not {len(listed)}: choose one, as in Replay(runs[0])"
            raise SettingError(msg)
        self._run: Run = listed[0]
        super().__init__(replay_data(self._run, policies, rules, as_runs(runs)), step=step)

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    def _title(self) -> str:
        return f"{self._run.agent or self._run.source}: {self._run.stop_reason}"

    def _text(self) -> str:
        return str(self._run)
