"""Verdicts: each harness's own unit and rule decides what is beyond a limit."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Stop, Usage
from boolab.harnesses.harness import STEPS
from boolab.harnesses.presets import policies
from boolab.live.audits.count import count_limit
from boolab.live.audits.declared import limits_of_mapping
from boolab.live.audits.wording import figure
from tests.support.cases import cases
from tests.support.logged_runs import logged_run

BEYOND: Final = ["first_step_beyond", "steps_beyond", "calls_beyond"]


def row(audit: Any) -> dict[str, Any]:
    found: list[dict[str, Any]] = audit.frame.to_dict("records")
    (only,) = found
    return only


def never(run: bl.Run, limit: str) -> str:
    """Why a limit never fires, by the audit of a run."""
    return str(bl.audit(run).binding.set_index("limit").loc[limit, "never_fires_under"])


@pytest.mark.parametrize(
    ("source", "policy", "limit", "steps", "dropped", "verdict", "first"),
    [
        # Claude Code counts responses, and sends no request beyond the limit: docs/cli_conformance.md.
        ("claude_code", None, {"max_turns": 3}, [1, 1, 0], 0, "kept", None),
        ("claude_code", None, {"max_turns": 3}, [1] * 3, 0, "at limit", None),
        ("claude_code", None, {"max_turns": 3}, [1, 1, 1, 0], 0, "exceeded", 4),
        ("claude_code", None, {"max_turns": 3}, [1] * 4, 0, "exceeded", 4),
        ("claude_code", None, {"max_turns": 10}, [1] * 72 + [0], 0, "exceeded", 11),  # claude-code#41143
        ("claude_code", None, {"--max-turns": 60}, [1] * 72 + [0], 0, "exceeded", 61),  # claude-code-action#1577
        # Inspect's turn_limit=3 makes 4 model calls, and drops the fourth.
        ("inspect", None, {"turn_limit": 3}, [1] * 4, 1, "at limit", None),
        ("inspect", None, {"turn_limit": 3}, [1] * 4, 0, "exceeded", 4),
        ("inspect", None, {"turn_limit": 4}, [1] * 3, 0, "kept", None),
        # mini-swe-agent checks before the request.
        ("mini_swe_agent", None, {"step_limit": 3}, [1] * 3, 0, "at limit", None),
        ("mini_swe_agent", None, {"step_limit": 3}, [1] * 4, 1, "exceeded", 4),
        # smolagents records its summary as one more step, without calls.
        ("openai_chat", "smolagents", {"max_steps": 3}, [1, 1, 1, 0], 0, "at limit", None),
        ("openai_chat", "smolagents", {"max_steps": 3}, [1] * 4, 0, "exceeded", 4),
        # opencode only asks the model to stop.
        ("opencode", None, {"*": {"steps": 3}}, [1] * 5 + [0], 0, "exceeded", 4),
        # LangGraph counts supersteps: two for a response with calls.
        ("openai_chat", None, {"recursion_limit": 7}, [1, 1, 1, 0], 0, "kept", None),
        ("openai_chat", None, {"recursion_limit": 6}, [1, 1, 1], 1, "at limit", None),
        ("openai_chat", None, {"recursion_limit": 4}, [1, 1, 1, 0], 0, "exceeded", 2),
        # Tool calls, in whole batches.
        ("openai_chat", "pydantic_ai", {"tool_calls_limit": 3}, [2, 2], 1, "at limit", None),
        ("openai_chat", "pydantic_ai", {"tool_calls_limit": 3}, [2, 2, 0], 0, "exceeded", 2),
        ("boolab", None, {"tool_budget": 3}, [2, 2, 0], 0, "exceeded", 3),
        ("boolab", None, {"tool_budget": 3}, [2, 2], 0, "at limit", None),
        # Far away, and near.
        ("codex", None, {"max_steps": 9}, [1, 1, 1, 0], 0, "never near", None),
        ("codex", None, {"max_steps": 8}, [1, 1, 1, 0], 0, "kept", None),
    ],
)
def test_the_verdict_is_that_of_the_harness(
    source: str,
    policy: str | None,
    limit: dict[str, Any],
    steps: list[int],
    dropped: int,
    verdict: str,
    first: int | None,
) -> None:
    found = row(bl.audit(logged_run(source, steps, dropped=dropped), limit, policy=policy))
    assert (found["verdict"], found["first_step_beyond"] if first else None) == (verdict, first)


def test_the_normal_overshoot_of_a_harness_is_named() -> None:
    found = row(bl.audit(logged_run("inspect", [1] * 4, dropped=1), {"turn_limit": 3}))
    assert found["note"].startswith("3 declared, 4 model calls by its rule")
    assert found["counted"] == 4


def test_what_follows_beyond_a_limit_is_summed_up() -> None:
    run = logged_run("claude_code", [2] * 5 + [0], usage=Usage(90, 10, cost=500_000))
    audit = bl.audit(run, {"max_turns": 3})
    found = row(audit)
    assert [found[name] for name in BEYOND] == [4, 3, 4]
    assert (found["tokens_beyond"], found["cost_beyond_usd"]) == (300, 1.5)
    assert audit.sentences[0].startswith("1 of 1 run went beyond a limit that was set: the largest count is 6")
    assert audit.sentences[1] == "What followed beyond the limits: 3 steps, 4 calls, 300 tokens and $1.50."


def test_limits_restart_each_turn_if_the_harness_counts_so() -> None:
    run = logged_run("claude_code", [1, 1, 0, 1, 1, 0], turns=[4])
    assert row(bl.audit(run, {"max_turns": 3}))["verdict"] == "kept"
    assert row(bl.audit(run, {"max_turns": 3}, scope="run"))["first_step_beyond"] == 4
    session = logged_run("gemini", [1, 1, 0, 1, 1, 0], turns=[4])
    assert row(bl.audit(session, {"maxSessionTurns": 5}))["first_step_beyond"] == 6


def test_subagents_have_limits_of_their_own() -> None:
    runs = [
        logged_run("claude_code", [1, 0], run_id="root", agent="claude_code"),
        logged_run("claude_code", [1] * 9, run_id="a", agent="explore", parent="root"),
        logged_run("claude_code", [1] * 9, run_id="b", agent="plan", parent="root"),
    ]
    audit = bl.audit(runs, {"max_turns": 5, "explore": {"max_turns": 4}})
    assert audit.frame[["run_id", "declared", "verdict"]].to_numpy().tolist() == [
        ["a", 4, "exceeded"],
        ["root", 5, "never near"],
    ]
    (note,) = (note for note in audit.notes if "no declared limit" in note)
    assert (
        note == "1 of 3 runs had no declared limit, 1 of them of subagents (plan): a limit counts for one agent alone."
    )
    every = bl.audit(runs, {"*": {"max_turns": 5}, "explore": {"max_turns": 4}})
    assert dict(zip(every["run_id"], every["declared"], strict=True)) == {"root": 5, "a": 4, "b": 5}


def test_run_stopped_by_a_limit_but_reported_finished_is_named() -> None:
    canned = logged_run("openai_chat", [1, 0], text="Sorry, need more steps to process this request.")
    audit = bl.audit(canned, {"recursion_limit": 4})
    assert row(audit)["verdict"] == "hit"
    assert row(audit)["reported_finished"]
    assert "1 run that a limit stopped is reported as finished: run." in audit.sentences
    sample = logged_run("inspect", [1] * 4, dropped=1, stop=Stop("step_cap", 3, "turn_limit(3)", 3, 4))
    assert row(bl.audit(sample, {"turn_limit": 3}))["reported_finished"]
    loud = logged_run("mini_swe_agent", [1] * 3, stop=Stop("step_cap", 3, "step_limit", 3, 3))
    assert not row(bl.audit(loud, {"step_limit": 3}))["reported_finished"]


@pytest.mark.parametrize(("word", "same"), [("bye", True), ("bye, at the limit", True), ("done for", False)])
def test_audit_compares_the_words_for_a_limit_and_for_an_end(word: str, same: bool) -> None:
    policy = policies["mini_swe_agent"].vary(about={"own_words": (("step_cap", word), ("finished", "bye"))})
    run = logged_run("mini_swe_agent", [1] * 3, stop=Stop("step_cap", 3, "step_limit", 3, 3))
    assert row(bl.audit(run, {"step_limit": 3}, policy=policy))["reported_finished"] == same


def test_of_two_limits_the_one_on_record_stopped_the_run() -> None:
    limits = {"steps": 9, "messages": 5}
    run = logged_run("inspect", [1, 1], limits=limits, stop=Stop("step_cap", 2, "message_limit(5)", 5, 5))
    found = bl.audit(run)
    assert dict(zip(found["limit"], found["verdict"], strict=True)) == {
        "message_limit": "hit",
        "turn_limit": "never near",
    }


@pytest.mark.parametrize(("tokens", "verdict"), [(Usage(40, 10), "kept"), (None, "unknown")])
def test_what_a_log_does_not_show_is_unknown(tokens: Usage | None, verdict: str) -> None:
    run = logged_run("inspect", [1, 0], usage=tokens)
    assert row(bl.audit(run, {"token_limit": 150}))["verdict"] == verdict


def test_a_token_limit_allows_the_response_that_crosses_it() -> None:
    within = logged_run("inspect", [1, 1, 1], dropped=1, usage=Usage(90, 10))
    assert row(bl.audit(within, {"token_limit": 250}))["verdict"] == "at limit"
    over = logged_run("inspect", [1, 1, 1, 1], usage=Usage(90, 10))
    assert row(bl.audit(over, {"token_limit": 250}))["first_step_beyond"] == 3


def test_codex_counts_output_and_input_that_is_not_cached() -> None:
    run = logged_run("codex", [1, 1, 1, 0], usage=Usage(1000, 10, cached_tokens=900))
    found = row(bl.audit(run, {"features.rollout_budget.limit_tokens": 220}))
    assert (found["counted"], found["unit"], found["first_step_beyond"]) == (440, "weighted tokens", 3)


def codex_family() -> list[Run]:
    """A session of 4 responses, one a second, and a subagent of 2 after its second one: 110 fresh tokens each."""
    began = datetime(2026, 6, 1, tzinfo=UTC)
    usage = Usage(1000, 10, cached_tokens=900)
    session = replace(logged_run("codex", [1, 1, 1, 0], usage=usage), started_at=began)
    scout = logged_run("codex", [1, 0], usage=usage, run_id="scout", parent="run")
    return [session, replace(scout, started_at=began + timedelta(seconds=2))]


@pytest.mark.parametrize(
    ("limit", "counted", "first_beyond"),
    # the responses are complete after 1, 2, 3 and 4 seconds, those of the subagent after 3 and 4
    [(219, 660, 3), (331, 660, 4), (441, 660, None), (661, 660, None)],
)
def test_codex_shares_its_budget_with_subagents(limit: int, counted: int, first_beyond: int | None) -> None:
    family = codex_family()
    found = row(bl.audit(family, {"features.rollout_budget.limit_tokens": limit}))
    assert (found["counted"], found["first_step_beyond"]) == (counted, first_beyond)
    alone = row(bl.audit(family[:1], {"features.rollout_budget.limit_tokens": limit}))
    assert alone["counted"] == 440


def test_codex_weights_of_a_config_file_are_counted(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        "[features.rollout_budget]\nenabled = true\nlimit_tokens = 100\nreminder_at_remaining_tokens = []\n"
        "sampling_token_weight = 2.5\nprefill_token_weight = 0.1\n"
    )
    (tmp_path / ".codex").mkdir()
    path = config.rename(tmp_path / ".codex" / "config.toml")
    found = row(bl.audit(codex_family(), config=path))
    assert (found["counted"], found["first_step_beyond"]) == (6 * (25 + 10), 4)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_turn": 3}, "did you mean 'max_turns'"),
        ({"max_turns": -1}, "expected a number >= 0"),
        ({"max_turns": True}, "expected a number >= 0"),
        ({}, "it has no limit"),
        ("all", 'expected "auto"'),
        ([1], 'expected "auto"'),
    ],
)
def test_limits_that_are_not_understood_are_refused(limits: Any, said: str) -> None:
    with pytest.raises(bl.SettingError, match=said):
        bl.audit(logged_run("claude_code", [1]), limits)


def test_limit_of_a_harness_without_preset_is_for_its_runs_only() -> None:
    assert bl.audit(logged_run("openai_chat", [1, 1, 1, 0]), {"max_num_steps": 2}).frame.empty
    assert row(bl.audit(logged_run("tau_bench", [1, 1, 1, 0]), {"max_num_steps": 2}))["verdict"] == "exceeded"


def test_a_limit_that_is_for_none_of_the_runs_is_named() -> None:
    audit = bl.audit(logged_run("claude_code", [1, 0]), {"explore": {"max_turns": 3}})
    assert audit.sentences[0] == "No limit was declared for this run."
    assert audit.notes == ("max_turns 3 of explore (by hand) is for none of these runs; their agents: claude_code.",)
    assert len(audit.frame) == len(audit.binding) == 0
    assert all("No limit" in shown for shown in (str(audit), audit._repr_html_()))


def test_binding_has_the_room_that_a_limit_leaves() -> None:
    runs = [logged_run("mini_swe_agent", [1] * n + [0], run_id=str(n), limits={"steps": 30}) for n in range(1, 21)]
    (found,) = bl.audit(runs).binding.to_dict("records")
    assert [found[name] for name in ("n_runs", "n_hit", "largest", "p95", "slack", "slack_p95")] == [
        20,
        0,
        21,
        20,
        9,
        10,
    ]
    assert "step_limit 30 never stopped a run: at most 21 of 30 model responses in 20 runs." in bl.audit(runs).sentences


def test_binding_names_the_limit_that_always_fires_first() -> None:
    look = {"tool_calls": [{"name": "ls"}], "repeat": "forever"}
    run = bl.run_sync(None, "go", model=bl.ScriptedModel([look], tools={"ls": "a file"}), policy="boocode")
    assert "tool budget of 50 is used up" in never(run, "max_steps")
    run = logged_run("inspect", [1, 0], limits={"steps": 40, "messages": 50})
    assert "message_limit 50 comes before" in never(run, "turn_limit")


SETTINGS: Final = st.fixed_dictionaries({"max_steps": st.integers(1, 6), "tool_budget": st.integers(1, 8)})


@cases(60)
@given(
    name=st.sampled_from(sorted(policies)),
    limits=SETTINGS,
    calls=st.lists(st.integers(0, 3), min_size=1, max_size=9),
)
def test_no_run_of_a_live_policy_goes_beyond_its_own_limits(
    name: str, limits: dict[str, int], calls: Sequence[int]
) -> None:
    given_limits: Any = {axis: value for axis, value in limits.items() if axis in policies[name].order}
    agent = bl.Agent("a", policy=name, **given_limits)
    script: list[Any] = [
        {"text": "Hm.", "tool_calls": [{"name": "look", "arguments": {"n": f"{i}.{j}"}} for j in range(n)]}
        for i, n in enumerate(calls)
    ]
    model = bl.ScriptedModel([*script, "Done."], tools={"look": "seen"}, summary="All in all.")
    audit = bl.audit(bl.run_sync(agent, "go", model=model))
    soft = policies[name].cap.kind == "soft"
    assert set(audit["verdict"]) <= {"hit", "kept", "never near", "unknown", *(("exceeded",) if soft else ())}


@cases(60)
@given(limit=st.integers(1, 8), calls=st.lists(st.integers(1, 2), min_size=1, max_size=9))
def test_run_exceeds_a_limit_where_counterfactual_truncates_it(limit: int, calls: list[int]) -> None:
    run = logged_run("codex", [*calls, 0])
    found = row(bl.audit(run, {"max_steps": limit}))
    stopped = bl.counterfactual(run, grid={"max_steps": [limit]}).iloc[0]
    assert (found["verdict"] == "exceeded") == (stopped["outcome"] == "truncated")
    if found["verdict"] == "exceeded":
        assert found["first_step_beyond"] == stopped["stop_step"] + 1


def test_an_answer_of_a_middleware_is_no_model_call() -> None:
    run = logged_run("openai_chat", [1, 1, 1, 0], text="Model call limits exceeded: run limit (3/3)")
    found = row(bl.audit(run, {"run_limit": 3}, policy="langchain_middleware"))
    assert (found["verdict"], found["counted"], found["reported_finished"]) == ("hit", 3, True)


def test_a_limit_of_which_the_log_shows_only_the_stop_is_a_row() -> None:
    named = logged_run("tau2_bench", [1, 1], stop=Stop("step_cap", 2, "max_steps(6)", 6, 6))
    found = row(bl.audit(named))
    assert [found[name] for name in ("limit", "declared", "counted", "verdict")] == ["max_steps", 6, 6, "hit"]
    bare = bl.audit(logged_run("otel", [1], stop="token_budget"))
    assert row(bare)["note"] == "the log does not show the limit, only that it stopped the run"
    assert bare.sentences == ("The run with a limit did not go beyond it.", "1 of 1 run was stopped by a limit.")
    assert len(bl.audit(named, {"max_tokens": 5}).frame) == 1


def test_the_agent_of_a_run_of_opencode_that_names_none_is_build() -> None:
    run = logged_run("opencode", [1] * 4 + [0], agent="opencode")
    assert row(bl.audit(run, {"build": {"steps": 3}}))["first_step_beyond"] == 4


def test_run_stopped_by_its_own_limit_did_not_hit_another() -> None:
    run = logged_run(
        "tau_bench", [1] * 30, limits={"steps": 30}, stop=Stop("step_cap", 30, "max_num_steps(30)", 30, 30)
    )
    assert row(bl.audit(run))["verdict"] == "hit"
    found = row(bl.audit(run, {"max_steps": 75}))
    assert found["verdict"] == "never near"
    assert "another limit stopped it" in found["note"]


@pytest.mark.parametrize(
    ("stop", "verdict", "said"),
    [
        ("finished", "kept", "it ended by itself exactly at the limit"),
        ("token_budget", "kept", "another limit stopped it"),
        ("aborted", "at limit", "the log does not name what ended it"),
        (Stop("step_cap", 3, "max_steps(3)", 3, 3), "hit", ""),
    ],
)
def test_a_limit_stopped_a_run_at_it_only_where_the_log_names_it(stop: Any, verdict: str, said: str) -> None:
    audit = bl.audit(logged_run("tau_bench", [1, 1, 1], stop=stop), {"max_steps": 3})
    found = row(audit)
    assert (found["verdict"], found["reported_finished"]) == (verdict, False)
    assert said in found["note"]
    (bound,) = audit.binding.to_dict("records")
    assert (bound["n_hit"], bound["n_at_limit"]) == (verdict == "hit", verdict == "at limit")
    text = " ".join(audit.sentences)
    assert ("was stopped by a limit" in text, "may have been stopped" in text, "never stopped a run" in text) == (
        verdict == "hit",
        verdict == "at limit",
        verdict == "kept",
    )


@pytest.mark.parametrize(("limit", "verdict"), [(2, "exceeded"), (3, "hit"), (4, "kept")])
def test_a_stop_without_a_name_is_by_a_limit_that_was_reached(limit: int, verdict: str) -> None:
    run = logged_run("tau_bench", [1, 1, 1], stop="step_cap")
    assert row(bl.audit(run, {"max_steps": limit}))["verdict"] == verdict


def test_cap_equal_to_the_length_of_a_finished_run_stops_nothing() -> None:
    run = logged_run("tau_bench", [1, 1, 1], stop="finished")
    assert row(bl.audit(run, {"max_steps": 3}))["verdict"] == "kept"
    assert bl.counterfactual(run, grid={"max_steps": [3]})["outcome"].tolist() == ["unchanged"]


def test_turn_ending_at_a_limit_is_at_limit_in_a_finished_run() -> None:
    run = logged_run("claude_code", [1, 1, 1, 0], turns=[4])
    assert row(bl.audit(run, {"max_turns": 3}))["verdict"] == "at limit"


def test_audit_never_cuts_the_id_of_a_run() -> None:
    names = [f"7f2abd2d-7cfc-44{n}a-8bdd-3ca8d14e02e{n}" for n in range(3)]
    runs = [logged_run("claude_code", [1] * 9, run_id=name) for name in names]
    text = str(bl.audit(runs, {"max_turns": 5}))
    assert all(name in text for name in names)
    assert "counted" in text.partition("Further columns")[0]


def test_count_of_a_limit_has_the_steps_beyond_it() -> None:
    look = {"tool_calls": [{"name": "ls"}], "repeat": "forever"}
    run = bl.run_sync(None, "go", model=bl.ScriptedModel([look], tools={"ls": "a"}), policy=bl.fixed_turns(4))
    found = count_limit(run, STEPS, 3, None)
    assert found.value == 4
    assert [step.index for step in found.steps_beyond] == [4]


def test_limits_by_hand_may_name_an_agent() -> None:
    assert [
        (one.name, one.value, one.agent) for one in limits_of_mapping({"max_turns": 10, "explore": {"max_turns": 5}})
    ] == [
        ("max_turns", 10, None),
        ("max_turns", 5, "explore"),
    ]


def test_figure_has_commas_or_four_digits() -> None:
    assert figure(1200.0) == "1,200"
    assert figure(0.30181) == "0.3018"
