"""Recordings played again. That they are the same run is a property in counterfactuals/test_properties.py."""

from typing import Any

import boolab as bl
from boolab.core.types import Event
from tests.support.helpers import call, distinct, play, steps


def test_no_tool_is_executed_and_the_recorded_results_come_back() -> None:
    executed: list[str] = []

    def note(what: str) -> str:
        """Note."""
        executed.append(what)
        return f"noted {what}"

    agent = bl.Agent("a", tools=(note,))
    first = play([{"tool_calls": [call("note", what="x"), call("note")]}, "end"], agent=agent)
    again = play(bl.RecordedModel(first), agent=agent)
    assert executed == ["x"]
    assert again.steps == first.steps


def test_recorded_results_are_found_by_position() -> None:
    items = [{"tool_calls": [{"id": "same", **call("look", what=w)} for w in "AB"]} for _ in range(2)]
    first = play([*items, "end"])
    assert play(bl.RecordedModel(first)).steps == first.steps


def test_recorded_times_include_parallel_calls() -> None:
    async def wait(ms: int, ctx: bl.ToolContext) -> str:
        """Wait."""
        await ctx.sleep(ms / 1000)
        return ""

    agent = bl.Agent("a", tools=(wait,))
    items = [{"tool_calls": [call("wait", ms=ms) for ms in (30, 5)], "latency_ms": 7, "repeat": 2}, "end"]
    first = play(items, agent=agent)
    assert [s.duration_ms for s in first.steps] == [37, 37, 0]
    again = play(bl.RecordedModel(first), agent=agent)
    assert again.steps == first.steps
    assert again.duration_ms == first.duration_ms


def test_recorded_run_ends_under_looser_rules() -> None:
    first = play(distinct(9), max_steps=3)
    again = play(bl.RecordedModel(first), max_steps=5)
    assert (again.stop_reason, again.stop_step) == ("error", 3)
    assert again.error == "ScriptExhausted: the recording ends after 3 responses (step_cap)"


def test_recorded_run_ends_at_an_aborted_response() -> None:
    abort = bl.Abort()

    def watcher(event: Event) -> None:
        if event.payload.get("text") == "two ":
            abort.abort()

    first = play([*steps("A", None), "one two three"], on_event=watcher, abort=abort)
    again = play(bl.RecordedModel(first))
    assert again.error == "ScriptExhausted: the recording was aborted in response 2"


def test_a_response_that_broke_with_calls_in_it_breaks_again() -> None:
    class Breaking:
        name = "breaking"

        async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
            raise bl.errors.ModelError(
                "cut", partial=bl.models.Response("so far", (bl.models.ToolCall("c1", "look", "{}"),))
            )

    first = play(Breaking())
    again = play(bl.RecordedModel(first))
    assert (again.stop, again.error, again.steps[0].response) == (first.stop, first.error, first.steps[0].response)


def test_recorded_summary_is_replayed_if_there_is_one() -> None:
    summed = play(bl.ScriptedModel(distinct(9), summary="So far."), max_steps=2, policy="boocode")
    assert play(bl.RecordedModel(summed), max_steps=2, policy="boocode").text == "So far."
    assert bl.RecordedModel(summed).summarises
    assert not bl.RecordedModel(play(["x"])).summarises


def test_recorded_model_has_a_name_and_a_short_repr() -> None:
    first = play(bl.ScriptedModel(["x"], name="small"))
    model = bl.RecordedModel(first)
    assert isinstance(model, bl.models.Model)
    assert model.name == "small"
    assert len(repr(model)) < 120
