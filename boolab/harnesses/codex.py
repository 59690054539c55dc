"""Codex: config.toml, whose only limit on a run is a budget of tokens, under development."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from boolab.errors import SettingError
from boolab.harnesses.exports.values import Change, JSONValue, Limits, Part, Sets, Target, comment, settings_part
from boolab.harnesses.harness import ConfigFile, ConfigLimit, Harness, Native, native_threshold
from boolab.io.json_input import mapping
from boolab.limits.token_count import FRESH, TokenCount

VERSION: Final = "0.169.0"
COMPACT_AT: Final = "model_auto_compact_token_limit"
TABLE: Final = ("features", "rollout_budget")


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """config.toml with the rollout budget."""
    remarks: list[str] = []
    changes: tuple[Change, ...] = ()
    threshold: tuple[Change, ...] = ()
    if limits.compact_at is not None:
        threshold = (Change((COMPACT_AT,), limits.compact_at),)
        remarks.append(_describe_compaction(limits))
    if limits.max_tokens is not None:
        weights, later = limits.token_weights, ""
        if weights is None:
            weights, later = FRESH.weights, "; cached input is free, so it stops later than a token budget here"
        remarks += [
            f"rollout_budget is under development in Codex {VERSION}, and off unless it is enabled.",
            (
                "It counts output and input that was not cached, each with its weight, for the session and its "
                f"subagents{later}. The response that exceeds it is paid for."
            ),
        ]
        values: dict[str, JSONValue] = {
            "enabled": True,
            "limit_tokens": limits.max_tokens,
            "reminder_at_remaining_tokens": [],
            "sampling_token_weight": float(weights["output"]),
            "prefill_token_weight": float(weights["input"]),
        }
        changes = tuple(Change((*TABLE, key), value) for key, value in values.items())
        if limits.scope == "turn":
            remarks.append(
                "The number counts from each message of the user; rollout_budget counts through the session."
            )
    if limits.agent is not None:
        remarks.append("Codex has one set of limits for all agents.")
    text = comment("toml", [*remarks, *notes])
    text += "".join(f"{path[-1]} = {_toml(value)}\n" for path, value in threshold)  # before any table
    text += "\n" if threshold and changes else ""
    if changes:
        text += f"[{'.'.join(TABLE)}]\n" + "".join(f"{path[-1]} = {_toml(value)}\n" for path, value in changes)
    how = "the settings of the project, if Codex trusts it; those of the user are in ~/.codex/config.toml."
    sets = {"max_tokens"} if changes else ()
    part = settings_part(".codex/config.toml", "toml", text, how, (*threshold, *changes), sets)
    return (part,), tuple(remarks)


def _describe_compaction(limits: Limits) -> str:
    if limits.window is None:
        return "Codex compacts above this number, and above 90% of the model's window in any case."
    threshold = _threshold(limits.compact_at or 0, limits.window)
    return (
        f"Codex compacts above {threshold:,} tokens: this number, and at most 90% of the window of {limits.window:,}."
    )


def _threshold(value: float, window: int | None) -> int:
    """The number of tokens above which Codex compacts."""
    return int(value) if window is None else min(int(value), window * 9 // 10)


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lacks_weights(weights: Mapping[str, float]) -> str:
    if weights["cached"] == 0 and weights["written"] == weights["input"]:
        return ""
    return "Codex does not count cached input, and counts input that was written to the cache as all other."


def _no_limit(noun: str) -> str:
    return f"Codex {VERSION} has no limit on {noun} that we know of: `codex exec --help` has none."


_TARGET: Final = Target(
    name="codex",
    title="Codex",
    preset="",
    source=f"@openai/codex {VERSION} from npm: `codex exec --help`, `codex features list`, the settings that it "
    "accepts, and runs with a scripted model (November 2026); for subagents: openai/codex pull request 28746",
    sets=(
        Sets(
            "max_tokens",
            "`[features.rollout_budget]`, `limit_tokens = N` in config.toml",
            "output and uncached input, by weight; under development",
            f"run, {VERSION}, a scripted model; a text, a fraction, 0 and -1 are refused",
        ),
    ),
    lacks={
        "max_steps": _no_limit("steps"),
        "tool_budget": _no_limit("tool calls"),
        "doom_loop": _no_limit("repeated calls"),
        "error_streak": _no_limit("failed calls"),
        "max_cost": _no_limit("costs"),
        "max_time": _no_limit("the time of a run"),
    },
    build=build,
    # openai/codex, codex-rs/protocol/src/openai_models.rs (rust-v0.154.0): at most 90% of the window
    compaction=f"`{COMPACT_AT} = N` in config.toml",
    lacks_weights=_lacks_weights,
)


def _settings(document: Mapping[str, Any]) -> Iterator[ConfigLimit]:
    yield ConfigLimit(COMPACT_AT, document.get(COMPACT_AT))
    budget = mapping(mapping(document.get(TABLE[0])).get(TABLE[1]))
    if budget.get("enabled") is True:
        output, prefill = (budget.get(f"{name}_token_weight", 1.0) for name in ("sampling", "prefill"))
        with suppress(SettingError):  # a weight that Codex does not accept: it does not start
            count = TokenCount.from_weights({"output": output, "input": prefill})
            yield ConfigLimit(_LIMIT, budget.get("limit_tokens"), tokens=count)


_LIMIT: Final = f"{'.'.join(TABLE)}.limit_tokens"

HARNESS: Final = Harness(
    sources={"codex": ""},
    limits={
        # Output, and input that is not cached, each with a weight.
        "codex": {
            _LIMIT: Native("rollout_tokens", "weighted tokens", scope="run"),
            COMPACT_AT: native_threshold(lambda value, run: _threshold(value, run.context_window)),
        }
    },
    config_files=(ConfigFile((".codex/config.toml",), ".toml", "codex", _settings),),
    target=_TARGET,
)
