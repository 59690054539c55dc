"""Two runs, or two policies or agents on the same work, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from boolab.core.run import Run
from boolab.core.text import clean, count
from boolab.core.types import Stop
from boolab.errors import SettingError
from boolab.frames.runs import Runs, one_run, two_runs
from boolab.harnesses.compare import compare_policies, distinct_names
from boolab.harnesses.describe import NOT_APPLICABLE
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, policies
from boolab.logs.shipped import ATLAS
from boolab.plots.timeline import plot_timeline
from boolab.runtime.agents.agent import Agent, limits_of, policy_of
from boolab.runtime.tools.tool import ToolSpec, as_tool
from boolab.sweeps.divergence import Script, both_runs, run_script
from boolab.whatif.evaluate import counterfactual
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets._base.widget import png_of
from boolab.widgets.compare.data import (
    DivergentStep,
    Side,
    compare_data,
    compare_text,
    first_divergent_step,
    reason_words,
    side_of,
)
from boolab.widgets.replay.diffs import diff_of
from boolab.widgets.replay.widget import OpeningView, OpensRuns, replay_parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OF_PATHS: Final = "/\\~*."
"""Signs of paths and of sets that no name of a policy has."""
MAX_DRAWN: Final = 1_500  # steps of a picture
MAX_NAME: Final = 32  # characters of a task or an id that can be a name
MAX_PART: Final = 12  # characters of an id that is longer: its first ones, or where these are the same its last ones


class _Columns(OpeningView, module="compare"):
    """Both runs, step by step."""


class Compare(OpensRuns):
    """Two runs side by side: equal steps are folded, the first difference is marked and described.

    Two runs are compared as they are on record. Two policies each run the same script, and so do two agents, each under
    its own policy; what differs in them is shown. A run and a policy show what the recording
    shows about that policy: the same steps, up to where it would have stopped.

    Args:
        a: A run, or where one is: a list with it, the path of a store or of logs, the name of a set; a policy, or the
            name of a preset; or an agent. Without `b`, two runs, or where they are.
        b: The other one.
        script: What two policies or agents run: see `first_divergence`.
        agent: The agent that runs it under two policies; None for a bare model.
        tools: The tools of both runs.
        root: The folder of built-in tools that two agents list by name.
        task: The user's message.

    Attributes:
        opened: `{"run": run_id, "step": n}`, what is open in `Replay` below; None for nothing.
        divergence: The step at which they diverge, from 1, what is not the same there, and what each does; None if they
            never diverge.

    Raises:
        SettingError: if two policies or agents come without a script, a run with one, an agent with something else
            than an agent, or a policy does not exist.
        ScriptError: if the script cannot be read.

    Example:
        >>> import boolab as bl
        >>> stuck = [{"tool_calls": [{"name": "grep"}], "repeat": "forever"}]
        >>> bl.Compare("boocode", "crush", script=stuck)
        Compare(A limit stops boocode after step 3; crush continues for 7 more steps)
        >>> careful, patient = bl.Agent("careful", doom_loop=2), bl.Agent("patient", doom_loop=5)
        >>> bl.Compare(careful, patient, script=stuck).divergence.step
        3
    """

    def __init__(
        self,
        a: Runs | Policy | Agent,
        b: Runs | Policy | Agent | None = None,
        *,
        script: Script | None = None,
        agent: Agent | None = None,
        tools: Sequence[ToolSpec | Callable[..., Any]] | None = None,
        root: str | Path | None = None,
        task: str = "go",
    ) -> None:
        a, b = _pair(a, b)
        runs = [one for one in (a, b) if isinstance(one, Run)]
        if runs and script is not None:
            raise SettingError(f"Compare({_shown(a)}, {_shown(b)}): runs are compared as they are: leave script= out")
        notes: tuple[str, ...] = ()
        differences = None
        if isinstance(a, Agent) or isinstance(b, Agent):
            agents = _two_agents(a, b, script, agent)
            one, other = (run_script(script or (), each, tools=tools, root=root, task=task) for each in agents)
            names = distinct_names(each.name for each in agents)
            sides = (side_of(one, names[0]), side_of(other, names[1]))
            # Their prompts are among the differences, and the model of a script does not read them.
            self.divergence = first_divergent_step(one, other, names, prompts=False)
            differences = agents_differ(*agents)
        elif isinstance(a, Run):
            if isinstance(b, Run):
                names = _names(a, b)
                sides = (side_of(a, names[0]), side_of(b, names[1]))
                self.divergence = first_divergent_step(a, b, names)
            else:
                sides, self.divergence, notes = _of_recording(a, b, first=True)
        elif isinstance(b, Run):
            sides, self.divergence, notes = _of_recording(b, a, first=False)
        else:
            sides, self.divergence = _of_policies(script, a, b, agent, tools, task)
            differences = policies_differ(a, b)
        self._sides = sides
        self._plain = compare_data(*sides, self.divergence, notes, differences)
        by_id = {side.opens: side.run for side in sides}
        by_id |= {run.run_id: run for run in runs}
        super().__init__(_Columns(self._plain), by_id)

    def _title(self) -> str:
        return str(self._plain["title"])

    def _text(self) -> str:
        return compare_text(self._plain)

    def _picture(self) -> bytes:
        """The timelines of both; of long runs the part around where they diverge."""
        return png_of(self._draw, (7.2, 9.6))

    def _draw(self, figure: Figure) -> None:
        for side, ax in zip(self._sides, figure.subplots(2), strict=True):
            steps = side.run.steps
            if len(steps) > MAX_DRAWN:
                stop = Stop(side.run.stop.reason, MAX_DRAWN)
                plot_timeline(replace(side.run, steps=steps[:MAX_DRAWN], stop=stop, inputs=()), ax=ax)
                ax.set_title(f"{side.name}: the first {MAX_DRAWN:,} of {len(steps):,} steps", loc="left")
            else:
                plot_timeline(side.run, ax=ax)

    def _runs(self) -> dict[str, PagePart]:
        return replay_parts(self._by_id.values())


def _pair(a: object, b: object) -> tuple[Run | str | Policy | Agent, Run | str | Policy | Agent]:
    """Both sides: runs from wherever they are, policies and agents as they are given."""
    if b is not None:
        return _side(a), _side(b)
    if isinstance(a, Run | Policy | Agent) or (isinstance(a, str) and not _is_place(a)):
        kind = "one run" if isinstance(a, Run) else _shown(a)
        msg = f"Compare({kind}): expected two runs, such as Compare(runs[0], runs[1]), two policies, or two agents"
        raise SettingError(msg)
    return two_runs(a, "Compare")  # type: ignore[arg-type] # it is checked there


def _side(given: object) -> Run | str | Policy | Agent:
    if isinstance(given, Run | Policy | Agent) or (isinstance(given, str) and not _is_place(given)):
        return given
    return one_run(given, "Compare", "bl.{}(bl.load_runs(path)[0], ...)")  # type: ignore[arg-type]


def _is_place(text: str) -> bool:
    """Whether a text is where runs are, and no name of a policy."""
    return text not in policies and (text == ATLAS or any(sign in text for sign in _OF_PATHS) or Path(text).exists())


def _shown(one: object) -> str:
    return "a run" if isinstance(one, Run) else repr(one if isinstance(one, str) else getattr(one, "name", one))


def _two_agents(a: object, b: object, script: Script | None, agent: Agent | None) -> tuple[Agent, Agent]:
    if not (isinstance(a, Agent) and isinstance(b, Agent)):
        raise SettingError(f"Compare({_shown(a)}, {_shown(b)}): an agent is compared with another agent")
    if script is None or agent is not None:
        needed = "two agents need script=" if script is None else "two agents are compared: leave agent= out"
        raise SettingError(f"Compare({_shown(a)}, {_shown(b)}): {needed}")
    return a, b


def _names(a: Run, b: Run) -> tuple[str, ...]:
    """By what distinguishes them: policy, agent, model, task (without its data set); else by their ids."""
    for name in ("policy", "agent", "model"):
        pair = (getattr(a, name), getattr(b, name))
        if all(pair) and pair[0] != pair[1]:
            return pair
    tasks = tuple(run.task.rpartition("/")[2] for run in (a, b))
    if all(0 < len(task) <= MAX_NAME for task in tasks) and tasks[0] != tasks[1]:
        return tasks
    ids: tuple[str, ...] = (a.run_id, b.run_id)
    if max(map(len, ids)) > MAX_NAME:
        starts = tuple(one[:MAX_PART] for one in ids)
        ids = starts if starts[0] != starts[1] else tuple(f"\N{HORIZONTAL ELLIPSIS}{one[-MAX_PART:]}" for one in ids)
    return distinct_names(ids)


def _of_policies(
    script: Script | None,
    a: str | Policy,
    b: str | Policy,
    agent: Agent | None,
    tools: Sequence[ToolSpec | Callable[..., Any]] | None,
    task: str,
) -> tuple[tuple[Side, Side], DivergentStep | None]:
    if script is None:
        for policy in (a, b):
            get_policy(policy)  # a name that is none is the first thing to mention
        raise SettingError(f"Compare({_shown(a)}, {_shown(b)}): two policies need script=")
    one, other, found = both_runs(script, a, b, agent=agent, tools=tools, task=task)
    names = distinct_names([one.policy, other.policy])
    sides = (side_of(one, names[0]), side_of(other, names[1]))
    return sides, None if found is None else DivergentStep(found.step, found.what, found.a, found.b, kind=found.kind)


def _of_recording(
    run: Run, policy: str | Policy, *, first: bool
) -> tuple[tuple[Side, Side], DivergentStep | None, tuple[str, ...]]:
    """A recorded run, and what it shows about a policy; `first` puts the run on the left."""
    chosen = get_policy(policy)
    row = counterfactual(run, policy=chosen).iloc[0]
    stopped = row["outcome"] in ("truncated", "not_identified", "unknown")
    n = int(row["steps"])
    recorded = side_of(run, "the recording")
    name = chosen.name
    if not stopped:
        end = f"never stops it: {recorded.stop}, as recorded"
        would, divergence = Side(name, run, end, None, run.run_id), None
        notes = () if row["outcome"] == "unchanged" else ("The recording ends first: what follows is unknown.",)
    else:
        reason = "error" if row["outcome"] == "unknown" else row["stop_reason"]
        known = isinstance(reason, str)
        end = (
            f"would stop after step {n:,}: {reason_words(reason)}"
            if known
            else f"would send the model a message after step {n:,}"
        )
        cut = replace(run, steps=run.steps[:n], policy=name, inputs=tuple(i for i in run.inputs if i.before <= n + 1))
        would = Side(name, cut, end, reason if known else None, run.run_id)
        what = f"only the recording continues; {name} would not." if n < len(run.steps) else "both end before it."
        continues = f"makes step {n + 1:,}" if n < len(run.steps) else recorded.stop
        did = (continues, end) if first else (end, continues)
        divergence = DivergentStep(n + 1, what, *did, kind="would" if n < len(run.steps) else "end")
        unknown = f"What it would have achieved with {count(n, 'step')} is unknown."
        notes = (f"{name} is not run: its side is what the recording shows about it. {unknown}",)
    sides = (recorded, would) if first else (would, recorded)
    return sides, divergence, notes


def agents_differ(a: Agent, b: Agent) -> dict[str, Any]:
    """The rows of what is not the same in both, and the lines in which their prompts differ."""
    both = [_facts(agent) for agent in (a, b)]
    names = dict.fromkeys(chain.from_iterable(both))
    rows = [{"name": name, "a": both[0].get(name, "no"), "b": both[1].get(name, "no")} for name in names]
    prompt = [line._asdict() for line in diff_of(a.prompt, b.prompt)]
    return {"of": "agents", "rows": [row for row in rows if row["a"] != row["b"]], "prompt": prompt}


def policies_differ(a: str | Policy, b: str | Policy) -> dict[str, Any]:
    """The axes that are not the same in both."""
    rows = []
    for axis in compare_policies(a, b).rows:
        if axis.differs and not axis.field.startswith("about."):
            one, other = ("no such setting" if cell == NOT_APPLICABLE else clean(cell) for cell in axis.cells)
            rows.append({"name": axis.name, "a": one, "b": other})
    return {"of": "policies", "rows": rows, "prompt": []}


def _facts(agent: Agent) -> dict[str, str]:
    policy = policy_of(agent)
    tools = ", ".join(tool if isinstance(tool, str) else as_tool(tool).name for tool in agent.tools)
    facts = {
        "policy": str(policy),
        "tools": tools or "all that are given to the run",
        "exempt from the doom-loop threshold": ", ".join(agent.exempt) or "none",
        "temperature": "the model's own" if agent.temperature is None else f"{agent.temperature:g}",
    }
    for sentence in limits_of(agent, policy):
        name, _, value = sentence.partition(": ")
        facts[name] = f"{facts[name]}; {value}" if name in facts else value
    return {name: clean(value) for name, value in facts.items()}
