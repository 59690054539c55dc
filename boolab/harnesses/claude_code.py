"""Claude Code: flags of `claude -p`, the file of a subagent, and boolab's hook for what neither has."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from boolab.core.run import Run
from boolab.harnesses.exports.export import limit_words, option_words
from boolab.harnesses.exports.step_cap import limited_steps
from boolab.harnesses.exports.values import Change, Limits, Part, Sets, Target, agent_file, comment, subagent_part
from boolab.harnesses.groups import About, Cap
from boolab.harnesses.harness import (
    STEPS,
    AgentFiles,
    ConfigFile,
    ConfigLimit,
    Harness,
    Native,
    native_threshold,
    number_of,
)
from boolab.harnesses.policy import Policy
from boolab.io.json_input import mapping
from boolab.limits.call_identity import exclude_tools, split_identity
from boolab.limits.table import LIMITS

PRESET: Final = "claude_code"
VERSION: Final = "2.1.330"
HOOK_LIMITS: Final = tuple(name for name in LIMITS if name not in ("max_steps", "max_tokens", "max_cost"))
"""Those that only the hook has; it has the step cap too."""
COMPACT_AT: Final = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"
_WINDOW: Final = 200_000
_LARGE_WINDOW: Final = 1_000_000
_KEPT_FOR_OUTPUT: Final = 20_000
_KEPT_FREE: Final = 13_000
HOOK_IDENTITIES: Final = ("canonical", "ordered", "call+result", "tool")

_VERIFIED: Final = f"run, {VERSION}, a scripted model"
_HOOK: Final = "counted at Claude Code's hooks, for each agent; the model gets a sentence and one more response"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Flags for the main loop or the file of a subagent, and the hook."""
    remarks: list[str] = []
    cap = limited_steps(limits, PRESET, remarks)
    hooked = [name for name in HOOK_LIMITS if name in limits.given]
    all_hooked = ["max_steps", *hooked] if cap is not None and limits.agent is None else hooked
    remarks += _own_notes(limits, hooked)
    comments = [*remarks, *notes]
    parts: list[Part] = []
    flags: dict[str, str] = {}
    if cap is not None and limits.agent is not None:
        changes = [Change(("maxTurns",), cap)]
        parts.append(subagent_part(".claude/agents", agent_file(limits), changes, comments, {"max_steps"}))
    elif cap is not None:
        flags["max_steps"] = f"--max-turns {cap}"
    if limits.max_cost is not None:
        flags["max_cost"] = f"--max-budget-usd {limits.max_cost:.12g}"
    if flags:
        line = f"claude -p {' '.join(flags.values())} PROMPT"
        place_text = "flags of claude -p; --max-turns holds for the main loop, not for its subagents."
        parts.append(_command(line, place_text, () if parts else comments, [*flags]))
    if all_hooked:
        place_text = (
            "a hook, which holds in all sessions, with and without -p, for each agent by itself; it shows the change "
            "of the settings first, and --shadow only logs what it would stop."
        )
        values = {**limits.given, **({} if cap is None else {"max_steps": cap})}
        line = _hook(limits, {name: values[name] for name in all_hooked})
        parts.append(_command(line, place_text, () if parts else comments, all_hooked))
    if limits.compact_at is not None and limits.compact_at <= _latest_threshold(limits.window, limits.max_output):
        percent = compaction_percent(limits.compact_at, limits.window, limits.max_output)
        line = f"{COMPACT_AT}={percent} claude"
        place_text = "an environment variable, which must be set where Claude Code starts."
        parts.append(_command(line, place_text, () if parts else comments, ()))
    if not parts:
        parts.append(Part(language="shell", text=comment("shell", comments), how="nothing of this can be set."))
    return tuple(parts), tuple(remarks)


def compaction_percent(compact_at: int, window: int | None = None, max_output: int | None = None) -> int:
    """The percentage for a compaction threshold: of the window less what is kept for the response.

    Example:
        >>> compaction_percent(70_000, 200_000, 32_000), compaction_threshold_of(38, 200_000, 32_000)
        (38, 68400)
    """
    return 100 * compact_at // _usable_window(window, max_output)


def compaction_threshold_of(percent: float, window: int | None = None, max_output: int | None = None) -> int:
    """The tokens at which Claude Code compacts with a percentage, which can only lower its own threshold."""
    usable = _usable_window(window, max_output)
    return min(int(usable * percent / 100), _latest_threshold(window, max_output))


def _usable_window(window: int | None, max_output: int | None) -> int:
    return (window or _WINDOW) - min(max_output or _KEPT_FOR_OUTPUT, _KEPT_FOR_OUTPUT)


def _latest_threshold(window: int | None, max_output: int | None) -> int:
    """The threshold without the variable."""
    return _usable_window(window, max_output) - _KEPT_FREE


def _recorded_threshold(percent: float, run: Run) -> int:
    """The threshold in a run. A log of Claude Code has the window only with the bill of the run."""
    window = run.context_window
    if window is None:
        prompts = [step.response.usage.input_tokens or 0 for step in run.steps]
        window = _LARGE_WINDOW if "[1m]" in run.model or max(prompts, default=0) > _WINDOW else _WINDOW
    return compaction_threshold_of(percent, window)


def _compaction_notes(limits: Limits) -> Iterator[str]:
    if limits.compact_at is None:
        return
    window, latest = limits.window or _WINDOW, _latest_threshold(limits.window, limits.max_output)
    if limits.compact_at > latest:
        yield (
            f"The compaction threshold is not set: in a window of {window:,} tokens Claude Code compacts at {latest:,} "
            f"tokens without it, and {COMPACT_AT} can only lower that."
        )
        return
    percent = compaction_percent(limits.compact_at, limits.window, limits.max_output)
    threshold = compaction_threshold_of(percent, limits.window, limits.max_output)
    yield (
        f"In a window of {window:,} tokens, {percent}% make Claude Code compact at {threshold:,} tokens: whole percent "
        f"of {_usable_window(limits.window, limits.max_output):,}. Issues report versions that ignore the variable "
        "(anthropics/claude-code 36381, 57567, 82761): boolab audit compares it with the compactions in the logs."
    )


def _own_notes(limits: Limits, hooked: Sequence[str]) -> Iterator[str]:
    """How the numbers are counted here, and for whom they hold."""
    yield from _compaction_notes(limits)
    if limits.agent is not None and limits.max_steps is not None:
        yield (
            f"Claude Code {VERSION} holds maxTurns for subagents only: with --agent {agent_file(limits)} the main loop "
            "does not stop there, and needs --max-turns."
        )
    if limits.scope == "run" and (limits.max_steps is not None or limits.max_cost is not None):
        yield "The numbers count through a whole session; each start of Claude Code counts anew here."
    if limits.agent is not None and limits.max_cost is not None:
        yield "The cost budget is one for the whole of `claude -p`; no agent has one of its own."
    if limits.agent is not None and hooked:
        yield f"The hook limits every agent, not {agent_file(limits)} alone."
    default, by_tool, _ = split_identity(exclude_tools(limits.identity, limits.exempt))
    if limits.doom_loop is not None and (default not in HOOK_IDENTITIES or by_tool):
        yield "The hook cannot compare calls by this identity; it takes canonical."


def _command(line: str, place_text: str, notes: Sequence[str], sets: Sequence[str]) -> Part:
    return Part(language="shell", text=f"{comment('shell', notes)}{line}\n", how=place_text, sets=frozenset(sets))


def _hook(limits: Limits, values: Mapping[str, float]) -> str:
    words = ["boolab", "hook", "claude-code", "--install"]
    words += limit_words(values)
    if limits.doom_loop is not None:
        identity, _, exempt = split_identity(exclude_tools(limits.identity, limits.exempt))
        words += ["--identity", identity] if identity in HOOK_IDENTITIES and identity != "canonical" else []
        words += chain.from_iterable(option_words("--exempt", tool) for tool in exempt)
    words += ["--scope", "run"] if limits.scope == "run" else []
    return shlex.join(words)


_TARGET: Final = Target(
    name="claude-code",
    title="Claude Code",
    preset=PRESET,
    source=f"@anthropic-ai/claude-code {VERSION} from npm, run with a scripted model (November 2026)",
    sets=(
        Sets("max_steps", "`claude -p --max-turns N`", "responses; after the N-th no request is sent", _VERIFIED),
        Sets(
            "max_steps",
            "`maxTurns: N` in `.claude/agents/NAME.md`",
            "responses of the subagent; not held with `--agent NAME` in the main loop",
            _VERIFIED,
        ),
        Sets(
            "max_cost", "`claude -p --max-budget-usd X`", "dollars; the response that exceeds it is paid for", _VERIFIED
        ),
        *(
            Sets(name, f"`boolab hook claude-code --install {LIMITS[name].option} N`", _HOOK, "tests/live/hooks")
            for name in ("max_steps", *HOOK_LIMITS)
        ),
    ),
    lacks={
        "max_tokens": "Claude Code has no limit on tokens, and its hooks carry none; --max-budget-usd is the nearest."
    },
    build=build,
    # anthropics/claude-code issue 31806: min(floor(usable * percent / 100), usable - 13,000), which the recorded
    # compactions at 166.8k to 167.8k of a window of 200,000 agree with
    compaction=f"`{COMPACT_AT}=N` in the environment, N percent of the window less what is kept for the response",
)


_CLAUDE_CODE: Final = Policy(
    name="claude_code",
    order=("max_steps", "cost_budget"),
    about=About(
        source="Claude Code 2.1.330, run: --max-turns, CLAUDE_CODE_MAX_TURNS, --max-budget-usd and a subagent's "
        "maxTurns (all off); docs/cli_conformance.md",
        loop_style="recursive calls",
        finish_guard="not explicit: a response without tool calls",
        weakness="control flow hard to trace through recursion; no detector; a subagent that was cut is a success",
        own_words=(("step_cap", "error_max_turns"), ("cost_budget", "error_max_budget_usd"), ("finished", "success")),
    ),
    cap=Cap(zero="unlimited"),
)


def _settings(document: Mapping[str, Any]) -> Iterator[ConfigLimit]:
    turns = mapping(document.get("env")).get(_MAX_TURNS)
    yield ConfigLimit(_MAX_TURNS, number_of(turns))
    yield ConfigLimit(COMPACT_AT, number_of(mapping(document.get("env")).get(COMPACT_AT)))


_MAX_TURNS: Final = "CLAUDE_CODE_MAX_TURNS"

HARNESS: Final = Harness(
    presets=(_CLAUDE_CODE,),
    sources={"claude_code": "claude_code"},
    limits={
        # 2.1.330, run (docs/cli_conformance.md): maxTurns in agent files, --max-turns, --max-budget-usd, and
        # CLAUDE_CODE_MAX_TURNS, also from `env` in its settings. max_turns is that of the agent SDK. A log states the
        # cost budget without a name.
        "claude_code": {
            "maxTurns": STEPS,
            "max_turns": STEPS,
            _MAX_TURNS: STEPS,
            "max_cost": Native("max_cost"),
            "max_budget_usd": Native("max_cost"),
            COMPACT_AT: native_threshold(_recorded_threshold),
        }
    },
    agent_files=(AgentFiles(".claude/agents", "claude_code", ("maxTurns",)),),
    config_files=(
        ConfigFile(
            (".claude/settings.local.json", ".claude/settings.json"), ".json", "claude_code", _settings, has_hook=True
        ),
    ),
    target=_TARGET,
)
