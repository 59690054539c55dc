"""A run, played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import traitlets

from boolab.core.text import count, shorten
from boolab.core.types import Run
from boolab.display.text import NO_NAME
from boolab.errors import SettingError
from boolab.frames.runs import Runs, as_runs, one_run
from boolab.harnesses.policy import Policy
from boolab.io.checks import is_whole
from boolab.limits.function_rule import AnyRule
from boolab.store.connection import begins_as_sqlite
from boolab.whatif.question import listed_rules
from boolab.widgets._base.standalone_html import Part
from boolab.widgets._base.widget import View
from boolab.widgets.replay.code import code_of
from boolab.widgets.replay.data import replay_data
from boolab.widgets.replay.fallback import picture_of, replay_text

SPEEDS: Final = (1, 2, 4, 8, 16)


class Replay(View, module="replay"):
    """A run to play, scrub and search, step by step: texts, calls, results, and the counter of each limit.

    The browser moves the play head; `step` follows it, and moves it. Everything else is fixed: to see other policies,
    make another widget.

    Args:
        run: The run, or a list with one, or the path of a store that holds one.
        step: The step that is shown first, from 1.
        policies: Policies, or names of presets, whose stops are marked beside the run's own; by default those of
            `boolab.widgets.replay.what_if_marks.DEFAULT_POLICIES`.
        rules: Stop rules, or functions of the run so far, whose stops are marked, such as `bl.doom_loop(3)`.
        runs: Runs among which there are subagents of this one that it does not hold itself, as those of logs, which are
            linked by their `parent_run_id`. The run itself may be among them.

    Attributes:
        step: The step that is shown.
        playing: Whether it plays.
        speed: How fast: 1, 2, 4, 8 or 16 times.
        axis: `count`: each step is as wide as any other; `time`: as long as it took, where the record has times.
        query: The text that is searched for.

    Raises:
        SettingError: if there is more or less than one run, it has no such step, or a policy is not known or
            cannot be evaluated on recordings.
        TypeError: if it is not a run.

    Example:
        >>> import boolab as bl
        >>> script = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}]}, "Done."], tools={"ls": "a.py"})
        >>> replay = bl.Replay(bl.run_sync(None, "Look", model=script), step=2)
        >>> replay, replay.step
        (Replay(no name, finished, 2 steps), 2)
    """

    step = traitlets.Int(1).tag(sync=True)
    playing = traitlets.Bool(default_value=False).tag(sync=True)
    speed = traitlets.Enum(SPEEDS, default_value=1).tag(sync=True)
    axis = traitlets.Enum(("count", "time"), default_value="count").tag(sync=True)
    query = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        run: Runs,
        *,
        step: int = 1,
        policies: Sequence[str | Policy] | None = None,
        rules: Sequence[AnyRule] | AnyRule = (),
        runs: Runs = (),
    ) -> None:
        self._run = one_run(run, "Replay")
        _check_step(self._run, step)
        marked = listed_rules(rules)
        self._replayed = replay_data(self._run, policies, marked, as_runs(runs))
        if isinstance(run, str | Path) and begins_as_sqlite(run):
            self._replayed["code"] = code_of(self._run, run)
        super().__init__(self._replayed, step=int(step))

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    @traitlets.validate("step")
    def _checked(self, proposal: dict[str, Any]) -> int:
        value: int = proposal["value"]
        _check_step(self._run, value)
        return value

    def _title(self) -> str:
        run = self._run
        return f"{shorten(run.agent or NO_NAME, 60)}, {run.stop_reason}, {count(run.n_steps, 'step')}"

    def _text(self) -> str:
        return replay_text(self._replayed)

    def _parts(self) -> list[Part]:
        (part,) = super()._parts()
        return [replace(part, traits={**part.traits, "playing": False})]  # a page never plays by itself

    def _picture(self) -> bytes:
        return self._png

    @cached_property
    def _png(self) -> bytes:
        return picture_of(self._run)


def _check_step(run: Run, step: object) -> None:
    most = max(1, run.n_steps)
    if not is_whole(step) or not 1 <= step <= most:
        known = f"the steps 1 to {most:,}" if run.n_steps else "no steps: leave step at 1"
        raise SettingError(f"step={step!r}: run {run.run_id} has {known}")
