"""Each row of the table of transitions, by a run that takes it."""

import asyncio
from typing import Any, Final

import pytest

import boolab as bl
from boolab.harnesses.policy import Policy
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.guard import Guard
from boolab.runtime.engine.turn import TABLE
from tests.support.helpers import TOOLS, call

PLAIN: Final = Policy(name="plain").vary(cap={"ceiling": 20})
LAST: Final = PLAIN.vary(cap={"max_steps": 2}, last_step={"action": "tool_choice_none"})
GUARDED: Final = PLAIN.vary(detectors={"guards": (Guard(detector=RepeatStreak(), ladder=((2, "ask"),), check="call"),)})
UNKNOWN: Final = {"tokens": 10, "on_unknown": "error"}
UNDECIDED: Final = PLAIN.vary(budgets={**UNKNOWN, "before": "unchecked", "after": "exceeded"})
A: Final = {"tool_calls": [call()]}
BROKEN: Final = {"text": "Half a", "error": {"reset": True, "after": 4}}
ROWS: Final[dict[tuple[str, str], tuple[list[Any], Policy, tuple[Any, ...]]]] = {
    ("boundary", "go"): ([A, "Done."], PLAIN, ("finished", 1, ["seen "])),
    ("boundary", "limit"): ([A, A], PLAIN.vary(cap={"max_steps": 1}), ("step_cap", 1, ["seen "])),
    ("boundary", "failed"): ([A, A], PLAIN.vary(budgets=UNKNOWN), ("error", 1, ["seen "])),
    ("boundary", "aborted"): ([{"tool_calls": [call("fire")]}, A], PLAIN, ("aborted", 1, ["fired"])),
    ("asked", "response"): (["Done."], PLAIN, ("finished", 0, [])),
    ("asked", "retry"): ([BROKEN, A, "Done."], PLAIN.vary(execution={"broken_retries": 1}), ("finished", 2, ["seen "])),
    ("asked", "failed"): ([A, BROKEN], LAST, ("step_cap", 2, ["seen "])),
    ("asked", "aborted"): ([A, "fire"], PLAIN, ("aborted", 1, ["seen "])),
    ("answered", "dropped"): (
        [A, A],
        PLAIN.vary(cap={"max_steps": 1, "check": "response"}),
        ("step_cap", 1, ["seen ", None]),
    ),
    ("answered", "final"): ([A, "Done."], PLAIN, ("finished", 1, ["seen "])),
    ("answered", "execute"): ([A, "Done."], PLAIN, ("finished", 1, ["seen "])),
    ("answered", "failed"): ([A], UNDECIDED, ("error", 0, [None])),
    ("answered", "aborted"): ([A, A], GUARDED, ("aborted", 1, ["seen ", "aborted"])),
    ("executing", "tool_failed"): (
        [{"tool_calls": [call("fail")]}],
        PLAIN.vary(execution={"tool_failures": "fatal"}),
        ("error", 0, ["RuntimeError: "]),
    ),
    ("executing", "paused"): ([{"tool_calls": [call("ask")]}], PLAIN, ("paused", 1, ["asked "])),
    ("executing", "synthesis_done"): ([{"tool_calls": [call("write")]}], PLAIN, ("synthesis", 1, ["wrote "])),
    ("executing", "finished"): ([A], PLAIN.vary(finish={"tools": ("look",)}), ("finished", 1, ["seen "])),
    ("executing", "limit"): (
        [{"tool_calls": [call(), call()]}],
        PLAIN.vary(order=("tool_budget",), budgets={"no_agent": 1, "batch": "cut"}),
        ("tool_budget", 1, ["seen ", None]),
    ),
    ("executing", "continue"): ([A, A, "Done."], PLAIN, ("finished", 2, ["seen ", "seen "])),
    ("executing", "failed"): ([{"tool_calls": [call("write", what="cancel")]}], PLAIN, ("error", 0, ["wrote cancel"])),
    ("executing", "aborted"): ([{"tool_calls": [call("wait")]}], PLAIN, ("aborted", 0, ["aborted"])),
    ("stopped", "closed"): (["Done."], PLAIN, ("finished", 0, [])),
    ("stopped", "aborted"): (
        [A, A],
        PLAIN.vary(cap={"max_steps": 1}, wrap_up={"summary": "model"}),
        ("aborted", 1, ["seen "]),
    ),
}
"""For each row: a script, a policy; the stop reason, the boundary, and what the calls gave, None for dropped ones."""


class Interrupting(bl.ScriptedModel):
    """A script during which the run is aborted, or the user interrupts the summary."""

    def __init__(self, items: Any, abort: bl.Abort) -> None:
        super().__init__(items, summary="In short.")
        self.abort = abort

    async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
        if request.purpose == "summary":
            raise KeyboardInterrupt
        response = await super().respond(request, emit)
        if response.text == "fire":
            self.abort.abort()
            await asyncio.sleep(1)
        return response


async def taken(items: list[Any], policy: Policy) -> bl.Run:
    """The run of a script under a policy, step by step."""
    abort = bl.Abort()

    @bl.tool
    def fire() -> str:
        """Abort the run."""
        abort.fired = True  # seen at the next boundary, and not before
        return "fired"

    @bl.tool
    async def wait() -> None:
        """Wait until the run is aborted."""
        abort.abort()
        await asyncio.sleep(1)

    async def asked(_question: bl.Question) -> bool:
        abort.abort()
        await asyncio.sleep(1)
        return True

    async def synthesis(calls: Any, _results: Any) -> str | None:
        if "cancel" in calls[0].arguments:
            raise asyncio.CancelledError  # that nobody sent
        return "Written." if calls[0].name == "write" else None

    live = bl.start(
        None,
        "go",
        model=Interrupting(items, abort),
        tools=[*TOOLS, fire, wait],
        policy=policy,
        abort=abort,
        ask=asked,
        synthesis=synthesis,
    )
    try:
        async with live:
            async for _ in live:
                pass
    except KeyboardInterrupt:
        pass
    return live.run


def test_there_is_a_run_for_each_row() -> None:
    assert {(state, event) for state, rows in TABLE.items() for event in rows} == set(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_transition_rows_say_what_stops_and_what_counts(row: tuple[str, str]) -> None:
    items, policy, (reason, boundary, results) = ROWS[row]
    run = asyncio.run(taken(items, policy))
    given = [result and result.content for step in run.steps for result in step.results]
    assert (run.stop_reason, run.stop_step, given) == (reason, boundary, results)


def test_failure_before_a_grace_step_ends_the_run_with_error() -> None:
    policy = PLAIN.vary(budgets=UNKNOWN, finish={"conditions": (), "tools": ("submit",), "idle": "grace"})
    run = asyncio.run(taken(["Nothing is called.", "Done."], policy))
    assert [event.kind for event in run.events] == ["grace"]
    assert run.stop_reason == "error"
    assert "UnknownCounter" in (run.error or "")
