"""What the loop logs, under the logger `boolab.loop`: each step's start, dropped calls, the stop and the end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from boolab.core.text import flat
from boolab.core.types import Run, Step
from boolab.runtime.engine.record import limits_on_record

if TYPE_CHECKING:
    from boolab.runtime.engine.turn import Turn

log = logging.getLogger("boolab.loop")
log.addHandler(logging.NullHandler())


def log_step_start(turn: Turn) -> None:
    """Log `step_start 3/5`: the third step under a cap of five; where a cap counts anew, so does this."""
    cap, number = limits_on_record(turn.plan, turn.limits).get("steps"), len(turn.history.steps) + 1
    where = str(number) if cap is None else f"{turn.steps_completed + 1}/{cap}"
    run_id, name = turn.record.run_id, turn.plan.agent.name
    facts = {"run_id": run_id, "turn": turn.ladder.turn, "step": number, "cap": cap, "agent": name}
    log.info("run %s: step_start %s", flat(run_id), where, extra={"event": "step_start", **facts})


def log_dropped(run_id: str, step: Step) -> None:
    """Warn of the calls of a step that were paid for and not executed."""
    dropped = [call.name for call in step.dropped]
    facts = {"event": "dropped", "run_id": run_id, "step": step.index, "tools": dropped}
    names = flat(", ".join(dropped))
    log.warning("run %s: step %d: tool calls dropped: %s", flat(run_id), step.index, names, extra=facts)


def log_end(run: Run) -> None:
    """Log why the loop was left, and by which rule if one stopped it."""
    if not log.isEnabledFor(logging.INFO):
        return
    stop = run.stop
    facts = {
        "run_id": run.run_id,
        "step": stop.step,
        "stop_reason": stop.reason,
        "stop_rule": stop.rule,
        "stop_threshold": stop.threshold,
        "stop_value": stop.value,
    }
    if stop.rule is not None:
        log.info(
            "run %s: stopped by %s at step %d: %s, value %s",
            flat(run.run_id),
            stop.reason,
            stop.step,
            flat(stop.rule),
            stop.value,
            extra={"event": "stop", **facts},
        )
    log.info(
        "run %s: left the loop: %s after %d steps, %d tool calls",
        flat(run.run_id),
        stop.reason,
        run.n_steps,
        run.n_tool_calls,
        extra={"event": "end", **facts, "n_steps": run.n_steps, "n_tool_calls": run.n_tool_calls},
    )
