"""What the scripted model answers, in words that no harness has: calls of a shell, calls of a subagent, or a text.

Every shell command appends one line to a file of the working folder, so that the tools that really ran are counted in
what they did. Which file depends on who asked: the main loop or the subagent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

Loop: TypeAlias = Literal["main", "subagent"]
"""Who asks the model."""

ENOUGH: Final = 15
"""How many responses with calls a script that is endless gives: what no limit stopped is ended by a text then."""

RAN: Final[Mapping[Loop, str]] = {"main": "ran-main.txt", "subagent": "ran-subagent.txt"}
"""The files that the shell commands append to."""

PROMPT: Final = "Main task: append lines to a file until nothing is left."
"""What the user asks of the main loop; a request is known by it."""

SUBAGENT_PROMPT: Final = "Subagent task: append lines to a file until nothing is left."
"""What the main loop asks of the subagent."""

DONE: Final[Mapping[Loop, str]] = {"main": "Main: done.", "subagent": "Subagent: done."}
"""The text that ends each loop."""


def loop_of(messages: Iterable[object]) -> Loop | None:
    """Whose request it is: the loop whose prompt the first of these messages to hold one holds; None without any."""
    for message in messages:
        text = json.dumps(message)
        if SUBAGENT_PROMPT in text:
            return "subagent"
        if PROMPT in text:
            return "main"
    return None


class Shell(NamedTuple):
    """A call of the harness's own shell tool."""

    command: str


class Delegate(NamedTuple):
    """A call of the harness's own subagent tool."""

    prompt: str


Call: TypeAlias = Shell | Delegate


class Reply(NamedTuple):
    """One response of the model."""

    calls: tuple[Call, ...] = ()
    text: str = ""


Script: TypeAlias = Callable[[Loop, int], Reply]
"""From who asks, and how often it has asked before, to what the model answers."""


def append(loop: Loop, what: object) -> Shell:
    """The call that leaves one line."""
    return Shell(f"echo {what} >> {RAN[loop]}")


def same(loop: Loop, n: int) -> Reply:
    """The same call again and again."""
    return Reply((append(loop, "line"),)) if n < ENOUGH else Reply(text=DONE[loop])


def different(loop: Loop, n: int) -> Reply:
    """A call a response, no two of them equal."""
    return Reply((append(loop, n + 1),)) if n < ENOUGH else Reply(text=DONE[loop])


def batch(loop: Loop, n: int) -> Reply:
    """Two calls a response, no two of them equal."""
    calls = (append(loop, f"{n + 1}.1"), append(loop, f"{n + 1}.2"))
    return Reply(calls) if n < ENOUGH else Reply(text=DONE[loop])


def finish(at: int) -> Script:
    """A script whose response number `at` is the text that ends the run; different calls before."""

    def play(loop: Loop, n: int) -> Reply:
        return Reply(text=DONE[loop]) if n >= at - 1 else Reply((append(loop, n + 1),))

    return play


def delegate(loop: Loop, n: int) -> Reply:
    """The main loop starts one subagent and ends with a text; the subagent makes different calls without end."""
    if loop == "subagent":
        return different(loop, n)
    return Reply((Delegate(SUBAGENT_PROMPT),)) if n == 0 else Reply(text=DONE[loop])


SCRIPTS: Final[Mapping[str, Script]] = {"same": same, "different": different, "batch": batch, "delegate": delegate}
"""The scripts by name; `finish-N` is `finish(N)`."""


def script_named(name: str) -> Script:
    """The script of that name.

    Raises:
        ValueError: if there is none.
    """
    if name in SCRIPTS:
        return SCRIPTS[name]
    kind, _, number = name.partition("-")
    if kind == "finish" and number.isdecimal() and int(number) >= 1:
        return finish(int(number))
    msg = f"there is no script {name!r}; expected one of {', '.join(SCRIPTS)}, or finish-N"
    raise ValueError(msg)
