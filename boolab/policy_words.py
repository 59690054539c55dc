"""What a policy says, in the words of a reader: its axes in groups, each with a name, and its values in words.

The axes are the fields of `Policy`; the table here only says how they are called. A field that is not in it is shown
all the same, under its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple

from boolab.detectors import Identities, RepeatStreak
from boolab.policy import Guard, Policy

HEAD: Final = ("loop_style", "finish_guard", "weakness")
"""What is said of a harness first, as in the comparison that the policies come from."""

NOT_APPLICABLE: Final = "-"
"""What stands for an axis that changes nothing under a policy, because of its other values."""


class Axis(NamedTuple):
    """One axis of a policy.

    Attributes:
        field: The field of `Policy`.
        group: What it is about.
        name: How it is called.
        values: Its values in words; any other is shown as it is.
        matters: Whether it changes anything under a policy.
        form: How any other value is written.
    """

    field: str
    group: str
    name: str
    values: Mapping[object, str]
    matters: Callable[[Policy], bool]
    form: Callable[[Any], str]

    def of(self, policy: Policy) -> str:
        """What the policy says on this axis.

        Example:
            >>> from boolab.presets import policies
            >>> next(axis for axis in axes() if axis.field == "cap_counts").of(policies["autogpt"])
            'executed calls'
        """
        if not self.matters(policy):
            return NOT_APPLICABLE
        value = getattr(policy, self.field)
        plain = not isinstance(value, Mapping)  # which no table can hold
        return self.values[value] if plain and value in self.values else self.form(value)


def axes() -> tuple[Axis, ...]:
    """All axes of a policy, by group and then in the order of its fields.

    Example:
        >>> [axis.field for axis in axes() if axis.group == "compaction"]
        ['compaction']
    """
    found = [_axis(field.name) for field in fields(Policy) if field.name != "name"]
    groups = {group: place for place, group in enumerate(GROUPS)}
    first = {field: place for place, field in enumerate(HEAD)}
    return tuple(
        sorted(found, key=lambda axis: (groups.get(axis.group, len(groups)), first.get(axis.field, len(first))))
    )


def _axis(field: str) -> Axis:
    said = _TABLE.get(field) or _Said("other", field.replace("_", " "))
    return Axis(field, said.group, said.name, said.values, said.matters, said.form)


# --- How values are written -------------------------------------------------------------------------------------------


def _plain(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _names(values: tuple[str, ...]) -> str:
    return ", ".join(values) or "none"


def _identity(identity: Identities) -> str:
    return RepeatStreak.of(identity).identities.replace(",", ", ")


def _in_order(values: tuple[str, ...]) -> str:
    return ", then ".join(value.replace("_", " ") for value in values) or "none"


def _conditions(values: tuple[str, ...]) -> str:
    return " and ".join(CONDITIONS.get(value, value) for value in values) or "never"


def _pairs(values: tuple[tuple[str, str], ...]) -> str:
    return "; ".join(f"{reason}: {word}" for reason, word in values) or "none"


def _guards(guards: tuple[Guard, ...]) -> str:
    return "; ".join(map(guard_words, guards)) or "none"


def guard_words(guard: Guard) -> str:
    """What a guard watches and does, in words.

    Example:
        >>> from boolab.presets import policies
        >>> guard_words(policies["crush"].guards[0])
        'the same step in a window (10): stop at 6'
    """
    name = guard.detector.name
    kind = re.split(r"[(:]", name, maxsplit=1)[0]
    more = name.removeprefix(kind).strip(":()")
    what = DETECTORS.get(kind, kind.replace("_", " ")) + (f" ({more})" if more else "")
    return what + str(guard).removeprefix(name)


CONDITIONS: Final[Mapping[str, str]] = {
    "no_calls": "it calls no tool",
    "has_text": "it says something",
    "reason_given": "there is a finish reason",
    "reason_not_tool_calls": "the reason is not tool_calls",
    "reason_stop": "the reason is stop",
    "no_new_input": "no message of the user waits",
}
"""The conditions of a finish guard."""

DETECTORS: Final[Mapping[str, str]] = {
    "repeat_streak": "identical calls in a row",
    "error_streak": "failed calls in a row",
    "idle_streak": "responses without a call in a row",
    "finish_streak": "finish reasons in a row",
    "tool_errors": "steps in which the same tool failed",
    "timeout_streak": "timeouts in a row",
    "same_error": "the same error in a row",
    "round_streak": "identical rounds in a row",
    "actions": "actions and their results",
    "cycle": "cycles of calls",
    "detections": "how often a cycle of calls was found",
    "chanting": "the same text again and again",
    "step_repeats": "the same step in a window",
    "tool_window": "the same tool in a window",
}
"""What a detector watches, by the first part of its name."""

# --- The table --------------------------------------------------------------------------------------------------------


def _always(_: Policy) -> bool:
    return True


def _has(setting: str) -> Callable[[Policy], bool]:
    return lambda policy: setting in policy.order


def _capped(policy: Policy) -> bool:
    return "steps" in policy.order


def _closes(policy: Policy) -> bool:
    return policy.last_step in ("tool_choice_none", "no_tools")


def _continues(policy: Policy) -> bool:
    return policy.continues != 0


def _spends(policy: Policy) -> bool:
    return policy.token_budget is not None or policy.cost_budget is not None


def _may_idle(policy: Policy) -> bool:
    return policy.finish != ("no_calls",)


class _Said(NamedTuple):
    """What the table says of a field; see `Axis`."""

    group: str
    name: str
    values: Mapping[object, str] = {}
    matters: Callable[[Policy], bool] = _always
    form: Callable[[Any], str] = _plain


GROUPS: Final = (
    "in short",
    "cap",
    "last step",
    "budgets",
    "detectors",
    "finish",
    "execution",
    "what happens after",
    "the user's messages",
    "compaction",
)
"""The groups in the order in which they are shown."""

_TABLE: Final[Mapping[str, _Said]] = {
    "loop_style": _Said("in short", "loop style"),
    "finish_guard": _Said("in short", "finish guard"),
    "weakness": _Said("in short", "weakness"),
    "source": _Said("in short", "source"),
    "order": _Said("cap", "limits, by precedence", form=_in_order),
    "steps": _Said("cap", "default cap", {None: "none"}, _capped),
    "cap": _Said(
        "cap", "at the cap", {"hard": "the turn ends", "soft": "the model is told, and the turn goes on"}, _capped
    ),
    "cap_counts": _Said(
        "cap",
        "what it counts",
        {
            "steps": "steps",
            "actions": "executed calls",
            "tool_steps": "steps with calls",
            "supersteps": "supersteps: a response is one, its calls are another",
        },
        _capped,
    ),
    "cap_check": _Said(
        "cap",
        "where it is asked",
        {"boundary": "before a request", "response": "after a response; the one beyond it is paid for and dropped"},
        _capped,
    ),
    "zero_steps": _Said(
        "cap",
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
    "ceiling": _Said("cap", "bound on every agent's steps"),
    "last_step": _Said(
        "last step",
        "the last step under a cap",
        {
            "tools": "is like any other",
            "prompt": "the model is told, and keeps its tools",
            "tool_choice_none": "the model is told; tools are sent, but may not be called",
            "no_tools": "the model is told; no tools are sent",
            "grace": "one more request after it, in which only a finishing tool counts",
        },
        _capped,
    ),
    "last_step_in_cap": _Said(
        "last step", "is that step in the cap", {True: "yes, the last under it", False: "no, one beyond it"}, _closes
    ),
    "last_text_finishes": _Said(
        "last step", "a text there is", {True: "a finish", False: "an end by the cap"}, _closes
    ),
    "last_prompt": _Said("last step", "what the model is told", {}, lambda policy: policy.last_step != "tools"),
    "refusal": _Said(
        "last step", "the result of a call there", {}, lambda policy: policy.last_step not in ("tools", "prompt")
    ),
    "reminder": _Said(
        "last step",
        "what each request ends with",
        {"none": "nothing more", "turns_left": "how many turns are left"},
        _capped,
    ),
    "budget_read_only": _Said("budgets", "tool calls of a reading agent", {None: "no limit"}, _has("tool_budget")),
    "budget_writing": _Said("budgets", "tool calls of a writing agent", {None: "no limit"}, _has("tool_budget")),
    "budget_no_agent": _Said("budgets", "tool calls without an agent", {None: "no limit"}, _has("tool_budget")),
    "budget_batch": _Said(
        "budgets",
        "a batch that crosses it",
        {
            "overshoot": "is executed, and the next boundary stops",
            "reject": "is dropped whole",
            "cut": "is executed as far as it fits, the rest dropped",
        },
        _has("tool_budget"),
    ),
    "token_budget": _Said("budgets", "tokens", {None: "no limit"}),
    "cost_budget": _Said("budgets", "cost", {None: "no limit"}, form=lambda dollars: f"${dollars:,.2f}"),
    "time_budget": _Said("budgets", "time", {None: "no limit"}, form=lambda seconds: f"{seconds:,.0f} s"),
    "spend_before": _Said(
        "budgets",
        "tokens and cost stop a request",
        {"reached": "once they reach the limit", "exceeded": "once they exceed the limit", "unchecked": "never"},
        _spends,
    ),
    "spend_after": _Said(
        "budgets",
        "tokens and cost drop a response",
        {"exceeded": "once they exceed the limit", "unchecked": "never"},
        _spends,
    ),
    "on_unknown": _Said(
        "budgets", "unknown tokens and costs", {"error": "are an error", "ignore": "never reach a limit"}, _spends
    ),
    "doom_loop": _Said("detectors", "doom-loop threshold", {None: "off"}, _has("doom_loop")),
    "identity": _Said("detectors", "identity of a call there", {}, _has("doom_loop"), _identity),
    "guards": _Said("detectors", "what else is watched", form=_guards),
    "finish": _Said("finish", "a response ends the turn if", form=_conditions),
    "finish_tools": _Said("finish", "tools that end the turn", form=_names),
    "finish_batch": _Said(
        "finish",
        "calls beside such a tool",
        {
            "all": "are executed",
            "until": "before it are executed, after it dropped",
            "alone": "keep it from ending the turn",
        },
        lambda policy: bool(policy.finish_tools),
    ),
    "final_reasons": _Said("finish", "finish reasons that always end it", form=_names),
    "goes_on": _Said(
        "finish",
        "after calls the model is asked",
        {"always": "again, always", "after_errors": "again, only if a call failed"},
    ),
    "fatal_reasons": _Said("finish", "finish reasons that are errors", form=_names),
    "fatal_if": _Said(
        "finish",
        "they are, in a response",
        {"no_calls": "without calls", "empty": "without calls and text"},
        lambda policy: bool(policy.fatal_reasons),
    ),
    "idle": _Said(
        "finish",
        "after a text that is no finish",
        {
            "prompt": "the model is told to go on",
            "again": "the model is asked again",
            "grace": "the model gets one last request",
        },
        _may_idle,
    ),
    "idle_prompt": _Said(
        "finish", "what it is told then", {}, lambda policy: _may_idle(policy) and policy.idle == "prompt"
    ),
    "execution": _Said(
        "execution",
        "the calls of a step are executed",
        {
            "parallel": "together",
            "sequence": "one after the other",
            "one_per_message": "only the first; the others are refused",
            "exactly_one": "only if there is one; several count as none",
        },
    ),
    "unknown_tools": _Said(
        "execution",
        "a call of an unknown tool",
        {
            "told": "gets an error result",
            "fatal": "ends the run with an error",
            "rejected": "makes the response one without calls",
        },
    ),
    "tool_failures": _Said(
        "execution",
        "an exception in a tool",
        {
            "told": "becomes an error result",
            "unexpected_fatal": "ends the run with an error, unless it is a ToolError",
            "fatal": "ends the run with an error",
        },
    ),
    "continues": _Said(
        "what happens after",
        "a turn may go on after its cap",
        {0: "never", 1: "once", 2: "twice", None: "whenever the user wants"},
        _capped,
        lambda times: f"{times} times",
    ),
    "continues_by": _Said(
        "what happens after",
        "who decides that",
        {"user": "the user, afterwards", "ask": "the user, asked at once", "loop": "the loop itself"},
        _continues,
    ),
    "continue_adds": _Said(
        "what happens after",
        "by how many steps the cap grows",
        {None: "by as many as it had"},
        lambda policy: _continues(policy) and policy.continue_counters == "kept",
    ),
    "continue_counters": _Said(
        "what happens after", "the counters then", {"kept": "are kept", "fresh": "start anew"}, _continues
    ),
    "sentinel": _Said("what happens after", "a limit leaves a visible message"),
    "limit_status": _Said(
        "what happens after",
        "a limit after anything but a text",
        {"none": "is like any other", "without_text": "leaves a visible message"},
    ),
    "summary": _Said(
        "what happens after",
        "a summary after a limit",
        {"model": "by the model, in one more request", "static": "a fixed text", "none": "none"},
    ),
    "static_summary": _Said("what happens after", "the fixed text", {}, lambda policy: policy.summary != "none"),
    "broken_retries": _Said(
        "execution", "a response that broke off is asked for again", {0: "never"}, form=lambda n: f"{n} times in a row"
    ),
    "own_words": _Said("what happens after", "its own words for an end", form=_pairs),
    "queued": _Said(
        "the user's messages",
        "those that arrive during a turn",
        {
            "kept": "wait for the next turn",
            "plain": "come before the next step",
            "reminder": "come before the next step, wrapped as a reminder",
        },
    ),
    "input_resets_cap": _Said(
        "the user's messages", "they make the cap count anew", {}, lambda policy: policy.queued != "kept"
    ),
    "compaction": _Said("compaction", "the history is summarised", {None: "never"}),
}
