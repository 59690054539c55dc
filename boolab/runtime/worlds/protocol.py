"""What the engine needs of a world. All of it may block: the engine calls it in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class Keeper(Protocol):
    """Keeps the states of one run. One thread at a time calls it, `cancel` alone comes from another."""

    def snapshot(self) -> Mapping[str, Any]:
        """Keep the state as it is now.

        Returns:
            What the record holds of it, as JSON values: all that `World.restored` needs.

        Raises:
            WorldError: if that failed; with the reason, and what to do.
        """
        ...

    def cancel(self) -> None:
        """End the snapshot that is under way as soon as possible; it then raises `WorldError`."""
        ...

    def close(self) -> None:
        """Release what the keeper holds; what was kept stays."""
        ...


class World(Protocol):
    """A state that tools change.

    Attributes:
        root: The folder in which the tools work.
        incomplete: What of a restored state is missing, and what to do, in words; "" for nothing.
    """

    @property
    def root(self) -> Path: ...

    @property
    def incomplete(self) -> str: ...

    def keep(self, run_id: str, before: Mapping[str, Any] | None) -> Keeper:
        """Begin to keep the states of a run.

        Args:
            run_id: The run.
            before: What its record holds of the state that it continues from; None at a beginning.

        Raises:
            WorldError: if the state cannot be kept at all.
        """
        ...

    def restored(self, kept: Mapping[str, Any], folder: Path | None = None) -> World:
        """A world of its own that is in a state that was kept. This one stays as it is.

        Args:
            kept: What a record holds of the state.
            folder: An empty folder that becomes its root; by default a new one.

        Raises:
            WorldError: if it cannot be restored.
        """
        ...

    def discard(self) -> None:
        """Remove what `restored` made for this world; a world that was not restored stays."""
        ...
