"""The bill in Replay: its lane, its misses, and that it is the bill of all other surfaces."""

import pytest

from boolab.core.run import Run
from boolab.core.types import Usage
from boolab.plots.palette import PIECE_LOOKS
from boolab.widgets._base.standalone_html import stylesheet
from boolab.widgets.replay.bill import CONTEXT_PIECES, bill_of
from boolab.widgets.replay.data import replay_data
from boolab.widgets.replay.widget import replay_text
from tests.support.billed_runs import billed_run, billed_step, priced_usage

LISTED = "claude-sonnet-4-5"


def missing() -> Run:
    """A session whose third request missed the cache, 12 minutes after the second."""
    return billed_run(
        billed_step(1, priced_usage(5000, 100, five=5000), ("read", "y" * 60_000), model=LISTED),
        billed_step(2, priced_usage(23_000, 60, read=5000, five=18_000), ("bash", "z" * 900), model=LISTED),
        billed_step(3, priced_usage(23_400, 60, five=23_400), model=LISTED, start_ms=740_500),
    )


def test_the_context_of_each_step_is_divided_by_cause() -> None:
    bill = bill_of(missing())
    assert bill is not None
    assert CONTEXT_PIECES == ("reread", "rewrite", "first")
    assert bill["context"] == [[0, 0, 5000], [5000, 0, 18_000], [0, 23_000, 400]]


def test_a_miss_says_its_dollars_its_cause_and_the_pause() -> None:
    data = replay_data(missing())
    text = "$0.0794 extra, 23.0k tokens, expired, 12 min 0 s after the last response"
    assert data["bill"]["misses"] == [{"step": 3, "usd": pytest.approx(0.07935), "text": text}]
    assert f"   3. nothing\n      cache missed: {text}" in replay_text(data)


def test_the_lane_stands_for_the_curve_of_the_context() -> None:
    assert [curve["key"] for curve in replay_data(missing())["curves"]] == ["cost"]


def test_without_figures_of_the_cache_there_is_no_lane() -> None:
    steps = [billed_step(index, Usage(100 * index, 9, cost=5)) for index in (1, 2, 3)]
    data = replay_data(billed_run(*steps))
    assert data["bill"] is None
    assert [curve["key"] for curve in data["curves"]] == ["cost", "context"]
    assert "cache missed" not in replay_text(data)


def test_a_step_without_tokens_has_no_bar() -> None:
    steps = [*missing().steps[:2], billed_step(3, Usage())]
    bill = bill_of(billed_run(*steps))
    assert bill is not None
    assert bill["context"][2] is None


def test_the_lane_has_the_colours_of_the_figure() -> None:
    assert all(f"--paid-{piece}: {look.fill};" in stylesheet() for piece, look in PIECE_LOOKS.items())
