"""A run, played."""

from __future__ import annotations

import traitlets

from boolab.types import Run
from boolab.widgets.shown import View


class Replay(View, module="replay"):
    """A run, played step by step."""

    step = traitlets.Int(1).tag(sync=True)

    def __init__(self, run: Run, *, step: int = 1) -> None:
        self._run = run
        super().__init__({"title": run.agent}, step=step)

    def _title(self) -> str:
        return self._run.agent

    def _text(self) -> str:
        return self._run.agent
