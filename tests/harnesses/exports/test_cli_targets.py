"""Exports to harnesses of the command line: what is set, in whose unit, and what is said of the rest."""

import shlex

import pytest

import boolab as bl
from boolab.cli.main import parser_of
from boolab.harnesses.claude_code import HOOK_LIMITS
from boolab.harnesses.exports.export import export
from boolab.harnesses.exports.values import Limits


def lines(target: str, limits: Limits) -> list[str]:
    return [line for part in export(target, limits).parts for line in part.text.splitlines()]


def test_claude_code_export_has_main_flags_and_a_subagent_file() -> None:
    assert lines("claude-code", Limits(max_steps=20, max_cost=2.5)) == [
        "claude -p --max-turns 20 --max-budget-usd 2.5 PROMPT",
        "boolab hook claude-code --install --max-steps 20",
    ]
    assert "maxTurns: 20" in lines("claude-code", Limits(max_steps=20, agent="coder"))


@pytest.mark.parametrize("name", HOOK_LIMITS)
def test_claude_code_export_adds_a_valid_hook_for_other_limits(name: str) -> None:
    limits = Limits(**{name: 5}, exempt=("poll", "-x"), scope="run")  # type: ignore[arg-type]
    words = shlex.split(lines("claude-code", limits)[-1])
    assert words[:4] == ["boolab", "hook", "claude-code", "--install"]
    args = parser_of("hook").parse_args(words[1:])
    assert getattr(args, name) == 5
    assert args.scope == "run"
    assert args.exempt == (["-x", "poll"] if name == "doom_loop" else [])


def test_the_hook_has_the_step_cap_that_stands_beside_it() -> None:
    both = Limits(max_steps=40, doom_loop=5, policy="langchain_agent")  # 40 supersteps are 20 steps
    flags, hook = (line for line in lines("claude-code", both) if not line.startswith("#"))
    assert flags == "claude -p --max-turns 20 PROMPT"
    assert hook == "boolab hook claude-code --install --max-steps 20 --doom-loop 5"
    of_a_subagent = lines("claude-code", Limits(max_steps=20, doom_loop=5, agent="coder"))
    assert of_a_subagent[-1] == "boolab hook claude-code --install --doom-loop 5"  # its file has the cap


def test_a_hook_that_cannot_compare_by_an_identity_says_so() -> None:
    told = export("claude-code", Limits(doom_loop=3, identity="raw")).notes
    assert "The hook cannot compare calls by this identity; it takes canonical." in told


def test_opencode_is_not_said_to_stop() -> None:
    made = export("opencode", Limits(max_steps=20, doom_loop=3, agent="plan"))
    assert '    "plan": {' in lines("opencode", Limits(max_steps=20, agent="plan"))
    assert any("does not stop opencode" in note for note in made.notes)
    assert '"doom_loop": "deny"' in made.parts[0].text
    assert '"doom_loop": "ask"' in export("opencode", Limits(doom_loop=5)).parts[0].text


def test_gemini_counts_a_session_and_whole_minutes() -> None:
    assert any("through the whole session" in note for note in export("gemini-cli", Limits(max_steps=20)).notes)
    text = export("gemini-cli", Limits(max_steps=20, max_time=90, agent="Coder")).parts[0].text
    assert "name: coder\n" in text
    assert "max_turns: 19\ntimeout_mins: 2\n" in text


@pytest.mark.parametrize(("cap", "turns"), [(1, 1), (2, 1), (20, 19)])
def test_gemini_subagent_export_keeps_the_cap_and_notes_it(cap: int, turns: int) -> None:
    made = export("gemini-cli", Limits(max_steps=cap, agent="coder"))
    assert f"max_turns: {turns}\n" in made.parts[0].text
    assert any(f"So {turns + 1} responses can run" in note for note in made.notes)


@pytest.mark.parametrize("cap", [2, 3, 10])
def test_gemini_subagent_export_finishes_at_cap_like_its_preset(cap: int) -> None:
    text = export("gemini-cli", Limits(max_steps=cap, agent="coder")).parts[0].text
    turns = int(text.partition("max_turns: ")[2].split()[0])
    for at in (cap - 1, cap, cap + 1):
        agent = bl.Agent("a", policy="gemini_subagent", max_steps=turns)
        run = bl.run_sync(agent, "go", model=completing_at(at), tools=[look, complete_task])
        assert (run.stop_reason == "finished") is (at <= cap)


def test_max_turns_that_were_counted_as_max_turns_stay() -> None:
    made = export("gemini-cli", Limits(max_steps=20, agent="coder", policy="gemini_subagent"))
    assert "max_turns: 20\n" in made.parts[0].text


def look(n: int) -> str:
    """Look."""
    return str(n)


def complete_task(result: str) -> str:
    """Finish."""
    return result


def completing_at(n: int) -> bl.ScriptedModel:
    """A model that calls a tool in each response, and the one that finishes in the n-th."""
    calls: list[object] = [{"tool_calls": [{"name": "look", "arguments": {"n": k}}]} for k in range(n - 1)]
    return bl.ScriptedModel([*calls, {"tool_calls": [{"name": "complete_task", "arguments": {"result": "done"}}]}] * 2)


def test_codex_has_a_budget_of_tokens_and_nothing_else() -> None:
    assert "limit_tokens = 200000" in lines("codex", Limits(max_tokens=200_000))
    made = export("codex", Limits(max_steps=20))
    assert made.parts[0].path is None
    assert all(line.startswith("#") for line in made.parts[0].text.splitlines())


@pytest.mark.parametrize("target", ["claude-code", "codex", "opencode", "gemini-cli"])
def test_a_limit_that_cannot_be_set_leaves_a_text_that_says_why(target: str) -> None:
    made = export(target, Limits(max_tokens=5) if target != "codex" else Limits(tool_budget=5))
    assert " is not set. " in made.notes[-1]
    assert made.parts[0].how == "nothing of this can be set."
