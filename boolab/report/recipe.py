"""How to use an answer: front matter, Python, a command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

from boolab.list_prices import needs_prices
from boolab.models.prices import installed
from boolab.report.study import COLUMNS, Study, is_na

_SETTINGS: Final = ("steps", "tool_budget", "doom_loop")


def front_matter(study: Study) -> str:
    """The front matter of an agent file with the recommended limits, or, without any, with what lost none."""
    lines = ["---", "name: your-agent"]
    frame = study.found.frame
    if len(frame) == 1:
        row = frame.iloc[0]
        best = {axis: row.get(COLUMNS.get(axis, axis)) for axis in _SETTINGS} if study.qualifies else {}
        tight = {} if study.qualifies else {axis: _tight(study, axis) for axis in _SETTINGS if axis in study.margins}
        for axis in _SETTINGS:
            value: Any = best.get(axis, tight.get(axis))
            why = "" if study.qualifies or is_na(value) else "   # lost none on record; not a recommendation"
            lines.append(f"{axis}: {'none' if is_na(value) else value}{why}")
    else:
        lines += [f"{axis}: none   # each group has its own: see above" for axis in _SETTINGS]
    return "\n".join([*lines, "---"])


def _tight(study: Study, axis: str) -> Any:  # noqa: ANN401 - a number or None
    for _, part, advice in study.groups(axis):
        return next((row.value for row in study.shown(axis, part, advice) if row.mark == "tightest"), None)
    return None


def python(study: Study, logs: Sequence[str]) -> str:
    """The code that gives the same recommendation."""
    asked = study.question
    paths = repr(list(logs)) if len(logs) != 1 else repr(logs[0])
    arguments: list[str] = [f"keep={asked.keep}", f"confidence={asked.confidence}", f"objective={asked.objective!r}",
                            f"scope={asked.scope!r}"]  # fmt: skip
    arguments += [f"by={list(asked.by)!r}"] if asked.by else []
    arguments += [f"success={asked.success!r}"] if asked.success else []
    arguments += [f"identity={asked.same!r}"] if asked.same else []
    lines = ["import boolab as bl", "", f"runs = bl.load_runs({paths})"]
    if asked.labels:
        lines.append(f"# then: runs = bl.label(runs, ...) with the labels of {asked.labels!r}")
    if asked.prices and installed() and needs_prices(study.reading.runs):
        lines.append("runs = bl.priced(runs)  # at list prices, where the logs tell no cost")
    lines.append(f"bl.recommend(runs, {', '.join(arguments)})")
    lines.append(f"table = bl.counterfactual(runs, grid={{'steps': range(1, 51)}}, scope={asked.scope!r}, tally=True)")
    lines.append("bl.plot_caps(table)")
    return "\n".join(lines)


def shell(study: Study, logs: Sequence[str]) -> str:
    """The command that gives the same answer."""
    asked = study.question
    words = ["boolab", "whatif", *logs, "--scope", asked.scope, "--keep", f"{asked.keep:g}"]
    words += ["--confidence", f"{asked.confidence:g}"] if asked.confidence != 0.95 else []  # noqa: PLR2004 - the default
    words += [word for column in asked.by for word in ("--by", column)]
    words += ["--labels", asked.labels] if asked.labels else []
    words += ["--policy", asked.policy] if asked.policy else []
    words += ["--success", asked.success] if asked.success else []
    words += [] if asked.prices else ["--no-prices"]
    return shlex.join(words)
