"""The demo's part on recordings: what one recording shows about every setting, and what it recommends.

The recordings come with boolab: 200 public runs of gpt-4o on tau-bench's airline tasks, and simulated ones. Every
number is counted from the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pandas as pd

from boolab.cli.demo.layout import align, wrap
from boolab.core.types import Identities, Run, Scope
from boolab.frames.tables import runs_df
from boolab.io.resources import data_path
from boolab.limits.table import LIMITS
from boolab.logs.datasets import load_dataset
from boolab.logs.load import load_runs
from boolab.stats.recommend.recommend import Recommendation, recommend
from boolab.stats.survival import survival
from boolab.whatif.evaluate import counterfactual

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PUBLIC: Final = "atlas/tau-airline"
"""Public runs."""

VALUES: Final[Mapping[str, Sequence[int]]] = {
    "max_steps": (5, 10, 15, 20, 30, 50, 75, 100),
    "tool_budget": (1, 3, 5, 8, 10, 13, 25, 50, 100),
    "doom_loop": (2, 3, 5, 10, 20),
}
"""The limits of the table, each by itself; those that stop nothing are left out."""


class Recording(NamedTuple):
    """Recorded runs, and how to evaluate them.

    Attributes:
        name: The name of the recording.
        runs: The runs.
        scope: Whether limits count through a run, or from zero in each turn.
        identity: What makes two calls the same.
    """

    name: str
    runs: Sequence[Run]
    scope: Scope
    identity: Identities | None = None

    def recommend(self) -> Recommendation:
        """The recommended setting."""
        return recommend(self.runs, scope=self.scope, identity=self.identity)


class Findings(NamedTuple):
    """The results for the recordings.

    Attributes:
        text: In words and a table.
        rows: A row for each run of the first recording and each limit of the table.
        figures: For each file, what draws it.
    """

    text: str
    rows: pd.DataFrame
    figures: Mapping[str, Callable[[Axes], object]]


def public_recording() -> Recording:
    """Public runs that were recorded."""
    return Recording(f"{PUBLIC}, gpt-4o (public runs)", load_dataset(PUBLIC), "run")


def recordings() -> list[Recording]:
    """The recordings: public runs first, then the simulated ones."""
    polls: Identities = {"wait_for_build": None}
    simulated = load_runs(data_path("datasets") / "runs")
    return [
        public_recording(),
        Recording("datasets/runs, a simulated agent (synthetic)", simulated, "turn", polls),
    ]


def findings_of(listed: Sequence[Recording]) -> Findings:
    """The results for at least one recording: everything for the first, and of each its recommendation."""
    first = listed[0]
    frame = runs_df(first.runs)
    size = f"{len(frame):,} runs, {frame['n_steps'].sum():,} steps, {frame['n_tool_calls'].sum():,} tool calls"
    scope = "through each run" if first.scope == "run" else "from zero in each turn"
    head = (
        f"Recorded once, and scored under every setting without running anything again. The recording: {first.name} "
        f"({size}). Each limit by itself, all others off; limits count {scope}."
    )
    grids = {axis: [*values] for axis, values in VALUES.items()}
    parts = {
        axis: counterfactual(first.runs, grid={axis: values}, scope=first.scope, identity=first.identity)
        for axis, values in grids.items()
    }
    rows = pd.concat(parts.values(), ignore_index=True)
    advice = [(recording, recording.recommend()) for recording in listed]
    text = [wrap(head), _table(first, grids), _bounds(first)]
    text += [_recommended(recording, found) for recording, found in advice]
    return Findings("\n\n".join(text), rows, figures_of(first, advice[0][1]))


def _table(recording: Recording, grids: Mapping[str, Sequence[int]]) -> str:
    lines = []
    for axis, values in grids.items():
        tally = counterfactual(
            recording.runs, grid={axis: values}, scope=recording.scope, identity=recording.identity, aggregate=True
        )
        for row in tally.to_dict("records"):
            if not row["n_runs"] - row["n_unchanged"] - row["n_censored"]:
                continue
            kept = f"{row['kept_lower']}-{row['kept_upper']} of {row['successes']}"
            lines.append((
                f"{LIMITS[axis].label} {row[axis]}",
                f"{row['n_runs'] - row['n_unchanged'] - row['n_censored']:,}",
                kept,
                f"{row['saved_steps']:,}",
                f"{row['saved_tool_calls']:,}",
            ))  # fmt: skip
    return align(("limit", "runs_stopped", "successes_kept", "steps_saved", "calls_saved"), lines, left=1)


def _bounds(recording: Recording) -> str:
    identity = recording.identity if isinstance(recording.identity, Mapping) else {}
    exempt = [tool for tool, same in identity.items() if same is None]
    polls = f" {', '.join(exempt)} polls, and is exempt from the doom-loop threshold." if exempt else ""
    return wrap(
        "Where a limit stops a run, what was spent until then is exact. What the agent would have answered then is not "
        "on record, so the number of successes kept has two bounds: those that the limit does not stop, and besides "
        f"them those whose last tool call was done by then.{polls}"
    )


def _recommended(recording: Recording, found: Recommendation) -> str:
    sentences = (wrap(sentence, "  ", "  ") for sentence in (*found.verdict, *found.sentences))
    return "\n".join([wrap(f"{found.title}, by {recording.name}:"), *sentences])


def figures_of(recording: Recording, found: Recommendation) -> dict[str, Callable[[Axes], object]]:
    """For each file of a figure, what draws it."""
    from boolab.plots import plot_caps, plot_heatmap, plot_survival

    how: dict[str, Any] = {"scope": recording.scope, "identity": recording.identity}
    frame = runs_df(recording.runs)
    chosen = found.setting if found["qualifies"].all() else {}
    steps, calls = (
        max(int(frame[column].quantile(0.97)), chosen.get(axis) or 1)
        for axis, column in (("max_steps", "n_steps"), ("tool_budget", "n_tool_calls"))
    )
    caps = counterfactual(recording.runs, grid={"max_steps": range(1, steps + 1)}, aggregate=True, **how)
    grid = {"max_steps": range(1, steps + 1), "tool_budget": range(1, calls + 1)}
    pairs = counterfactual(recording.runs, grid=grid, aggregate=True, **how)
    cap = chosen.get("max_steps")
    return {
        "caps.png": lambda ax: plot_caps(caps, recommended=cap, ax=ax),
        "heatmap.png": lambda ax: plot_heatmap(pairs, keep=float(found["keep"].iloc[0]), ax=ax),
        "survival.png": lambda ax: plot_survival(survival(recording.runs, scope=recording.scope), ax=ax),
    }
