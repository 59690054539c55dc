"""One run of another package's agent: its monitor, its clock, and a function that gets its first stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, TypedDict, Unpack

from boolab.core.types import Scope, Stop
from boolab.errors import BoolabError, install
from boolab.limits.monitor import Action, Monitor, Verdict, reason_of
from boolab.limits.monitor_input import GivenCall, GivenResult, GivenUsage
from boolab.limits.stop import StopRule


class MonitorOptions(TypedDict, total=False):
    """The options of `Monitor`."""

    scope: Scope
    at_response: StopRule | None
    nudge: str


class AdapterOptions(MonitorOptions, total=False):
    """What all adapters take besides the rule and the action."""

    on_stop: Callable[[Stop], object] | None
    """Is called once a run with its first stop, also in shadow and beside a nudge."""


class MonitoredRun:
    """A monitor of one run that knows the time since the message of the user; for its arguments see `AdapterOptions`.

    `seen` is the id of the last response that was counted, for packages that hand over the whole history.
    """

    def __init__(
        self,
        rule: StopRule | None,
        action: Action = "stop",
        *,
        on_stop: Callable[[Stop], object] | None = None,
        **options: Unpack[MonitorOptions],
    ) -> None:
        self.monitor = Monitor(rule, action, **options)
        self.seen: str | None = None
        self._on_stop = on_stop
        self._opened = time.monotonic()

    def open_turn(self) -> None:
        """A message of the user begins a turn."""
        if self.monitor.scope == "turn":
            self._opened = time.monotonic()
        self.monitor.open_turn()

    def boundary(self) -> Verdict:
        """The verdict at the latest boundary."""
        return self._report(self.monitor.verdict)

    def before(self, calls: Iterable[GivenCall], usage: GivenUsage = None) -> Verdict:
        """See `Monitor.before`."""
        return self._report(self.monitor.before(calls, usage))

    def after(
        self, calls: Iterable[GivenCall], results: Sequence[GivenResult], usage: GivenUsage = None, text: str = ""
    ) -> Verdict:
        """See `Monitor.after`; the time is that since the turn began."""
        elapsed = int(1000 * (time.monotonic() - self._opened))
        return self._report(self.monitor.after(calls, results, usage, text, elapsed))

    def _report(self, verdict: Verdict) -> Verdict:
        if self._on_stop is not None and verdict.stop is not None:
            report, self._on_stop = self._on_stop, None
            report(verdict.stop)
        if verdict.action == "stop" and verdict.stop is not None:
            return verdict._replace(message=reason_of(verdict.stop))  # for the user: the model is asked no more
        return verdict


def import_package(module: str, package: str) -> Any:  # a module without types here
    """A module that an adapter needs; a `BoolabError` that names the package to install if it cannot be imported."""
    try:
        return import_module(module)
    except ImportError as error:
        raise BoolabError(f"this adapter needs {package}: {install(package)} ({error})") from error
