"""Figures for a paper, a slide or a dark notebook: vector files with text that stays text, and colours for a ground.

Example:
    >>> from io import BytesIO
    >>> import boolab as bl
    >>> from boolab.plots import output
    >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
    >>> with output.theme("dark"):
    ...     figure = bl.plots.plot_stop_reasons(run, title=None).figure
    >>> output.save(figure, file := BytesIO(), format="svg")
    >>> b"<text" in file.getvalue()
    True
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from boolab.display.colours import DARK, LIGHT
from boolab.errors import SettingError
from boolab.io.files import replace_file
from boolab.plots.style import Keyword
from boolab.plots.themed import VECTOR

_MIDDLE: Final = "#757d88"
Ground: TypeAlias = Literal["light", "dark", "transparent"]


def save(drawn: Axes | Figure | SubFigure, path: str | PathLike[str] | IO[bytes], **how: Keyword) -> None:
    """Write a figure to a file: SVG and PDF as vectors, with text as text, and the ground that it was drawn for.

    Args:
        drawn: The figure, or what a plot returns.
        path: The file; its ending is its format, such as `.svg`, `.pdf` or `.png`.
        **how: More for matplotlib's `savefig`, such as `dpi`.

    Raises:
        SettingError: if the Axes are in no figure.
    """
    figure = drawn.get_figure(root=True)
    if figure is None:
        msg = "these Axes are in no figure"
        raise SettingError(msg)
    options = {"facecolor": figure.get_facecolor(), "dpi": 200, **how}
    with mpl.rc_context(VECTOR):
        if not isinstance(path, str | PathLike):
            figure.savefig(path, **options)
            return
        kind = Path(path).suffix.removeprefix(".").lower() or mpl.rcParams["savefig.format"]
        with replace_file(Path(path) if Path(path).suffix else Path(f"{path}.{kind}")) as file:
            figure.savefig(file, **{"format": kind, **options})


@contextmanager
def theme(ground: Ground) -> Iterator[None]:
    """Colours for the figures that are made within: for a light or a dark ground, or for both.

    Args:
        ground: "light" or "dark", the grounds of boolab's widgets; "transparent" for none, with text in a grey that can
            be read on either.

    Yields:
        Nothing.

    Raises:
        SettingError: if there is no such ground.
    """
    if ground not in ("light", "dark", "transparent"):
        raise SettingError(f"ground={ground!r}: expected light, dark or transparent")
    colours = DARK if ground == "dark" else LIGHT
    background, ink = ("none", _MIDDLE) if ground == "transparent" else (colours["bg"], colours["ink"])
    names: tuple[Any, ...] = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    grounds: tuple[Any, ...] = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    with mpl.rc_context({**dict.fromkeys(names, ink), **dict.fromkeys(grounds, background)}):
        yield
