"""opencode: opencode.json, whose step limit is a request to the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from boolab.harnesses.exports.step_cap import step_cap
from boolab.harnesses.exports.values import Change, JSONValue, Limits, Part, Sets, Target, commented, nested

PRESET: Final = "opencode_v1"
VERSION: Final = "1.18.33"
THRESHOLD: Final = 3
"""Identical calls in one message of the model at which opencode asks; it cannot be changed."""

_RUN: Final = f"run, {VERSION}, a scripted model"
_SOFT: Final = (
    "`steps` does not stop opencode: from that request on, a message asks the model for text, and its calls still run. "
    f"A model that continues to call is not stopped ({VERSION}, run)."
)


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """opencode.json with the steps of an agent, and what a repeat leads to."""
    own: list[str] = []
    changes: list[Change] = []
    agent = limits.agent or "build"
    if limits.max_steps is not None:
        cap = step_cap(limits.max_steps, PRESET, limits.policy)
        own += [cap.note] if cap.note else []
        own.append(_SOFT)
        changes.append(Change(("agent", agent, "steps"), cap.value))
        if limits.agent is None:
            own.append('The limit is that of one agent, here "build", which answers unless another is chosen.')
        if limits.scope == "run":
            own.append("The number counts through a whole session; each message of the user counts anew here.")
    if limits.doom_loop is not None:
        value = "deny" if limits.doom_loop <= THRESHOLD else "ask"
        changes.append(Change(("permission", "doom_loop"), value))
        what = '"deny" refuses the call' if value == "deny" else '"ask" asks before it continues'
        own.append(f"{what}, at opencode's own threshold.")
    comments = [*own, *notes]
    body: dict[str, JSONValue] = {"$schema": "https://opencode.ai/config.json", **nested(changes)}
    text = json.dumps(body, indent=2, ensure_ascii=False)
    part = Part(
        path="opencode.json" if changes else None,
        language="jsonc",
        text="{\n" + commented("jsonc", comments, "  ") + text.removeprefix("{\n") + "\n",
        how="the settings of the project." if changes else "nothing of this can be set.",
        sets=frozenset({"max_steps"} & limits.given.keys()),
        changes=tuple(changes),
    )
    return (part,), tuple(own)


def _none(what: str) -> str:
    return f"opencode {VERSION} has no limit on {what}."


TARGET: Final = Target(
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
            _RUN,
        ),
        Sets(
            "doom_loop",
            '`"permission": {"doom_loop": "ask" or "deny"}` in opencode.json',
            f"{THRESHOLD} identical calls in one message, fixed; `opencode run` ends there under both",
            _RUN,
        ),
    ),
    lacks={
        "doom_loop": f"opencode's own threshold is {THRESHOLD} identical calls in one message of the model, and cannot "
        "be changed: with one call a message it never fires.",
        "tool_budget": _none("tool calls"),
        "error_streak": _none("failed calls"),
        "max_tokens": _none("tokens"),
        "max_cost": _none("costs"),
        "max_time": _none("the time of a run"),
    },
    build=build,
)
