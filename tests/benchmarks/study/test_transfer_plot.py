"""The heat map of a transfer: each cell is its pair, and the colours part at the promise."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.study.transfer_plot import plot_transfer
from benchmarks.study.transfers import transfer
from boolab.errors import SettingError
from tests.plots.test_plots import UGLY, key, note, title
from tests.support.lengths import random_group

RUNS = [run for seed, name in enumerate("abc", 5) for run in random_group(seed, prefix=name, model=name)]
FOUND = transfer(RUNS, "model", keep=0.9)


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(9, 7), layout="constrained").subplots()


def labels(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def cells(ax: Axes) -> Any:
    return ax.collections[0].get_array().reshape(3, 3)  # type: ignore[union-attr]


def test_transfer_cell_is_rounded_down_and_rows_name_their_rules(ax: Axes) -> None:
    plot_transfer(FOUND, ordered=False, ax=ax)
    frame = FOUND.frame
    np.testing.assert_allclose(cells(ax).ravel(), frame["kept_share"].astype(float), atol=1e-8)
    rules = frame.drop_duplicates("chosen_on")["rule"]
    assert labels(ax) == [f"{name}: {rule}" for name, rule in zip("abc", rules, strict=True)]
    numbers = [text.get_text() for text in ax.texts if text.get_gid() == "cell"]
    assert numbers == [f"{100 * kept // of}%" for kept, of in zip(frame["kept_lower"], frame["successes"], strict=True)]
    saved = [text.get_text() for text in ax.texts if text.get_gid() == "saved"]
    assert saved == [f"saves {int(100 * share + 1e-9)}%" for share in frame["saved_share"]]
    own = [(patch.get_x(), patch.get_y()) for patch in ax.patches if patch.get_label() == "own"]  # type: ignore[attr-defined]
    assert np.allclose(own, [(at - 0.46, at - 0.46) for at in range(3)])


def test_groups_are_ordered_by_what_their_rules_keep_elsewhere(ax: Axes) -> None:
    plot_transfer(FOUND, ax=ax)
    others = FOUND.frame[~FOUND.frame["held_out"]]
    expected = others.groupby("chosen_on")["kept_share"].mean().sort_values(ascending=False, kind="stable")
    assert [label.split(":")[0] for label in labels(ax)] == expected.index.tolist()


def test_the_promise_parts_the_colours(ax: Axes) -> None:
    plot_transfer(FOUND, ax=ax)
    mesh: Any = ax.collections[0]
    for share, holds in [(0.9 + 1e-9, True), (0.9 - 1e-3, False), (0.0, False), (1.0, True)]:
        red, _, blue, _ = mesh.cmap(mesh.norm(share))
        assert (blue > red) == holds
    assert "keeps at least 90%" in key(ax)


def test_title_and_note_count_the_pairs(ax: Axes) -> None:
    plot_transfer(FOUND, ax=ax)
    own, others = (FOUND.frame[FOUND.frame["held_out"] == its] for its in (True, False))
    expected = f"on another in {others['holds'].sum()} of 6 pairs, and on its own in {own['holds'].sum()} of 3"
    assert title(ax).endswith(expected)
    assert "3 groups of" in note(ax)
    assert "chosen in 5 folds by task" in note(ax)


def test_what_is_saved_can_be_coloured_and_names_are_no_markup(ax: Axes) -> None:
    frame = FOUND.frame.replace({"a": UGLY})
    plot_transfer(frame, "saved_share", ordered=False, ax=ax)
    np.testing.assert_allclose(cells(ax).ravel(), frame["saved_share"].astype(float), atol=1e-8)
    assert ax.figure is not None
    ax.figure.canvas.draw()
    assert labels(ax)[0].startswith(UGLY)


@pytest.mark.slow
def test_many_groups_get_a_larger_figure_in_which_all_are_named() -> None:
    runs = [run for n in range(20) for run in random_group(n, 6, 1, f"g{n}", model=f"model {n}")]
    ax = plot_transfer(transfer(runs, "model"))
    assert len(labels(ax)) == len(ax.get_xticklabels()) == 20
    assert all(labels(ax))
    assert ax.figure is not None
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])


def test_what_cannot_be_drawn_is_named(ax: Axes) -> None:
    with pytest.raises(SettingError, match="value='kept': expected one of kept_share, saved_share"):
        plot_transfer(FOUND, "kept", ax=ax)
    with pytest.raises(SettingError, match="8 rows for 3 groups: expected one for each pair, 9"):
        plot_transfer(FOUND.frame.iloc[1:], ax=ax)
    assert [text.get_text() for text in plot_transfer(FOUND.frame.iloc[:0], ax=ax).texts] == ["no groups"]
