"""Two runs, or two policies on the same work, side by side."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import traitlets

from boolab.agents import Agent
from boolab.compare import distinct_names
from boolab.counterfactuals import counterfactual
from boolab.divergence import Script, both_runs
from boolab.errors import SettingError
from boolab.plots.timeline import plot_timeline
from boolab.policy import Policy
from boolab.presets import get_policy
from boolab.tools import ToolSpec
from boolab.types import Run, Stop
from boolab.widgets.compare_data import (
    Parting,
    Side,
    compare_data,
    compare_text,
    first_parting,
    parting_of,
    side_of,
)
from boolab.widgets.opening import OpensRuns, replay_parts
from boolab.widgets.page import Part
from boolab.widgets.shown import View

_MOST_DRAWN: Final = 1_500  # steps of a picture


class _Columns(View, module="compare"):
    """Both runs, step by step."""

    opened = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)


class Compare(OpensRuns):
    """Two runs side by side: equal steps folded, the first difference marked and told in words.

    Two runs are compared as they are on record. Two policies each run the same script. A run and a policy show what
    the recording says about that policy: the same steps, up to where it would have stopped.

    Args:
        a: A run; or a policy, or the name of a preset.
        b: The other one.
        script: What two policies run: see `first_divergence`.
        agent: Who runs it; None for a bare model.
        tools: The tools of both runs.
        task: The user's message.

    Attributes:
        opened: `{"run": run_id, "step": n}`, what is open in `Replay` below; None for nothing.
        parting: The step at which they part, from 1, what is not the same there, and what each does; None if they never
            part.

    Raises:
        SettingError: if two policies come without a script, a run with one, or a policy does not exist.
        ScriptError: if the script cannot be read.

    Example:
        >>> stuck = [{"tool_calls": [{"name": "grep"}], "repeat": "forever"}]
        >>> Compare("boocode", "crush", script=stuck)
        Compare(boocode and crush part at step 4: only crush makes this step)
    """

    def __init__(
        self,
        a: Run | str | Policy,
        b: Run | str | Policy,
        *,
        script: Script | None = None,
        agent: Agent | None = None,
        tools: Sequence[ToolSpec | Callable[..., Any]] | None = None,
        task: str = "go",
    ) -> None:
        runs = [one for one in (a, b) if isinstance(one, Run)]
        if bool(runs) == (script is not None):
            needed = "runs are compared as they are: leave script= out" if runs else "two policies need script="
            msg = f"Compare({_shown(a)}, {_shown(b)}): {needed}"
            raise SettingError(msg)
        notes: tuple[str, ...] = ()
        if script is not None and not isinstance(a, Run) and not isinstance(b, Run):
            sides, self.parting = _of_policies(script, a, b, agent, tools, task)
        elif isinstance(a, Run) and isinstance(b, Run):
            names = _names(a, b)
            sides = (side_of(a, names[0]), side_of(b, names[1]))
            self.parting = first_parting(a, b, names)
        else:
            sides, self.parting, notes = _of_recording(a, b)
        self._sides = sides
        self._plain = compare_data(*sides, self.parting, notes)
        by_id = {side.opens: side.run for side in sides}
        by_id |= {run.run_id: run for run in runs}
        super().__init__(_Columns(self._plain), by_id)

    def _title(self) -> str:
        return str(self._plain["title"])

    def _text(self) -> str:
        return compare_text(self._plain)

    def _picture(self) -> bytes:
        """The timelines of both; of long runs the part around where they part."""
        from matplotlib.figure import Figure  # noqa: PLC0415 - only where it is shown

        figure = Figure(figsize=(7.2, 9.6), layout="constrained")
        for side, ax in zip(self._sides, figure.subplots(2), strict=True):
            steps = side.run.steps
            if len(steps) > _MOST_DRAWN:
                stop = Stop(side.run.stop.reason, _MOST_DRAWN)
                plot_timeline(replace(side.run, steps=steps[:_MOST_DRAWN], stop=stop, inputs=()), ax=ax)
                ax.set_title(f"{side.name}: the first {_MOST_DRAWN:,} of {len(steps):,} steps", loc="left")
            else:
                plot_timeline(side.run, ax=ax)
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=100)
        return out.getvalue()

    def _runs(self) -> dict[str, Part]:
        return replay_parts(self._by_id.values())


def _shown(one: object) -> str:
    return "a run" if isinstance(one, Run) else repr(one if isinstance(one, str) else getattr(one, "name", one))


def _names(a: Run, b: Run) -> tuple[str, ...]:
    """By what tells them apart: policy, agent, model; else by their ids."""
    for name in ("policy", "agent", "model"):
        pair = (getattr(a, name), getattr(b, name))
        if all(pair) and pair[0] != pair[1]:
            return pair
    return distinct_names((a.run_id[:12], b.run_id[:12]))


def _of_policies(
    script: Script,
    a: str | Policy,
    b: str | Policy,
    agent: Agent | None,
    tools: Sequence[ToolSpec | Callable[..., Any]] | None,
    task: str,
) -> tuple[tuple[Side, Side], Parting | None]:
    one, other, divergence = both_runs(script, a, b, agent=agent, tools=tools, task=task)
    names = distinct_names([one.policy, other.policy])
    sides = (side_of(one, names[0]), side_of(other, names[1]))
    return sides, None if divergence is None else parting_of(divergence)


def _of_recording(
    a: Run | str | Policy, b: Run | str | Policy
) -> tuple[tuple[Side, Side], Parting | None, tuple[str, ...]]:
    """A recorded run, and what it says about a policy."""
    run, policy = (a, b) if isinstance(a, Run) else (b, a)
    assert isinstance(run, Run)  # noqa: S101 - one of the two is
    assert not isinstance(policy, Run)  # noqa: S101 - and the other is not
    asked = get_policy(policy)
    row = counterfactual(run, policy=asked).iloc[0]
    stopped = row["outcome"] in ("truncated", "not_identified", "unknown")
    n = int(row["steps"])
    recorded = side_of(run, "the recording")
    name = asked.name
    if not stopped:
        said = f"never stops it: {run.stop_reason} after {len(run.steps):,} steps, as recorded"
        would, parting = Side(name, run, said, None, run.run_id), None
        notes = () if row["outcome"] == "unchanged" else ("The recording ends first: what follows is unknown.",)
    else:
        reason = "error" if row["outcome"] == "unknown" else row["stop_reason"]
        known = isinstance(reason, str)
        said = f"would stop after step {n:,}: {reason}" if known else f"would tell the model something after step {n:,}"
        cut = replace(run, steps=run.steps[:n], policy=name, inputs=tuple(i for i in run.inputs if i.before <= n + 1))
        would = Side(name, cut, said, reason if known else None, run.run_id)
        what = f"only the recording goes on; {name} would not." if n < len(run.steps) else "both end before it."
        goes_on = f"makes step {n + 1:,}" if n < len(run.steps) else recorded.stop
        told = (goes_on, said) if run is a else (said, goes_on)
        parting = Parting(n + 1, what, *told)
        unknown = f"What it would have achieved with {n:,} steps is unknown."
        notes = (f"{name} is not run: its side is what the recording says about it. {unknown}",)
    sides = (recorded, would) if run is a else (would, recorded)
    return sides, parting, notes
