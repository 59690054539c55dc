"""A response that broke off in the middle: what its policy does, what is recorded, and what is sent again."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab import Policy, RecordedModel, ScriptedModel, SettingError, counterfactual, policies, run_sync, tool
from boolab.runtime.models.base import Emit
from tests.runtime.engine.test_branch import NUDGING, PROMPTING, branched, ended_by_a_call, since
from tests.support.cases import cases
from tests.support.helpers import QUIET, Listening, play
from tests.whatif import test_presets as presets
from tests.whatif.test_evaluate import row_of
from tests.whatif.test_properties import NEVER, same, scripts

CUT = {
    "text": "I look into the file.",
    "error": {"reset": True, "after": 6},
    "usage": {"input_tokens": 100, "output_tokens": 5},
}
LOOK = {"tool_calls": [{"name": "look"}], "usage": {"input_tokens": 120, "output_tokens": 9}}
PLAIN = Policy(name="plain").vary(detectors={"doom_loop": None})


@tool
def look() -> str:
    """Look."""
    return "nothing"


def retrying(times: int) -> Policy:
    return PLAIN.vary(execution={"broken_retries": times})


def test_broken_response_is_retried_marked_paid_and_not_sent() -> None:
    model = Listening([LOOK, CUT, "Done."])
    run = run_sync(None, "Go", model=model, tools=[look], policy=retrying(1))
    assert run.stop_reason == "finished"
    assert [step.broke_off for step in run.steps] == [False, True, False]
    assert "reset" in run.steps[1].error
    assert run.steps[1].response.usage.input_tokens == 100
    assert [message.text for message in run.messages if message.role == "assistant"] == ["", "I look", "Done."]
    assert model.of()[2] == model.of()[1]


@pytest.mark.parametrize(("times", "reason", "steps"), [(0, "error", 1), (1, "error", 2), (2, "finished", 3)])
def test_broken_response_is_retried_as_often_as_the_policy_says(times: int, reason: str, steps: int) -> None:
    run = run_sync(None, "Go", model=ScriptedModel([CUT, CUT, "Done."]), policy=retrying(times))
    assert (run.stop_reason, run.n_steps) == (reason, steps)


def test_a_whole_response_in_between_makes_the_row_begin_anew() -> None:
    run = run_sync(None, "Go", model=ScriptedModel([CUT, LOOK, CUT, "Done."]), tools=[look], policy=retrying(1))
    assert (run.stop_reason, run.n_steps) == ("finished", 4)


def test_broken_response_counts_as_a_step_and_spends_tokens() -> None:
    endless = [{**CUT, "repeat": "forever"}]
    capped = run_sync(None, "Go", model=ScriptedModel(endless), policy=retrying(50).vary(cap={"max_steps": 7}))
    assert (capped.stop_reason, capped.n_steps, capped.stop_step) == ("step_cap", 7, 7)
    spent = run_sync(None, "Go", model=ScriptedModel(endless), policy=retrying(50).vary(budgets={"tokens": 300}))
    assert (spent.stop_reason, spent.n_steps) == ("token_budget", 3)


@pytest.mark.parametrize(
    "fault",
    [
        {"text": "", "error": {"reset": True}},
        {"text": "abc", "error": {"garbage": True, "after": 3}},
        {"text": "abc", "error": {"status": 400, "after": 3}},
    ],
)
def test_responses_that_broke_before_output_are_not_repeated(fault: dict[str, Any]) -> None:
    run = run_sync(None, "Go", model=ScriptedModel([fault, "Done."]), policy=retrying(5))
    assert (run.stop_reason, run.n_steps) == ("error", 1)


def test_script_with_conditions_continues_after_broken_response() -> None:
    items = [LOOK, {**CUT, "when": {"last_result": "nothing"}}, {"text": "Done.", "when": {"last_result": "nothing"}}]
    run = run_sync(None, "Go", model=ScriptedModel(items), tools=[look], policy=retrying(1))
    assert (run.stop_reason, run.text) == ("finished", "Done.")


def test_an_abort_is_not_taken_for_a_broken_response() -> None:
    abort = bl.Abort()

    class Breaking:
        name = "breaking"
        virtual = True

        async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
            abort.abort()
            raise bl.errors.ModelError(
                "cut", retryable=True, partial=bl.models.Response("I")
            )  # before the loop hears of the abort

    run = run_sync(None, "Go", model=Breaking(), policy=retrying(5), abort=abort)
    assert (run.stop_reason, run.n_steps, run.steps[0].error) == ("aborted", 1, "aborted")


def test_the_last_step_that_a_cap_leaves_is_not_asked_for_again() -> None:
    policy = retrying(5).vary(cap={"max_steps": 2}, last_step={"action": "no_tools"})
    run = run_sync(None, "Go", model=ScriptedModel([LOOK, CUT, "Done."]), tools=[look], policy=policy)
    assert (run.stop_reason, run.n_steps, run.error) == ("step_cap", 2, run.steps[1].error)


def test_a_summary_is_not_asked_for_with_the_broken_text() -> None:
    model = Listening([LOOK, CUT, LOOK])
    run_sync(
        None,
        "Go",
        model=model,
        tools=[look],
        policy=retrying(1).vary(cap={"max_steps": 2}, wrap_up={"summary": "model"}),
    )
    assert all("I look" not in message.text for message in model.requests[-1].messages)


@pytest.mark.parametrize("times", [-1, 1.5, None, True])
def test_a_number_of_retries_that_is_none_is_refused(times: Any) -> None:
    with pytest.raises(SettingError, match="broken_retries"):
        PLAIN.vary(execution={"broken_retries": times})


# Any script under any preset, with responses that break in the middle, with and without calls in them.

OWN = {"quiet": QUIET, "nudging": NUDGING, "prompting": PROMPTING}
GOING_ON = [name for name, policy in policies.items() if policy.continues.times != 0 and policy.continues.by != "loop"]
SOME = cases(8, suppress_health_check=list(HealthCheck))


class Breaking:
    """A script some of whose responses break in the middle."""

    name = "breaking"
    virtual = True

    def __init__(self, items: Sequence[Any], breaks: dict[int, str], summary: str | None = None) -> None:
        self._script = ScriptedModel(items, summary=summary)
        self._breaks = breaks
        self.summarises = self._script.summarises
        self.compacts = self._script.compacts

    async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
        response = await self._script.respond(request, emit)
        came = self._breaks.get(request.index) if request.purpose == "step" else None
        if came is None:
            return response
        calls = response.tool_calls if came == "calls" else ()
        partial = response._replace(text=response.text or "I", tool_calls=calls, finish_reason=None)
        raise bl.errors.ModelError("cut", retryable=True, partial=partial)


BREAKS = st.dictionaries(st.integers(0, 10), st.sampled_from(["text", "calls"]), max_size=5)


def drawn(data: Any, name: str) -> tuple[Breaking, dict[str, Any]]:
    """A model that breaks, and the options of a run."""
    script = data.draw(scripts())
    if data.draw(st.booleans()):
        script.insert(data.draw(st.integers(0, len(script))), {"text": "so", "finish_reason": "length"})
    policy = (OWN.get(name) or policies[name]).vary(execution={"broken_retries": data.draw(st.integers(0, 3))})
    limits: dict[str, Any] = {
        "max_steps": data.draw(st.sampled_from([None, 1, 2, 3, 5])),
        "tool_budget": data.draw(st.sampled_from([None, 1, 3, 6])),
        "doom_loop": data.draw(st.sampled_from([None, 2, 3])),
    }
    if data.draw(st.booleans()):
        limits["compaction"] = bl.Compaction(at_tokens=data.draw(st.integers(1, 60)), keep_steps=1)
    return Breaking(script, data.draw(BREAKS), "So far."), {"policy": policy, **limits}


@pytest.mark.parametrize("name", [*OWN, *policies])
def test_broken_responses_are_replayed_and_branched_alike(name: str) -> None:
    @SOME
    @given(st.data())
    def holds(data: Any) -> None:
        model, options = drawn(data, name)
        first = play(model, **options)
        assert same(play(RecordedModel(first), **options)) == same(first)
        at = data.draw(st.integers(0, first.n_steps))
        try:
            again = branched(first, at, model, **options)
        except SettingError:
            assert at == first.n_steps
            return
        if at < first.n_steps or not ended_by_a_call(first):
            assert since(again) == since(first)

    holds()


@pytest.mark.parametrize("name", GOING_ON)
def test_run_resumed_after_its_cap_remembers_broken_responses(name: str) -> None:
    @SOME
    @given(st.data())
    def holds(data: Any) -> None:
        model, options = drawn(data, name)
        first = play(model, **options)
        if first.stop_reason != "step_cap":
            return
        went_on = asyncio.run(bl.resume(first, "Go on."))
        assert went_on.steps[: first.n_steps] == first.steps
        at = data.draw(st.integers(first.n_steps + 1, max(went_on.n_steps, first.n_steps + 1)))
        if at < went_on.n_steps:
            assert since(branched(went_on, at, model, **options)) == since(went_on)

    holds()


@pytest.mark.parametrize("name", presets.ANSWERED)
def test_preset_stops_broken_responses_as_the_live_loop_does(name: str) -> None:
    preset = policies[name].vary(execution={"broken_retries": 50}, wrap_up={"summary": "none"})

    @SOME
    @given(st.data())
    def holds(data: Any) -> None:
        agent = bl.Agent("tester", tools=presets.TOOLBOX, policy=preset)
        recording = play(Breaking(data.draw(presets.scripts()), data.draw(BREAKS)), agent=agent, stop=NEVER)
        policy, grid = data.draw(presets.asked(recording, preset))
        row = row_of(counterfactual(recording, policy=policy, grid=grid, own_limits="lifted"))
        if row["outcome"] == "not_identified":
            assert not preset.unseen
        else:
            presets.assert_as_live(row, recording, presets.live(recording, policy, grid))

    holds()


def test_replay_of_a_run_whose_last_step_broke_at_the_cap() -> None:
    run = run_sync(None, "Go", model=ScriptedModel([LOOK, CUT, "Done."]), tools=[look], policy=retrying(1))
    capped = run_sync(None, "Go", model=RecordedModel(run), policy=retrying(1).vary(cap={"max_steps": 2}))
    assert (capped.stop_reason, capped.n_steps) == ("step_cap", 2)
    again = run_sync(None, "Go", model=RecordedModel(capped), policy=retrying(1).vary(cap={"max_steps": 2}))
    assert (again.stop, again.steps) == (capped.stop, capped.steps)
