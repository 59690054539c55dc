"""The figure of where policies part: every pair once in its cell, and families side by side."""

import io
from itertools import combinations
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import boolab as bl
from boolab.errors import SettingError
from boolab.plots.divergences import plot_divergences
from tests.support.cases import cases


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(7, 6), layout="constrained").subplots()


def table(pairs: dict[tuple[str, str], int | None]) -> pd.DataFrame:
    """A table of divergences from its pairs."""
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    both = pairs | {(b, a): step for (a, b), step in pairs.items()}
    return pd.DataFrame([[both.get((a, b)) for b in names] for a in names], names, names, dtype="Int64")


THREE = table({("a", "b"): 4, ("b", "c"): 4, ("a", "c"): None})


def shown(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def test_families_stand_together_and_the_title_counts_the_pairs(ax: Axes) -> None:
    assert plot_divergences(THREE, ax=ax) is ax
    assert shown(ax) == ["a", "c", "b"]
    assert " ".join(ax.get_title(loc="left").split()) == "2 of 3 pairs of policies diverge, 2 of them by step 4"


def test_each_pair_that_parts_has_its_step_in_its_two_cells(ax: Axes) -> None:
    plot_divergences(THREE, ax=ax)
    order = shown(ax)
    cells = {
        (order[int(text.get_position()[1])], order[int(text.get_position()[0])]): text.get_text()
        for text in ax.texts
        if text.get_gid() == "cell"
    }
    assert cells == {("a", "b"): "4", ("b", "a"): "4", ("b", "c"): "4", ("c", "b"): "4"}


@pytest.mark.slow
@cases(60)
@given(st.lists(st.text("ab", min_size=4, max_size=4), min_size=2, max_size=9), st.randoms())
def test_members_of_a_family_are_never_apart(words: list[str], random: Any) -> None:
    random.shuffle(words)
    names = [f"{word}{place}" for place, word in enumerate(words)]
    parts = {(a, b): next((i for i in range(4) if a[i] != b[i]), None) for a, b in combinations(names, 2)}
    steps = table({pair: None if place is None else place + 1 for pair, place in parts.items()})
    ax = plot_divergences(steps, ax=Figure(figsize=(7, 6)).subplots())
    order = shown(ax)
    assert sorted(order) == sorted(names)
    for length in range(1, 5):
        starts = [name[:length] for name in order]
        runs = [start for i, start in enumerate(starts) if i == 0 or starts[i - 1] != start]
        assert len(runs) == len(set(runs))


@pytest.mark.parametrize(
    "pairs", [{("a", "b"): None}, {("a", "b"): 7}, {("a", "b"): 1, ("b", "c"): 1, ("a", "c"): 1000}]
)
def test_few_policies_and_far_steps_are_drawn_without_a_warning(pairs: Any) -> None:
    for width in (2, 8):
        figure = Figure(figsize=(width, width), layout="constrained")
        plot_divergences(table(pairs), ax=figure.subplots())
        figure.savefig(io.BytesIO())


@pytest.mark.slow
def test_all_presets_fit_into_a_figure_of_its_own() -> None:
    script = [{"tool_calls": [{"name": "grep"}], "repeat": 12}, "done"]
    ax = plot_divergences(bl.divergences(script))
    assert len(shown(ax)) == len(bl.policies)
    figure = ax.figure
    figure.savefig(io.BytesIO())  # type: ignore[union-attr] # a figure that is no subfigure
    from matplotlib import pyplot as plt

    plt.close("all")


def test_names_are_no_markup(ax: Axes) -> None:
    plot_divergences(table({(r"$\bad{$ _x_", "b"): 2}), ax=ax)
    ax.figure.savefig(io.BytesIO())  # type: ignore[union-attr] # a figure that is no subfigure


def test_one_policy_has_no_pairs(ax: Axes) -> None:
    plot_divergences(pd.DataFrame([[None]], ["a"], ["a"], dtype="Int64"), ax=ax)
    assert "no pairs" in ax.texts[0].get_text()


def test_what_is_no_table_of_pairs_is_an_error(ax: Axes) -> None:
    with pytest.raises(SettingError, match="square"):
        plot_divergences(THREE.iloc[:2], ax=ax)
    crooked = THREE.copy()
    crooked.loc["a", "b"] = 9
    with pytest.raises(SettingError, match="symmetric"):
        plot_divergences(crooked, ax=ax)
