"""opencode: opencode.json, whose step limit is a request to the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from boolab.harnesses.compaction import Compaction
from boolab.harnesses.exports.step_cap import limited_steps
from boolab.harnesses.exports.values import Change, Limits, Part, Sets, Target, json_part
from boolab.harnesses.groups import About, Cap, Detectors, Finish, Inputs, LastStep, WrapUp
from boolab.harnesses.harness import STEPS, AgentFiles, ConfigFile, ConfigLimit, Harness, native_threshold
from boolab.harnesses.policy import Policy
from boolab.io.json_input import mapping
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.guard import Guard

PRESET: Final = "opencode_v1"
VERSION: Final = "1.18.33"
RESERVED: Final = ("compaction", "reserved")
THRESHOLD: Final = 3
"""Identical calls in one message of the model at which opencode asks; it cannot be changed."""

_VERIFIED: Final = f"run, {VERSION}, a scripted model"
_SOFT: Final = (
    "`steps` does not stop opencode: from that request on, a message asks the model for text, and its calls still run. "
    f"A model that continues to call is not stopped ({VERSION}, run)."
)


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """opencode.json with the steps of an agent, and what a repeat leads to."""
    remarks: list[str] = []
    changes: list[Change] = []
    agent = limits.agent or "build"
    if (cap := limited_steps(limits, PRESET, remarks)) is not None:
        remarks.append(_SOFT)
        changes.append(Change(("agent", agent, "steps"), cap))
        if limits.agent is None:
            remarks.append('The limit is that of one agent, here "build", which answers unless another is chosen.')
        if limits.scope == "run":
            remarks.append("The number counts through a whole session; each message of the user counts anew here.")
    if limits.doom_loop is not None:
        value = "deny" if limits.doom_loop <= THRESHOLD else "ask"
        changes.append(Change(("permission", "doom_loop"), value))
        effect = '"deny" refuses the call' if value == "deny" else '"ask" asks before it continues'
        remarks.append(f"{effect}, at opencode's own threshold.")
    if limits.compact_at is not None and limits.window is None:
        remarks.append(
            "The compaction threshold is not set: opencode has what it keeps free of the model's input limit, so "
            "--window must give that limit."
        )
    elif limits.compact_at is not None and limits.window is not None:
        changes.append(Change(RESERVED, limits.window - limits.compact_at))
        remarks.append(
            f"`reserved` is kept free of the model's input limit, here {limits.window:,} tokens: opencode compacts "
            f"from {limits.compact_at:,} on. It has no effect on a model without an input limit in models.dev, which "
            "is compacted when its window less its largest output is full."
        )
    schema = {"$schema": "https://opencode.ai/config.json"}
    part = json_part("opencode.json", changes, [*remarks, *notes], limits.given.keys() & {"max_steps"}, **schema)
    return (part,), tuple(remarks)


def _no_limit(noun: str) -> str:
    return f"opencode {VERSION} has no limit on {noun}."


_TARGET: Final = Target(
    name="opencode",
    title="opencode",
    preset=PRESET,
    source=f"opencode-ai {VERSION} from npm, run with a scripted model (November 2026); `doom_loop` is also in "
    "anomalyco/opencode, packages/web/src/content/docs/permissions.mdx",
    sets=(
        Sets(
            "max_steps",
            '`"agent": {"NAME": {"steps": N}}` in opencode.json',
            "a request to answer in text from the N-th response on; nothing is stopped",
            _VERIFIED,
        ),
        Sets(
            "doom_loop",
            '`"permission": {"doom_loop": "ask" or "deny"}` in opencode.json',
            f"{THRESHOLD} identical calls in one message, fixed; `opencode run` ends there under both",
            _VERIFIED,
        ),
    ),
    lacks={
        "doom_loop": f"opencode's own threshold is {THRESHOLD} identical calls in one message of the model, and cannot "
        "be changed: with one call a message it never fires.",
        "tool_budget": _no_limit("tool calls"),
        "error_streak": _no_limit("failed calls"),
        "max_tokens": _no_limit("tokens"),
        "max_cost": _no_limit("costs"),
        "max_time": _no_limit("the time of a run"),
    },
    build=build,
    # anomalyco/opencode, packages/opencode/src/session/overflow.ts
    compaction='`"compaction": {"reserved": N}` in opencode.json, N tokens less than the input limit of the model',
)


_OPENCODE_3631: Final = Policy(
    name="opencode_3631",
    about=About(
        source="opencode issue 3631, maxSteps as it was requested",
        loop_style="while; the request of the last step carries no tools",
        finish_guard="a response without tool calls",
        weakness="looks at the number of steps only",
    ),
    cap=Cap(zero="invalid"),
    last_step=LastStep(action="no_tools"),
    wrap_up=WrapUp(limit_status="without_text"),
)
_OPENCODE_V1: Final = Policy(
    name="opencode_v1",
    compaction=Compaction(reserve=20_000),
    about=About(
        source="opencode, packages/opencode/src/session/prompt.ts (runLoop) and processor.ts",
        loop_style="while(true) over interruptible effects",
        finish_guard="yes, after tools have run: a reason, not tool_calls, no calls, nothing new from the user",
        weakness="complex state machine; the cap is only a request; a repeat is detected within one message only",
    ),
    cap=Cap(kind="soft", zero="invalid"),
    last_step=LastStep(
        action="prompt", prompt="Maximum steps reached: call no more tools, and answer in text with what you have."
    ),
    detectors=Detectors(
        guards=(Guard(detector=RepeatStreak("ordered"), ladder=((3, "ask"),), check="call", scope="message"),)
    ),
    finish=Finish(conditions=("reason_given", "reason_not_tool_calls", "no_calls", "no_new_input"), idle="again"),
    inputs=Inputs(queued="reminder"),
)
_OPENCODE_V2: Final = Policy(
    name="opencode_v2",
    compaction=Compaction(reserve=20_000),
    about=About(
        source="opencode V2, packages/core/src/session/runner/llm.ts; loop.md for the tools of the last request",
        loop_style="nested while: queued turns outside, steps inside",
        finish_guard="a response without tool calls, and nothing new from the user",
        weakness="no detector; new input of the user resets the count of steps",
        own_words=(("step_cap", "done"), ("finished", "done")),
    ),
    cap=Cap(zero="invalid"),
    last_step=LastStep(
        action="tool_choice_none", text_finishes=True, refusal="Tools are disabled after the maximum agent steps"
    ),
    finish=Finish(conditions=("no_calls", "no_new_input"), fatal_reasons=("unknown",)),
    inputs=Inputs(reset_cap=True),
)


def _settings(document: Mapping[str, Any]) -> Iterator[ConfigLimit]:
    yield ConfigLimit(".".join(RESERVED), mapping(document.get(RESERVED[0])).get(RESERVED[1]))
    for group in ("agent", "mode"):  # `mode` is the old name
        for name, agent in mapping(document.get(group)).items():
            for key in _KEYS:
                yield ConfigLimit(key, mapping(agent).get(key), name)


_KEYS: Final = ("steps", "maxSteps")
"""1.18.33, run (docs/cli_conformance.md); maxSteps is the old name."""
_LIMITS: Final = dict.fromkeys(_KEYS, STEPS) | {
    ".".join(RESERVED): native_threshold(
        lambda value, run: None if run.context_window is None else run.context_window - int(value)
    )
}

HARNESS: Final = Harness(
    presets=(_OPENCODE_3631, _OPENCODE_V1, _OPENCODE_V2),
    sources={"opencode": "opencode_v1"},
    limits={"opencode_v1": _LIMITS, "opencode_v2": _LIMITS},
    agent_files=(AgentFiles(".opencode/agent", "opencode", _KEYS), AgentFiles(".opencode/agents", "opencode", _KEYS)),
    config_files=(
        ConfigFile(
            ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
            ".json",
            "opencode",
            _settings,
        ),
    ),
    default_agent="build",
    target=_TARGET,
)
