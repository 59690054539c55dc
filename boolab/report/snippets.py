"""How to use a result: as front matter, as Python, as a command; each gives the report's numbers, or why it cannot."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from boolab.core.commands import with_program
from boolab.frames.dtypes import is_missing
from boolab.harnesses.setting import Setting, as_front_matter, identity_arguments
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.report.study import Study
from boolab.whatif.step_table import scopes_of

MIN_RANGE: Final = 3  # fewer values are written one by one


class Sources(NamedTuple):
    """What was read.

    Attributes:
        logs: Files, folders, globs.
        format: The name of their format, if it was not detected.
        since: Only files changed since then: as it was typed, and the time.
        limit: At most this many logs, the newest first.
        program: What to type for boolab where the page is made.
    """

    logs: Sequence[str] = ()
    format: str | None = None
    since: tuple[str, datetime] | None = None
    limit: int | None = None
    program: str = "boolab"


NOTHING_READ: Final = Sources()


def front_matter(study: Study, most: int | None = None) -> str:
    """The front matter of an agent file with the recommended limits, or, without any, with what lost none.

    Where groups have a setting of their own, there is one for each that has one, of at most so many.
    """
    rows = study.found.frame.to_dict("records")
    if len(rows) == 1 and not study.qualifies:
        tight = {axis: _tight(study, axis) for axis in AGENT_LIMITS if axis in study.margins}
        return _block(study, rows[0], tight, ["Lost none on record; not a recommendation."])
    good = [row for row in rows if row["qualifies"]][:most]
    if not good:
        return "---\nname: your-agent\n# No limit can be recommended: see above why.\n---"
    by = [name for name in study.question.by if name != "agent"]
    return "\n\n".join(
        _block(study, row, {axis: row.get(axis) for axis in LIMITS}, [f"{k}: {row[k]}" for k in by]) for row in good
    )


def _block(study: Study, row: Mapping[Any, Any], values: Mapping[str, Any], notes: list[str]) -> str:
    question = study.question
    agent = str(row["agent"]) if "agent" in question.by and row.get("agent") else "your-agent"
    scope = question.scope if question.scope != "auto" else scopes_of([row.get("source")], "auto")[0]
    given = {axis: value for axis, value in values.items() if not is_missing(value)}
    limits = {axis: int(given[axis]) if axis in given else None for axis in AGENT_LIMITS}
    same = question.same or "canonical"
    more = [axis for axis in given if axis not in AGENT_LIMITS]
    notes += [f"The numbers are those with {axis} {given[axis]} too, which no agent file can set." for axis in more]
    setting = Setting(**limits, identity=same, scope="run" if scope == "run" else "turn", agent=agent)
    return as_front_matter(setting, question.policy, notes).rstrip("\n")


def _tight(study: Study, axis: str) -> float | None:
    for _, part, advice in study.groups(axis):
        return next((row.value for row in study.shown(axis, part, advice) if row.mark == "tightest"), None)
    return None


def python(study: Study, sources: Sources) -> str:
    """The code that gives the same recommendation, and what its setting makes of the runs."""
    question = study.question
    paths = repr(list(sources.logs)) if len(sources.logs) != 1 else repr(sources.logs[0])
    how = f"scope={question.scope!r}, identity={identity_arguments(question.same or 'canonical')}"
    how += f", policy={question.policy!r}" if question.policy else ""
    arguments = [f"keep={question.keep}", f"confidence={question.confidence}", f"objective={question.objective!r}", how]
    arguments += [f"by={question.groups!r}"] if question.groups is not None else []
    arguments += [f"success={question.success!r}"] if question.success else []
    grid = study.searched
    arguments += [f"grid={_grid(grid)}"] if grid else []
    lines = ["import boolab as bl"]
    only = [f"format={sources.format!r}"] if sources.format else []
    only += [] if question.prices else ["prices=False"]
    if sources.since or sources.limit:
        if sources.since:
            lines.append("from datetime import datetime")
            only.append(f"since=datetime.fromisoformat({sources.since[1].isoformat()!r})")
        only += [f"limit={sources.limit}"] if sources.limit else []
        lines += ["", f"runs = list(bl.read_logs({', '.join([paths, *only])}).runs)"]
    else:
        lines += ["", f"runs = bl.load_runs({', '.join([paths, *only])})"]
    if question.labels:
        lines[1:1] = ["from boolab.frames.labels import labels_of"]
        lines += [f"key, labels = labels_of({question.labels!r})", "runs = bl.label(runs, labels, key=key)"]
    if question.success == "ended":
        lines.append("runs = bl.label(runs, lambda run: None)  # labels are left out")
    if study.found.frame.empty:
        lines.append("# No limit can be recommended: see above why.")
    else:
        lines += [f"found = bl.recommend(runs, {', '.join(arguments)})", "print(found)"]
    if not question.by and study.noun == "run":
        lines += _table(study, how)
    return "\n".join(lines)


def _table(study: Study, how: str) -> Iterator[str]:
    """The table that has the setting's numbers, and a figure of the caps around it."""
    if study.qualifies:
        yield "grid = {axis: [value] for axis, value in found.setting.items()}"
        yield f"table = bl.counterfactual(runs, grid=grid, {how}, aggregate=True)  # what that keeps and saves"
    yield f"caps = bl.counterfactual(runs, grid={{'max_steps': range(1, 51)}}, {how}, aggregate=True)"
    yield "bl.plot_caps(caps)"


def _grid(grid: Mapping[str, Sequence[Any]]) -> str:
    """A grid as Python writes it, with ranges where values are one."""
    parts = []
    for axis, values in grid.items():
        first, last = values[0], values[-1]
        parts.append(f"{axis!r}: {f'range({first}, {last + 1})' if _is_range(values) else repr(list(values))}")
    return f"{{{', '.join(parts)}}}"


def shell(study: Study, sources: Sources, command: str = "whatif", more: Sequence[str] = ()) -> str:
    """The command that gives the same result; with a comment where the command line cannot express it."""
    question = study.question
    words = ["boolab", command, *sources.logs, *more, "--scope", question.scope, "--keep", repr(question.keep)]
    words += ["--confidence", repr(question.confidence), "--objective", question.objective]
    words += [word for axis, values in (question.grid or {}).items() for word in (LIMITS[axis].option, _values(values))]
    words += [word for column in question.by for word in ("--by", column)]
    words += ["--by", "all"] if question.pooled else []
    words += ["--labels", question.labels] if question.labels else []
    words += ["--policy", question.policy] if question.policy else []
    words += ["--success", question.success] if question.success else []
    words += [] if question.prices else ["--no-prices"]
    words += ["--format", sources.format] if sources.format else []
    words += ["--since", sources.since[0]] if sources.since else []
    words += ["--limit", str(sources.limit)] if sources.limit else []
    same = question.same or "canonical"
    words += ["--identity", same if isinstance(same, str) else same.get("*") or "canonical"]
    if isinstance(same, str):
        return with_program(shlex.join(words), sources.program)
    words += [word for tool, one in same.items() if one is None for word in ("--exempt", tool)]
    others = any(one is not None for tool, one in same.items() if tool != "*")
    note = "\n# The result compares calls of some tools in other ways too, which the command line cannot express."
    return with_program(shlex.join(words), sources.program) + (note if others else "")


def _values(values: Sequence[Any]) -> str:
    """Values as the command line takes them, with ranges where they are one."""
    on = [value for value in values if value is not None]
    written = [f"{on[0]}:{on[-1]}"] if _is_range(on) else [repr(value) for value in on]
    return ",".join([*written, *(["none"] if None in values else [])])


def _is_range(values: Sequence[Any]) -> bool:
    """Whether values are three or more whole numbers in a row."""
    whole = len(values) >= MIN_RANGE and all(isinstance(value, int) for value in values)
    return whole and list(values) == list(range(values[0], values[-1] + 1))
