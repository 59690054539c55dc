"""The places of a run whose words stay in its facts: data that `boolab.logs.facts` reads and the documentation prints.

`FIELDS` has a rule for each field of each record, `EVENTS` one for each value of each kind of event. A field that is
not listed has its default value in facts. Of an event only the values listed under its kind are in facts. A rule that
keeps a word keeps it only if it has the form of that rule; any other word becomes a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from boolab.core.finish_reasons import FINISH_REASONS
from boolab.core.messages import Input, Message, Reasoning, Role, Sentinel, StepStart, Text
from boolab.core.run import MIXED, Compacted, ModelCost, Run, RunLabel, Score, StatedCost, WrapUp
from boolab.core.types import IDENTITIES, Image, Response, Step, Stop, StopReason, ToolCall, ToolResult, Usage
from boolab.limits.table import AGENT_LIMITS, COUNTERS, RESPONSE_COUNTERS

RULES: Final[Mapping[str, str]] = {
    "agent": "a name of letters, digits, `_` and `-`, or such a name and a number; else a placeholder",
    "arguments": "a placeholder; `<redacted>` stays",
    "call id": "a number, from 1 in each run",
    "content": "a placeholder that shows whether another result begins alike",
    "effort": "a level of reasoning effort that providers name, or a number; else a placeholder",
    "fingerprint": "20 hexadecimal digits, made of all texts before these are left out",
    "finish reason": "a word of boolab's vocabulary; else a placeholder",
    "grade": "a number, or one of the grades C, I, P and N; else a placeholder",
    "identity": "one of boolab's identities; else a placeholder",
    "left out": "left out",
    "limits": "names as those of tools, with numbers",
    "model": "a model's name as providers write it, no path and no account; else a placeholder",
    "number": "a number, a flag or unknown; a text is a placeholder",
    "record": "its fields, by the rows of its type",
    "role": "a role; else a placeholder",
    "rule": "a rule of boolab or of a harness, with numbers and boolab's words as arguments; else a placeholder",
    "run id": "one word that begins with a letter or a digit, and is no address and no path; else `run 1`, ...",
    "sentinel": "one of the kinds of boolab's policies; else a placeholder",
    "settings": "names as those of tools, with numbers and flags; words only of settings named here",
    "stop reason": "a stop reason; else a placeholder",
    "task": "an identifier that no message of the run has in it, where the source names tasks; else `task 1`, ...",
    "text": "a placeholder; what a shipped policy sends stays",
    "time": "stays",
    "tool": "a name of letters, digits, `_` and `-`; else a placeholder",
    "version": "a version, or `mixed`; else a placeholder",
    "word": "one of the words that providers name; else a placeholder",
}
"""What each rule keeps."""

FIELDS: Final[Mapping[type, Mapping[str, str]]] = {
    Run: {
        "run_id": "run id", "agent": "agent", "model": "model", "policy": "agent", "task": "task", "stop": "record",
        "prompt": "record", "steps": "record", "inputs": "record", "source": "agent", "parent_run_id": "run id",
        "seed": "number", "started_at": "time", "duration_ms": "number", "identity": "identity",
        "context_window": "number", "limits": "limits", "settings": "settings", "compactions": "record",
        "earlier_wrap_ups": "record", "wrap_up": "record", "sentinel": "record", "synthesis": "text",
        "events": "record", "success": "number", "scores": "record", "error": "text", "subagents": "record",
        "harness_version": "version", "git_commit": "left out", "git_branch": "left out", "cwd": "left out",
        "entrypoint": "left out", "stated_cost": "record", "labels": "record", "prints": "fingerprint",
        "log_id": "left out", "path": "left out", "continuation": "left out",
    },
    StatedCost: {"cost": "number", "covers": "agent", "models": "record"},
    ModelCost: {"model": "model", "cost": "number"},
    Stop: {
        "reason": "stop reason", "step": "number", "rule": "rule", "threshold": "number", "value": "number",
        "also_fired": "rule",
    },
    Step: {
        "index": "number", "turn": "number", "start_ms": "number", "duration_ms": "number", "model_ms": "number",
        "response": "record", "results": "record", "error": "text", "shadow_stops": "rule", "counted": "number",
    },
    Response: {
        "text": "text", "tool_calls": "record", "finish_reason": "finish reason", "usage": "record",
        "reasoning": "text", "ttft_ms": "number", "native_finish_reason": "left out", "opaque": "left out",
        "model": "model", "id": "left out", "effort": "effort", "speed": "word", "service_tier": "word",
    },
    Usage: dict.fromkeys(Usage._fields, "number"),
    ToolCall: {"id": "call id", "name": "tool", "arguments": "arguments"},
    ToolResult: {
        "call_id": "call id", "content": "content", "is_error": "number", "parse_error": "number",
        "duration_ms": "number", "images": "record",
    },
    Image: {"width": "number", "height": "number"},
    Input: {"before": "number", "message": "record"},
    Message: {"role": "role", "parts": "record"},
    StepStart: {"step_number": "number", "started_at": "number"},
    Text: {"text": "text"},
    Reasoning: {"text": "text", "opaque": "left out"},
    Sentinel: {"kind": "sentinel", "text": "text"},
    Compacted: {
        "before": "number", "kept_from": "number", "summary": "text", "tokens": "number", "response": "record",
        "fault": "text", "broken": "number", "duration_ms": "number",
    },
    WrapUp: {"text": "text", "response": "record", "fault": "text", "broken": "number"},
    Score: {"name": "tool", "value": "grade"},
    RunLabel: {"success": "number", "source": "agent", "why": "left out", "turn": "number"},
}  # fmt: skip
"""For each record its fields in the order in which their texts are numbered, each with its rule. `Event` is apart."""

_WORDLESS: Final = ("arguments", "call id", "content", "number", "record", "text", "time")
"""The rules by which no word stays: they are those of all other places."""

EVENT_FIELDS: Final[Mapping[str, str]] = {"after_step": "number", "step_number": "number"}
"""What an event of any kind has."""

_CALL: Final = {"call_id": "call id", "tool": "tool"}
_DECISION: Final = {"rule": "rule", "value": "number"}
_FAULT: Final = {"what": "text", "text": "text", "error": "text", "reason": "text"}
_TOKENS: Final = dict.fromkeys(("input_tokens", "output_tokens", "cost"), "number")
EVENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "abort": _FAULT,
    "ask": {**_DECISION, **_CALL, "allowed": "number"},
    "block": {**_DECISION, **_CALL},
    "branch": {"run_id": "run id", "step": "number", "kept": "number", "score": "left out"},
    "cache_miss": {"reason": "text", "tokens": "number"},
    "clearing": {"what": "text", "tokens": "number", "results": "number"},
    "compaction": {
        "kept_from": "number", "tokens": "number", "what": "text", "reason": "text", "trigger": "word",
        "auto": "number",
    },
    "compaction_thrash": {"what": "text", "value": "number"},
    "continuation": {"what": "text"},
    "continued": {"what": "text"},
    "cut": {**_CALL, "call": "number", "chars": "number", "sent": "number"},
    "departed": {"message": "number", "role": "role", "recorded": "text", "came": "text", "what": "text"},
    "extension": {"what": "text"},
    "fault": _FAULT,
    "grace": {"what": "text"},
    "handoff": {"run_id": "run id", "step": "number"},
    "ignored": {"parameter": "tool", "what": "text"},
    "input": {"what": "text"},
    "limits": dict.fromkeys(AGENT_LIMITS, "number"),
    "nudge": {"what": "text"},
    "rejected": {**_CALL, "what": "text"},
    "reminder": {"what": "text"},
    "resumed": {"run_id": "run id", "step": "number"},
    "retry": {**_FAULT, **_TOKENS, "attempt": "number", "status": "number", "wait_ms": "number"},
    "rewind": {"steps": "number"},
    "sentinel": {"sentinel": "sentinel", "text": "text"},
    "shadow": {**_DECISION, "reason": "stop reason"},
    "stop_before_call": {**_DECISION, **_CALL},
    "subagent": {
        "run_id": "run id", "agent": "agent", "call_id": "call id", "reason": "stop reason", "steps": "number",
        "calls": "number", "charged": "limits",
    },
    "synthesis": {"what": "text"},
    "throttled": {"wait_ms": "number"},
    "totals": {**_TOKENS, "responses": "number"},
    "world": {
        "changed": "number", "ignored": "number", "fault": "text", "commit": "left out", "ignored_names": "left out",
        "left_out": "left out", "folder": "left out",
    },
}  # fmt: skip
"""For each kind of event its values, each with its rule. A kind that is not listed is a placeholder."""

SETTINGS: Final[Mapping[str, str]] = {
    "corpus": "agent", "effort": "effort", "ended_by": "agent", "fault": "agent", "label": "agent", "policy": "agent",
    "prompting": "agent", "set": "agent",
}  # fmt: skip
"""The settings whose words stay: those of boolab, its readers and its data sets."""

TASK_SOURCES: Final = frozenset(
    {
        "agentdojo", "atif", "boolab", "inspect", "intercode", "mini_swe_agent", "openhands", "openhands_sdk",
        "sentinel", "swe_agent", "tau2_bench", "tau_bench",
    }
)  # fmt: skip
"""The sources whose tasks may be identifiers. In logs of other sources the task is what the user wrote."""

LONGEST: Final = 100
"""The longest word that stays, in characters; a run id may have twice as many."""

_PART: Final = r"[A-Za-z]*(?:[0-9]{1,8}[A-Za-z]*)?"
"""A part of a plausible name: letters, with digits in one place. A key or a digest has them in many."""
_NAME: Final = rf"(?=[A-Za-z_]){_PART}(?:[_-]{_PART})*"
_SEGMENT: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.:+-]*[A-Za-z0-9])?"
_NUMBER: Final = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?"
_STAGES: Final = "a|alpha|b|beta|rc|dev|post|preview|canary|nightly"
_VERSION: Final = rf"v?[0-9]{{1,8}}(?:\.[0-9]{{1,8}}){{0,3}}(?:[.+-]?(?:{_STAGES})(?:[.-]?[0-9]{{1,8}})?){{0,3}}"
_RULE_TOKEN: Final = re.compile(
    rf"(?P<word>[A-Za-z_][A-Za-z0-9_+-]*)(?P<named>=?)|{_NUMBER}|, (?:whole batches)?|,|[():]| >= | & "
)
_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    "agent": re.compile(rf"{_NAME}(?: [0-9]{{1,8}})?"),
    "model": re.compile(
        rf"(?!(?:.*[/:])?(?:arn:|projects/))(?:{_SEGMENT}/){{0,4}}{_SEGMENT}(?:@(?:[0-9]{{1,8}}|default|latest))?"
    ),
    "run id": re.compile(r"(?!.*//)[A-Za-z0-9][A-Za-z0-9_.:/#+=-]*"),
    "task": re.compile(r"(?!.*//)[A-Za-z0-9][A-Za-z0-9_.:/#+-]*"),
    "tool": re.compile(_NAME),
    "version": re.compile(rf"{MIXED}|{_VERSION}"),
}
_EFFORTS: Final = frozenset({"none", "off", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "mixed"})
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "finish reason": FINISH_REASONS | {"model_length", "unknown"},  # by which a preset ends
    "grade": frozenset("CIPN"),
    "identity": frozenset(IDENTITIES),
    "role": frozenset(get_args(Role)),
    "sentinel": frozenset({"cap_hit", "doom_loop", "error_streak"}),
    "stop reason": frozenset(get_args(StopReason)),
    "word": frozenset(
        {"auto", "manual", "default", "standard", "fast", "slow", "flex", "batch", "priority", "scale", "on_demand"}
    ),
}
_DETECTORS: Final = frozenset(
    {
        "actions", "call_window", "compaction_thrash", "context_growth", "cycle", "detections", "error_streak",
        "finish_streak", "idle_streak", "per_message", "rearmed", "repeat_streak", "repeated_text", "round_streak",
        "same_error", "similar_streak", "step_repeats", "text_contains", "timeout_streak", "tool_errors", "tool_window",
    }
)  # fmt: skip
_RULE_NAMES: Final = _DETECTORS | {
    # boolab's
    "alternating_actions", "ceiling", "cycle_detections", "deadline", "doom_loop", "failing_actions",
    "max_actions", "max_cost", "max_responses", "max_steps", "max_supersteps",
    "max_time", "max_tokens", "max_tool_calls", "max_tool_steps",
    "repeating_actions", "similar_calls", "stop_when", "tool_budget", *get_args(StopReason),
    # those of other harnesses, by their readers
    "AgentTimeoutError", "ContextWindowExceeded", "ContextWindowExceededError", "RepeatedFormatError", "TimeExceeded",
    "context_limit",
    "context_window_exceeded", "cost_limit", "custom_limit", "exit_command_timeout", "exit_context", "exit_cost",
    "exit_format", "exit_total_execution_time", "maxTurns", "max_budget", "max_iterations", "max_num_steps",
    "max_turns", "message_limit", "operator_limit", "per_instance_call_limit", "recursion_limit", "run_limit",
    "step_limit", "time_limit", "timeout", "token_limit", "too_many_errors", "turn_limit", "working_limit",
}  # fmt: skip
"""The names of rules that stay. Others may be a word of a log, or of the user."""
_ARGUMENTS: Final = _DETECTORS | {
    *IDENTITIES, *COUNTERS, *RESPONSE_COUNTERS, *FINISH_REASONS, "alternating", "exempt", "failing",
    "fresh", "hard", "ignore", "last_call", "repeating", "weighted",
}  # fmt: skip
"""The words that may be arguments of a rule; the name before `=` may be a tool's."""


def stays(rule: str, word: str) -> bool:
    """Whether a word has the form that a rule keeps."""
    test = _TESTS.get(rule)
    return test is not None and test(word)


def table() -> str:
    """The places whose words may stay, and those that are left out, as a table in Markdown."""
    by_rule: dict[str, list[str]] = {rule: [] for rule in RULES if rule not in _WORDLESS}
    fields = [(kind.__name__, name, rule) for kind, rules in FIELDS.items() for name, rule in rules.items()]
    values = [(kind, name, rule) for kind, rules in EVENTS.items() for name, rule in rules.items()]
    settings = [("settings", name, rule) for name, rule in SETTINGS.items()]
    for owner, name, rule in (*fields, *values, *settings):
        if rule in by_rule:
            by_rule[rule].append(f"{owner}.{name}")
    rows = [f"| {', '.join(names)} | {RULES[rule]} |" for rule, names in by_rule.items()]
    return "\n".join(["| places | in facts |", "|-|-|", *rows])


def field_names(kind: type) -> tuple[str, ...]:
    """The names of the fields of a record's type."""
    names: Any = getattr(kind, "_fields", None) or getattr(kind, "__dataclass_fields__", ())
    return tuple(names)


def _is_rule(text: str) -> bool:
    """Whether a text is the name of a rule, with arguments that are numbers, words of boolab, or `tool=` and one."""
    offset = 0
    opens = True
    while offset < len(text) <= LONGEST:
        token = _RULE_TOKEN.match(text, offset)
        if token is None:
            return False
        word, end = token["word"], token.end()
        if opens and word not in _RULE_NAMES:
            return False
        if word and not opens and not (_FORMS["tool"].fullmatch(word) if token["named"] else word in _ARGUMENTS):
            return False
        offset, opens = end, token[0] == " & "
    return 0 < offset == len(text)


def _form(pattern: re.Pattern[str], longest: int) -> Callable[[str], bool]:
    return lambda word: len(word) <= longest and pattern.fullmatch(word) is not None


_TESTS: Final[Mapping[str, Callable[[str], bool]]] = {
    **{rule: _form(pattern, LONGEST * (2 if rule == "run id" else 1)) for rule, pattern in _FORMS.items()},
    **{rule: words.__contains__ for rule, words in _WORDS.items()},
    "effort": lambda word: word in _EFFORTS or re.fullmatch("[0-9]{1,8}", word) is not None,
    "rule": _is_rule,
}
