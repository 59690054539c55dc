"""Calls a fleet whenever its files change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

from boolab.core.text import clean
from boolab.live.follow.fleet import MAX_SHARE, Change, Fleet

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


class _Notice(NamedTuple):
    """Files that changed; `all`: any may have. `lost`: nothing is reported at present."""

    paths: tuple[str, ...] = ()
    all: bool = False
    lost: bool = False


def watch(fleet: Fleet, stop: Event) -> Iterator[list[Change]]:
    """What happens to the agents of a fleet, until it is stopped.

    An error never ends it: `Fleet.take_faults` has what is not followed, and that the system reports no changes. Then
    all files are looked at every second.

    Yields:
        What happened, at most every quarter of a second, and an empty list where nothing did.
    """
    yield fleet.look()
    looked = looked_at_running = time.monotonic()
    took = 0.0
    for notice in _notices(fleet, stop):
        found = fleet.changed(notice.paths)
        now = time.monotonic()
        if notice.all or now - looked > (max(LOOK_AT_RUNNING_S, took / MAX_SHARE) if notice.lost else LOOK_S):
            found += fleet.look()
            looked = looked_at_running = time.monotonic()
            took = looked - now
        elif now - looked_at_running > LOOK_AT_RUNNING_S:
            looked_at_running = now
            found += fleet.look_at_running()
        yield found


def _notices(fleet: Fleet, stop: Event) -> Iterator[_Notice]:
    """The files that changed, as the system reports them, at least every `TICK_MS`, until it is stopped."""
    what = "changes of files"
    while not stop.is_set():
        roots = _roots(fleet)
        try:
            try:
                yield from _reported(roots, fleet, stop) if roots else ()
            except PermissionError:  # of a folder in one of them
                yield from _reported(roots, fleet, stop, ignore=True)
        except Exception as error:  # noqa: BLE001 - no instance of inotify is left, a name is not UTF-8, ...
            why = clean(f"{type(error).__name__}: {error}")
            fleet.fault(what, f"the system does not report them ({why}); the logs are looked at every second")
        until = time.monotonic() + RETRY_S
        while not stop.is_set() and time.monotonic() < until and _roots(fleet) == roots:
            yield _Notice(lost=True)
            stop.wait(TICK_MS / 1000)


def _reported(
    roots: dict[str, tuple[int, int]], fleet: Fleet, stop: Event, *, ignore: bool = False
) -> Iterator[_Notice]:
    """What the system reports, until one of the folders is another one.

    `ignore`: whether folders that cannot be opened are left out. Then watchfiles also ignores that no more can be
    watched.
    """
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
    begun = False
    checked = time.monotonic()
    for changed in changes:
        yield _Notice(
            tuple(dict.fromkeys(path for _, path in changed)), all=not begun
        )  # some before the first are lost
        begun = True
        if time.monotonic() - checked > LOOK_AT_RUNNING_S:
            checked = time.monotonic()
            if _roots(fleet) != roots:
                return


def _roots(fleet: Fleet) -> dict[str, tuple[int, int]]:
    """The files and folders that are watched and there, each with its device and number."""
    found = {}
    for place in fleet.places:
        try:
            stat = Path(place.root).stat()
        except OSError:
            continue
        found[place.root] = (stat.st_dev, stat.st_ino)
    return found
