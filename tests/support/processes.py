"""Processes that are no children of the tests."""

import os
import select

from tests.support.model_server import PATIENCE_S


def has_ended(process: int) -> bool:
    """Wait until a process that is no child of this one has ended."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], PATIENCE_S)[0])
    finally:
        os.close(handle)
