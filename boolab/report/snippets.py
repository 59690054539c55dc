"""How to use a result: as front matter, as Python, as a command; each gives the report's numbers, or why it cannot."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final, NamedTuple

from boolab.frames.dtypes import is_missing
from boolab.frames.tables import runs_df
from boolab.harnesses.setting import Setting, as_front_matter, identity_arguments
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.logs.outcomes.labels import LINES
from boolab.report.study import Study
from boolab.stats.desk.design import propose_values
from boolab.stats.recommend.groups import agent_columns
from boolab.whatif.step_table import scopes_of

MIN_RANGE: Final = 3  # fewer values are written one by one


class LogInputs(NamedTuple):
    """What was read."""

    logs: Sequence[str] = ()  # files, folders, globs, each a `shared_path`
    format: str | None = None  # the name of their format, if it was not detected
    since: tuple[str, datetime] | None = None  # only files changed since then: as it was typed, and the time
    limit: int | None = None  # at most this many logs, the newest first


NOTHING_READ: Final = LogInputs()


def front_matter(study: Study, max_blocks: int | None = None) -> str:
    """The front matter of an agent file with the limits to set; one for each group that has some, or the reason."""
    good = [row for row in study.found.frame.to_dict("records") if row["action"] == "set"][:max_blocks]
    if not good:
        return "---\nname: your-agent\n# No limit is to be set: see above why.\n---"
    keys = [name for name in study.keys if name != "agent"]
    return "\n\n".join(
        _block(study, row, {axis: row.get(axis) for axis in LIMITS}, [f"{k}: {row[k]}" for k in keys]) for row in good
    )


def _block(study: Study, row: Mapping[Any, Any], values: Mapping[str, Any], notes: list[str]) -> str:
    question = study.question
    agent = str(row["agent"]) if "agent" in study.keys and row.get("agent") else "your-agent"
    scope = question.scope if question.scope != "auto" else scopes_of([row.get("source")], "auto")[0]
    present = {axis: value for axis, value in values.items() if not is_missing(value)}
    limits = {axis: int(present[axis]) if axis in present else None for axis in AGENT_LIMITS}
    identity = question.call_identity or "canonical"
    extra = [axis for axis in present if axis not in AGENT_LIMITS]
    notes += [f"The numbers are those with {axis} {present[axis]} too, which no agent file can set." for axis in extra]
    setting = Setting(**limits, identity=identity, scope="run" if scope == "run" else "turn", agent=agent)
    return as_front_matter(setting, question.policy, notes).rstrip("\n")


def python(study: Study, inputs: LogInputs) -> str:
    """The code that gives the same recommendation, and what its setting makes of the runs."""
    question = study.question
    options = f"scope={question.scope!r}, identity={identity_arguments(question.call_identity or 'canonical')}"
    options += f", policy={question.policy!r}" if question.policy else ""
    arguments = [
        f"keep={question.keep}",
        f"confidence={question.confidence}",
        f"objective={question.objective!r}",
        options,
    ]
    arguments += [f"by={list(question.by)!r}"] if question.by is not None else []
    arguments += [f"success={question.success!r}"] if question.success else []
    arguments += [f"unlabelled={question.unlabelled!r}"] if question.unlabelled != "bounds" else []
    grid = study.searched_values
    arguments += [f"grid={_grid(grid)}"] if grid else []
    arguments += [f"budget={question.budget}, share={question.share}"] if question.budget is not None else []
    lines = _reading_lines(study, inputs)
    if question.labels:
        trust = f", trust={list(question.trust)!r}" if question.trust else ""
        lines.append(f"runs = bl.label(runs, {question.labels!r}{trust})")
    if question.evidence:
        in_git = question.git or "git" in question.evidence
        flags = [f"{name}={name in question.evidence}" for name in ("tests", "reaction")]
        lines.append(f"evidence = bl.outcomes(runs, git={in_git!r}, {', '.join(flags)})")
    if question.success == "ended":
        lines.append("runs = bl.label(runs, lambda run: None)  # labels are left out")
    if study.found.frame.empty:
        lines.append("# Nothing can be decided: see above why.")
    else:
        lines += [f"found = bl.recommend(runs, {', '.join(arguments)})", "print(found)"]
    if not study.keys and study.noun == "run":
        lines += _table(study, options)
    return "\n".join(lines)


def _reading_lines(study: Study, inputs: LogInputs) -> list[str]:
    """The code that reads the runs."""
    paths = repr(list(inputs.logs)) if len(inputs.logs) != 1 else repr(inputs.logs[0])
    lines = ["import boolab as bl"]
    read_options = [f"format={inputs.format!r}"] if inputs.format else []
    read_options += [] if study.question.prices else ["prices=False"]
    if study.question.success_threshold is not None:
        read_options.append(f"success_threshold={study.question.success_threshold!r}")
    if inputs.since or inputs.limit:
        if inputs.since:
            lines.append("from datetime import datetime")
            read_options.append(f"since=datetime.fromisoformat({inputs.since[1].isoformat()!r})")
        read_options += [f"limit={inputs.limit}"] if inputs.limit else []
        return [*lines, "", f"runs = list(bl.read_logs({', '.join([paths, *read_options])}).runs)"]
    return [*lines, "", f"runs = bl.load_runs({', '.join([paths, *read_options])})"]


def opening_code(study: Study, inputs: LogInputs) -> str:
    """The code after which `open_run` of a run opens it."""
    return "\n".join([*_reading_lines(study, inputs), "run_by_id = {run.run_id: run for run in runs}"])


def open_run(run_id: str, step: int) -> str:
    """The code that opens a run at a step."""
    return f"bl.Replay(run_by_id[{run_id!r}], step={max(step, 1)}, runs=runs)"


def _table(study: Study, options: str) -> Iterator[str]:
    """The table that has the setting's numbers, and a figure of the caps around it."""
    if any(group.action == "set" for group in study.found.groups):
        yield "grid = {axis: [value] for axis, value in found.setting.items()}"
        yield f"table = bl.counterfactual(runs, grid=grid, {options}, aggregate=True)  # what that keeps and saves"
    yield f"caps = bl.counterfactual(runs, grid={{'max_steps': range(1, 51)}}, {options}, aggregate=True)"
    yield "bl.plot_caps(caps)"


def _grid(grid: Mapping[str, Sequence[Any]]) -> str:
    """A grid as Python writes it, with ranges where values are one."""
    parts = []
    for axis, values in grid.items():
        first, last = values[0], values[-1]
        parts.append(f"{axis!r}: {f'range({first}, {last + 1})' if _is_range(values) else repr(list(values))}")
    return f"{{{', '.join(parts)}}}"


def shell(study: Study, inputs: LogInputs, command: str = "whatif", options: Sequence[str] = ()) -> str:
    """The command that gives the same result; with a comment where the command line cannot express it."""
    question = study.question
    words = ["boolab", command, *inputs.logs, *options, "--scope", question.scope, "--keep", repr(question.keep)]
    words += ["--confidence", repr(question.confidence), "--objective", question.objective]
    words += [word for axis, values in (question.grid or {}).items() for word in (LIMITS[axis].option, _values(values))]
    words += [*chain.from_iterable(("--by", column) for column in question.by or ())]
    words += ["--by", "all"] if question.by == () else []
    words += ["--labels", question.labels] if question.labels else []
    words += ["--trust", ",".join(question.trust)] if question.trust else []
    if command == "report":
        words += ["--evidence", ",".join(question.evidence)] if question.evidence else []
        words += ["--git", question.git] if question.git else []
    words += [] if question.success_threshold is None else ["--success-threshold", repr(question.success_threshold)]
    words += ["--policy", question.policy] if question.policy else []
    words += ["--success", question.success] if question.success else []
    words += ["--unlabelled", question.unlabelled] if question.unlabelled != "bounds" else []
    words += [] if question.prices else ["--no-prices"]
    words += [] if question.budget is None else ["--budget", repr(question.budget), "--share", repr(question.share)]
    words += ["--format", inputs.format] if inputs.format else []
    words += ["--since", inputs.since[0]] if inputs.since else []
    words += ["--limit", str(inputs.limit)] if inputs.limit else []
    identity = question.call_identity or "canonical"
    words += ["--identity", identity if isinstance(identity, str) else identity.get("*") or "canonical"]
    if isinstance(identity, str):
        return shlex.join(words)
    words += [word for tool, kind in identity.items() if kind is None for word in ("--exempt", tool)]
    needs_note = any(kind is not None for tool, kind in identity.items() if tool != "*")
    note = "\n# The result compares calls of some tools in other ways too, which the command line cannot express."
    return shlex.join(words) + (note if needs_note else "")


def label_command(study: Study, inputs: LogInputs) -> str:
    """The command that asks which of these runs were successes; "" where it would refuse them.

    It takes the logs of one agent, in a format that it detects, and proposes values from the lengths of units.
    """
    roots = [run for run, is_root in zip(study.runs, study.is_root, strict=True) if is_root]
    lengths = [unit.run.n_steps for unit in study.units if study.is_root[unit.of]]
    scope = study.question.scope
    if not inputs.logs or inputs.format or agent_columns(runs_df(roots), scope) or not propose_values(lengths):
        return ""
    words = ["boolab", "label", *inputs.logs]
    words += ["--scope", scope] if scope != "auto" else []
    words += ["--since", inputs.since[0]] if inputs.since else []
    labels = study.question.labels or ""
    words += ["--labels", labels] if labels.lower().endswith(LINES) else []
    return shlex.join(words)


def _values(values: Sequence[Any]) -> str:
    """Values as the command line takes them, with ranges where they are one."""
    numbers = [value for value in values if value is not None]
    texts = [f"{numbers[0]}:{numbers[-1]}"] if _is_range(numbers) else [repr(value) for value in numbers]
    return ",".join([*texts, *(["none"] if None in values else [])])


def _is_range(values: Sequence[Any]) -> bool:
    """Whether values are three or more whole numbers in a row."""
    all_integers = len(values) >= MIN_RANGE and all(isinstance(value, int) for value in values)
    return all_integers and list(values) == list(range(values[0], values[-1] + 1))
