"""What one sees of a sweep under way: cells done, the rate, the time left, and why runs have stopped so far."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from boolab.errors import StoreError

_SHOWN = 4


class Progress:
    """A progress bar, in a notebook or in a terminal.

    Args:
        total: How many cells there are.
        reasons: The stop reasons of those that were done before.
        show: Whether it is to be seen.
        store: Where the runs are kept, if they are: an end that comes early says so.
    """

    def __init__(self, total: int, reasons: Counter[str], *, show: bool, store: str | Path | None = None) -> None:
        from tqdm.auto import tqdm  # noqa: PLC0415 - slow to import

        self.done = reasons.total()
        self.total = total
        self._reasons = reasons
        self._store = store
        # Its monitor thread would outlive the sweep, and a bar redraws often enough by itself.
        self._bar: Any = tqdm(total=total, initial=self.done, unit="run", disable=not show, desc="sweep", smoothing=0.1)
        self._tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(refresh=True)
        shown = not self._bar.disable  # closed, it is no longer
        self._bar.close()
        # What a failing store has lost of those that are done, its own error says.
        if error is not None and self._store is not None and not isinstance(error, StoreError):
            kept = f"{self.done:,} of {self.total:,} runs are kept in {self._store}; the same call goes on from there"
            error.add_note(kept)
            if shown:
                self._bar.write(f"sweep: {kept}", file=sys.stderr)

    def add(self, reason: str) -> None:
        """One more cell is done.

        Args:
            reason: Why its run stopped.
        """
        self.done += 1
        self._reasons[reason] += 1
        if not self._bar.disable:
            self._tell()
            self._bar.update()

    def _tell(self, *, refresh: bool = False) -> None:
        common = self._reasons.most_common()
        told = [f"{number:,} {reason}" for reason, number in common[:_SHOWN]]
        rest = sum(number for _, number in common[_SHOWN:])
        self._bar.set_postfix_str(", ".join([*told, *([f"{rest:,} others"] if rest else [])]), refresh=refresh)
