"""Labels that stand beside their lines, where nothing else is; they find their places when the figure is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.transforms import IdentityTransform

from boolab.plots import style

Points: TypeAlias = Any  # an array of x and y on the screen
Box: TypeAlias = tuple[float, float, float, float]

_GAP = 4.0  # points between a label and its line
_NEAR = 40.0  # points: what is further away than this is not taken for the label's line
_TRIES = 50  # places along a line


class Line(NamedTuple):
    """A line in data coordinates; with a text and a colour, where it is to be labelled."""

    x: Any
    y: Any
    text: str = ""
    color: Any = None


def stairs(x: Any, y: Any, end: float) -> tuple[Any, Any]:  # noqa: ANN401 - arrays
    """The corners of a line that stays at each height until the next, the last until `end`."""
    edges = np.append(np.asarray(x, dtype=float), end)
    return np.repeat(edges, 2)[1:-1], np.repeat(np.asarray(y, dtype=float), 2)


def label_lines(ax: Axes, lines: Sequence[Line], mark: Line | None = None) -> None:
    """Write each line's text beside it: clear of all lines and of one another, and nearest to its own line.

    `mark` is a vertical line, whose text finds its place first and may have several rows.
    """
    size = style.sizes(ax)
    halo = [withStroke(linewidth=2.5, foreground=style.ground(ax))]
    labels = _Labels(ax, [*([mark] if mark else []), *lines])
    for line in labels.lines:
        if line.text and len(line.x):
            look: dict[str, Any] = {"size": size.text, "weight": "bold", "color": line.color, "gid": "line label"}
            if line is mark:
                look |= {"size": size.note, "weight": "normal", "linespacing": 1.25, "gid": "mark"}
            text = _Label(labels, line.text, va="bottom", zorder=6, path_effects=halo, **look, **style.PLAIN)
            labels.texts.append((line, text))
            ax.add_artist(text)
            text.set_in_layout(False)
            text.set_clip_on(False)


class _Label(Text):
    """A text that asks for its place before it is drawn."""

    def __init__(self, labels: _Labels, text: str, **how: Any) -> None:  # noqa: ANN401 - Text's own
        super().__init__(0, 0, text, transform=IdentityTransform(), **how)
        self._labels = labels

    def draw(self, renderer: RendererBase) -> None:
        """Draw the text where there is room."""
        self._labels.place(renderer)
        super().draw(renderer)


class _Labels:
    """All labels of some Axes."""

    def __init__(self, ax: Axes, lines: Sequence[Line]) -> None:
        self.ax = ax
        self.lines = lines
        self.texts: list[tuple[Line, _Label]] = []
        self._placed_for: object = None

    def place(self, renderer: RendererBase) -> None:
        """Place all of them, unless they are in place."""
        point: Any = renderer.points_to_pixels(1)
        box = self.ax.get_window_extent(renderer)
        frame = (float(box.x0), float(box.y0), float(box.x1), float(box.y1))
        state = (box.bounds, self.ax.get_xlim(), self.ax.get_ylim(), point)
        if state == self._placed_for:
            return
        self._placed_for = state
        paths = {id(line): _path(self.ax, line) for line in self.lines}
        taken: list[Box] = []
        for line, text in self.texts:
            own = paths[id(line)]
            others = [path for key, path in paths.items() if key != id(line) and len(path)]
            if not len(own):
                continue
            size = Text.get_window_extent(text, renderer)
            best = _best(own, others, (size.width, size.height), taken, frame, point)
            text.set_position((best[0], best[1]))
            taken.append((best[0], best[1], best[0] + size.width, best[1] + size.height))


def _best(own: Points, others: Sequence[Points], size: tuple[float, float], taken: Sequence[Box], frame: Box,
          point: float) -> tuple[float, float]:  # fmt: skip
    wide, high = size
    gap = _GAP * point
    most, best = float("inf"), (float(frame[0]), float(frame[1]))
    for px, py in own[:: max(1, len(own) // _TRIES)]:
        for x in (px + gap, px - gap - wide, px - wide / 2):
            for y in (py + gap, py - gap - high, py - high / 2):
                cost = _cost((x, y, x + wide, y + high), own, others, taken, frame, point)
                if cost < most:
                    most, best = cost, (float(x), float(y))
    return best


def _cost(
    box: Box,
    own: Points,
    others: Sequence[Points],
    taken: Sequence[Box],
    frame: Box,
    point: float,
) -> float:
    """How bad a place is: off the Axes or on another text, on a line, nearer to another line than to its own."""
    left, low, right, high = frame
    pad = 3 * point
    outside = max(0, left + pad - box[0]) + max(0, low + pad - box[1])
    outside += max(0, box[2] - right + pad) + max(0, box[3] - high)
    cost = 20 * outside / point + 400 * sum(_overlap(box, other, pad) for other in taken)
    away = _distance(own, box)
    cost += (40 if np.ptp(own[:, 0]) < 1 else 10) * float((away < point).sum()) + 10 * sum(
        float((_distance(o, box) < pad).sum()) for o in others
    )
    nearest = min((float(_distance(other, box).min()) for other in others), default=_NEAR * point) / point
    mine = float(away.min()) / point
    middle = abs((box[1] + box[3]) / 2 - (low + high) / 2) / (high - low) + abs(
        (box[0] + box[2] - left - right) / 2
    ) / (right - left)
    near = max(0.0, mine + 10 - nearest) * 1.5 - min(nearest, _NEAR) * 0.1
    return float(cost + mine + near + 14 * middle)


def _distance(path: Points, box: Box) -> Any:  # noqa: ANN401 - an array
    x, y = path[:, 0], path[:, 1]
    dx = np.maximum(np.maximum(box[0] - x, x - box[2]), 0)
    dy = np.maximum(np.maximum(box[1] - y, y - box[3]), 0)
    return np.hypot(dx, dy)


def _overlap(a: Box, b: Box, pad: float) -> bool:
    return a[0] < b[2] + pad and b[0] < a[2] + pad and a[1] < b[3] + pad and b[1] < a[3] + pad


def _path(ax: Axes, line: Line) -> Points:
    """The line on the screen, as points that are close to one another."""
    xy = np.column_stack([np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)])
    xy = xy[np.isfinite(xy).all(axis=1)]
    if not len(xy):
        return xy
    corners = ax.transData.transform(xy)
    length = np.append(0, np.cumsum(np.hypot(*np.diff(corners, axis=0).T)))
    at = np.linspace(0, length[-1], min(500, int(length[-1] / 3) + 2))
    return np.column_stack([np.interp(at, length, corners[:, i]) for i in (0, 1)])
