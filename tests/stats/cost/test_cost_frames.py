"""The frames of the bill: who pays for what, the context by step, and misses of the cache."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given

import boolab as bl
from boolab.core.allocation import PIECES
from boolab.core.messages import Input, Message, Text
from boolab.core.run import Run
from boolab.core.types import Event, Usage
from boolab.errors import SettingError
from boolab.logs.facts import facts_of
from boolab.stats.cost.causes import KEYS
from tests.support.billed_runs import billed_run, billed_runs, billed_step, priced_usage
from tests.support.cases import cases
from tests.support.images import SCREENSHOT
from tests.support.samples import OWN, shared

LISTED = "claude-sonnet-4-5"


def session(**fields: Any) -> Run:
    """A short session of a model that the price table has: two reads, a miss, a compaction."""
    steps = (
        billed_step(1, priced_usage(5000, 100, five=5000), ("read", "y" * 60_000), model=LISTED),
        billed_step(2, priced_usage(23_000, 60, read=5000, five=18_000), ("bash", "z" * 900), model=LISTED, text="Ok."),
        billed_step(3, priced_usage(23_400, 60, five=23_400), model=LISTED),
        billed_step(4, priced_usage(9000, 60, five=9000), model=LISTED),
    )
    return billed_run(*steps, **{"compacted_before": [4], **fields})


def micro(frame: pd.DataFrame, column: str) -> int:
    """The sum of a column in whole micro-dollars; each value is whole."""
    amounts = [value * 1e6 for value in frame[column].dropna()]
    assert all(abs(amount - round(amount)) < 1e-3 for amount in amounts)
    return sum(map(round, amounts))


@cases(20)
@given(billed_runs())
def test_cost_by_any_column_adds_up_to_the_bill(run: Run) -> None:
    bill = sum(step.response.usage.cost or 0 for step in run.steps)
    for names in (*([name] for name in KEYS), ["tool", "step", "model"]):
        frame = bl.cost_by(run, by=names)
        assert sum(micro(frame, f"{piece}_usd") for piece in PIECES) == micro(frame, "total_usd") == bill
        assert (frame[[f"{piece}_tokens" for piece in PIECES]].min().fillna(0) >= 0).all()


@cases(20)
@given(billed_runs())
def test_the_context_adds_up_by_step(run: Run) -> None:
    frame = bl.context_df(run)
    assert frame["step"].tolist() == [step.index for step in run.steps]
    rows: list[dict[str, Any]] = frame.to_dict("records")  # type: ignore[assignment]
    for row in rows:
        if not pd.isna(row["cost_usd"]) and not pd.isna(row["context"]):
            pieces = [row[f"{piece}_usd"] for piece in PIECES]
            assert sum(round(piece * 1e6) for piece in pieces) == round(row["cost_usd"] * 1e6)
        if not pd.isna(row["cached"]):
            assert sum(row[name] for name in ("cached", "written_5m", "written_1h", "fresh")) == row["context"]
        if not pd.isna(row["context"]):
            added = [row[f"added_{name}"] for name in ("by_results", "by_output", "by_user", "unseen")]
            assert 0 <= sum(added) <= row["added"]


def test_cost_by_tool_has_calls_with_their_results() -> None:
    frame = bl.cost_by(session()).set_index("tool")
    assert {"read", "bash", "(base)", "(user)", "(text)", "(summary)"} == set(frame.index)
    assert frame.loc["read", "output_tokens"] == 100
    assert frame.loc["read", "requests"] == 3  # the one that wrote the call, and two that had it
    assert frame["share"].sum() == pytest.approx(1)
    assert frame.loc["(base)", "share_measured"] == 0


def test_cost_by_path_names_the_file_of_a_call() -> None:
    step = billed_step(1, priced_usage(20_000, 100, five=20_000), ("read", "y" * 9000), model=LISTED)
    call = step.response.tool_calls[0]._replace(arguments='{"file_path": "src/a.py"}')
    step = step._replace(response=step.response._replace(tool_calls=(call,)))
    after = billed_step(2, priced_usage(23_000, 60, read=20_000, five=3000), model=LISTED)
    assert "src/a.py" in bl.cost_by(billed_run(step, after), by="path")["path"].dropna().tolist()


def test_cost_by_model_charges_the_requests_of_each() -> None:
    first, second = session().steps[:2]
    second = second._replace(response=second.response._replace(model="claude-haiku-4-5"))
    frame = bl.cost_by(billed_run(first, second), by=["model"]).set_index("model")
    assert frame["total_usd"].to_dict() == {
        LISTED: pytest.approx((first.response.usage.cost or 0) / 1e6),
        "claude-haiku-4-5": pytest.approx((second.response.usage.cost or 0) / 1e6),
    }


def test_a_cause_without_a_known_cost_has_no_dollars() -> None:
    first, second = session().steps[:2]
    usage = second.response.usage._replace(cost=None)
    second = second._replace(response=second.response._replace(model="unlisted", usage=usage))
    frame = bl.cost_by(billed_run(first, second), by=["model"]).set_index("model")
    assert frame["total_usd"].isna().to_dict() == {LISTED: False, "unlisted": True}
    assert frame.loc["unlisted", "output_tokens"] == usage.output_tokens
    assert frame["share"].sum() == pytest.approx(1)


@pytest.mark.parametrize("by", ["colour", []])
def test_cost_by_refuses_what_is_no_column(by: Any) -> None:
    with pytest.raises(SettingError, match="by="):
        bl.cost_by(session(), by=by)


def test_totals_only_have_ranks_and_no_dollars() -> None:
    runs = bl.load_runs(OWN / "swe_agent")
    frame = bl.cost_by(runs)
    assert frame["total_usd"].isna().all()
    assert frame["rank"].tolist() == list(range(1, len(frame) + 1))
    assert any("no dollars by cause" in note for note in frame.attrs["notes"])


def test_beside_runs_with_usage_totals_only_are_named() -> None:
    frame = bl.cost_by([session(), *bl.load_runs(OWN / "swe_agent")])
    assert micro(frame, "total_usd") == sum(step.response.usage.cost or 0 for step in session().steps)
    assert any("with totals only" in note for note in frame.attrs["notes"])


def test_a_run_is_counted_once() -> None:
    assert bl.cost_by([session(), session()]).equals(bl.cost_by(session()))
    assert bl.bills_df([session(), session()]).equals(bl.bills_df(session()))


def test_what_is_not_in_the_bill_is_noted() -> None:
    frame = bl.cost_by(session())
    assert frame.attrs["bill"]["unlogged_requests"] == 1
    assert frame.attrs["bill"]["unlogged_usd"] == pytest.approx((23_400 * 0.3 + (9000 - 4990) * 15) / 1e6, abs=1e-6)
    assert any("on no line of the logs" in note for note in frame.attrs["notes"])


def test_the_context_names_a_compaction_and_a_miss() -> None:
    frame = bl.context_df(session())
    assert frame["event"].fillna("").tolist() == ["", "", "", "compaction"]
    assert frame["missed"].tolist() == [0, 0, 23_000, 0]
    assert frame["added_by_results"].tolist()[:3] == [0, 17_900, 340]


def test_a_miss_costs_what_it_wrote_beyond_the_read() -> None:
    (miss,) = bl.cache_misses_df(session()).to_dict("records")
    assert (miss["step"], miss["missed"], miss["cause"]) == (3, 23_000, "unexplained")
    assert miss["extra_usd"] == pytest.approx(23_000 * (3.75 - 0.3) / 1e6)


def missed(second: dict[str, Any], *, hour: int = 0, fall: bool = False, **fields: Any) -> str:
    """The cause of a miss at a second step that is like this."""
    first = billed_step(1, priced_usage(20_000, 100, hour=hour, five=20_000 - hour), ("read", "y" * 900), model=LISTED)
    context = 19_000 if fall else 20_500
    after = billed_step(2, priced_usage(context, 60, five=context), **{"model": LISTED, "start_ms": 20_000, **second})
    (cause,) = bl.cache_misses_df(billed_run(first, after, **fields))["cause"]
    return str(cause)


MESSAGE = Input(2, Message("user", (Text("<task-notification>"),)))


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"second": {"model": "claude-haiku-4-5", "start_ms": 9_999_000}}, "model switched"),
        ({"second": {"start_ms": 10_500 + 300_001}}, "expired"),
        ({"second": {"start_ms": 10_500 + 300_001}, "hour": 20_000}, "unexplained"),
        ({"second": {"start_ms": 10_500 + 3_600_001}, "hour": 20_000}, "expired"),
        ({"second": {}, "fall": True}, "history changed"),
        ({"second": {}, "events": (Event(None, "rewind", {"after_step": 1, "steps": 1}),)}, "history changed"),
        ({"second": {"turn": 2}, "inputs": (MESSAGE,)}, "new turn, within the lifetime"),
        ({"second": {"turn": 2, "start_ms": None}, "inputs": (MESSAGE,)}, "unexplained"),
        ({"second": {}, "inputs": (MESSAGE,)}, "after a notification"),
        ({"second": {}}, "unexplained"),
    ],
)
def test_a_miss_has_the_first_cause_that_applies(options: dict[str, Any], cause: str) -> None:
    assert missed(**options) == cause


def test_without_times_no_miss_is_an_expiry() -> None:
    assert missed({"start_ms": None}) == "unexplained"


def test_a_prompt_below_the_least_length_misses_nothing() -> None:
    steps = [billed_step(i, Usage(1900 + i, 5, 0, cost=9), model=LISTED) for i in (1, 2)]
    assert bl.cache_misses_df(billed_run(*steps)).empty


def test_facts_have_the_sizes_of_images(tmp_path: Path) -> None:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": SCREENSHOT}}
    usage = {"input_tokens": 4, "output_tokens": 20}
    lines = [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, block]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "shot", "input": {}}],
         "usage": {**usage, "cache_creation_input_tokens": 9000, "cache_read_input_tokens": 0}, "model": LISTED},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [block]}]},
        {"role": "assistant", "content": [{"type": "text", "text": "A page."}],
         "usage": {**usage, "cache_creation_input_tokens": 1640, "cache_read_input_tokens": 9004}, "model": LISTED},
    ]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    runs = bl.load_runs(tmp_path / "log.jsonl")
    bl.save_runs(runs, tmp_path / "facts.jsonl", contents="facts")
    causes = bl.cost_by(runs)
    assert bl.cost_by(bl.load_runs(tmp_path / "facts.jsonl")).equals(causes)
    tokens = causes.set_index("tool")["first_tokens"]
    assert (tokens["shot"], tokens["(user)"]) == (1644, 1606 + 2 + 2)
    assert "(unseen)" not in tokens


@pytest.mark.parametrize("name", ["pi", "claude-code"])
def test_facts_give_the_same_bill_and_causes(name: str) -> None:
    runs = bl.load_runs(shared(name))
    facts = [*facts_of(runs)]
    for by in ("tool", "kind", "step"):
        texts, numbers = (bl.cost_by(of, by=by) for of in (runs, facts))
        assert numbers.equals(texts)
    columns = ["step", "missed", "extra_usd", "cause"]
    assert bl.cache_misses_df(facts)[columns].equals(bl.cache_misses_df(runs)[columns])
    assert bl.context_df(facts).drop(columns="run_id").equals(bl.context_df(runs).drop(columns="run_id"))
