"""Exports to harnesses of the command line: what is set, in whose unit, and what is said of the rest."""

import shlex
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.cli.main import parser_of
from boolab.harnesses.claude_code import HOOK_LIMITS
from boolab.harnesses.exports.export import as_command, export
from boolab.harnesses.exports.values import Limits
from boolab.harnesses.registry import harness
from boolab.limits.token_count import TokenCount
from tests.support.cases import cases


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


WEIGHT = st.integers(0, 10**9).map(lambda micro: micro / 10**6)


@cases(60)
@given(st.integers(1, 10**12), WEIGHT, WEIGHT)
def test_codex_reads_the_rollout_budget_that_was_exported(n: int, output: float, prefill: float) -> None:
    limits = Limits(max_tokens=n, token_weights={"output": output, "input": prefill}, scope="run")
    document: dict[str, Any] = tomllib.loads(export("codex", limits).parts[0].text)
    assert document["features"]["rollout_budget"] == {
        "enabled": True,
        "limit_tokens": n,
        "reminder_at_remaining_tokens": [],
        "sampling_token_weight": output,
        "prefill_token_weight": prefill,
    }
    (budget,) = [limit for limit in harness("codex").config_files[0].limits(document) if "rollout" in limit.name]
    rule = bl.max_tokens(n, of="weighted", weights={"output": output, "input": prefill})
    assert (budget.value, (budget.tokens,)) == (n, rule.detectors())


@pytest.mark.parametrize("weights", [{"cached": 0.1, "output": 1}, {"written": 1.25, "input": 1}])
def test_codex_export_refuses_weights_that_it_does_not_have(weights: dict[str, float]) -> None:
    made = export("codex", Limits(max_tokens=500, token_weights=weights))
    assert "rollout_budget" not in made.parts[0].text
    assert any("is not set. Codex does not count cached input" in note for note in made.notes)


def test_export_sets_weights_where_boolab_counts() -> None:
    fresh = Limits(max_tokens=500, token_weights={"output": 1})
    assert fresh.in_words() == "a token budget of 500 fresh tokens"
    assert any('bl.max_tokens(500, of="weighted", weights={"input": 1, ' in line for line in lines("smolagents", fresh))
    assert not any("token_limit" in line and not line.startswith("#") for line in lines("inspect", fresh))
    assert any("without weights" in note for note in export("inspect", fresh).notes)


def test_weights_need_a_token_budget() -> None:
    with pytest.raises(bl.SettingError, match="there is no token budget to weigh"):
        Limits(max_steps=3, token_weights={"output": 1})


def test_weights_are_an_option_of_boolab_export() -> None:
    args = parser_of("export").parse_args(
        ["export", "codex", "--max-tokens", "900", "--token-weights", "input=0.1,output=1"]
    )
    limits = Limits(max_tokens=900, token_weights=args.token_weights)
    assert limits.token_weights == TokenCount.from_weights({"input": 0.1, "output": 1}).weights
    assert as_command(limits).endswith("--token-weights input=0.1,cached=0,written=0.1,output=1")
    with pytest.raises(SystemExit):
        parser_of("export").parse_args(["export", "codex", "--token-weights", "outputs=1"])
