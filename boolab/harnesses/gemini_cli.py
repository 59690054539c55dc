"""Gemini CLI: settings.json for the session, and the file of a subagent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from boolab.harnesses.exports.step_cap import limited_steps, step_cap
from boolab.harnesses.exports.values import Change, Limits, Part, Sets, Target, agent_file, json_part, subagent_part
from boolab.harnesses.groups import About, Budgets, Cap, Detectors, Finish, LastStep
from boolab.harnesses.harness import AgentFiles, ConfigFile, ConfigLimit, Harness, Native
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.io.json_input import mapping
from boolab.limits.detectors.cycles import Cycle
from boolab.limits.detectors.text import RepeatedText
from boolab.limits.detectors.wrappers import Detections
from boolab.limits.guard import Guard

PRESET: Final = "gemini_cli"
SUBAGENT_PRESET: Final = "gemini_subagent"
VERSION: Final = "0.61.0"
REPEATS: Final = 5
"""Identical calls in a row at which Gemini CLI's own detector first fires; it cannot be changed."""

_VERIFIED: Final = f"run, {VERSION}, a scripted model"
_READ: Final = f"read in the package, {VERSION}"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The settings of the session; of an agent, its file."""
    remarks: list[str] = []
    if limits.agent is not None:
        return _subagent(limits, notes, remarks)
    changes: list[Change] = []
    if (cap := limited_steps(limits, PRESET, remarks)) is not None:
        changes.append(Change(("model", "maxSessionTurns"), cap))
        if limits.scope == "turn":
            remarks.append(
                "maxSessionTurns counts requests through the whole session, not from each message of the user: with "
                "`gemini -p` the two are the same."
            )
    if limits.doom_loop is not None:
        changes.append(Change(("model", "disableLoopDetection"), value=False))
    if limits.max_time is not None:
        remarks.append("No time budget of a session can be set; the file of a subagent has timeout_mins.")
    part = json_part(".gemini/settings.json", changes, [*remarks, *notes], limits.given.keys() & {"max_steps"})
    return (part,), tuple(remarks)


def _subagent(limits: Limits, notes: Sequence[str], remarks: list[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    name = agent_file(limits).lower()
    changes: list[Change] = []
    if limits.max_steps is not None:
        turns = _max_turns(limits.max_steps, limits)
        changes.append(Change(("max_turns",), turns))
        remarks.append(
            f"A step cap of {limits.max_steps} is max_turns {turns} here: after max_turns responses the subagent gets "
            f"one more request, to report what it has, and calls in that response run too. So {turns + 1} responses "
            f"can run ({VERSION}, run: 4 under max_turns 3)."
        )
        remarks.append(
            f"A run of `gemini -p` {VERSION} in a new home, its folder trusted by GEMINI_CLI_TRUST_WORKSPACE=true, did "
            "not find an agent of the project; one in ~/.gemini/agents was found."
        )
    if limits.max_time is not None:
        minutes = max(1, math.ceil(limits.max_time / 60))
        changes.append(Change(("timeout_mins",), minutes))
        if minutes * 60 != limits.max_time:
            remarks.append(f"timeout_mins is in whole minutes: {limits.max_time:g} s are {minutes} here.")
    sets = limits.given.keys() & {"max_steps", "max_time"}
    return (subagent_part(".gemini/agents", name, changes, [*remarks, *notes], sets),), tuple(remarks)


def _max_turns(cap: int, limits: Limits) -> int:
    """max_turns for a step cap: one less, for the request that comes after it; the same if it was counted so."""
    if limits.policy is not None and get_policy(limits.policy).last_step.action == "grace":
        return cap
    return max(1, step_cap(cap, SUBAGENT_PRESET, limits.policy).value - 1)


def _no_limit(noun: str) -> str:
    return f"Gemini CLI {VERSION} has no limit on {noun}."


_TARGET: Final = Target(
    name="gemini-cli",
    title="Gemini CLI",
    preset=PRESET,
    source=f"@google/gemini-cli {VERSION} from npm: its settings schema, docs/reference/configuration.md "
    "and docs/core/subagents.md; run with a scripted model (November 2026)",
    sets=(
        Sets(
            "max_steps",
            '`"model": {"maxSessionTurns": N}` in .gemini/settings.json',
            "requests of the session; before request N+1 it ends",
            _VERIFIED,
        ),
        Sets(
            "max_steps",
            "`max_turns: N-1` in `.gemini/agents/NAME.md`",
            "responses of the subagent; one more follows, to report, and its calls run too; a cap of 1 lets 2 run",
            _VERIFIED,
        ),
        Sets(
            "max_time",
            "`timeout_mins: M` in `.gemini/agents/NAME.md`",
            "whole minutes, rounded up; subagents only",
            _READ,
        ),
        Sets(
            "doom_loop",
            '`"model": {"disableLoopDetection": false}` in .gemini/settings.json',
            f"{REPEATS} identical calls in a row, fixed",
            _READ,
        ),
    ),
    lacks={
        "doom_loop": f"Gemini CLI {VERSION} has a detector of its own, which cannot be changed: it fires at {REPEATS} "
        "identical calls in a row, first with a message to the model, and then stops; disableLoopDetection: true turns "
        "it off.",
        "tool_budget": _no_limit("tool calls"),
        "error_streak": _no_limit("failed calls"),
        "max_tokens": _no_limit("the tokens of a run"),
        "max_cost": _no_limit("costs"),
    },
    build=build,
)


_GEMINI_CLI: Final = Policy(
    name="gemini_cli",
    about=About(
        source="Gemini CLI, packages/core/src/core/client.ts and services/loopDetectionService.ts; 0.61.0, run: "
        "docs/cli_conformance.md",
        loop_style="recursive generator; tool results come back as new turns",
        finish_guard="no pending calls, and the user is next",
        weakness="a second detection ends the prompt, in a pipeline with exit code 0 and no text (issue 19953)",
        own_words=(("step_cap", "MaxSessionTurns"), ("stuck", "LoopDetected")),
    ),
    cap=Cap(zero="plain"),
    detectors=Detectors(
        guards=(
            Guard(
                detector=Detections(Cycle("ordered"), 5),
                ladder=((1, "nudge"), (2, "stop")),
                check="call",
                nudge_executes=False,
            ),
            Guard(detector=RepeatedText(), ladder=((1, "nudge"), (2, "stop"))),
        )
    ),
)
_GEMINI_SUBAGENT: Final = Policy(
    name="gemini_subagent",
    order=("max_steps", "time_budget"),
    about=About(
        source="Gemini CLI, packages/core/src/agents/local-executor.ts: 30 turns, 10 minutes, one grace turn",
        loop_style="while true: check, request, run tools",
        finish_guard="complete_task only",
        weakness="a plain answer is a violation of the protocol",
        own_words=(
            ("step_cap", "MAX_TURNS"),
            ("time_budget", "TIMEOUT"),
            ("error_streak", "ERROR_NO_COMPLETE_TASK_CALL"),
            ("finished", "GOAL"),
        ),
    ),
    cap=Cap(max_steps=30, zero="plain"),
    last_step=LastStep(
        action="grace", prompt="You have been stopped. Call complete_task now with what you have; call nothing else."
    ),
    budgets=Budgets(seconds=600.0),
    finish=Finish(conditions=(), tools=("complete_task",), idle="grace"),
)


def _settings(document: Mapping[str, Any]) -> Iterator[ConfigLimit]:
    turns = mapping(document.get("model")).get("maxSessionTurns", document.get("maxSessionTurns"))
    yield ConfigLimit("maxSessionTurns", turns)
    for name, agent in mapping(mapping(document.get("agents")).get("overrides")).items():
        settings = mapping(mapping(agent).get("runConfig"))
        for key in ("maxTurns", "maxTimeMinutes"):
            yield ConfigLimit(key, settings.get(key), name)


_SUBAGENT_TURNS: Final = Native("max_steps", policy=SUBAGENT_PRESET)
_SUBAGENT_MINUTES: Final = Native("max_time", "minutes", 60, policy=SUBAGENT_PRESET)

HARNESS: Final = Harness(
    presets=(_GEMINI_CLI, _GEMINI_SUBAGENT),
    sources={"gemini": "gemini_cli"},
    limits={
        # github.com/google-gemini/gemini-cli, docs/core/subagents.md and docs/reference/configuration.md. In its
        # client.ts every request counts as a session turn, those with results of tools too.
        "gemini_cli": {
            "maxSessionTurns": Native("max_steps", scope="run"),
            "max_turns": _SUBAGENT_TURNS,
            "maxTurns": _SUBAGENT_TURNS,
            "timeout_mins": _SUBAGENT_MINUTES,
            "maxTimeMinutes": _SUBAGENT_MINUTES,
        }
    },
    agent_files=(AgentFiles(".gemini/agents", "gemini", ("max_turns", "timeout_mins")),),
    config_files=(ConfigFile((".gemini/settings.json",), ".json", "gemini", _settings),),
    target=_TARGET,
)
