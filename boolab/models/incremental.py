"""Folds over conversations: what was folded at one request is not folded again at the next.

A run's list of messages only grows, and each message in it is one object for good. Whatever is made of the messages,
such as the body of a request or a digest, therefore costs a step only what is new in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from boolab.core.context import Context
from boolab.core.types import Message

S = TypeVar("S")


class Growing(Generic[S]):
    """A fold over lists of messages that grow. It remembers each list's state for as long as the list lives.

    Args:
        start: Makes the state of an empty list, a mutable object.
        add: Moves a state on by one message.

    Example:
        >>> from boolab.core.types import History, Input, Text
        >>> inputs = []
        >>> history = History([Message("user", (Text("Hello"),))], [], inputs)
        >>> texts = Growing(list, lambda state, message: state.append(message.text))
        >>> texts(history)
        (['Hello'], ())
        >>> inputs.append(Input(1, Message("user", (Text("Hurry."),))))
        >>> texts(history)[0] is texts(history)[0], texts(history)[0]
        (True, ['Hello', 'Hurry.'])
    """

    def __init__(self, start: Callable[[], S], add: Callable[[S, Message], object]) -> None:
        self._start = start
        self._add = add
        self._known: WeakKeyDictionary[Sequence[Message], tuple[int, S]] = WeakKeyDictionary()

    def __call__(self, messages: Sequence[Message]) -> tuple[S, Sequence[Message]]:
        """Fold a list of messages.

        Args:
            messages: A run's own list, or any other; only a run's own is remembered.

        Returns:
            The state after the part that grows, to be read and not changed; and the messages behind it, which belong
            to this request alone.
        """
        growing, tail = messages.growing if isinstance(messages, Context) else (messages, ())
        remembered = not isinstance(growing, list | tuple)
        seen, state = (self._known.get(growing) if remembered else None) or (0, self._start())
        number = len(growing)
        if seen < number:
            for message in growing[seen:] if seen else islice(growing, number):
                self._add(state, message)
            if remembered:
                self._known[growing] = (number, state)
        return state, tail
