"""What a person sees of a unit before the answer: the task, the last message, changed files, the last test output.

Evidence and the reason why it is asked about are no part of it: an answer must not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from boolab.core.run import Run
from boolab.core.types import Step
from boolab.logs.harness_text import is_harness_message
from boolab.logs.outcomes.changes import FileChange, arguments_of, changes_of_line, changes_of_tool, shell_line
from boolab.logs.outcomes.frame import outcomes
from boolab.logs.outcomes.runners import read_summary
from boolab.logs.units import LabelUnit

MAX_CHARS: Final = 20_000
"""Of each text; the rest is in the run."""


class UnitCard(NamedTuple):
    """A unit to judge.

    Attributes:
        prompt: What the user asked for in it.
        message: The last text of the model.
        files: The files that its calls changed, in the order of their last change.
        test_output: The last output of a test run.
        n_steps: How many responses it has.
    """

    prompt: str
    message: str
    files: tuple[str, ...]
    test_output: str
    n_steps: int


def card_of(run: Run, unit: LabelUnit) -> UnitCard:
    """What there is to see of a unit; all texts are as the log has them, so untrusted."""
    steps = [step for step in run.steps if step.index <= unit.last_step and unit.turn in (None, step.turn)]
    first = steps[0].index if steps else 1
    prompts = [message.text for step, message in run.inputs if step == first and message.role == "user"]
    if not prompts and first == 1:
        prompts = [message.text for message in run.prompt if message.role == "user"][-1:] or [run.task]
    prompts = [text for text in prompts if not is_harness_message(text)] or prompts
    message = next((step.response.text for step in reversed(steps) if step.response.text.strip()), "")
    files = {change.path: None for change in _changes(steps) if change.path and not change.is_scratch}
    results = chain.from_iterable(step.results for step in steps)
    outputs = [result.content for result in results if result is not None]
    tests = next((output for output in reversed(outputs) if read_summary(output) is not None), "")
    return UnitCard("\n".join(prompts)[:MAX_CHARS], message[:MAX_CHARS], tuple(files), tests[-MAX_CHARS:], len(steps))


def evidence_in_words(run: Run, unit: LabelUnit) -> list[str]:
    """The evidence of a unit, a sentence for each source: it is shown only where the person asks for it."""
    frame = outcomes([run])
    rows = frame[(frame["print"] == unit.print).to_numpy()]
    return [f"{row.source}: {row.outcome}, {row.why}." for row in rows.itertuples()] or ["There is no evidence."]


def _changes(steps: list[Step]) -> Iterator[FileChange]:
    for step in steps:
        for call, result in zip(step.response.tool_calls, step.results, strict=True):
            arguments = arguments_of(call)
            line = shell_line(call, arguments)
            yield from changes_of_tool(call, arguments, result) if line is None else changes_of_line(line)
