"""boolab's own store: what sweeps and `bl.Store` write. See `boolab.store`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from boolab.core.run import Run
from boolab.errors import RunFormatError, StoreError
from boolab.io.json_input import Damage
from boolab.logs.fields import Head
from boolab.store.connection import looks_like_store
from boolab.store.stored_runs import stored_runs

NAME: Final = "store"
SUFFIXES: Final = (".db",)
PLACES: Final = ()
LOOKED_FOR: Final = "a SQLite file that is marked as a store, as sweeps and bl.Store write it"


def sniff(head: Head) -> bool:
    """Whether this is a store."""
    return looks_like_store(head.data)


def read(path: Path, damage: Damage) -> list[Run]:  # noqa: ARG001 - a store is read whole or not at all
    """The runs of one store: those that are finished, and those that were interrupted."""
    try:
        return list(stored_runs(path))
    except StoreError as error:
        raise RunFormatError(error.message, path=path) from error
