"""Calls a fleet whenever its files change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Final

from boolab.follow.fleet import Change, Fleet

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


def watch(fleet: Fleet, stop: Event) -> Iterator[list[Change]]:
    """What happens to the agents of a fleet, until it is stopped.

    Args:
        fleet: The fleet.
        stop: Ends it.

    Yields:
        What happened, at most every quarter of a second, and an empty list where nothing did.

    Raises:
        KeyboardInterrupt: on Ctrl-C, in the main thread.
    """
    from watchfiles import watch as watch_files

    yield fleet.look()
    looked = looked_at_running = time.monotonic()
    while not stop.is_set():
        roots = [root for root in dict.fromkeys(place.root for place in fleet.places) if Path(root).exists()]
        changes = watch_files(
            *roots,
            watch_filter=None,
            step=STEP_MS,
            debounce=GROUP_MS,
            rust_timeout=TICK_MS,
            yield_on_timeout=True,
            stop_event=stop,
            ignore_permission_denied=True,
        )
        for changed in changes:
            found = fleet.changed(dict.fromkeys(path for _, path in changed))
            now = time.monotonic()
            if now - looked > LOOK_S:
                looked = looked_at_running = now
                found += fleet.look()
            elif now - looked_at_running > LOOK_AT_RUNNING_S:
                looked_at_running = now
                found += fleet.look_at_running()
            yield found
