"""The demo: every agent on every script, under a grid of limits, and the results in words, tables and figures.

Nothing in it is known in advance: each number is counted from the runs that it makes, or from recorded ones. The models
are scripted, so that no network is needed and time is virtual; the tools really read the folder.

`measure` makes the runs, `report` turns them into text and files, `demo` does both.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, get_args

import pandas as pd

from boolab.cli.demo.layout import align, paragraphs, wrap
from boolab.cli.demo.recordings import Findings, findings_of, recordings
from boolab.core.types import MICRO, Run, Stop, StopReason
from boolab.errors import SettingError
from boolab.frames.tables import runs_df, steps_df
from boolab.harnesses.presets import policies as presets
from boolab.io.csv_export import write_csv
from boolab.io.files import user_path
from boolab.io.resources import checkout, data_path
from boolab.limits.catalog import doom_loop, error_streak, max_cost, max_time, max_tokens, tool_budget
from boolab.limits.stop import StopRule
from boolab.limits.table import AGENT_LIMITS
from boolab.runtime.agents.agent import Agent, load_agents
from boolab.runtime.engine.runner import run_sync
from boolab.runtime.models.scripted import ScriptedModel
from boolab.runtime.models.simulated.model import SimulatedModel
from boolab.runtime.tools.tool import ToolSpec
from boolab.runtime.tools.workspace import workspace_tools
from boolab.sweeps.driver import sweep
from boolab.trials.result import TrialResult
from boolab.trials.trial import trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Grid: TypeAlias = Mapping[str, Sequence[int | None]]

GRID: Final[Grid] = {"max_steps": (None, 10, 3), "tool_budget": (None, 20, 3), "doom_loop": (None, 5, 3, 2)}
"""The limits that the demo combines; None is no limit, up to the policy's ceiling."""

QUICK_GRID: Final[Grid] = {"max_steps": (None, 3), "tool_budget": (None,), "doom_loop": (None, 3)}
"""A grid that takes a second or two."""

POLICIES: Final = ("boocode", "opencode_3631", "naive")
"""The policies that the demo compares; notebook 04 compares all."""

CAP, RAISED, TASKS, BRANCHES = 50, 100, 60, 20
"""The trial of the demo: the cap on record, the larger one, how many simulated tasks, and how many branches."""

TASK: Final = "Find out how this program decides when to stop."
RULES: Final[tuple[tuple[StopRule, str], ...]] = (
    (max_tokens(200_000), "expensive"),
    (max_cost(0.50), "expensive"),
    (max_time(60), "slow_tool"),
    (error_streak(3), "bad_arguments"),
    ((tool_budget(8) & error_streak(3)) | max_cost(1), "alternating"),
    (doom_loop(3, "ordered"), "key_order"),
    (doom_loop(3, "canonical"), "key_order"),
    (doom_loop(3, "canonical"), "polling"),
    (doom_loop(3, "call+result"), "polling"),
    (max_tokens(200_000), "no_usage"),
)
"""Rules in place of a policy's limits, each with a script that shows what it does."""


class Material(NamedTuple):
    """What runs: agents and scripts by name, and the tools that the agents' lists mean."""

    agents: Mapping[str, Agent]
    scripts: Mapping[str, ScriptedModel]
    tools: Sequence[ToolSpec]

    def play(self, script: str, *, agent: str = "explorer", **options: Any) -> Run:  # noqa: ANN401 - those of `run`
        """One run of one script; settings of the agent may be given as options."""
        settings = {name: options.pop(name) for name in AGENT_LIMITS if name in options}
        chosen = replace(self.agents[agent], **settings)
        with _quiet():
            return run_sync(chosen, TASK, model=self.scripts[script], tools=self.tools, **options)


class Measured(NamedTuple):
    """The runs: `own` under each agent's own limits, `grid` under the grid, `policies` under other policies.

    `trial` is a trial of a larger cap, on a simulated agent.
    """

    material: Material
    own: list[Run]
    grid: list[Run]
    policies: list[Run]
    trial: TrialResult
    seconds: float


class Report(NamedTuple):
    """The results of the demo: all runs in one frame, the text for the terminal, and the files that were written."""

    runs: pd.DataFrame
    text: str
    files: tuple[Path, ...]

    def __str__(self) -> str:
        return self.text


class _Section(NamedTuple):
    """A part of the report: its text, and the runs that it is about."""

    title: str
    body: str
    runs: Sequence[Run] = ()


def demo(out: str | Path = "out/demo", *, grid: Grid = GRID, progress: bool = True) -> Report:
    """Make all runs and the report on them. Inside a running event loop, await `measure` and call `report` instead.

    Args:
        out: The folder for figures and tables; it is made if it is missing.
        grid: The limits to combine. Each axis has a None, no limit, to compare the others with.
        progress: Whether to show progress bars.

    Raises:
        SettingError: if the grid is not one, or the folder cannot be written to.
    """
    folder = folder_of(out)
    return report(asyncio.run(measure(grid=grid, progress=progress)), folder)


def load_material(root: str | Path | None = None) -> Material:
    """The agents and scripts that come with boolab, and tools that read `root` (the checkout by default).

    The folder does not change while the demo runs, so each distinct call is made once.
    """
    scripts = map(ScriptedModel.load, sorted((data_path("datasets") / "scripts").glob("*.yaml")))
    tools = workspace_tools(checkout() if root is None else root).values()
    return Material(
        load_agents(data_path("agents")),
        {script.name: script for script in scripts},
        [replace(tool, function=functools.cache(tool.function)) for tool in tools],
    )


async def measure(material: Material | None = None, *, grid: Grid = GRID, progress: bool = True) -> Measured:
    """Run every agent on every script: under its own limits, under the grid, and under other policies.

    An agent whose file has `max_steps: 0` calls no tools under any limit; it runs under its own limits only. Arguments
    are those of `demo`; `material` is what runs, by default what comes with boolab.

    Raises:
        SettingError: if the grid has another axis than the three limits, or an axis without None.
    """
    if set(grid) != set(AGENT_LIMITS) or not all(None in values for values in grid.values()):
        msg = f"grid={dict(grid)!r} is not accepted; expected values for {', '.join(AGENT_LIMITS)}, None among each"
        raise SettingError(msg)
    material = load_material() if material is None else material
    agents = list(material.agents.values())
    workers = [agent for agent in agents if agent.max_steps != 0]
    others = {"policy": [name for name in POLICIES if name != "boocode"], "max_steps": grid["max_steps"]}
    run = functools.partial(sweep, tasks=TASK, model=material.scripts, tools=material.tools, progress=progress)
    start = time.perf_counter()
    with _quiet():
        own = await run(agents)
        limited = await run(workers, grid={"policy": ["boocode"], **grid})
        other = await run(workers, grid=others)
    return Measured(material, own, limited, other, await _trial(), time.perf_counter() - start)


def report(measured: Measured, out: str | Path = "out/demo") -> Report:
    """The report on these runs: its text, and figures and tables in the folder `out`.

    Raises:
        SettingError: if the folder cannot be written to.
    """
    folder = folder_of(out)
    sections = [
        _own_limits(measured),
        _one_limit_at_a_time(measured),
        _other_rules(measured.material),
        _early_exit(measured.material),
        _stuck(measured.material),
        _retry(measured.material),
        _Section(f"Should the cap be raised from {CAP} to {RAISED}?", _raised(measured.trial)),
    ]
    parts = {"own limits": measured.own, "grid": measured.grid, "policies": measured.policies}
    for section in sections:
        if section.runs:
            parts[section.title.lower()] = list(section.runs)
    runs = pd.concat([_frame(listed).assign(part=name) for name, listed in parts.items()], ignore_index=True)
    recorded = findings_of(recordings())
    sections.append(_Section("What a recording shows about every setting", recorded.text))
    files = (*_write_tables(runs, recorded, folder), *_write_figures(measured, recorded, folder))
    material = measured.material
    head = (
        f"boolab demo: {len(material.agents)} agents on {len(material.scripts)} scripts, {len(runs):,} runs in "
        f"{measured.seconds:.1f} s. The models are scripted: time is virtual, tokens and prices are the scripts' own."
    )
    body = [f"{n}. {section.title}\n\n{section.body}" for n, section in enumerate(sections, 1)]
    tail = "\n".join(["Written:", *(f"  {path}" for path in files)])
    return Report(runs, "\n\n".join([wrap(head), *body, tail]), files)


def stop_reasons(runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """How often each stop reason came, and what the runs used, for each combination of the columns `by` of `runs_df`.

    Returns:
        A row for each group in the order of their appearance: `n_runs`, a column `n_REASON` for each stop reason that
        occurs, `n_dropped` (calls), `n_steps`, `tokens` (input and output), `cost_usd`, and `n_unknown`: the runs that
        these two leave out, because their provider did not report what they used.
    """
    tokens = runs["input_tokens"] + runs["output_tokens"]
    ended = {f"n_{name}": runs["stop_reason"] == name for name in get_args(StopReason)}
    flags = {name: flag.astype("Int64") for name, flag in ended.items() if flag.any()}
    counted = runs.assign(n_runs=1, **flags, tokens=tokens, n_unknown=tokens.isna().astype("Int64"))
    sums = ["n_runs", *flags, "n_dropped", "n_steps", "tokens", "cost_usd", "n_unknown"]
    return counted.groupby(list(by), dropna=False, sort=False)[sums].sum().reset_index()


def _own_limits(measured: Measured) -> _Section:
    limits = {run.agent: run.limits for run in measured.own}
    table = stop_reasons(_frame(measured.own), ["agent"])
    for column, counter in {"step_limit": "steps", "call_limit": "tool_calls", "loop_limit": "repeat_streak"}.items():
        table[column] = [_or_dash(limits[agent].get(counter)) for agent in table["agent"]]
    others = [f"{run.agent} under {run.policy}" for run in measured.own if run.policy != "boocode"]
    text = f"""
        Each agent runs once on each of the {len(measured.material.scripts)} scripts, under its own limits or else its
        policy's. The policy is boocode, but {", ".join(dict.fromkeys(others)) or "for none"}.
    """
    body = _table(table, ["agent", "step_limit", "call_limit", "loop_limit"], ["dropped", "steps", "tokens"])
    return _Section("Every agent under its own limits", f"{paragraphs(text)}\n\n{body}")


def _one_limit_at_a_time(measured: Measured) -> _Section:
    frame = _frame([*_single(measured.grid), *_single(measured.policies)])
    table = stop_reasons(frame, ["policy", "limit"])
    table["limit"] = [
        f"{policy}, {limit}" if limit == "no limit" else f"  {limit}"
        for policy, limit in zip(table["policy"], table["limit"], strict=True)
    ]
    ceilings = ", ".join(
        f"{policy.cap.ceiling:,} for {policy.name}"
        for policy in map(presets.__getitem__, POLICIES)
        if policy.cap.ceiling
    )
    text = f"""
        Each row is {len({(run.agent, run.model) for run in measured.grid})} runs, those of all agents that may call
        tools. Where there is no limit, a policy's ceiling on steps holds: {ceilings}.
    """
    body = _table(table, ["limit"], ["dropped", "steps", "tokens", "cost"])
    hollow = frame[(frame["stop_reason"] == "finished") & (frame["n_dropped"] > 0)]
    notes = [
        wrap(f"Finished is not done: of these {policy} runs, {count} reported 'finished' and had dropped tool calls.")
        for policy, count in hollow["policy"].value_counts().items()
    ]
    return _Section("One limit at a time", "\n\n".join([paragraphs(text), body, *notes, _cut_short(measured.grid)]))


def _cut_short(runs: Sequence[Run]) -> str:
    """For each limit by itself, the scripts that finish without it and do not finish with it."""
    finished = {(run.agent, run.model) for run in runs if not _limits(run) and run.stop_reason == "finished"}
    cut: dict[str, dict[str, None]] = {}
    count: dict[str, int] = {}
    for run in _single(runs):
        if _limits(run) and (run.agent, run.model) in finished:
            limit = _limit(run)
            lost = run.stop_reason != "finished"
            count[limit] = count.get(limit, 0) + lost
            cut.setdefault(limit, {}).update({run.model: None} if lost else {})
    lines = [f"Of the {len(finished)} boocode runs that finish without a limit, each limit by itself cuts short"]
    for limit, scripts in cut.items():
        names = ", ".join(scripts) or "no script"
        lines.append(wrap(f"{limit:<14} {count[limit]:>4}: {names}", indent="  ", hang=" " * 23))
    return "\n".join(lines)


def _other_rules(material: Material) -> _Section:
    runs = [material.play(script, stop=rule) for rule, script in RULES]
    rows = [
        (str(rule), script, stop.reason, f"{stop.step}", _value(stop.value, stop), _value(stop.overshoot, stop))
        for (rule, script), stop in zip(RULES, [run.stop for run in runs], strict=True)
    ]
    note = (
        "stop=... replaces the policy's limits. Rules are evaluated only between steps: the step that crosses a limit "
        "is completed, and the excess is on record. A rule that needs a number which the provider does not report ends "
        "the run with an error instead of a guess."
    )
    headers = ("stop=", "script", "stop reason", "steps", "value", "over by")
    return _Section("Rules of your own", f"{wrap(note)}\n\n{align(headers, rows, left=3)}", runs)


def _early_exit(material: Material) -> _Section:
    naive, boocode = (material.play("early_exit", policy=policy) for policy in ("naive", "boocode"))
    last = naive.steps[-1]
    dropped = ", ".join(call.name for call in last.dropped)
    text = f"""
        Response {last.index} of the script early_exit has the finish reason {last.response.finish_reason!r} while
        {len(last.response.tool_calls)} tool calls are in it.

        naive relies on the reason. It dropped {len(last.dropped)} calls ({dropped}), executed {naive.n_tool_calls}, and
        reports {naive.stop_reason!r}. Its last word: "{naive.text}"

        boocode looks for tool calls instead. It dropped {sum(len(step.dropped) for step in boocode.steps)}, executed
        {boocode.n_tool_calls} in {boocode.n_steps} steps, and reports {boocode.stop_reason!r}. Its last word:
        "{boocode.text}"
    """
    return _Section("A way to fail: an early exit with tool calls pending", paragraphs(text), (naive, boocode))


def _stuck(material: Material) -> _Section:
    runs = {
        "naive, no guard": material.play("stuck", policy="naive"),
        "boocode, doom_loop none": material.play("stuck", policy="boocode", doom_loop=None, tool_budget=None),
        "boocode, doom_loop 3": material.play("stuck", policy="boocode", doom_loop=3, tool_budget=None),
    }
    frame = _frame(runs.values())
    tokens = [int(n) for n in frame["input_tokens"] + frame["output_tokens"]]
    rows = [
        (name, run.stop_reason, str(run.stop.rule), f"{run.n_steps:,}", f"{used:,}", f"${cost:.2f}", _seconds(run))
        for (name, run), used, cost in zip(runs.items(), tokens, frame["cost_usd"], strict=True)
    ]
    headers = ("setting", "stop reason", "rule", "steps", "tokens", "cost", "time")
    unguarded, *_, guarded = runs.values()
    text = f"""
        The script stuck makes the same call for ever. Without a guard, {unguarded.stop.rule} ended it after
        {unguarded.n_steps:,} steps; a doom-loop threshold of {guarded.stop.threshold} stopped it after
        {guarded.n_steps}. Between them lie {unguarded.n_steps - guarded.n_steps:,} steps and
        {tokens[0] - tokens[-1]:,} tokens. (boocode requests a summary when a limit ends a run; it is counted here.)
    """
    body = f"{paragraphs(text)}\n\n{align(headers, rows, left=3)}"
    return _Section("A way to fail: a stuck model without a doom-loop guard", body, tuple(runs.values()))


def _retry(material: Material) -> _Section:
    cap = 5
    broken = material.play("outage", max_steps=cap)
    retried = material.play("after_the_outage", max_steps=cap)
    left = cap - broken.stop_step
    surviving = material.play("after_the_outage", max_steps=left)
    text = f"""
        The first attempt (script outage, a cap of {cap}) failed in response {broken.n_steps}: {broken.error}.
        {broken.stop_step} tool steps were complete, and they are on record.

        The retry by the same agent (script after_the_outage) begins with {steps_df(retried)["steps_left"].iloc[0]}
        steps left. It ended with {retried.stop_reason!r} after {retried.n_steps} responses.

        Had the counter survived the failure, {left} steps would have been left. With a cap of {left} the same work ends
        with {surviving.stop_reason!r} after {surviving.n_steps} responses.
    """
    runs = (broken, retried, surviving)
    return _Section("A way to fail: a step counter that survives a retry", paragraphs(text), runs)


async def _trial() -> TrialResult:
    """A trial of a larger cap, on runs of a simulated agent that its cap stopped."""
    model = SimulatedModel.load("coder")
    agent = Agent("coder", max_steps=CAP, tool_budget=None, doom_loop=None)
    runs = await sweep(agent, [f"Task {number}" for number in range(TASKS)], model, progress=False)
    return await trial(runs, {"max_steps": RAISED}, model=model).run(BRANCHES, progress=False)


def _raised(found: TrialResult) -> str:
    """The answer of a trial."""
    text = f"""
        A recording does not show what a stopped run would have done next. A trial continues some of the runs that a cap
        of {CAP} stopped, under a cap of {RAISED}. The agent is simulated, and so are its successes.
    """
    return f"{paragraphs(text)}\n\n{found}"


def _write_tables(runs: pd.DataFrame, recorded: Findings, folder: Path) -> Iterator[Path]:
    tables = {
        "runs.csv": runs,
        "stop_reasons_by_setting.csv": stop_reasons(
            runs[runs["part"].isin(["grid", "policies"])], ["policy", *AGENT_LIMITS]
        ),
        "stop_reasons_by_agent.csv": stop_reasons(runs[runs["part"] == "own limits"], ["agent", "policy"]),
        "recorded_runs_by_limit.csv": recorded.rows,
    }
    for name, table in tables.items():
        write_csv(table, folder / name)
        yield folder / name


def _write_figures(measured: Measured, recorded: Findings, folder: Path) -> Iterator[Path]:
    from matplotlib.figure import Figure

    from boolab.plots import plot_steps, plot_stop_reasons, plot_tools

    single = _frame(_single(measured.grid))
    figures: dict[str, tuple[float, Callable[[Axes], object]]] = {
        "stop_reasons_by_agent.png": (5, lambda ax: plot_stop_reasons(measured.own, by="agent", ax=ax)),
        "stop_reasons_by_setting.png": (5, lambda ax: plot_stop_reasons(single, by="limit", ax=ax)),
        "steps_by_agent.png": (7, lambda ax: plot_steps(measured.own, by="agent", ax=ax)),
        "steps_by_setting.png": (7, lambda ax: plot_steps(single, by="limit", ax=ax)),
        "tools.png": (5, lambda ax: plot_tools(measured.own, ax=ax)),
        **{name: (5, draw) for name, draw in recorded.figures.items()},
    }
    for name, (height, draw) in figures.items():
        figure = Figure(figsize=(9, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(folder / name, dpi=150)
        yield folder / name


def _frame(runs: Iterable[Run]) -> pd.DataFrame:
    """The runs as a frame, with a column for each limit of the grid, and one for all of them in words."""
    listed = list(runs)
    frame = runs_df(listed)
    for name in AGENT_LIMITS:
        frame[name] = pd.Series([run.settings.get(name) for run in listed], dtype="Int64")
    return frame.assign(limit=[_limit(run) for run in listed])


def _single(runs: Iterable[Run]) -> list[Run]:
    """The runs with one limit of the grid or none, by policy and limit."""
    single = [run for run in runs if len(_limits(run)) <= 1]
    return sorted(
        single, key=lambda run: (POLICIES.index(run.policy), [AGENT_LIMITS.index(name) for name in _limits(run)])
    )


def _limits(run: Run) -> dict[str, int]:
    """The limits of the grid that the run had."""
    return {name: run.settings[name] for name in AGENT_LIMITS if run.settings.get(name) is not None}


def _limit(run: Run) -> str:
    return ", ".join(f"{name} {value}" for name, value in _limits(run).items()) or "no limit"


def _table(table: pd.DataFrame, first: Sequence[str], last: Sequence[str]) -> str:
    """A table of stop reasons as text: the columns `first`, the reasons, and those of `_USED` that `last` names."""
    reasons = [f"n_{reason}" for reason in get_args(StopReason) if f"n_{reason}" in table]
    rows = [
        (
            *(row[name] for name in first),
            *(f"{row[name]:,}" if row[name] else "." for name in reasons),
            *(_USED[name](row) for name in last),
        )
        for row in table.to_dict("records")
    ]
    text = align((*first, *(name.removeprefix("n_") for name in reasons), *last), rows, left=1)
    unknown, total = table["n_unknown"].sum(), table["n_runs"].sum()
    note = f"Tokens and cost leave out {unknown:,} of {total:,} runs, whose provider did not report what they used."
    return f"{text}\n\n{wrap(note)}" if unknown else text


_USED: Final[Mapping[str, Callable[[Mapping[Any, Any]], str]]] = {
    "dropped": lambda row: f"{row['n_dropped']:,}" if row["n_dropped"] else ".",
    "steps": lambda row: f"{row['n_steps']:,}",
    "tokens": lambda row: f"{row['tokens'] / 1_000_000:.2f}M",
    "cost": lambda row: f"${row['cost_usd']:.2f}",
}
"""What the runs of a row lost and used, as text."""


def _value(value: int | None, stop: Stop) -> str:
    """A counter's value, in the units of the rule that read it."""
    if value is not None and stop.reason == "cost_budget":
        return f"${value / MICRO:.2f}"
    if value is not None and stop.reason == "time_budget":
        return f"{value / 1000:.1f} s"
    return _or_dash(value)


def _seconds(run: Run) -> str:
    return "-" if run.duration_ms is None else f"{run.duration_ms / 1000:,.0f} s"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def folder_of(path: str | Path) -> Path:
    """The folder, which is made if it is missing."""
    folder = user_path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"{folder} cannot be written to: {error.strerror}") from error
    return folder


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the loop's warnings out of the terminal: the report has the same facts."""
    log, handler = logging.getLogger("boolab.loop"), logging.NullHandler()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
