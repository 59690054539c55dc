"""Runs as a reader would make them, from the number of calls of each step."""

from collections.abc import Mapping, Sequence

from boolab.core.run import Run
from boolab.core.types import Stop, StopReason, Usage
from boolab.logs.builder import RunBuilder


def logged_run(
    source: str,
    steps: Sequence[int],
    *,
    run_id: str = "run",
    agent: str = "",
    parent: str | None = None,
    limits: Mapping[str, int] | None = None,
    stop: StopReason | Stop | None = None,
    dropped: int = 0,
    text: str = "Done.",
    usage: Usage | None = None,
    turns: Sequence[int] = (),
) -> Run:
    """A run of a harness.

    Args:
        source: The source.
        steps: How many calls each response makes; 0 is a text.
        run_id: Its id.
        agent: Its agent.
        parent: The run that started it.
        limits: Those on record.
        stop: Its end; by default as the last response shows it.
        dropped: How many of the last responses have calls that were not executed.
        text: The text of a response without calls.
        usage: That of each response.
        turns: The steps, from 1, at which the user writes again.
    """
    builder = RunBuilder(source)
    builder.add_message("user", "go", opens_turn=True, time=0)
    for number, calls in enumerate(steps, 1):
        if number in turns:
            builder.add_message("user", "more", opens_turn=True, time=1000 * number)
        step = builder.add_response(1000 * number)
        step.usage = usage or step.usage
        if not calls:
            step.add_text(text)
        for place in range(calls):
            builder.add_call(step, f"c{number}.{place}", "look", {"at": number})
            if number <= len(steps) - dropped:
                builder.add_result(f"c{number}.{place}", "seen", is_error=False, time=1000 * number)
    end = builder.stop(stop) if isinstance(stop, str) else stop
    return builder.build(run_id, end, agent=agent, parent_run_id=parent, limits=dict(limits or {}))
