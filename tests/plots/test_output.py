"""Figures in files, without titles, and for other grounds."""

from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure

from boolab.errors import SettingError
from boolab.plots import output, plot_steps, plot_stop_reasons, plot_survival, plot_timeline, plot_tools
from tests.plots.test_plots import RUNS, note, title
from tests.support.cases import first

PLOTS: dict[str, Any] = {
    "steps": lambda **how: plot_steps(RUNS, **how),
    "stop reasons": lambda **how: plot_stop_reasons(RUNS, **how),
    "tools": lambda **how: plot_tools(RUNS, **how),
    "survival": lambda **how: plot_survival(RUNS, **how),
    "timeline": lambda **how: plot_timeline(RUNS[1], **how),
}


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(7, 5), layout="constrained").subplots()


def luminance(color: Any) -> float:
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: Any, other: Any) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_in_a_vector_file_is_text(ax: Axes, tmp_path: Path) -> None:
    output.save(plot_stop_reasons(RUNS, ax=ax), tmp_path / "reasons.svg")
    file = (tmp_path / "reasons.svg").read_text(encoding="utf-8")
    assert "<text" in file
    assert "finished" in file
    assert mpl.rcParams["svg.fonttype"] == "path"


def test_the_same_figure_is_the_same_file(ax: Axes) -> None:
    plot_steps(RUNS, ax=ax)
    files = [BytesIO(), BytesIO()]
    for file in files:
        output.save(ax, file, format="svg", metadata={"Date": None})
    assert files[0].getvalue() == files[1].getvalue()


@pytest.mark.parametrize("none", [None, ""])
@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_without_a_title_has_no_line_under_it_either(name: str, none: str | None, ax: Axes) -> None:
    PLOTS[name](title=none, ax=ax)
    assert title(ax) == ""
    assert "subtitle" not in {text.get_gid() for text in ax.texts}
    assert note(ax)


def test_a_title_of_the_user_s_own_stands_above_the_sample(ax: Axes) -> None:
    plot_tools(RUNS, title="Mine", ax=ax)
    assert title(ax) == "Mine"
    assert next(text.get_text() for text in ax.texts if text.get_gid() == "subtitle").startswith("Results of calls")


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize("ground", first(2, ["dark", "transparent", "light"]))
def test_words_can_be_read_on_each_ground(name: str, ground: Any) -> None:
    with output.theme(ground):
        ax = PLOTS[name](ax=Figure().subplots())
    texts = [ax.title, ax.xaxis.label, *(text for text in ax.texts if text.get_gid() in ("subtitle", "footnote"))]
    grounds = ["#ffffff", "#111111"] if ground == "transparent" else [ax.get_facecolor()]
    least = 4 if ground == "transparent" else 4.5  # no grey reaches 4.5 on both
    assert min(contrast(text.get_color(), back) for text, back in product(texts, grounds)) >= least


def test_a_figure_without_a_ground_has_none_in_its_file() -> None:
    with output.theme("transparent"):
        ax = plot_steps(RUNS, ax=Figure().subplots())
    assert to_rgba(ax.figure.get_facecolor())[3] == 0
    file = BytesIO()
    output.save(ax, file, format="png")
    file.seek(0)
    assert mpl.image.imread(file)[0, 0, 3] == 0


def test_an_unknown_ground_is_refused() -> None:
    with pytest.raises(SettingError, match="ground='blue': expected light, dark or transparent"), output.theme("blue"):  # type: ignore[arg-type]
        pass
