"""The process of a hook: an event on standard input, an answer on standard output.

It never stands in the agent's way by a failure of its own. Claude Code takes exit code 2 for a denial, and every other
for an error of the hook; this process ends with 0 whatever happens, and an error is a line in its log. If it takes
longer than `TIME_LIMIT_S`, say because its input has no end, it ends without an answer too.
"""

from __future__ import annotations

import json
import os
import signal
import sys

TIME_LIMIT_S = 3.0
MANAGED = frozenset({"--install", "--remove", "--log", "-h", "--help"})
"""The options that a person types; without one of them, `boolab hook claude-code` is the process of the hook."""


def is_hook(words: list[str]) -> bool:
    """Whether a command line starts the process of a hook."""
    return words[:2] == ["hook", "claude-code"] and MANAGED.isdisjoint(words)


def main(words: list[str], source: int = 0, sink: int = 1) -> int:
    """Answer the event on standard input; returns 0, also after an error, or 2 if a person started it in a terminal."""
    try:
        if os.isatty(source):
            sys.stderr.write("boolab: Claude Code starts this command, with an event as its input; see --help\n")
            return 2
        _run(words, source, sink)
    except BaseException:  # noqa: BLE001, S110 - such as a second error, or Ctrl-C: nothing of it is the agent's
        pass
    return 0


def _run(words: list[str], source: int, sink: int) -> None:
    try:
        signal.signal(signal.SIGALRM, _end)
        signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT_S)
        answer = _answer(words, source)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if answer is not None:
            os.write(sink, json.dumps(answer).encode() + b"\n")
    except Exception as error:  # noqa: BLE001 - no error of the hook may stop the agent
        _report(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(words: list[str], source: int) -> dict[str, object] | None:
    from boolab.live.hooks.claude_code import read_event, respond
    from boolab.live.hooks.options import Options

    event = read_event(_input(source))
    return respond(event, Options.parse(words))


def _input(source: int) -> str:
    parts = []
    while part := os.read(source, 1 << 20):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def _report(error: Exception) -> None:
    from boolab.live.hooks.journal import log

    log({}, "failed", error=f"{type(error).__name__}: {error}"[:500])


def _end(*_: object) -> None:
    """End the process where it stands, as if it had been killed: an error that is raised here can get lost."""
    try:
        _report(TimeoutError(f"no answer within {TIME_LIMIT_S:g} s"))
    finally:
        os._exit(0)
