"""Labels that stand beside their lines, where nothing else is; they find their places when the figure is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.transforms import IdentityTransform

from boolab.core.text import shorten
from boolab.display.numbers import percent
from boolab.plots import palette, style
from boolab.plots._frames import floats
from boolab.plots.style import Keyword

Points: TypeAlias = Any  # an array of x and y on the screen
Box: TypeAlias = tuple[float, float, float, float]
Boxes: TypeAlias = Any  # an array with a row for each: its left, its lower, its right and its upper side

_GAP = 4.0  # points between a label and the middle of its line
_NEAR = 40.0  # points: beyond this distance a line is not mistaken for the label's own
_TRIES = 50  # places along a line
MAX_NAMES: Final = 8  # of settings on a front
NAME_CHARS: Final = 30  # of a rule beside its point


class Line(NamedTuple):
    """A line in data coordinates; with a text and a colour, where it is to be labelled."""

    x: Any
    y: Any
    text: str = ""
    color: Any = None


def stairs(x: npt.ArrayLike, y: npt.ArrayLike, end: float) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The corners of a line that stays at each height until the next, the last until `end`."""
    edges = np.append(np.asarray(x, dtype=float), end)
    return np.repeat(edges, 2)[1:-1], np.repeat(np.asarray(y, dtype=float), 2)


def label_lines(ax: Axes, lines: Sequence[Line], mark: Line | None = None) -> None:
    """Write each line's text beside it, clear of all lines; `mark` is a vertical line, whose text comes first."""
    size = style.sizes(ax)
    labels = _Labels(ax, [*([mark] if mark else []), *lines])
    for line in labels.lines:
        if line.text and len(line.x):
            look: dict[str, Any] = {"size": size.text, "weight": "bold", "color": line.color, "gid": "line label"}
            if line is mark:
                look |= {"size": size.note, "weight": "normal", "linespacing": 1.25, "gid": "mark"}
            labels.add(line, **look).set_clip_on(False)


def label_points(ax: Axes, points: Sequence[Line], obstacles: Sequence[Line] = ()) -> None:
    """Write each point's text beside it, clear of all points and other lines; where no room is left, there is none."""
    labels = _Labels(ax, [*points, *obstacles], gap=7, drop=True)
    look: dict[str, Any] = {"size": style.sizes(ax).note, "color": style.fade(ax, 0.85), "gid": "point label"}
    for point in points:
        labels.add(point, **look)


class _Label(Text):
    """A text that gets its place before it is drawn."""

    def __init__(self, labels: _Labels, text: str, **options: Keyword) -> None:
        super().__init__(0, 0, text, transform=IdentityTransform(), **options)
        self._labels = labels
        self.fits = True

    def draw(self, renderer: RendererBase) -> None:
        """Draw the text where there is room."""
        self._labels.place(renderer)
        if self.fits:
            super().draw(renderer)


class _Labels:
    """All labels of some Axes."""

    def __init__(self, ax: Axes, lines: Sequence[Line], gap: float = _GAP, *, drop: bool = False) -> None:
        self.ax = ax
        self.drop = drop
        self.gap = gap
        self.lines = lines
        self.texts: list[tuple[Line, _Label]] = []
        self._placed_for: object = None

    def add(self, line: Line, **look: Keyword) -> _Label:
        """Add the text of a line, which is placed when it is drawn."""
        halo = [withStroke(linewidth=2.5, foreground=style.ground(self.ax))]
        text = _Label(self, line.text, va="bottom", zorder=6, path_effects=halo, **look, **style.PLAIN)
        self.texts.append((line, text))
        self.ax.add_artist(text)
        text.set_in_layout(False)
        return text

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
        taken_boxes: list[Box] = []
        for line, text in self.texts:
            line_path = paths[id(line)]
            other_paths = [path for key, path in paths.items() if key != id(line) and len(path)]
            if not len(line_path):
                continue
            size = Text.get_window_extent(text, renderer)
            best = _best_place(line_path, other_paths, (size.width, size.height), taken_boxes, frame, point, self.gap)
            text.set_position((best[0], best[1]))
            label_box: Box = (best[0], best[1], best[0] + size.width, best[1] + size.height)
            is_outside = label_box[2] > frame[2] or label_box[1] < frame[1]
            is_taken = any(_are_near(label_box, other, 0, 0) for other in taken_boxes)
            text.fits = not (self.drop and (is_outside or is_taken or _covers(label_box, other_paths, 2 * point)))
            taken_boxes += [label_box] if text.fits else []


def _covers(box: Box, other_paths: Sequence[Points], rim: float) -> bool:
    """Whether a box is over a single point, or within so many pixels of one; lines it may cross."""
    x0, y0, x1, y1 = box
    single = [path[0] for path in other_paths if (path == path[0]).all()]
    return any(x0 - rim < x < x1 + rim and y0 - rim < y < y1 + rim for x, y in single)


def _best_place(
    line_path: Points,
    other_paths: Sequence[Points],
    size: tuple[float, float],
    taken_boxes: Sequence[Box],
    frame: Box,
    point: float,
    gap: float,
) -> tuple[float, float]:
    candidates = _places(line_path[:: max(1, len(line_path) // _TRIES)], size, gap * point)
    x, y, _, _ = candidates[np.argmin(_costs(candidates, line_path, other_paths, taken_boxes, frame, point))]
    return float(x), float(y)


def _places(points: Points, size: tuple[float, float], gap: float) -> Boxes:
    """Boxes of that size on all sides of each point, and on it."""
    wide, high = size
    x = points[:, :1] + np.array([gap, -gap - wide, -wide / 2])
    y = points[:, 1:] + np.array([gap, -gap - high, -high / 2])
    lefts, low = np.repeat(x, 3, axis=1).ravel(), np.tile(y, 3).ravel()
    return np.column_stack([lefts, low, lefts + wide, low + high])


def _costs(
    boxes: Boxes,
    line_path: Points,
    other_paths: Sequence[Points],
    taken_boxes: Sequence[Box],
    frame: Box,
    point: float,
) -> npt.NDArray[Any]:
    """How bad each place is: off the Axes or on another text, on a line, nearer to another line than to its own."""
    x0, y0, x1, y1 = boxes.T
    left_edge, low, right, high = frame
    pad = 3 * point
    overhang = np.maximum(0, left_edge + pad - x0) + np.maximum(0, low + pad - y0)
    overhang += np.maximum(0, x1 - right + pad) + np.maximum(0, y1 - high)
    costs = 20 * overhang / point
    for other in taken_boxes:
        costs += 400 * ((x0 < other[2] + pad) & (other[0] < x1 + pad) & (y0 < other[3] + pad) & (other[1] < y1 + pad))
    own_distances = _distances(line_path, boxes)
    costs += (40 if np.ptp(line_path[:, 0]) < 1 else 10) * (own_distances < point).sum(axis=1)
    nearest = np.full(len(boxes), _NEAR if not other_paths else np.inf)
    for other in other_paths:
        far = _distances(other, boxes)
        costs += 10 * (far < pad).sum(axis=1)
        nearest = np.minimum(nearest, far.min(axis=1) / point)
    own_distance = own_distances.min(axis=1) / point
    middle = np.abs((y0 + y1) / 2 - (low + high) / 2) / (high - low)
    middle += np.abs((x0 + x1 - left_edge - right) / 2) / (right - left_edge)
    near = np.maximum(0, own_distance + 10 - nearest) * 1.5 - np.minimum(nearest, _NEAR) * 0.1
    return np.asarray(costs + own_distance + near + 14 * middle)


def _distances(path: Points, boxes: Boxes) -> npt.NDArray[Any]:
    """How far each box (a row each) is from each point of a path."""
    x, y = path[:, 0], path[:, 1]
    x0, y0, x1, y1 = boxes.T[:, :, None]
    dx = np.maximum(np.maximum(x0 - x, x - x1), 0)
    dy = np.maximum(np.maximum(y0 - y, y - y1), 0)
    return np.asarray(np.sqrt(dx * dx + dy * dy))


def _path(ax: Axes, line: Line) -> Points:
    """The line on the screen, as points that are close to one another."""
    xy = np.column_stack([np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)])
    xy = xy[np.isfinite(xy).all(axis=1)]
    if not len(xy):
        return xy
    corners = ax.transData.transform(xy)
    length = np.append(0, np.cumsum(np.hypot(*np.diff(corners, axis=0).T)))
    positions = np.linspace(0, length[-1], min(500, int(length[-1] / 3) + 2))
    return np.column_stack([np.interp(positions, length, corners[:, i]) for i in (0, 1)])


class FrontNames:
    """The names of settings on the front, above and to the right of their marks, where nothing is.

    Small Axes have room for one, in a corner.
    """

    def __init__(
        self, ax: Axes, front: pd.DataFrame, min_share: float, best: int | None, *, with_names: bool = True
    ) -> None:
        self.ax = ax
        self.alone = with_names
        self.front = front
        self.least = min_share
        self.best = best
        self.size = style.sizes(ax).note
        self.taken: list[Box] = []

    def write(self) -> None:
        """Write as many as there is room for: the best first, then from the one that saves most on."""
        small = style.is_small(self.ax)
        indices = np.flatnonzero(floats(self.front["kept_share"]) >= self.least).tolist()
        if not small and self.alone:
            first = [] if self.best is None else [self.best]
            for index in [*first, *(index for index in indices[::-1] if index != self.best)]:
                self._write(index)
        if self.best is not None:
            row = self.front.iloc[self.best]
            if small:
                self._write_in_corner(
                    f"{shorten(str(row['rule']), NAME_CHARS)}\nsaves {percent(float(row['saved_share']))}"
                )
            self.ax.plot([row["saved_share"]], [row["kept_share"]], linestyle="", marker="o",
                         markersize=6 if small else 11, markerfacecolor="none",
                         markeredgecolor=style.tint(self.ax, palette.SAVED), markeredgewidth=1.2 if small else 1.8,
                         zorder=5, label="best", clip_on=False)  # fmt: skip

    def _write(self, index: int) -> None:
        row = self.front.iloc[index]
        text = shorten(str(row["rule"]), NAME_CHARS)
        wide, high = style.room(self.ax), style.row_height(self.ax, 1)
        (x0, x1), (y0, y1) = self.ax.get_xlim(), self.ax.get_ylim()
        x = (float(row["saved_share"]) - x0) / (x1 - x0) * wide
        y = (float(row["kept_share"]) - y0) / (y1 - y0) * high
        long, tall = style.text_width(text, self.size), self.size * 1.3
        gap = 9.0 if index == self.best else 5.0
        left_edge = min(x + gap, max(0.0, wide - long))
        low = y + (gap if left_edge < x + gap else gap / 2)
        box = (left_edge, low, left_edge + long, low + tall)
        if len(self.taken) > MAX_NAMES or low + tall > high or any(_are_near(box, other, 4, 1) for other in self.taken):
            return
        if index != self.best and self._crosses(box, wide, high):
            return
        self.taken.append(box)
        halo = [withStroke(linewidth=2.2, foreground=style.ground(self.ax))]
        strength, weight = (1.0, "bold") if index == self.best else (0.75, "normal")
        point = float(row["saved_share"]), float(row["kept_share"])
        style.annotate(self.ax, text, point, (left_edge - x, low - y), strength, va="bottom", gid="setting", zorder=6,
                       path_effects=halo, weight=weight, annotation_clip=False).set_in_layout(False)  # fmt: skip

    def _write_in_corner(self, text: str) -> None:
        """Write a text into the corner under the front or the one beyond it, whichever is the emptier."""
        wide = style.text_width(text, self.size) / style.room(self.ax) + 0.06
        high = 2.6 * self.size / style.row_height(self.ax, 1) + 0.06
        x, y = self._path()
        masks = (x < wide) & (y < high), (x > 1 - wide) & (y > 0.81 - high)
        below_count, beyond_count = (int((mask & (x <= 1) & (y >= 0)).sum()) for mask in masks)
        corner, alignment = (
            ((0.98, 0.79), ("right", "top")) if beyond_count <= below_count else ((0.03, 0.04), ("left", "bottom"))
        )
        halo = [withStroke(linewidth=2.2, foreground=style.ground(self.ax))]
        sides = {"ha": alignment[0], "va": alignment[1]}
        style.annotate(self.ax, text, corner, (0, 0), 1.0, xycoords="axes fraction", **sides, gid="setting",
                       zorder=6, path_effects=halo, linespacing=1.2).set_in_layout(False)  # fmt: skip

    def _path(self) -> tuple[Any, Any]:
        """Points along the front, as shares of the Axes."""
        x, y = np.append(0.0, floats(self.front["saved_share"])), np.append(1.0, floats(self.front["kept_share"]))
        corners = np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]
        along = np.concatenate(([0], np.cumsum(np.abs(np.diff(corners[0])) + np.abs(np.diff(corners[1])))))
        positions = np.linspace(0, along[-1], 400)
        (x0, x1), (y0, y1) = self.ax.get_xlim(), self.ax.get_ylim()
        return (np.interp(positions, along, corners[0]) - x0) / (x1 - x0), (
            np.interp(positions, along, corners[1]) - y0
        ) / (y1 - y0)

    def _crosses(self, box: Box, wide: float, high: float) -> bool:
        """Whether a mark of the front lies in a box."""
        (x0, x1), (y0, y1) = self.ax.get_xlim(), self.ax.get_ylim()
        x = (floats(self.front["saved_share"]) - x0) / (x1 - x0) * wide
        y = (floats(self.front["kept_share"]) - y0) / (y1 - y0) * high
        return bool(((x > box[0] - 3) & (x < box[2]) & (y > box[1]) & (y < box[3])).any())


def _are_near(box: Box, other: Box, x: float, y: float) -> bool:
    """Whether less than so much is between two boxes."""
    return box[0] < other[2] + x and other[0] < box[2] + x and box[1] < other[3] + y and other[1] < box[3] + y
