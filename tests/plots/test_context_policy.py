"""The figure of compaction at other lengths: its title is the verdict, and its numbers are those of the frame."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

import boolab as bl
from boolab.core.run import Run
from tests.support.billed_runs import billed_run, billed_step, priced_usage

LISTED = "claude-sonnet-4-5"
THRESHOLDS = [20_000, 30_000, 40_000]


def session(source: str = "claude_code", model: str = LISTED) -> Run:
    """A run that grows to 49,000 tokens."""
    lengths = range(10_000, 50_000, 1000)
    steps = []
    for index, length in enumerate(lengths, 1):
        read = 0 if index == 1 else length - 1000
        usage = priced_usage(length, 100, read=read, five=length - read)
        steps.append(billed_step(index, usage, ("read", "y" * 3000), model=model))
    return billed_run(*steps, source=source)


@pytest.fixture
def drawn() -> Iterator[Axes]:
    yield bl.plots.plot_context_policy(session(), thresholds=THRESHOLDS, keep_steps=(0, 2))
    plt.close("all")


def costs() -> list[float]:
    frame = bl.context_costs(session(), grid={"compact_at": THRESHOLDS})
    return [float(cost) for cost in frame["cost_usd"]]


def test_the_title_is_what_the_cheapest_threshold_costs(drawn: Axes) -> None:
    title = drawn.get_figure(root=True).get_suptitle()  # type: ignore[union-attr]
    best = THRESHOLDS[int(np.argmin(costs()))]
    assert title.startswith(f"Compacting at {best:,} tokens would have cost ")
    assert title.endswith("if the steps stay the same")


def test_the_line_is_the_estimate_and_the_level_the_bill(drawn: Axes) -> None:
    lines = {line.get_gid(): [float(y) for y in np.asarray(line.get_ydata())] for line in drawn.lines}
    assert lines["by reference"] == pytest.approx(costs())
    bill = sum(step.response.usage.cost or 0 for step in session().steps) / 1e6
    assert lines["recorded"] == pytest.approx([bill, bill])
    assert lines["cheapest"] == pytest.approx([min(costs())])


def test_the_map_has_the_change_of_each_threshold_and_keep(drawn: Axes) -> None:
    cells = drawn.get_figure(root=True).axes[1]  # type: ignore[union-attr]
    grid = {"keep_steps": [0, 2], "compact_at": THRESHOLDS}
    frame = bl.context_costs(session(), grid=grid)
    shown = [text.get_text().rstrip("*") for text in cells.texts]
    changes = [-share for share in frame["saved_share"]]
    assert [change > 1 for change in changes] == [False, False, False, True, False, False]
    assert shown == [f"x{1 + change:.1f}" if change > 1 else f"{change:+.0%}" for change in changes]
    assert [label.get_text() for label in cells.get_xticklabels()] == ["20", "30", "40"]


def test_nothing_is_said_of_outcomes_and_dollars_are_no_markup(drawn: Axes) -> None:
    figure = drawn.get_figure(root=True)
    assert figure is not None
    texts = figure.findobj(Text)
    assert any("The outcome is not on record" in text.get_text().replace("\n", " ") for text in texts)
    assert not any("better" in text.get_text() for text in texts)
    assert not any(text.get_parse_math() for text in texts if "$" in text.get_text())


def test_default_thresholds_are_round_and_reach_the_longest() -> None:
    ax = bl.plots.plot_context_policy(session(), title=None)
    (line,) = [line for line in ax.lines if line.get_gid() == "by reference"]
    at = np.asarray(line.get_xdata())
    assert len(at) > 10
    assert at[-1] >= 49
    assert set(np.round(np.diff(at), 6)) == {2.0}
    plt.close("all")


def test_runs_without_prices_are_named() -> None:
    ax = bl.plots.plot_context_policy(session(model="unlisted"))
    assert ax.texts[0].get_text() == "no cost can be computed: the price of a token is not known"
    assert bl.plots.plot_context_policy([]).texts[0].get_text() == "there are no runs"
    plt.close("all")
