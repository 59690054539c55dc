"""The figure of a bill: its title is the verdict, its colours are the four pieces, and its bars add up."""

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.text import Text

import boolab as bl
from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.plots.palette import PIECE_LOOKS
from tests.support.billed_runs import billed_run, billed_step, priced_usage

LISTED = "claude-sonnet-4-5"
UGLY = r"$\bad{$ _x_"


def session(tool: str = "read", **fields: Any) -> Run:
    steps = (
        billed_step(1, priced_usage(20_000, 100, five=20_000), (tool, "y" * 9000), model=LISTED),
        billed_step(2, priced_usage(23_000, 60, read=20_000, five=3000), ("bash", "z" * 900), model=LISTED),
        billed_step(3, priced_usage(23_400, 60, five=23_400), model=LISTED),
        billed_step(4, priced_usage(9000, 60, five=9000), model=LISTED),
    )
    return billed_run(*steps, **{"compacted_before": [4], **fields})


@pytest.fixture
def drawn() -> Iterator[Axes]:
    yield bl.plots.plot_bill(session())
    plt.close("all")


def test_the_title_of_a_bill_is_its_verdict(drawn: Axes) -> None:
    title = drawn.get_figure(root=True).get_suptitle()  # type: ignore[union-attr]
    bill = sum(step.response.usage.cost or 0 for step in session().steps) / 1e6
    assert title.startswith(f"${bill:.2f} for 4 steps: ")
    assert title.endswith("% is for sending text again, $0.08 of it for cache misses")


def test_the_bars_of_a_bill_add_up_by_piece(drawn: Axes) -> None:
    causes = bl.cost_by(session())
    for piece, look in PIECE_LOOKS.items():
        bars = [bar for bar in drawn.patches if isinstance(bar, Rectangle) and to_hex(bar.get_facecolor()) == look.fill]
        assert sum(bar.get_width() for bar in bars) == pytest.approx(causes[f"{piece}_usd"].sum())


def test_the_steps_of_a_bill_add_up_to_it(drawn: Axes) -> None:
    _, context, cents = drawn.get_figure(root=True).axes  # type: ignore[union-attr]
    top = [patch for patch in cents.patches if isinstance(patch, StepPatch)][-1].get_data()[0]
    assert top == pytest.approx([100 * (step.response.usage.cost or 0) / 1e6 for step in session().steps], abs=1e-4)
    highest = [patch for patch in context.patches if isinstance(patch, StepPatch)][-1].get_data()[0]
    assert highest == pytest.approx([20, 23, 23.4, 9])


def test_a_dear_miss_is_named_with_its_dollars(drawn: Axes) -> None:
    texts = [text.get_text() for ax in drawn.get_figure(root=True).axes for text in ax.texts]  # type: ignore[union-attr]
    assert "miss: $0.08, after a pause of 9.5 s" in texts
    assert "compaction" in texts


def test_units_stand_on_the_axes_of_a_bill(drawn: Axes) -> None:
    causes, context, cents = drawn.get_figure(root=True).axes  # type: ignore[union-attr]
    assert (causes.get_xlabel(), context.get_ylabel()) == ("dollars", "context, thousand tokens")
    assert (cents.get_xlabel(), cents.get_ylabel()) == ("step", "cents a step")


def test_names_in_a_bill_are_no_markup() -> None:
    ax = bl.plots.plot_bill(session(tool=UGLY))
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.canvas.draw()
    assert not any(text.get_parse_math() for text in figure.findobj(Text) if "$" in text.get_text())
    plt.close("all")


def test_a_bill_is_of_one_run() -> None:
    with pytest.raises(SettingError, match="plot_bill takes one run"):
        bl.plots.plot_bill([session(), session(run_id="s")])  # type: ignore[arg-type]


def test_the_steps_of_a_bill_have_whole_numbers() -> None:
    ax = bl.plots.plot_bill(billed_run(billed_step(1, priced_usage(900, 5)))).figure.axes[-1]
    ticks = [float(tick) for tick in ax.get_xticks()]
    assert ticks == [round(tick) for tick in ticks]
    plt.close("all")
