"""Endings: what terminated, and what counts as a success where nobody labelled it, are two questions."""

from dataclasses import replace

import pytest

from boolab.core.endings import has_unexecuted_finish, is_terminated, proxy_success, turn_proxy_success
from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import Response, Step, Stop, ToolCall, ToolResult
from boolab.limits.catalog import max_steps
from tests.support.helpers import call, play, steps

CALLS = {"tool_calls": [call("look", what="A")]}


def both(run: Run) -> tuple[bool, bool]:
    return is_terminated(run), proxy_success(run)


def test_a_run_that_answers_in_words_is_a_success() -> None:
    assert both(play(steps("A B"))) == (True, True)


def test_a_run_that_a_limit_stopped_has_not_terminated() -> None:
    assert both(play(steps("A B C"), stop=max_steps(2))) == (False, False)


def test_a_run_that_pauses_has_not_terminated() -> None:
    run = play([{"tool_calls": [call("ask", question="Which?")]}, "never"])
    assert run.stop_reason == "paused"
    assert both(run) == (False, False)


def test_pending_calls_that_a_naive_loop_drops_are_no_success() -> None:
    run = play([CALLS, {**CALLS, "finish_reason": "stop"}, "never"], policy="naive")
    assert (run.stop_reason, len(run.steps[-1].dropped)) == ("finished", 1)
    assert both(run) == (True, False)


def test_calls_that_zero_steps_ignore_are_no_success() -> None:
    run = play([{"text": "Let me look.", **CALLS}], max_steps=0)
    assert (run.stop_reason, len(run.steps[-1].dropped)) == ("finished", 1)
    assert both(run) == (True, False)
    assert both(play(["Done."], max_steps=0)) == (True, True)


def test_dropped_calls_before_the_last_step_are_forgiven() -> None:
    run = play(steps("A B"))
    early = run.steps[0]._replace(results=(None,))
    assert proxy_success(replace(run, steps=(early, *run.steps[1:])))


CUT_OFF = ("length", "max_tokens", "MAX_TOKENS", "content_filter", "content-filter", "refusal", "error", "ERROR")


@pytest.mark.parametrize("reason", [*CUT_OFF, "stop", "end_turn", "tool_calls", "a word of its own", None])
def test_a_last_response_is_a_success_unless_it_was_cut_off(reason: str | None) -> None:
    run = play([CALLS, "The answer is"])
    last = run.steps[-1]
    ended = last._replace(response=last.response._replace(finish_reason=reason))
    assert both(replace(run, steps=(*run.steps[:-1], ended))) == (True, reason not in CUT_OFF)


def test_a_step_with_an_error_at_the_end_is_no_success() -> None:
    run = play(["Done."])
    assert both(replace(run, steps=(run.steps[0]._replace(error="broke off"),))) == (True, False)


def test_synthesis_is_the_answer_whatever_the_last_response() -> None:
    run = play([CALLS, {**CALLS, "finish_reason": "length"}])
    written = replace(run, stop=Stop("synthesis", 1), synthesis="All done.")
    assert both(written) == (True, True)


def test_a_run_without_a_step_answered_nothing() -> None:
    run = replace(play(["Done."]), steps=())
    assert both(run) == (True, False)
    assert not turn_proxy_success(run, ())


def turns(*responses: Response, stop: str = "finished") -> Run:
    """A run of one step a turn; calls get a result."""
    made = tuple(
        Step(n, n, None, None, None, r, tuple(ToolResult(c.id, "ok") for c in r.tool_calls))
        for n, r in enumerate(responses, 1)
    )
    return Run(run_id="r", agent="", model="", policy="", task="", stop=Stop(stop, 0), steps=made)  # type: ignore[arg-type]


def test_earlier_turn_succeeds_by_its_own_last_step() -> None:
    calls = Response(tool_calls=(ToolCall("c", "look", "{}"),), finish_reason="tool_calls")
    run = turns(Response("Hi.", finish_reason="stop"), calls, Response("The", finish_reason="length"), Response("Bye."))
    assert [turn_proxy_success(run, [step]) for step in run.steps] == [True, False, False, True]
    dropped = run.steps[1]._replace(results=(None,))
    assert not turn_proxy_success(run, [dropped])


def test_the_last_turn_succeeds_as_its_run_does() -> None:
    calls = Response(tool_calls=(ToolCall("c", "submit", "{}"),))
    submitted = turns(Response("Hi."), calls)
    assert turn_proxy_success(submitted, submitted.steps[1:])
    aborted = turns(Response("Hi."), Response("Hm."), stop="aborted")
    assert [turn_proxy_success(aborted, [step]) for step in aborted.steps] == [True, False]


def test_finished_unexecuted_needs_a_finish_with_open_calls() -> None:
    silent = play([CALLS, {**CALLS, "finish_reason": "stop"}, "never"], policy="naive")
    assert has_unexecuted_finish(silent)
    assert not has_unexecuted_finish(play(steps("A B")))
    assert not has_unexecuted_finish(replace(silent, stop=Stop("aborted", 1)))
    assert not has_unexecuted_finish(replace(silent, steps=()))


def test_a_tool_that_ends_a_run_by_being_called_needs_no_result() -> None:
    submitted = turns(Response("Hi."), Response(tool_calls=(ToolCall("c", "finish", "{}"),)))
    silent = replace(submitted, steps=(submitted.steps[0], submitted.steps[1]._replace(results=(None,))))
    assert both(silent) == (True, True)
    assert not has_unexecuted_finish(silent)
    two = silent.steps[1].response._replace(tool_calls=(ToolCall("b", "look", "{}"), ToolCall("c", "finish", "{}")))
    both_dropped = silent.steps[1]._replace(response=two, results=(None, None))
    assert both(replace(silent, steps=(silent.steps[0], both_dropped))) == (True, False)
    assert has_unexecuted_finish(replace(silent, steps=(silent.steps[0], both_dropped)))


@pytest.mark.parametrize(
    ("word", "text", "success"),
    [
        ("length", "", False),
        ("max_tokens", "Half an answ", False),
        ("MAX_TOKENS", "", False),
        ("model_context_window_exceeded", "", False),
        ("context_length_exceeded", "", False),
        ("content-filter", "", False),
        ("guardrail_intervened", "", False),
        ("RECITATION", "", False),
        ("unknown", "", False),
        ("other", "", False),
        ("unknown", "Done.", True),
        ("stop", "", True),
        (None, "Done.", True),
    ],
)
def test_a_last_response_that_was_cut_off_is_no_success(word: str | None, text: str, *, success: bool) -> None:
    step = Step(1, 1, None, None, None, Response(text, (), word))
    run = replace(play(["Done."]), steps=(step,))
    assert both(run) == (True, success)


def test_finish_reasons_have_one_vocabulary() -> None:
    words = ("end_turn", "MAX_TOKENS", "tool-use", "pause", "", None)
    assert [finish_reason(word) for word in words] == ["stop", "length", "tool_calls", "pause", None, None]
