"""The history of a turn: what is on record, and what of it is sent to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.core.context import Context, estimated_tokens
from boolab.core.types import Compacted, History, Input, Message, Step, Text, results_message

NOT_EXECUTED: Final = "This call was not executed."
"""What stands for the result of a dropped call, if there is another request."""
SUMMARY: Final = "The conversation so far was shortened. This is a summary of it:\n\n{}"


def from_user(text: str) -> Message:
    """A message that the model takes for the user's."""
    return Message("user", (Text(text),))


class TurnHistory:
    """The messages of a turn.

    Attributes:
        steps: The steps on record.
        inputs: What came in between them.
        compactions: What was summarised, or tried to.
        messages: All messages.
        sent: What is sent to the model: all messages, or what a compaction left of them.
        next_message: The place of the message to come.
    """

    def __init__(self, prompt: tuple[Message, ...]) -> None:
        self.prompt = prompt
        self.steps: list[Step] = []
        self.inputs: list[Input] = []
        self.compactions: list[Compacted] = []
        self.messages = History(prompt, self.steps, self.inputs, NOT_EXECUTED)
        self.sent: Sequence[Message] = self.messages
        self.next_message = len(prompt)

    def add(self, step: Step) -> None:
        """Put a step on record."""
        self.steps.append(step)
        self.next_message += 1 + any(step.results)

    def put(self, message: Message) -> None:
        """Put a message before the next step."""
        self.inputs.append(Input(len(self.steps) + 1, message))
        self.next_message += 1

    def tokens(self) -> int:
        """How many tokens the next request may have: what the last one is known to have had, and what came after."""
        if self.steps and (not self.compactions or self.compactions[-1].before <= len(self.steps)):
            last = self.steps[-1]
            usage = last.response.usage
            tokens_in, tokens_out = usage.input_tokens, usage.output_tokens
            if tokens_in is not None and tokens_out is not None:
                answers = results_message(last.results)
                later = [message for before, message in self.inputs if before > last.index]
                return tokens_in + tokens_out + estimated_tokens([*([answers] if answers else []), *later])
        return estimated_tokens(self.sent)

    @property
    def summed_up_to(self) -> int:
        """The first step that no compaction has summed up."""
        return max((compacted.kept_from for compacted in self.compactions if not compacted.fault), default=1)

    def up_to(self, number: int) -> Sequence[Message]:
        """What is sent of all that comes before a step."""
        return self.sent[: len(self.sent) - (len(self.messages) - self._place_of(number))]

    def send_summary(self, compacted: Compacted) -> None:
        """Send a summary from now on in place of what it sums up."""
        head = (*self.prompt, from_user(SUMMARY.format(compacted.summary)))
        self.sent = Context(head, self.messages, self._place_of(compacted.kept_from))

    def _place_of(self, number: int) -> int:
        """The place in the history where a step begins, with the messages that came in before it."""
        read = [before for before, message in self.inputs if message.role != "sentinel"]
        if number > len(self.steps):
            return len(self.messages) - sum(before >= number for before in read)
        place = len(self.prompt) + sum(before < number for before in read)
        return place + sum(1 + (len(step.results) > 0) for step in self.steps[: number - 1] if not step.broke_off)
