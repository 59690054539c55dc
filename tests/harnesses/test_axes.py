"""Axes of policies one by one: what each of their values does to the same script."""

from dataclasses import replace
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.whatif.policy_limits import AFTERWARDS, AS_RECORDED, AT_RESPONSE, divergences
from tests.support.cases import cases
from tests.support.harness_cases import Played, play, preset, said, script
from tests.support.helpers import grouped

PLAIN = bl.Policy(name="plain").vary(cap={"ceiling": 50})
"""A policy of defaults."""


def calls(run: bl.Run) -> list[list[str]]:
    """What became of each call, by step: `ran`, `refused` or `dropped`."""

    def fate(result: Any) -> str:
        return "dropped" if result is None else "refused" if result.is_error else "ran"

    return [[fate(result) for result in step.results] for step in run.steps]


def budgeted(n: int, batch: Any) -> bl.Policy:
    """A policy with a tool budget."""
    return PLAIN.vary(order=("tool_budget",), budgets={"batch": batch, "read_only": n, "writing": n, "no_agent": n})


@pytest.mark.parametrize(
    ("batch", "fates", "stop"),
    [
        ("overshoot", [["ran"] * 2, ["ran"] * 2], ("tool_budget", 2, 3, 4)),
        ("reject", [["ran"] * 2, ["dropped"] * 2], ("tool_budget", 1, 4, 4)),
        ("cut", [["ran"] * 2, ["ran", "dropped"]], ("tool_budget", 2, 3, 4)),
    ],
)
def test_batch_beyond_the_budget_is_completed_rejected_or_cut(
    batch: str, fates: list[list[str]], stop: tuple[str, int, int, int]
) -> None:
    run = play(budgeted(3, batch), "TT TT TT X").run
    assert calls(run) == fates
    assert (run.stop.reason, run.stop.step, run.stop.threshold, run.stop.value) == stop


@pytest.mark.parametrize(
    ("batch", "reason"), [("overshoot", "tool_budget"), ("reject", "finished"), ("cut", "finished")]
)
def test_batch_mode_decides_if_final_text_follows_a_met_budget(batch: str, reason: str) -> None:
    assert play(budgeted(4, batch), "TT TT X").run.stop_reason == reason


@pytest.mark.parametrize(
    ("before", "after", "tokens", "spent"),
    [
        ("reached", "unchecked", 300, (3, 3)),
        ("exceeded", "unchecked", 300, (4, 4)),
        ("exceeded", "unchecked", 299, (3, 3)),
        ("unchecked", "exceeded", 300, (4, 3)),
        ("unchecked", "exceeded", 299, (3, 2)),
        ("reached", "exceeded", 300, (3, 3)),
        ("unchecked", "unchecked", 100, (50, 50)),
    ],
)
def test_token_budget_is_checked_before_or_after_each_request(
    before: Any, after: Any, tokens: int, spent: tuple[int, int]
) -> None:
    policy = PLAIN.vary(budgets={"tokens": tokens, "before": before, "after": after})
    played = play(policy, "T " * 60)
    assert (len(played.model.requests), len(played.ran)) == spent


def test_money_and_time_are_limits_of_a_policy_too() -> None:
    assert play(PLAIN.vary(budgets={"cost": 0.003}), "T " * 9).run.stop[:2] == ("cost_budget", 3)
    assert play(PLAIN.vary(budgets={"seconds": 0.5}), "T " * 9, latency_ms=200).run.stop[:2] == ("time_budget", 3)


def test_first_limit_in_order_is_the_reason_others_are_listed() -> None:
    policy = PLAIN.vary(cap={"max_steps": 3}, budgets={"tokens": 300, "cost": 0.003})
    for order in (("max_steps", "token_budget", "cost_budget"), ("cost_budget", "max_steps", "token_budget")):
        stop = play(policy.vary(order=order), "T " * 9).run.stop
        names = {"max_steps": "step_cap"}
        reasons = [names.get(name, name) for name in order]
        assert [stop.reason, *stop.also_fired] == reasons


def test_unknown_tokens_reach_no_budget_unless_policy_says_error() -> None:
    silent = [
        bl.models.Response("", (bl.models.ToolCall(f"c{i}", "work", f'{{"what": "{i}"}}'),), "tool_calls")
        for i in range(9)
    ]
    policy = PLAIN.vary(cap={"max_steps": 4}, budgets={"tokens": 100})
    assert play(policy, silent).run.stop_reason == "step_cap"
    strict = play(policy.vary(budgets={"on_unknown": "error"}), silent).run
    assert strict.stop_reason == "error"
    assert "UnknownCounter" in str(strict.error)


@pytest.mark.parametrize(
    ("execution", "fates"),
    [
        ("parallel", ["ran", "ran", "ran"]),
        ("sequence", ["ran", "ran", "ran"]),
        ("one_per_message", ["ran", "refused", "refused"]),
        ("exactly_one", ["dropped", "dropped", "dropped"]),
    ],
)
def test_execution_mode_decides_which_calls_of_a_batch_run(execution: Any, fates: list[str]) -> None:
    assert calls(play(PLAIN.vary(execution={"calls": execution}), "TTT X").run)[0] == fates


def test_calls_in_sequence_begin_when_the_one_before_has_ended() -> None:
    running, most = 0, 0

    @bl.tool
    async def slow(context: bl.ToolContext) -> str:
        """Take a second."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await context.sleep(1)
        running -= 1
        return "done"

    items: list[Any] = [{"tool_calls": [{"name": "slow"}] * 3}, "Done."]
    times = {}
    for execution in ("parallel", "sequence"):
        policy = bl.Policy(name="p").vary(execution={"calls": execution})
        run = bl.run_sync(None, "go", model=bl.ScriptedModel(items), tools=[slow], policy=policy)
        times[execution] = (most, run.duration_ms)
        most = 0
    assert times == {"parallel": (3, 1000), "sequence": (1, 3000)}


@pytest.mark.parametrize(
    ("batch", "pattern", "ends", "fates"),
    [
        ("all", "TDT", True, ["ran", "ran", "ran"]),
        ("until", "TDT", True, ["ran", "ran", "dropped"]),
        ("alone", "TDT", False, ["ran", "ran", "ran"]),
        ("alone", "D", True, ["ran"]),
    ],
)
def test_finishing_tool_ends_its_turn_according_to_batch_mode(
    batch: Any, pattern: str, ends: bool, fates: list[str]
) -> None:
    policy = PLAIN.vary(finish={"tools": ("submit",), "batch": batch}, execution={"calls": "sequence"})
    run = play(policy, f"{pattern} X").run
    assert calls(run)[0] == fates
    assert (run.n_steps == 1, run.stop_reason) == (ends, "finished")


def test_a_finishing_tool_that_fails_does_not_end_the_turn() -> None:
    policy = PLAIN.vary(finish={"conditions": (), "tools": ("submit",)})
    items = [{"tool_calls": [{"name": "submit", "arguments": "{oops"}]}, *script("D", policy)]
    assert play(policy, items).run.n_steps == 2


@pytest.mark.parametrize(
    ("failures", "error", "ends"),
    [
        ("reported", ValueError, False),
        ("reported", bl.ToolError, False),
        ("unexpected_fatal", ValueError, True),
        ("unexpected_fatal", bl.ToolError, False),
        ("fatal", ValueError, True),
        ("fatal", bl.ToolError, True),
    ],
)
def test_a_tool_s_exception_is_told_or_ends_the_run(failures: Any, error: type[Exception], ends: bool) -> None:
    def fails(_nth: int, _what: str) -> str:
        raise error("broken")

    run = play(PLAIN.vary(execution={"tool_failures": failures}), "T X", outcome=fails).run
    assert (run.stop_reason == "error") == ends
    assert calls(run)[0] == ["refused"]
    if ends:
        assert run.error == f"{error.__name__}: broken"
        assert (run.stop_step, run.steps[0].error) == (0, run.error)


@pytest.mark.parametrize(
    ("unknown", "fates", "n_steps"), [("reported", "refused", 2), ("fatal", "dropped", 1), ("rejected", "dropped", 2)]
)
def test_unknown_tool_is_reported_fatal_or_rejected_by_policy(unknown: Any, fates: str, n_steps: int) -> None:
    items = [bl.models.Response("", (bl.models.ToolCall("1", "nobody", "{}"),), "tool_calls"), said("Done.", "stop")]
    run = play(PLAIN.vary(execution={"unknown_tools": unknown}), items).run
    assert (calls(run)[0], run.n_steps) == ([fates], n_steps)
    assert (run.stop_reason == "error") == (unknown == "fatal")


@pytest.mark.parametrize(("idle", "told"), [("prompt", 1), ("again", 0)])
def test_idle_text_is_answered_with_a_prompt_or_not_by_policy(idle: Any, told: int) -> None:
    policy = PLAIN.vary(finish={"conditions": (), "tools": ("submit",), "idle": idle})
    played = play(policy, "X D")
    assert len(played.run.inputs) == told
    assert played.observation[:4] == (2, 0, 0, "finished")


@pytest.mark.parametrize(
    ("last_step", "in_cap", "requests", "tools", "choices", "n_told"),
    [
        ("tools", True, 3, [True] * 3, ["auto"] * 3, [0, 0, 0]),
        ("prompt", True, 3, [True] * 3, ["auto"] * 3, [0, 0, 1]),
        ("tool_choice_none", True, 3, [True] * 3, ["auto", "auto", "none"], [0, 0, 1]),
        ("no_tools", True, 3, [True, True, False], ["auto"] * 3, [0, 0, 1]),
        ("tool_choice_none", False, 4, [True] * 4, ["auto"] * 3 + ["none"], [0, 0, 0, 1]),
        ("no_tools", False, 4, [True] * 3 + [False], ["auto"] * 4, [0, 0, 0, 1]),
        ("grace", True, 4, [True] * 4, ["auto"] * 4, [0, 0, 0, 1]),
    ],
)
def test_last_step_is_within_or_beyond_the_cap_as_set(
    last_step: Any, in_cap: bool, requests: int, tools: list[bool], choices: list[str], n_told: list[int]
) -> None:
    policy = PLAIN.vary(cap={"max_steps": 3}, last_step={"action": last_step, "in_cap": in_cap})
    played = play(policy, "T " * 9)
    seen = played.model.requests
    assert (len(seen), played.run.stop_reason, played.run.stop_step) == (requests, "step_cap", 3)
    assert [bool(request.tools) for request in seen] == tools
    assert [request.tool_choice for request in seen] == choices
    assert [request.last_word == policy.last_step.prompt for request in seen] == [bool(n) for n in n_told]
    closed = last_step in ("tool_choice_none", "no_tools", "grace")
    assert calls(played.run)[-1] == ["refused" if closed else "ran"]


def guarded(*ladder: tuple[int, Any], **options: Any) -> bl.Policy:
    """A policy with one guard on repeats."""
    return PLAIN.vary(detectors={"guards": (bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=ladder, **options),)})


def fired(played: Played, *kinds: str) -> list[int]:
    """The steps at which events of these kinds happened."""
    return [step for _, step in played.events(*kinds)]


def test_nudge_is_sent_once_per_repeated_pattern() -> None:
    assert fired(play(guarded((3, "nudge")), "A A A A A B A A A A X"), "nudge") == [3, 9]


NUDGED_TWICE = (
    bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((2, "nudge"),), nudge="Twice."),
    bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((4, "nudge"),), nudge="Four times."),
)
"""Two guards on one detector."""


def test_guards_on_one_detector_speak_once_each() -> None:
    run = play(PLAIN.vary(detectors={"guards": NUDGED_TWICE}), "A A A A A A X").run
    assert [(i.before, i.message.text) for i in run.inputs] == [(3, "Twice."), (5, "Four times.")]
    at_calls = tuple(replace(guard, check="call") for guard in NUDGED_TWICE)
    run = play(PLAIN.vary(detectors={"guards": at_calls}), "A A A A A A X").run
    assert [(i.before, i.message.text) for i in run.inputs] == [(3, "Twice."), (5, "Four times.")]


@cases(60)
@given(
    ladders=st.lists(st.sets(st.integers(2, 5), min_size=1, max_size=2).map(sorted), min_size=1, max_size=3),
    text=st.lists(st.sampled_from("AB"), min_size=1, max_size=9),
)
def test_live_and_offline_agree_on_when_guards_speak(ladders: list[list[int]], text: list[str]) -> None:
    guards = tuple(
        bl.Guard(
            detector=bl.detectors.RepeatStreak(), ladder=tuple((n, "nudge") for n in ladder), nudge=f"Guard {place}."
        )
        for place, ladder in enumerate(ladders)
    )
    policy = PLAIN.vary(detectors={"guards": guards})
    words = " ".join([*text, "X"])
    spoken, silent = play(policy, words).run, play(PLAIN, words).run
    assert divergences(policy, spoken) == [AS_RECORDED] * spoken.n_steps
    at = {given.before - 2 for given in spoken.inputs}
    assert divergences(policy, silent) == [
        AFTERWARDS if place in at else AS_RECORDED for place in range(silent.n_steps)
    ]


def test_calls_of_a_broken_response_meet_no_guard_offline() -> None:
    policy, run = guarded((2, "block"), check="call"), play(PLAIN, "A A A X").run
    first, second, *others = run.steps
    cut = replace(run, steps=(first, second._replace(error="the connection was reset", results=(None,)), *others))
    assert divergences(policy, run) == [AS_RECORDED, AT_RESPONSE, AT_RESPONSE, AS_RECORDED]
    assert divergences(policy, cut) == [AS_RECORDED, AS_RECORDED, AT_RESPONSE, AS_RECORDED]


def test_a_nudge_before_the_call_may_hold_it_back() -> None:
    for executes, fate in ((True, "ran"), (False, "refused")):
        run = play(guarded((3, "nudge"), check="call", nudge_executes=executes), "A A A X").run
        assert calls(run)[2] == [fate]


def test_a_block_holds_back_every_call_until_the_pattern_breaks() -> None:
    run = play(guarded((3, "block"), check="call"), "A A A A B A X").run
    assert [fates[0] for fates in calls(run)[:-1]] == ["ran", "ran", "refused", "refused", "ran", "ran"]


def test_a_guard_that_fires_may_start_anew() -> None:
    run = play(guarded((3, "block"), check="call", rearm="fire"), "A A A A A A A X").run
    assert [fates[0] for fates in calls(run)[:-1]] == ["ran", "ran", "refused", "ran", "ran", "refused", "ran"]


def test_a_guard_starts_anew_at_the_first_level_of_its_ladder() -> None:
    run = play(guarded((3, "nudge"), (5, "stop"), rearm="fire"), "A A A A A A A X")
    assert (fired(run, "nudge"), run.run.stop_reason) == ([3, 6], "finished")


def test_a_guard_per_message_sees_no_further_than_the_message() -> None:
    policy = guarded((3, "block"), check="call", scope="message")
    assert calls(play(policy, "AA AA AAA X").run)[:-1] == [["ran"] * 2, ["ran"] * 2, ["ran", "ran", "refused"]]


@pytest.mark.parametrize(
    ("deny", "answers", "fates", "reason"),
    [
        ("stop", (True,), [["ran"]] * 4, "finished"),
        ("stop", (False,), [["ran"], ["ran"], ["refused"]], "doom_loop"),
        ("stop", (), [["ran"], ["ran"], ["refused"]], "doom_loop"),
        ("block", (False,), [["ran"], ["ran"], ["refused"], ["refused"]], "finished"),
        ("block", (True, False), [["ran"], ["ran"], ["ran"], ["refused"]], "finished"),
    ],
)
def test_denied_call_ends_the_turn_or_is_refused(
    deny: Any, answers: tuple[bool, ...], fates: list[list[str]], reason: str
) -> None:
    run = play(guarded((3, "ask"), check="call", deny=deny), "A A A A X", answers=answers).run
    assert ([f for f in calls(run) if f], run.stop_reason) == (fates, reason)


@pytest.mark.parametrize("answer", [RuntimeError("no"), "yes", None])
def test_asking_that_goes_wrong_is_a_no_and_a_fault_on_record(answer: object) -> None:
    def ask(_question: bl.Question) -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value] # on purpose

    model = bl.ScriptedModel([{"tool_calls": [{"name": "work"}], "repeat": "forever"}])
    policy = guarded((3, "ask"), check="call")
    run = bl.run_sync(None, "go", model=model, tools=[bl.tool(name="work")(lambda: "done")], policy=policy, ask=ask)
    assert run.stop_reason == "doom_loop"
    assert any("asking failed" in event.payload["what"] for event in run.events if event.kind == "fault")


def test_async_ask_is_awaited_and_question_names_count_and_call() -> None:
    questions: list[bl.Question] = []

    async def ask(question: bl.Question) -> bool:
        questions.append(question)
        return len(questions) < 3

    model = bl.ScriptedModel([{"tool_calls": [{"name": "work"}], "repeat": "forever"}])
    policy = guarded((3, "ask"), check="call")
    run = bl.run_sync(None, "go", model=model, tools=[bl.tool(name="work")(lambda: "done")], policy=policy, ask=ask)
    assert (run.stop.reason, run.stop.step, run.stop.threshold, run.stop.value) == ("doom_loop", 5, 3, 5)
    assert [q.value for q in questions] == [3, 4, 5]
    assert all(q.call is not None and q.call.name == "work" for q in questions)


def test_a_guard_asks_at_the_boundary_whether_to_go_on() -> None:
    policy = guarded((3, "ask"), rearm="fire")
    played = play(policy, "A A A A A A A X", answers=(True, False))
    assert (played.asked_after, played.run.stop_reason, played.run.stop_step) == ((3, 6), "doom_loop", 6)


@pytest.mark.parametrize("answers", [(True,), (True, False)])
def test_boundary_guard_asks_at_one_rung_and_stops_at_the_next(answers: tuple[bool, ...]) -> None:
    played = play(guarded((2, "ask"), (4, "stop")), "A A A A A A X", answers=answers)
    n = 4 if len(answers) == 1 else 3
    rung = 4 if len(answers) == 1 else 2
    assert played.asked_after == (2, 3)
    assert played.run.stop[:5] == ("doom_loop", n, f"repeat_streak:canonical >= {rung}", rung, n)


def test_a_guard_that_stops_first_asks_nobody() -> None:
    played = play(guarded((2, "stop"), (4, "ask")), "A A A X", answers=(True,))
    assert (played.asked_after, played.run.stop_step) == ((), 2)


def test_a_guard_holds_back_calls_of_a_batch_that_is_cut_too() -> None:
    guard = bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((2, "block"),), check="call")
    run = play(budgeted(2, "cut").vary(detectors={"guards": (guard,)}), "AAA X").run
    assert (calls(run), run.stop[:2]) == ([["ran", "refused", "dropped"]], ("tool_budget", 1))
    stops = replace(guard, ladder=((2, "stop"),))
    run = play(budgeted(2, "cut").vary(detectors={"guards": (stops,)}), "AAA X").run
    assert (calls(run), run.stop[:2]) == ([["ran", "dropped", "dropped"]], ("doom_loop", 1))


@pytest.mark.parametrize("last_step", ["tools", "grace"])
def test_grace_turn_after_idle_text_needs_a_finishing_tool(last_step: Any) -> None:
    policy = PLAIN.vary(
        last_step={"action": last_step}, finish={"idle": "grace", "conditions": (), "tools": ("submit",)}
    )
    assert play(policy, "X D").run.stop_reason == "finished"
    refused = play(policy, "X T D").run
    assert (calls(refused), refused.stop_reason) == ([[], ["refused"]], "error_streak")
    rejected = play(policy.vary(execution={"calls": "exactly_one"}), "X DD D").run
    assert (rejected.n_steps, rejected.stop_reason) == (2, "error_streak")


def test_a_cap_of_zero_drops_calls_and_refuses_none() -> None:
    for name in ("boocode", "finish_aware", "cline", "naive"):
        played = play(bl.policies[name], "TT X", agent=bl.Agent("a", max_steps=0))
        assert (calls(played.run), played.run.stop_reason) == ([["dropped"] * 2], "finished"), name


def test_last_step_of_a_grown_cap_is_under_the_ceiling() -> None:
    policy = PLAIN.vary(
        cap={"max_steps": 3, "ceiling": 4}, continues={"times": 1, "by": "loop"}, last_step={"action": "no_tools"}
    )
    run = play(policy, "A B C D E").run
    assert calls(run) == [["ran"], ["ran"], ["refused"], []]
    assert run.stop[:3] == ("step_cap", 4, "ceiling(4)")


def test_cap_does_not_grow_if_another_limit_stops_the_turn() -> None:
    policy = budgeted(3, "overshoot").vary(
        order=("max_steps", "tool_budget"), cap={"max_steps": 3}, continues={"times": 1}
    )
    reasons = {"loop": (("tool_budget", 3), ()), "ask": (("step_cap", 3), ("tool_budget",))}
    for by, expected in reasons.items():  # a cap that the loop would let grow is no reason
        run = play(policy.vary(continues={"by": by}), "A B C D E", answers=(True,)).run
        assert ((run.stop[:2], run.stop.also_fired), run.limits["steps"]) == (expected, 3)


@pytest.mark.parametrize("by", ["loop", "ask"])
def test_a_stop_rule_in_the_place_of_the_cap_is_not_extended(by: Any) -> None:
    asked = []

    def ask(question: Any) -> bool:
        asked.append(question)
        return True

    policy = PLAIN.vary(cap={"max_steps": 9}, continues={"times": 1, "by": by, "counters": "fresh"})
    model = bl.ScriptedModel([{"tool_calls": [{"name": "work"}], "repeat": "forever"}])
    work = bl.tool(name="work")(lambda: "done")
    run = bl.run_sync(None, "go", model=model, tools=[work], policy=policy, stop=bl.max_steps(2), ask=ask)
    assert (run.stop[:2], run.n_steps, asked) == (("step_cap", 2), 2, [])


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("inspect_react", [3, 2, 1, 0]),
        ("claude_code", [3, 2, 1]),
        ("langgraph_react", [1, 0]),
        ("ai_sdk", [3, 2, 1]),
    ],
)
def test_steps_left_counts_down_to_the_cap_in_each_policy(name: str, left: list[int]) -> None:
    run = play(bl.policies[name], "T T T T T T", agent=bl.Agent("a", max_steps=3)).run
    assert bl.steps_df([run])["steps_left"].tolist() == left


def test_fully_rejected_response_has_no_results_to_synthesise() -> None:
    async def synthesis(_calls: Any, _results: Any) -> str:
        return "Written."

    items = [{"tool_calls": [{"name": "no_such_tool"}]}, {"tool_calls": [{"name": "work"}]}]
    work = bl.tool(name="work")(lambda: "done")
    run = bl.run_sync(
        None, "go", model=bl.ScriptedModel(items), tools=[work], policy="mini_swe_agent", synthesis=synthesis
    )
    assert (run.stop_reason, calls(run)) == ("synthesis", [["dropped"], ["ran"]])


def test_a_guard_at_the_response_drops_it() -> None:
    run = play(guarded((3, "stop"), check="response"), "A A A X").run
    assert (calls(run), run.stop[:2]) == ([["ran"], ["ran"], ["dropped"]], ("doom_loop", 2))


def test_call_guard_that_stops_executes_the_calls_before() -> None:
    run = play(guarded((3, "stop"), check="call"), "BAAA X").run
    assert calls(run) == [["ran", "ran", "ran", "dropped"]]
    assert run.stop[:2] == ("doom_loop", 1)


def test_a_shadow_rung_is_written_down_and_changes_nothing() -> None:
    watched, free = play(guarded((3, "shadow")), "A A A A X").run, play(PLAIN, "A A A A X").run
    assert [step.results for step in watched.steps] == [step.results for step in free.steps]
    assert [bool(step.shadow_stops) for step in watched.steps] == [False, False, False, True, True]
    assert [event.payload["after_step"] for event in watched.events if event.kind == "shadow"] == [3]


# OpenRouter's ladder, by its documentation page on doom-loop detection.


@pytest.mark.parametrize(
    ("pattern", "fates", "stopped"),
    [
        ("A " * 9, ["ran", "ran", "refused", "refused", "refused", "dropped"], True),
        ("AAA A X", ["ran", "ran", "ran", "ran"], False),
        ("A A T A A X", ["ran"] * 5, False),
    ],
    ids=["a repeat", "several in one response count once", "other inputs start anew"],
)
def test_openrouter_observes_from_three_blocks_and_stops_at_six(pattern: str, fates: list[str], stopped: bool) -> None:
    run = play(preset("openrouter"), pattern).run
    assert [fate for step in calls(run) for fate in step] == fates
    assert (run.stop_reason == "doom_loop") == stopped
    if stopped:
        assert [bool(step.shadow_stops) for step in run.steps[:4]] == [False, False, True, True]


def test_other_tools_in_between_do_not_reset_openrouter_s_streak() -> None:
    def item(name: str, what: str) -> dict[str, Any]:
        return {"tool_calls": [{"name": name, "arguments": {"what": what}}]}

    items = [item(name, "A") for name in ["work", "other"] * 6]
    played = play(preset("openrouter"), items, tools=[bl.tool(name="other")(lambda what: f"heard {what}")])
    assert [fates[0] for fates in calls(played.run)] == ["ran"] * 4 + ["refused"] * 6 + ["dropped"]


def test_goose_blocks_a_tool_once_after_three_equal_errors() -> None:
    played = play(preset("goose"), "F F F F F X")
    assert len(played.ran) == 4
    assert fired(played, "block") == [4]


# AutoGen's conditions: with `&` each stays true once it was, with `|` the first decides.


@pytest.mark.parametrize(("compose", "messages"), [("and", 3), ("or", 1)])
def test_a_text_that_was_mentioned_stays_mentioned(compose: str, messages: int) -> None:
    items = [said("x marks it", "stop"), said("Nothing.", "stop"), said("Nothing.", "stop"), said("Nothing.", "stop")]
    both = bl.max_steps(3), bl.detectors.text_contains("x")
    rule = both[0] & both[1] if compose == "and" else both[0] | both[1]
    policy = PLAIN.vary(finish={"conditions": (), "tools": ("submit",), "idle": "again"})
    run = bl.run_sync(None, "go", model=bl.ScriptedModel(items), policy=policy, stop=rule)
    assert (run.n_steps, run.stop_step) == (messages, messages)


@pytest.mark.parametrize("text", ["", None, 3])
def test_a_mention_needs_a_text(text: Any) -> None:
    with pytest.raises(bl.SettingError, match="expected a text"):
        bl.detectors.text_contains(text)


# Wrong policies.


@pytest.mark.parametrize("name", [name for name, hint in get_type_hints(bl.Policy).items() if get_args(hint)])
def test_a_field_with_a_closed_list_of_values_refuses_any_other(name: str) -> None:
    hint = get_type_hints(bl.Policy)[name]
    if all(isinstance(value, str) for value in get_args(hint)):
        wrong: Any = {name: "no such thing"}
        with pytest.raises(bl.SettingError, match=f"{name}='no such thing' is not accepted; expected one of"):
            PLAIN.vary(**grouped(wrong))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ladder": ()}, "expected pairs such as"),
        ({"ladder": ((5, "nudge"), (3, "stop"))}, "expected pairs such as"),
        ({"ladder": ((3, "shout"),)}, "expected pairs such as"),
        ({"ladder": ((0, "stop"),)}, "expected pairs such as"),
        ({"ladder": ((3, "block"),)}, "block needs check='call'"),
        ({"ladder": ((3, "stop"),), "scope": "day"}, "scope='day' is not accepted"),
        ({"ladder": ((2, "nudge"), (3, "stop")), "check": "response"}, "can only stop, or be in shadow"),
        ({"ladder": ((3, "ask"),), "check": "response"}, "can only stop, or be in shadow"),
    ],
)
def test_a_guard_that_contradicts_itself_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(bl.SettingError, match=message):
        bl.Guard(detector=bl.detectors.RepeatStreak(), **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"finish.conditions": ("no_hope",)}, "conditions='no_hope'"),
        ({"finish.conditions": ()}, "only a tool can end a turn"),
        ({"continues.times": -1}, "times=-1"),
        ({"finish.tools": ("done",), "finish.batch": "until"}, "finish.batch='until' needs calls in sequence"),
        (
            {"cap.counts": "tool_steps", "finish.conditions": ("no_calls", "has_text")},
            "needs finish.conditions=..no_calls",
        ),
        (
            {"cap.counts": "supersteps", "finish.conditions": ("no_calls", "has_text")},
            "needs finish.conditions=..no_calls",
        ),
        (
            {"order": (), "last_step.reminder": "turns_left"},
            "last_step.reminder='turns_left' needs 'max_steps' in order",
        ),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(bl.SettingError, match=message):
        PLAIN.vary(**grouped(change))


@pytest.mark.parametrize("n", [0, -1, 1.5, True, None])
def test_turn_limits_are_positive_integers(n: Any) -> None:
    with pytest.raises(bl.SettingError, match="expected an integer >= 1"):
        bl.fixed_turns(n)
    with pytest.raises(bl.SettingError, match="expected an integer >= 1"):
        bl.dynamic_turns(3, n)


def test_every_preset_documents_its_source_and_weakness() -> None:
    for policy in bl.policies.values():
        assert all((policy.about.source, policy.about.loop_style, policy.about.finish_guard, policy.about.weakness))


def test_call_refused_by_one_guard_is_not_allowed_by_the_next() -> None:
    blocks = bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((2, "block"),), check="call")
    nudges = bl.Guard(detector=bl.detectors.RepeatStreak("ordered"), ladder=((2, "nudge"),), check="call")
    assert calls(play(PLAIN.vary(detectors={"guards": (blocks, nudges)}), "A A X").run) == [["ran"], ["refused"], []]


@pytest.mark.parametrize(("text", "reason"), [("An answer that was cut", "finished"), ("", "error")])
def test_a_fatal_reason_of_empty_responses_leaves_a_text_alone(text: str, reason: str) -> None:
    run = bl.run_sync(
        None, "go", model=bl.ScriptedModel([{"text": text, "finish_reason": "length"}]), policy="pydantic_ai"
    )
    assert run.stop_reason == reason


def test_fresh_extension_resets_the_other_limits() -> None:
    policy = budgeted(2, "overshoot").vary(
        order=("max_steps", "tool_budget"), cap={"max_steps": 2}, continues={"times": 1}
    )
    run = play(policy.vary(continues={"by": "loop", "counters": "fresh"}), "A B C X").run
    assert (run.stop_reason, run.n_steps) == ("finished", 4)
