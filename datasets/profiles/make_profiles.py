"""Make the shipped profiles: fitted to a folder of logs, or calibrated to published figures. README.md says which.

    python datasets/profiles/make_profiles.py FOLDER

The folder holds logs of tau-bench, SWE-agent, SWE-smith, mini-swe-agent, Claude Code and pi, each in a folder of that
name (README.md says where they come from). They are no part of the repository.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml

from boolab import fit_profile, load_runs
from boolab.core.run import Run
from boolab.core.types import Step, ToolCall, ToolResult
from boolab.frames.tables import runs_df
from boolab.runtime.models import Profile
from boolab.stats.profile_fit.result import play

HERE: Final = Path(__file__).parent
DIGITS: Final = 4
_ABOUT: Final = frozenset({"name", "description", "sources", "assumptions", "tasks"})
_PLAYED: Final = 1000

TURNS: Final = "Gao and Peng, More with Less (arXiv 2510.16786), 100 tasks of SWE-bench Verified"
SWE_AGENT: Final = "Yang et al., SWE-agent (arXiv 2405.15793), GPT-4 Turbo"


def main(folder: Path) -> None:
    """Write every profile beside this script."""
    made = [
        airline(folder),
        session(folder),
        claude_code(folder),
        mini_swe_agent(folder),
        swe_agent(folder),
        *(coder(folder, **published) for published in CODERS),
        looper(folder),
    ]
    for profile in made:
        write(profile, HERE / f"{profile.name}.yaml")
        print(f"{profile.name}: {len(profile.tools)} tools")  # noqa: T201 - a script


def write(profile: Profile, path: Path) -> None:
    """Write a profile with rows and lists in a line each."""
    text = yaml.safe_dump(plain(profile), sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    path.write_text(f"# Made by make_profiles.py. README.md says from what.\n{text}", encoding="utf-8")


# --- Fitted to logs ---------------------------------------------------------------------------------------------------


def airline(folder: Path) -> Profile:
    """The tau-bench airline agent. What it says to the user is the benchmark's own action `respond`."""
    runs = [as_actions(run) for run in load_runs(folder / "tau-bench/gpt-4o-airline.trial0.json")]
    fit = fit_profile(runs, name="airline", source="tau-bench, gpt-4o airline, trial 0, 50 runs", simulated=2)
    return shipped(
        fit.profile,
        description="A gpt-4o agent at the desk of an airline: a run is a whole conversation, answers to the user being"
        " calls of `respond`. Its log gives neither tokens nor times.",
    )


def as_actions(run: Run) -> Run:
    """A conversation as one turn: an answer after which the user went on is a call of `respond`."""
    told = {before: message.text for before, message in run.inputs}
    steps = [_as_action(step, told.get(step.index + 1, "")) for step in run.steps[:-1]]
    return replace(run, steps=(*steps, *(step._replace(turn=1) for step in run.steps[-1:])), inputs=())


def _as_action(step: Step, answer: str) -> Step:
    if step.response.tool_calls:
        return step._replace(turn=1)
    call = ToolCall(f"respond-{step.index}", "respond", json.dumps({"content": step.response.text}))
    response = step.response._replace(text="", tool_calls=(call,))
    return step._replace(turn=1, response=response, results=(ToolResult(call.id, answer),))


def session(folder: Path) -> Profile:
    """One long session of the pi coding agent."""
    runs = load_runs(folder / "pi/large-session.jsonl")
    fit = fit_profile(runs, name="session", source="a session of the pi coding agent, 79 turns", simulated=2)
    return shipped(
        fit.profile,
        description="A coding agent in a long session with its user: a run is one turn of it. All figures are of one "
        "session, so they say nothing of how sessions differ.",
    )


def claude_code(folder: Path) -> Profile:
    """Some short sessions of Claude Code."""
    files = [
        *sorted((folder / "claude-code").rglob("*.json*")),
        *sorted((folder / "agtrace/samples").glob("claude_*.jsonl")),
    ]
    runs = [run for file in files for run in load_runs(file)]
    source = f"{len(runs)} sessions of Claude Code that tools for its logs use as samples"
    fit = fit_profile(runs, name="claude_code", source=source, simulated=2)
    return shipped(
        fit.profile,
        description="Short turns of Claude Code. There are few of them, chosen to be samples: the kinds of calls and "
        "their sizes are real, the shares are rough.",
    )


def mini_swe_agent(folder: Path) -> Profile:
    """Two runs of mini-swe-agent."""
    runs = [run for file in sorted((folder / "mini-swe-agent").glob("*.json")) for run in load_runs(file)]
    source = f"{len(runs)} trajectories from the tests of mini-swe-agent"
    fit = fit_profile(runs, name="mini_swe_agent", source=source, simulated=2)
    return shipped(
        fit.profile,
        description="An agent whose only tool is a shell. It rests on two runs: a shape to try policies on, no figures "
        "to rely on.",
    )


def swe_agent(folder: Path) -> Profile:
    """SWE-agent: its tools as in its demonstrations, its failed edits, its length and its success as published."""
    runs = [run for file in sorted((folder / "swe-agent").rglob("*.traj")) for run in load_runs(file)]
    source = f"{len(runs)} demonstrations of SWE-agent"
    base = plain(fit_profile(runs, name="swe_agent", source=source, simulated=2).profile)
    # 93.0% of the resolved runs and 69.0% of all submit within the budget; 12.47% of all are resolved.
    base["success"] = {"finished": 0.1247 * 0.930 / 0.690, "cut": 0.1247 * 0.070 / 0.310}
    base["after_error"] = {"retry": 0.0, "vary": 1.0, "switch": 0.0, "give_up": 0.0}
    base["finish"]["hazard"] = [{"from_step": 1, "probability": 0.0}, {"from_step": 5, "probability": 0.0}]
    base["sources"] |= {
        "success": f"{SWE_AGENT}: 12.47% of 2,294 resolved, 93.0% of these and 69.0% of all submitted within the "
        "budget",
        "tools.edit.error_rate": f"{SWE_AGENT}: 51.7% of 2,294 runs hold a failed edit; set so that as many do here",
        "tools.edit.after_error": f"{SWE_AGENT}: 57.2% of first failed edits are followed by a success in the end; set "
        "so that as many are here",
        "finish.hazard": f"{SWE_AGENT}: resolved runs have a median of 12 steps; set so that all have",
    }
    base["assumptions"] = {
        "finish.hazard.0": "No run ends in its first four steps: none of the demonstrations does.",
        "after_error": "After a failed call other than an edit the agent tries the same tool otherwise.",
        "latency": base["assumptions"]["latency"],
    }
    edit = base["tools"]["edit"]
    # A first failed edit is recovered if a chain of edits, each failing with chance f, is not left before one succeeds.
    edit["after_error"] = {"vary": 1.0, "switch": 0.0}

    def with_(hazard: float, error: float, leave: float) -> Profile:
        base["finish"]["hazard"][1]["probability"] = hazard
        edit["error_rate"] = error
        edit["after_error"] = {"retry": 0.0, "vary": 1 - leave, "switch": leave, "give_up": 0.0}
        return Profile.of(base)

    hazard, error, leave = 0.09, 0.2, 0.3
    for _ in range(3):
        hazard = solve(lambda x, e=error, out=leave: -median_steps(with_(x, e, out)), 0.01, 0.5, -12.5)
        error = solve(lambda x, h=hazard, out=leave: failed_edits(with_(h, x, out))[0], 0.01, 0.9, 0.517)
        leave = solve(lambda x, h=hazard, e=error: -failed_edits(with_(h, e, x))[1], 0.0, 1.0, -0.572)
    return shipped(
        with_(hazard, error, leave),
        description="SWE-agent with GPT-4 Turbo: the chain of its tools from demonstrations, failed edits, length and "
        "success as published. Its logs give neither tokens nor times of the model.",
    )


def median_steps(profile: Profile) -> float:
    """The median number of steps, between whole numbers by the share of runs that are as long."""
    steps = sorted(run.n_steps for run in play(profile, _PLAYED))
    middle = steps[len(steps) // 2]
    below, same = sum(n < middle for n in steps), steps.count(middle)
    return middle + (len(steps) / 2 - below) / same


def failed_edits(profile: Profile) -> tuple[float, float]:
    """The share of runs with a failed edit; and of their first ones, those that an unbroken chain of edits mends."""
    some = mended = 0
    runs = play(profile, _PLAYED)
    for run in runs:
        edits = [
            (call.name == "edit", bool(result and result.is_error))
            for step in run.steps
            for call, result in zip(step.response.tool_calls, step.results, strict=True)
        ]
        first = next((place for place, (edit, failed) in enumerate(edits) if edit and failed), None)
        if first is None:
            continue
        some += 1
        after = next(((edit, failed) for edit, failed in edits[first + 1 :] if not (edit and failed)), (False, False))
        mended += after == (True, False)
    return some / len(runs), mended / max(some, 1)


# --- Published --------------------------------------------------------------------------------------------------------

CODERS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "coder",
        "model": "Claude 4 Sonnet",
        "solved": 0.75,
        "turns": (44, 52, 63.75),
        "dollars": 5.8521,
        "price": {"input": 3.0, "output": 15.0},
    },
    {
        "name": "coder_gemini",
        "model": "Gemini 2.5 Pro",
        "solved": 0.63,
        "turns": (19, 28.5, 44.5),
        "dollars": 4.0766,
        "price": {"input": 1.25, "output": 10.0},
        "output": 1016,
    },
    {
        "name": "coder_gpt",
        "model": "GPT 4.1",
        "solved": 0.62,
        "turns": (38.75, 49.5, 66.25),
        "dollars": 3.2202,
        "price": {"input": 2.0, "output": 8.0},
    },
)
"""Solve rate, quartiles of turns and dollars for a task of the unrestricted agents of arXiv 2510.16786 (Table 2)."""

GROWTH: Final = 300
LOGGED: Final = "2,614,100 output tokens in 2,573 responses of Gemini 2.5 Pro, in the logs of that study"


def coder(
    folder: Path,
    *,
    name: str,
    model: str,
    solved: float,
    turns: tuple[float, float, float],
    dollars: float,
    price: Mapping[str, float],
    output: int | None = None,
) -> Profile:
    """An agent that solves issues, as long, as good and as expensive as published, with the tools of a logged run."""
    runs = [run for file in sorted((folder / "swe-smith").rglob("*.traj")) for run in load_runs(file)]
    free = "output" if output is None else "growth"
    tools = plain(fit_profile(runs, name=name, source="one run of SWE-smith, 22 steps", simulated=2).profile)
    data: dict[str, Any] = {
        "name": name,
        "sources": {
            "tools": tools["sources"]["tools"],
            "finish.hazard": f"{TURNS}: quartiles of the turns of {model}, {', '.join(map(str, turns))}",
            "finish.tool": f"{TURNS}: the tool that ends a run",
            "success.finished": f"{TURNS}: {model} solves {100 * solved:.0f}",
            f"tokens.{free}": f"{TURNS}: {model} costs {100 * dollars:.2f} dollars; set so that it costs as much here",
            "price": "List prices of 2025; nothing of the input is charged as cached, as in that study",
        },
        "assumptions": {
            "finish.hazard.0": "No run ends before half of the lower quartile. Only the quartiles are published.",
            "finish.hazard.3": "Beyond the upper quartile it goes on as before it: nothing is published.",
            "success.cut": "Whether a run that a limit cuts has a patch that solves the issue: nothing is published.",
            "reminders": "What a reminder of the turns left does to an agent: nothing is published but the outcome.",
            "after_error": "No call fails: nothing is published.",
            "loop": "No loops: nothing is published.",
            "tokens.prompt": "Nothing is published.",
            "tokens.growth": "What results add to the next request: nothing is published.",
            "latency": "No times: nothing is published.",
        },
        "start": tools["start"],
        "tools": {
            tool: {key: value for key, value in figures.items() if key in ("next", "argument_chars", "result_chars")}
            for tool, figures in tools["tools"].items()
        },
        "finish": {"hazard": quartile_hazard(turns), "tool": "task_done"},
        "success": {"finished": solved, "cut": 0.4 * solved, "cut_from_step": int(turns[0] // 2)},
        "reminders": [{"turns_left": 10, "factor": 2.0}, {"turns_left": 3, "factor": 4.0, "least": 0.3}],
        "tokens": {"prompt": 4000, "output": output or 0, "growth": GROWTH},
        "price": price,
    }
    if output is not None:
        data["sources"]["tokens.output"] = LOGGED
        del data["assumptions"]["tokens.growth"]
    # What a run costs is linear in both.
    least, most = (mean_dollars(data, free, tokens) for tokens in (0, 1000))
    data["tokens"][free] = 1000 * (dollars - least) / (most - least)
    return shipped(
        Profile.of(data),
        description=f"{model} on issues of SWE-bench Verified, unrestricted: its turns, its solve rate and what it"
        " costs are published, what it does in them is not.",
    )


def quartile_hazard(quartiles: tuple[float, float, float]) -> list[dict[str, float]]:
    """Hazards under which a quarter of the runs have ended after each of these steps; none before half of the first."""
    ends = [int(quartiles[0] // 2) - 1, *(int(quartile) for quartile in quartiles)]
    left = (1.0, 0.75, 0.5, 0.25)
    pieces = [{"from_step": 1, "probability": 0.0}]
    for place in range(3):
        steps = ends[place + 1] - ends[place]
        hazard = 1 - (left[place + 1] / left[place]) ** (1 / steps)
        pieces.append({"from_step": ends[place] + 1, "probability": hazard})
    return pieces


def mean_dollars(data: dict[str, Any], figure: str, tokens: float) -> float:
    """What a run costs on average, with so many tokens for one figure."""
    data["tokens"][figure] = tokens
    return float(runs_df(play(Profile.of(data), _PLAYED))["cost_usd"].mean())


MANY: Final = 20


def looper(folder: Path) -> Profile:
    """A coding agent that falls into loops as often and for as long as others have counted."""
    base = plain(session(folder))
    counted = "macanderson/stella#3292: 138 of 371 trials were stuck; 17 of these hold 20 identical calls in a row"
    base |= {
        "name": "looper",
        "loop": {"rate": 0.0, "period": {1: 1.0}, "again": 0.0},
        "latency": {"response_ms": round(50 * 60_000 / 364)},
    }
    base["sources"] |= {
        "loop.rate": f"{counted}; set so that 37.2% of the runs hold a loop",
        "loop.again": f"{counted}; set so that 12.3% of the runs with a loop do so here",
        "latency.response_ms": "anomalyco/opencode#45442: 364 identical calls in about 50 minutes",
    }
    base["assumptions"] = {
        "loop.period": "All loops are of one step: how many are longer was not counted.",
        "loop": "A stuck trial is taken for a run with a loop. Loops of 364 calls, as in anomalyco/opencode#45442, do"
        " not occur under these figures: their tail is lighter.",
    }
    del base["sources"]["latency"]

    def stuck(rate: float, again: float) -> tuple[float, float]:
        runs = play(Profile.of(base | {"loop": {"rate": rate, "period": {1: 1.0}, "again": again}}), _PLAYED)
        longest = [longest_repeat(run) for run in runs]
        loops = sum(streak > 1 for streak in longest)
        return loops / len(runs), sum(streak >= MANY for streak in longest) / max(loops, 1)

    rate, again = 0.05, 0.85
    for _ in range(2):
        rate = solve(lambda x, a=again: stuck(x, a)[0], 0.001, 0.3, 138 / 371)
        again = solve(lambda x, r=rate: stuck(r, x)[1], 0.5, 0.99, 17 / 138)
    base["loop"] |= {"rate": rate, "again": again}
    return shipped(
        Profile.of(base),
        description="The coding agent of `session`, with doom loops as often and as long as published counts say.",
    )


def longest_repeat(run: Run) -> int:
    """The most steps in a row that made the same calls, none of which had failed."""
    longest = streak = 1
    for old, new in pairwise(run.steps):
        same = [call[1:] for call in old.response.tool_calls] == [call[1:] for call in new.response.tool_calls]
        failed = any(result is not None and result.is_error for result in old.results)
        streak = streak + 1 if same and new.response.tool_calls and not failed else 1
        longest = max(longest, streak)
    return longest


# --- What all share ---------------------------------------------------------------------------------------------------


def solve(function: Any, low: float, high: float, target: float) -> float:  # noqa: ANN401 - of one number
    """Where an increasing function is the target, by bisection: of runs with the same seeds it is all but monotone."""
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return (low + high) / 2


def plain(profile: Profile) -> dict[str, Any]:
    """A profile as plain values, without what has its default."""
    return profile.model_dump(mode="json", exclude_defaults=True)


def shipped(profile: Profile, *, description: str) -> Profile:
    """A profile with its description, its figures rounded to what is worth reading, and no word of its tasks."""
    data = {name: value if name in _ABOUT else rounded(value) for name, value in plain(profile).items()}
    data.pop("tasks", None)
    return Profile.of({**data, "description": description})


def rounded(value: Any) -> Any:  # noqa: ANN401 - plain values
    """Numbers with four significant digits."""
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _folder(arguments: Iterable[str]) -> Path:
    given = [*arguments]
    if len(given) != 1 or not Path(given[0]).is_dir():
        sys.exit("usage: python datasets/profiles/make_profiles.py FOLDER (see datasets/profiles/README.md)")
    return Path(given[0])


if __name__ == "__main__":
    main(_folder(sys.argv[1:]))
