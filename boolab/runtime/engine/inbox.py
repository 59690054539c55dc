"""`Inbox`: messages of the user that arrive while an agent runs."""

from __future__ import annotations

from collections import deque

from boolab.core.messages import Message, Text
from boolab.core.surrogates import whole_text
from boolab.errors import SettingError


class Inbox:
    """Where messages wait for a run: `run(..., inbox=inbox)`, then `inbox.send("Stop at the first one.")`.

    Messages may be sent from any thread. The policy decides when they are delivered: before the next step, wrapped
    as a reminder, or not in this turn; those that were not let in are still here afterwards.

    Example:
        >>> import boolab as bl
        >>> inbox = bl.Inbox()
        >>> inbox.send("And in French, please.")
        >>> len(inbox), inbox.take()[0].text
        (1, 'And in French, please.')
    """

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()

    def send(self, text: str) -> None:
        """Leave a message.

        Args:
            text: The text of the message.

        Raises:
            SettingError: if it is no text.
        """
        content: object = text
        if not isinstance(content, str):
            msg = f"inbox: {text!r} is no text"
            raise SettingError(msg)
        self._waiting.append(Message("user", (Text(whole_text(content)),)))

    def take(self) -> list[Message]:
        """All messages that wait, which then no longer do."""
        messages = []
        while self._waiting:
            messages.append(self._waiting.popleft())
        return messages

    def __len__(self) -> int:
        return len(self._waiting)
