"""How a widget shows itself: in a notebook, in a file, and as text and picture where no JavaScript runs."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, overload

import anywidget
import traitlets
from ipywidgets.comm import comm

from boolab.core.text import clean
from boolab.io.files import write_output
from boolab.widgets._base.standalone_html import (
    WIDGET_VIEW,
    PagePart,
    module_of,
    pack,
    page,
    saved_view,
    size_note,
    styles_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_INLINE: Final = 2_000_000
"""The largest page, in bytes, that a notebook keeps with a widget's output, for exports."""


def page_or_path(page: str, path: str | Path | None) -> str | Path:
    """The page; or else the path that it was written to, because a cell of a notebook shows what it ends with."""
    if path is None:
        return page
    write_output(Path(path), page)
    return Path(path)


class Shown:
    """What every widget can do besides drawing itself: a page, a text, a picture, a short repr.

    A widget defines `_title`, `_text`, `_parts`, and, if it has one, `_picture`.
    """

    def _title(self) -> str:
        raise NotImplementedError

    def _text(self) -> str:
        """What is shown where no JavaScript runs."""
        raise NotImplementedError

    def _parts(self) -> list[PagePart]:
        """The views of the page."""
        raise NotImplementedError

    def _runs(self) -> dict[str, PagePart]:
        """Views that the page opens when a run is chosen."""
        return {}

    def _picture(self) -> bytes:
        """A PNG of what is shown."""
        return b""

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path) -> Path: ...
    def to_html(self, path: str | Path | None = None) -> str | Path:
        """The widget as one page that works without a kernel and without a network.

        Args:
            path: A file to write it to.

        Returns:
            The path of the file; without `path`, the text of the page.

        Raises:
            OSError: The file cannot be written.
        """
        return page_or_path(self._page(), path)

    def _page(self) -> str:
        """The page from what is computed so far: every display contains it."""
        return page(self._title(), self._parts(), runs=self._runs(), text=self._text(), picture=self._picture())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({clean(self._title())})"

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The live widget; a page in a frame for exported notebooks; a text for everything else."""
        return self._live_bundle() | self._saved_bundle()

    def _live_bundle(self) -> dict[str, Any]:
        """The live widget, if there is one, and a text."""
        lines = [repr(self), *map(clean, self._text().splitlines())]
        bundle: dict[str, Any] = {"text/plain": "\n".join(lines)}
        model_id = getattr(self, "model_id", None)
        if model_id is not None:
            bundle[WIDGET_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": model_id}
        return bundle

    def _saved_bundle(self) -> dict[str, Any]:
        """What stands in for the live widget without a kernel: its page, or why it is not kept."""
        framed = self._page()
        return {
            "text/html": saved_view(clean(self._title()), framed) if len(framed) <= MAX_INLINE else size_note(framed)
        }

    def _bundles(self) -> Iterator[dict[str, Any]]:
        """A display as two outputs: the live widget, then the page. One where there is no live widget."""
        live = self._live_bundle()
        if WIDGET_VIEW in live:
            yield live
            live = {}  # it is on the screen while its page is made, which can take seconds
        yield live | self._saved_bundle()

    def _ipython_display_(self, **_: object) -> None:
        """Display the live widget and, as an output of its own, the page that stands in for it without a kernel."""
        from IPython.display import display

        for bundle in self._bundles():
            display(bundle, raw=True)  # type: ignore[no-untyped-call] # IPython has no types


def png_of(
    draw: Callable[[Figure], object], size: tuple[float, float], *, dpi: float = 100, layout: str | None = "constrained"
) -> bytes:
    """A figure as a PNG of such a size in inches; Pyplot, and with it the notebook's own figures, is left alone."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout=layout)  # type: ignore[arg-type] # one of several literals
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        draw(figure)
        figure.savefig(out, format="png", dpi=dpi)
    return out.getvalue()


class View(Shown, anywidget.AnyWidget):  # type: ignore[misc] # anywidget has no types
    """A widget that one JavaScript file draws.

    A subclass names its file: `class Replay(View, module="replay")` is drawn by replay.js with replay.css.
    """

    _module: ClassVar[str]
    _data = traitlets.Bytes().tag(sync=True)
    _sends_all = True

    def __init_subclass__(cls, module: str = "", **kwargs: Any) -> None:  # noqa: ANN401 - for the classes above
        if module:  # without, it is the class that anywidget derives from each for its traits
            cls._module = module
            cls._esm = module_of(module)
            cls._css = styles_of(module)
        super().__init_subclass__(**kwargs)

    def __init__(self, data: object, **traits: Any) -> None:  # noqa: ANN401 - the subclass's own
        """Pack the plain data for the JavaScript file, or make them later by a function; `traits` are synced ones."""
        self._plain = data
        super().__init__(**({} if callable(data) else {"_data": pack(data)}), **traits)

    @traitlets.default("_data")
    def _pack(self) -> bytes:
        return pack(self._plain() if callable(self._plain) else self._plain)

    def open(self) -> None:
        """Open the comm. Where no kernel runs, nothing reads what is sent, so data that are made later are left out."""
        # Old kernels do not replace `create_comm`, and other hosts (marimo) read the state before this is called.
        self._sends_all = "ipykernel" in sys.modules or comm.create_comm.__module__ != comm.__name__
        super().open()
        self._sends_all = True

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:  # noqa: ANN401 - as its base
        if key is None and not self._sends_all:
            key = [name for name in self.keys if name != "_data"]
        state: dict[str, Any] = super().get_state(key, drop_defaults)
        return state

    def show(self, data: object) -> None:
        """Draw other data."""
        self._plain = data
        self._data = pack(data)

    def _parts(self) -> list[PagePart]:
        return [PagePart(self._module, self._data, {name: getattr(self, name) for name in self._own_traits()})]

    @classmethod
    def part_of(cls, data: object) -> PagePart:
        """The view of some data in its initial state: for a page, without making a widget in the notebook."""
        return PagePart(cls._module, data, {name: trait.default() for name, trait in cls._own_traits().items()})

    @classmethod
    def _own_traits(cls) -> dict[str, Any]:
        traits = {name: trait for name, trait in cls.class_traits(sync=True).items() if not name.startswith("_")}
        return {name: trait for name, trait in traits.items() if issubclass(trait.this_class, View)}
