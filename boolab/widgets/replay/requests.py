"""What the model was sent for each step of a run."""

from __future__ import annotations

from boolab.core.text import count
from boolab.core.types import Run
from boolab.display.numbers import span


def requests_of(run: Run) -> list[str]:
    """For each step, what its request was made of, in words: as if there were no compactions but those on record.

    Example:
        >>> import boolab as bl
        >>> script = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": 2}, "Done."], tools={"ls": "a.py"})
        >>> requests_of(bl.run_sync(None, "Look", model=script))[2]
        '1 message, steps 1-2 with results'
    """
    system = ["system prompt"] if any(message.role == "system" for message in run.prompt) else []
    given = sum(message.role != "system" for message in run.prompt)
    coming = sorted(before for before, message in run.inputs if message.role != "system")
    summaries = [one for one in run.compactions if not one.fault]
    texts = []
    kept_from = 1
    for step in run.steps:
        while coming and coming[0] <= step.index:
            coming.pop(0)
            given += 1
        while summaries and summaries[0].before <= step.index:
            kept_from = summaries.pop(0).kept_from
        parts = [*system, *([count(given, "message")] if given else [])]
        if kept_from > 1:
            parts.append(f"summary of {_steps(1, kept_from - 1)}")
        if kept_from < step.index:
            parts.append(f"{_steps(kept_from, step.index - 1)} with results")
        texts.append(", ".join(parts) or "not on record")
    return texts


def _steps(first: int, last: int) -> str:
    return f"{'step' if first == last else 'steps'} {span(first, last)}"
