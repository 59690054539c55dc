"""Inspect: the limits of a sample, in Python and on the command line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from boolab.harnesses.exports.python_code import python_part, spending_notes
from boolab.harnesses.exports.step_cap import limited_steps
from boolab.harnesses.exports.values import Limits, Part, Sets, Target, comment
from boolab.harnesses.groups import About, Budgets, Cap, Detectors, Execution, Finish
from boolab.harnesses.harness import STEPS, Harness, Native
from boolab.harnesses.policy import Policy
from boolab.limits.detectors.streaks import FinishStreak
from boolab.limits.guard import Guard
from boolab.limits.table import LIMITS

_PRESET: Final = "inspect_react"
_NO_LIMIT: Final = "Inspect has none; bl.Monitor in a solver of your own has it."
_VERIFIED: Final = "run with inspect-ai 0.3.285"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The arguments of `eval`, and the options of `inspect eval`."""
    remarks: list[str] = []
    values: dict[str, int | float] = {}
    if (cap := limited_steps(limits, _PRESET, remarks, "turns")) is not None:
        values["turn_limit"] = cap
    if limits.max_tokens is not None:
        values["token_limit"] = limits.max_tokens
    if limits.max_cost is not None:
        values["cost_limit"] = limits.max_cost
        remarks.append("A cost limit needs the prices of the model: see set_model_info.")
    if limits.max_time is not None:
        values["time_limit"] = math.ceil(limits.max_time)
        remarks.append("The time limit is in whole seconds, and interrupts a sample at once, also during a call.")
    remarks += spending_notes(limits, _PRESET, ("max_tokens", "max_cost"))
    if not values:
        text = comment("python", notes)
        return (Part(text=text, language="python", how="Inspect has no such limit."),), ()
    arguments = [f"    {name}={value}," for name, value in values.items()]
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in values.items())
    code = ["import inspect_ai", "", "logs = inspect_ai.eval(", "    task,", "    model=model,", *arguments, ")"]
    names, how = LIMITS.keys() - _TARGET.lacks, "where the task is evaluated; `task` and `model` are yours."
    part = python_part(limits, names, code, [*remarks, *notes], how)
    command = f"inspect eval task.py {options}\n"
    same = Part(text=command, language="shell", how="the same on the command line.", sets=part.sets)
    return (part, same), tuple(remarks)


_TARGET: Final = Target(
    name="inspect",
    title="Inspect",
    preset=_PRESET,
    source="inspect-ai 0.3.285, the released package, run (docs/exports.md); "
    "https://inspect.aisi.org.uk/setting-limits.html",
    sets=(
        Sets(
            "max_steps",
            "`turn_limit` of `eval`, `--turn-limit`",
            "responses, evaluated after each: the one beyond it is paid for and dropped",
            _VERIFIED,
        ),
        Sets("max_tokens", "`token_limit`, `--token-limit`", "tokens; a response above it is dropped", _VERIFIED),
        Sets("max_cost", "`cost_limit`, `--cost-limit`", "dollars; a response above it is dropped", _VERIFIED),
        Sets(
            "max_time",
            "`time_limit`, `--time-limit`",
            "whole seconds; the sample is interrupted",
            "inspect eval --help of 0.3.285",
        ),
    ),
    lacks=dict.fromkeys(("tool_budget", "doom_loop", "error_streak"), _NO_LIMIT),
    build=build,
)


_INSPECT_REACT: Final = Policy(
    name="inspect_react",
    order=("token_budget", "cost_budget", "max_steps", "time_budget"),
    about=About(
        source="Inspect, src/inspect_ai/agent/_react.py and its sample limits",
        loop_style="while true until submit or a limit",
        finish_guard="submit, called without an error",
        weakness="the response that breaks the limit is paid and dropped; the sample still counts as a success",
        own_words=(
            ("stuck", "success"),
            ("error", "error"),
            ("step_cap", "success, limit turn"),
            ("token_budget", "success, limit token"),
            ("cost_budget", "success, limit cost"),
            ("time_budget", "success, limit time"),
            ("finished", "success"),
        ),
    ),
    cap=Cap(check="response", zero="plain"),
    budgets=Budgets(after="exceeded"),
    detectors=Detectors(
        guards=(Guard(detector=FinishStreak("content_filter"), ladder=((3, "stop"),), check="response"),)
    ),
    finish=Finish(
        conditions=(),
        tools=("submit",),
        idle_prompt="Go on with the next step. If the work is finished, call submit with the answer.",
        final_reasons=("model_length",),
    ),
    execution=Execution(calls="sequence", tool_failures="unexpected_fatal"),
)

HARNESS: Final = Harness(
    presets=(_INSPECT_REACT,),
    sources={"inspect": "inspect_react"},
    limits={
        # inspect.aisi.org.uk, Setting Limits.
        "inspect_react": {
            "turn_limit": STEPS,
            "message_limit": Native("messages", "messages"),
            "token_limit": Native("max_tokens"),
            "cost_limit": Native("max_cost"),
            "time_limit": Native("max_time"),
            "working_limit": Native("working", "seconds of work"),
        }
    },
    target=_TARGET,
)
