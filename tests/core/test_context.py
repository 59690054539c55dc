"""Folds over messages that grow."""

from boolab.core.context import Growing
from boolab.core.messages import History, Input, Message, Text


def test_growing_folds_each_message_once() -> None:
    inputs: list[Input] = []
    history = History([Message("user", (Text("Hello"),))], [], inputs)
    texts: Growing[list[str]] = Growing(list, lambda state, message: state.append(message.text))
    state, rest = texts(history)
    assert (state, rest) == (["Hello"], ())
    inputs.append(Input(1, Message("user", (Text("Hurry."),))))
    assert texts(history)[0] is state
    assert state == ["Hello", "Hurry."]
