"""A policy in words: its axes under headings, each with a name, and its values.

The axes are the fields of `Policy`. The table gives each field a name, and its values words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from boolab.core.types import Identities
from boolab.harnesses.policy import PATHS, Policy
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.guard import Guard

HEAD: Final = ("about.loop_style", "about.finish_guard", "about.weakness")
"""The first columns of a comparison."""

NOT_APPLICABLE: Final = "-"
"""Shown for an axis without an effect under a policy, because of the policy's other values."""


class Axis(NamedTuple):
    """One axis of a policy."""

    field: str  # the path of the field of `Policy`, such as `cap.counts`
    group: str  # its heading
    name: str
    values: Mapping[object, str]  # its values in words
    matters: Callable[[Policy], bool]  # whether it has an effect under a policy
    form: Callable[[Any], str]  # formats a value that is not in `values`

    def describe(self, policy: Policy) -> str:
        """The policy's value on this axis, in words."""
        if not self.matters(policy):
            return NOT_APPLICABLE
        value = policy.value(self.field)
        hashable = not isinstance(value, Mapping)
        return self.values[value] if hashable and value in self.values else self.form(value)


def axes() -> tuple[Axis, ...]:
    """All axes of a policy, by heading and then in the order of its fields."""
    headings = {path: GROUPS.get(path) or GROUPS[path.partition(".")[0]] for path in PATHS if path != "name"}
    all_axes = [Axis(path, heading, *_TABLE[path]) for path, heading in headings.items()]
    order = list(dict.fromkeys(GROUPS.values()))
    first = {field: index for index, field in enumerate(HEAD)}
    return tuple(sorted(all_axes, key=lambda axis: (order.index(axis.group), first.get(axis.field, len(first)))))


# --- How values are written -------------------------------------------------------------------------------------------


def _format_value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _names(values: tuple[str, ...]) -> str:
    return ", ".join(values) or "none"


def _identity(identity: Identities) -> str:
    return RepeatStreak.of(identity).identities.replace(",", ", ")


def guard_words(guard: Guard) -> str:
    """What a guard detects and does, in words."""
    name = guard.detector.name
    kind = re.split(r"[(:]", name, maxsplit=1)[0]
    parameters = name.removeprefix(kind).strip(":()")
    meaning = getattr(guard.detector, "meaning", kind.replace("_", " ")) + (f" ({parameters})" if parameters else "")
    return meaning + str(guard).removeprefix(name)


CONDITIONS: Final[Mapping[str, str]] = {
    "no_calls": "it calls no tool",
    "has_text": "it has text",
    "reason_given": "there is a finish reason",
    "reason_not_tool_calls": "the reason is not tool_calls",
    "reason_stop": "the reason is stop",
    "no_new_input": "no message of the user waits",
}
"""The conditions of a finish guard."""

# --- The table --------------------------------------------------------------------------------------------------------


def _has(setting: str) -> Callable[[Policy], bool]:
    return lambda policy: setting in policy.order


_capped = _has("max_steps")


def _closes(policy: Policy) -> bool:
    return policy.last_step.action in ("tool_choice_none", "no_tools")


def _continues(policy: Policy) -> bool:
    return policy.continues.times != 0


def _extends(policy: Policy) -> bool:
    return _continues(policy) and policy.continues.by == "loop"


def _spends(policy: Policy) -> bool:
    return policy.budgets.tokens is not None or policy.budgets.cost is not None


def _may_idle(policy: Policy) -> bool:
    return policy.finish.conditions != ("no_calls",)


class _AxisWords(NamedTuple):
    """A row of the table; see `Axis`."""

    name: str
    values: Mapping[object, str] = {}
    matters: Callable[[Policy], bool] = lambda _: True
    form: Callable[[Any], str] = _format_value


GROUPS: Final[Mapping[str, str]] = {
    "about": "in short",
    "order": "cap",
    "cap": "cap",
    "last_step": "last step",
    "budgets": "budgets",
    "detectors": "detectors",
    "finish": "finish",
    "execution": "execution",
    "continues": "what happens after",
    "wrap_up": "what happens after",
    "about.own_words": "what happens after",
    "inputs": "the user's messages",
    "compaction": "compaction",
}
"""The heading of each group of fields, or of a field, in display order."""

_TABLE: Final[Mapping[str, _AxisWords]] = {
    "about.loop_style": _AxisWords("loop style"),
    "about.finish_guard": _AxisWords("finish guard"),
    "about.weakness": _AxisWords("weakness"),
    "about.source": _AxisWords("source"),
    "order": _AxisWords("limits, by precedence", form=lambda names: ", then ".join(names).replace("_", " ") or "none"),
    "cap.max_steps": _AxisWords("default cap", {None: "none"}, _capped),
    "cap.kind": _AxisWords(
        "at the cap", {"hard": "the turn ends", "soft": "the model gets a message, and the turn continues"}, _capped
    ),
    "cap.counts": _AxisWords(
        "what it counts",
        {
            "steps": "steps",
            "actions": "executed calls",
            "tool_steps": "steps with calls",
            "supersteps": "supersteps: a response is one, its calls are another",
        },
        _capped,
    ),
    "cap.check": _AxisWords(
        "where it is evaluated",
        {"boundary": "before a request", "response": "after a response; the one beyond it is paid for and dropped"},
        _capped,
    ),
    "cap.zero": _AxisWords(
        "what steps: 0 means",
        {
            "text_only": "one response without tools",
            "plain": "a cap like any other: no request",
            "unlimited": "no cap",
            "default": "the default cap",
            "invalid": "an error",
        },
        _capped,
    ),
    "cap.ceiling": _AxisWords("bound on every agent's steps"),
    "last_step.action": _AxisWords(
        "the last step under a cap",
        {
            "tools": "is like any other",
            "prompt": "the model gets a message, and keeps its tools",
            "tool_choice_none": "the model gets a message; tools are sent, but may not be called",
            "no_tools": "the model gets a message; no tools are sent",
            "grace": "one more request after it, in which only a finishing tool counts",
        },
        _capped,
    ),
    "last_step.in_cap": _AxisWords(
        "is that step in the cap", {True: "yes, the last under it", False: "no, one beyond it"}, _closes
    ),
    "last_step.text_finishes": _AxisWords("a text there is", {True: "a finish", False: "an end by the cap"}, _closes),
    "last_step.prompt": _AxisWords("the message to the model", {}, lambda policy: policy.last_step.action != "tools"),
    "last_step.refusal": _AxisWords(
        "the result of a call there", {}, lambda policy: policy.last_step.action not in ("tools", "prompt")
    ),
    "last_step.reminder": _AxisWords(
        "what each request ends with",
        {"none": "nothing more", "turns_left": "how many turns are left"},
        _capped,
    ),
    "budgets.read_only": _AxisWords("tool calls of a reading agent", {None: "no limit"}, _has("tool_budget")),
    "budgets.writing": _AxisWords("tool calls of a writing agent", {None: "no limit"}, _has("tool_budget")),
    "budgets.no_agent": _AxisWords("tool calls without an agent", {None: "no limit"}, _has("tool_budget")),
    "budgets.batch": _AxisWords(
        "a batch that crosses it",
        {
            "overshoot": "is executed, and the next boundary stops",
            "reject": "is dropped whole",
            "cut": "is executed as far as it fits, the rest dropped",
        },
        _has("tool_budget"),
    ),
    "budgets.tokens": _AxisWords("tokens", {None: "no limit"}),
    "budgets.cost": _AxisWords("cost", {None: "no limit"}, form=lambda dollars: f"${dollars:,.2f}"),
    "budgets.seconds": _AxisWords("time", {None: "no limit"}, form=lambda seconds: f"{seconds:,.0f} s"),
    "budgets.before": _AxisWords(
        "tokens and cost stop a request",
        {"reached": "once they reach the limit", "exceeded": "once they exceed the limit", "unchecked": "never"},
        _spends,
    ),
    "budgets.after": _AxisWords(
        "tokens and cost drop a response",
        {"exceeded": "once they exceed the limit", "unchecked": "never"},
        _spends,
    ),
    "budgets.on_unknown": _AxisWords(
        "unknown tokens and costs", {"error": "are an error", "ignore": "never reach a limit"}, _spends
    ),
    "detectors.doom_loop": _AxisWords("doom-loop threshold", {None: "off"}, _has("doom_loop")),
    "detectors.identity": _AxisWords("equal calls: which", {}, _has("doom_loop"), _identity),
    "detectors.reached_at": _AxisWords(
        "equal calls: counted up to",
        {"any_call": "any call of a step", "last_call": "the last call of a step"},
        _has("doom_loop"),
    ),
    "detectors.guards": _AxisWords(
        "what else is watched", form=lambda guards: "; ".join(map(guard_words, guards)) or "none"
    ),
    "finish.conditions": _AxisWords(
        "a response ends the turn if", form=lambda values: " and ".join(map(CONDITIONS.__getitem__, values)) or "never"
    ),
    "finish.tools": _AxisWords("tools that end the turn", form=_names),
    "finish.batch": _AxisWords(
        "calls beside such a tool",
        {
            "all": "are executed",
            "until": "before it are executed, after it dropped",
            "alone": "keep it from ending the turn",
        },
        lambda policy: bool(policy.finish.tools),
    ),
    "finish.final_reasons": _AxisWords("finish reasons that always end it", form=_names),
    "finish.asks_again": _AxisWords(
        "after calls a request is made",
        {"always": "always", "after_errors": "only if a call failed"},
    ),
    "finish.fatal_reasons": _AxisWords("finish reasons that are errors", form=_names),
    "finish.fatal_if": _AxisWords(
        "they are, in a response",
        {"no_calls": "without calls", "empty": "without calls and text"},
        lambda policy: bool(policy.finish.fatal_reasons),
    ),
    "finish.idle": _AxisWords(
        "after a text that is no finish",
        {
            "prompt": "the model gets a message to continue",
            "again": "the same request is made again",
            "grace": "the model gets one last request",
        },
        _may_idle,
    ),
    "finish.idle_prompt": _AxisWords(
        "that message", {}, lambda policy: _may_idle(policy) and policy.finish.idle == "prompt"
    ),
    "execution.calls": _AxisWords(
        "the calls of a step are executed",
        {
            "parallel": "together",
            "sequence": "one after the other",
            "one_per_message": "only the first; the others are refused",
            "exactly_one": "only if there is one; several count as none",
        },
    ),
    "execution.unknown_tools": _AxisWords(
        "a call of an unknown tool",
        {
            "reported": "gets an error result",
            "fatal": "ends the run with an error",
            "rejected": "makes the response one without calls",
        },
    ),
    "execution.tool_failures": _AxisWords(
        "an exception in a tool",
        {
            "reported": "becomes an error result",
            "unexpected_fatal": "ends the run with an error, unless it is a ToolError",
            "fatal": "ends the run with an error",
        },
    ),
    "continues.times": _AxisWords(
        "a turn may continue after its cap",
        {0: "never", 1: "once", 2: "twice", None: "whenever the user wants"},
        _capped,
        lambda times: f"{times} times",
    ),
    "continues.by": _AxisWords(
        "who lets the turn continue",
        {"user": "the user, afterwards", "ask": "the user, asked immediately", "loop": "the loop itself"},
        _continues,
    ),
    "continues.adds": _AxisWords(
        "by how many steps the cap grows",
        {None: "by as many as it had"},
        lambda policy: _continues(policy) and policy.continues.counters == "kept",
    ),
    "continues.message": _AxisWords("the model gets a message when it continues", {}, _extends),
    "continues.unless": _AxisWords("the cap does not grow where this is true", {None: "nothing"}, _extends, str),
    "continues.counters": _AxisWords(
        "counters after it continues", {"kept": "are kept", "fresh": "start at zero"}, _continues
    ),
    "wrap_up.sentinel": _AxisWords("a limit leaves a visible message"),
    "wrap_up.limit_status": _AxisWords(
        "a limit after anything but a text",
        {"none": "is like any other", "without_text": "leaves a visible message"},
    ),
    "wrap_up.summary": _AxisWords(
        "a summary after a limit",
        {"model": "by the model, in one more request", "static": "a fixed text", "none": "none"},
    ),
    "wrap_up.static_summary": _AxisWords("text left in the run", {}, lambda policy: policy.wrap_up.summary != "none"),
    "execution.broken_retries": _AxisWords(
        "a response that broke off is requested again", {0: "never"}, form=lambda n: f"{n} times in a row"
    ),
    "about.own_words": _AxisWords(
        "its own words for an end", form=lambda pairs: "; ".join(map(": ".join, pairs)) or "none"
    ),
    "inputs.queued": _AxisWords(
        "those that arrive during a turn",
        {
            "kept": "wait for the next turn",
            "plain": "come before the next step",
            "reminder": "come before the next step, wrapped as a reminder",
        },
    ),
    "inputs.reset_cap": _AxisWords("they reset the cap", {}, lambda policy: policy.inputs.queued != "kept"),
    "compaction": _AxisWords("the history is summarised", {None: "never"}),
}
