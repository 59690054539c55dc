"""Incremental folds over conversations: a step costs only what is new in it.

A run's list of messages only grows, and its messages never change. Values that are computed from all messages, such as
the body of a request or a hash, are therefore kept from one request to the next.
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
    """A fold over growing lists of messages. It keeps each list's state for as long as the list exists.

    `start`: makes the state of an empty list, a mutable object.

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
        """The state after the part of a list that grows (do not change it), and the messages of this request alone."""
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
