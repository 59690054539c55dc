"""A progress bar over the parts of a long piece of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

DELAY_S: Final = 2.0
"""Work that takes less time shows no bar."""


@contextmanager
def parts_bar(description: str, total: int, *, show: bool) -> Iterator[Callable[[], object]]:
    """A bar on stderr, if that is a terminal and the work takes more than `DELAY_S`.

    Yields:
        What moves the bar on by one part.

    Example:
        >>> with parts_bar("writing the page", 2, show=False) as move:
        ...     _ = move(), move()
    """
    if not show:
        yield lambda: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, unit="part", desc=description, delay=DELAY_S, disable=None) as bar:
        yield bar.update
