"""Calls a fleet whenever its files change, and runs a command at its alerts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

from boolab.core.text import clean, first_of
from boolab.live.follow.fleet import MAX_SHARE, Fleet
from boolab.live.follow.rows import AgentChange, environment_of, name_of

STEP_MS: Final = 20
"""How long changes are collected, in ms, while none follows."""
GROUP_MS: Final = 60
"""How long changes are collected at most, in ms."""
TICK_MS: Final = 250
"""How often what waits is read, in ms, if nothing changes."""
LOOK_AT_RUNNING_S: Final = 1.0
"""How often the logs of running agents are looked at, because a notice may be lost, or there are none (NFS)."""
LOOK_S: Final = 30.0
"""How often all files are looked at."""
RETRY_S: Final = 5.0
"""How long all files are looked at every second where the system reports no changes, before it is asked again."""
MAX_COMMANDS: Final = 8
"""How many commands run at the same time; an alert beyond them waits for one of them to end."""
COMMANDS_TIMEOUT_S: Final = 5.0
"""How long commands that still run, and alerts that wait for them, are waited for at the end."""
KILL_S: Final = 1.0
"""How long a command that was asked to end may take to do so."""
_MAX_NAMES: Final = 3


class _Notice(NamedTuple):
    """Files that changed; `all`: any may have. `lost`: nothing is reported at present."""

    paths: tuple[str, ...] = ()
    all: bool = False
    lost: bool = False


def watch(fleet: Fleet, stop: Event) -> Iterator[list[AgentChange]]:
    """What happens to the agents of a fleet, until it is stopped.

    An error never ends it: `Fleet.take_faults` has what is not followed, and that the system reports no changes. Then
    all files are looked at every second.

    Yields:
        What happened, at most every quarter of a second, and an empty list where nothing did.
    """
    yield fleet.look()
    looked = looked_at_running = time.monotonic()
    seconds = 0.0
    for notice in _notices(fleet, stop):
        changes = fleet.read_changed(notice.paths)
        time_now = time.monotonic()
        if notice.all or time_now - looked > (max(LOOK_AT_RUNNING_S, seconds / MAX_SHARE) if notice.lost else LOOK_S):
            changes += fleet.look()
            looked = looked_at_running = time.monotonic()
            seconds = looked - time_now
        elif time_now - looked_at_running > LOOK_AT_RUNNING_S:
            looked_at_running = time_now
            changes += fleet.look_at_running()
        yield changes


def _notices(fleet: Fleet, stop: Event) -> Iterator[_Notice]:
    """The files that changed, as the system reports them, at least every `TICK_MS`, until it is stopped."""
    subject = "changes of files"
    while not stop.is_set():
        roots = _roots(fleet)
        try:
            try:
                yield from _iterate_notices(roots, fleet, stop) if roots else ()
            except PermissionError:  # of a folder in one of them
                yield from _iterate_notices(roots, fleet, stop, ignore=True)
        except Exception as error:  # noqa: BLE001 - no instance of inotify is left, a name is not UTF-8, ...
            reason = clean(f"{type(error).__name__}: {error}")
            fleet.fault(subject, f"the system does not report them ({reason}); the logs are looked at every second")
        deadline = time.monotonic() + RETRY_S
        while not stop.is_set() and time.monotonic() < deadline and _roots(fleet) == roots:
            yield _Notice(lost=True)
            stop.wait(TICK_MS / 1000)


def _iterate_notices(
    roots: dict[str, tuple[int, int]], fleet: Fleet, stop: Event, *, ignore: bool = False
) -> Iterator[_Notice]:
    """What the system reports, until one of the folders is another one; `ignore` those that cannot be opened."""
    from watchfiles import watch as watch_files

    changes = watch_files(
        *roots,
        watch_filter=None,
        step=STEP_MS,
        debounce=GROUP_MS,
        rust_timeout=TICK_MS,
        yield_on_timeout=True,
        stop_event=stop,
        ignore_permission_denied=ignore,
    )
    has_begun = False
    checked = time.monotonic()
    for changed in changes:
        yield _Notice(
            tuple(dict.fromkeys(path for _, path in changed)), all=not has_begun
        )  # some before the first are lost
        has_begun = True
        if time.monotonic() - checked > LOOK_AT_RUNNING_S:
            checked = time.monotonic()
            if _roots(fleet) != roots:
                return


def _roots(fleet: Fleet) -> dict[str, tuple[int, int]]:
    """The files and folders that are watched and there, each with its device and number."""
    roots = {}
    for log_path in fleet.places:
        try:
            stat = Path(log_path.root).stat()
        except OSError:
            continue
        roots[log_path.root] = (stat.st_dev, stat.st_ino)
    return roots


class _Running:
    """A command that runs, until `until`: then it is asked to end, and then killed."""

    def __init__(self, process: subprocess.Popen[bytes], agent: str, timeout: float) -> None:
        self.process = process
        self.agent = agent
        self.until = time.monotonic() + timeout
        self.asked = False

    def ask(self) -> None:
        """Ask it, and what it started, to end: its session is its own."""
        self.asked = True
        self.until = time.monotonic() + KILL_S
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it, and what it started."""
        self._send(signal.SIGKILL)  # before it is waited for: then its number may be that of another process
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_S)

    def _send(self, number: signal.Signals) -> None:
        with suppress(OSError):  # it has just ended
            os.killpg(self.process.pid, number)


class Commands:
    """Runs the command of `--exec`. Only environment variables carry facts: no text of a log is in a shell's command.

    Eight run at a time, the others wait. One that cannot be started, fails or takes too long is a sentence, and the
    next alert has its own.

    `timeout`: how many seconds it may take; then it is ended, with what it started.
    """

    def __init__(
        self,
        command: str,
        timeout: float,
        say: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._command = command
        self._timeout = timeout
        self._say = say
        self._environment = environment
        self._waiting: deque[AgentChange] = deque()
        self._running: list[_Running] = []

    def start(self, changes: Iterable[AgentChange]) -> None:
        """Run the command for each alert among the changes."""
        self._waiting += [change for change in changes if change.kind == "fires"]
        self._reap()
        while self._waiting and len(self._running) < MAX_COMMANDS:
            change = self._waiting.popleft()
            try:
                self._running.append(self._start(change))
            except Exception as error:  # noqa: BLE001 - no process is left, an environment is too large, ...
                reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
                self._say(f"the command of --exec cannot be started for {name_of(change.row)}: {reason}")

    def _start(self, change: AgentChange) -> _Running:
        process = subprocess.Popen(  # noqa: S602 - the user's own command; facts are in the environment
            self._command,
            shell=True,
            env={**self._environment, **environment_of(change)},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            start_new_session=True,
        )
        return _Running(process, name_of(change.row), self._timeout)

    def end(self) -> None:
        """Wait a while for the commands that still run, those that waited included; then end them."""
        deadline = time.monotonic() + COMMANDS_TIMEOUT_S
        while (self._waiting or self._running) and time.monotonic() < deadline:
            self.start([])
            time.sleep(0.02)
        for running in self._running:
            running.ask()
        deadline = time.monotonic() + KILL_S
        while any(running.process.poll() is None for running in self._running) and time.monotonic() < deadline:
            time.sleep(0.02)
        for running in self._running:
            running.kill()
        if self._running:
            agents = [running.agent for running in self._running]
            ended = (
                "1 command of --exec had not ended, and was"
                if len(agents) == 1
                else f"{len(agents):,} commands of --exec had not ended, and were"
            )
            self._say(f"{ended} ended: {first_of(agents, _MAX_NAMES)}")
        if self._waiting:
            agents = [name_of(change.row) for change in self._waiting]
            opening = (
                "1 alert had no command, because" if len(agents) == 1 else f"{len(agents):,} alerts had no command, as"
            )
            self._say(f"{opening} {MAX_COMMANDS} others ran: {first_of(agents, _MAX_NAMES)}")

    def _reap(self) -> None:
        for running in [*self._running]:
            late = time.monotonic() >= running.until
            if running.asked:
                if late:
                    self._running.remove(running)
                    running.kill()
            elif (code := running.process.poll()) is not None:
                self._running.remove(running)
                if code:
                    self._say(f"the command of --exec for {running.agent} ended with code {code}")
            elif late:
                running.ask()
                limit = f"{self._timeout:g} seconds (--exec-timeout)"
                self._say(f"the command of --exec for {running.agent} ran longer than {limit}, and is ended")
