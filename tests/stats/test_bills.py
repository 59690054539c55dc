"""Bills: what runs cost at list prices beside what their logs state."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import ModelCost, Run, StatedCost
from boolab.core.types import Usage
from boolab.io.json_input import Damage
from boolab.logs.builder import RunBuilder
from boolab.logs.readers._claude_stream import state_cost
from boolab.stats.cost.bills import bill_of
from tests.support.helpers import play, steps

OPUS = "claude-opus-4-8"
USAGE = Usage(1000, 100, 0)  # 7,500 micro-dollars at the prices of Opus


def run_of(*usages: Usage, source: str = "pi", stated: StatedCost | None = None) -> Run:
    """A run of Opus with these usages."""
    run = play(steps(" ".join("ABCDEFG"[: len(usages) - 1])))
    listed = [
        step._replace(response=step.response._replace(usage=usage))
        for step, usage in zip(run.steps, usages, strict=True)
    ]
    return replace(run, steps=tuple(listed), model=OPUS, source=source, stated_cost=stated)


def row_of(run: Run) -> dict[str, Any]:
    return dict(bl.bills_df(run).iloc[0])


def test_equal_bills_of_steps_differ_by_nothing() -> None:
    row = row_of(run_of(USAGE._replace(cost=7_500), USAGE._replace(cost=7_500)))
    assert (row["computed_usd"], row["stated_usd"], row["stated_covers"]) == (0.015, 0.015, "steps")
    assert (row["difference_usd"], row["why"]) == (0, "")


def test_computed_costs_of_a_source_are_not_its_own_bill() -> None:
    row = row_of(run_of(USAGE._replace(cost=7_500), USAGE, source="claude_code"))
    assert row["computed_usd"] == 0.015
    assert bl.bills_df(run_of(USAGE, source="claude_code"))["stated_usd"].isna().all()


def test_a_session_bill_names_the_models_that_no_line_has() -> None:
    parts = (ModelCost(OPUS, 15_000), ModelCost("claude-haiku-4-5", 70))
    stated = StatedCost(15_070, "session", parts)
    bill = bill_of(run_of(USAGE, USAGE, source="claude_code", stated=stated))
    assert (bill.computed, bill.difference, bill.warning) == (15_000, -70, "")
    assert bill.reasons == ("$0.0001 of the stated bill are of claude-haiku-4-5, which no line has",)


def test_a_session_bill_covers_the_subagents() -> None:
    child = replace(run_of(USAGE, source="claude_code"), run_id="child")
    parent = run_of(USAGE, source="claude_code", stated=StatedCost(15_000, "session"))
    assert bill_of(replace(parent, subagents=(child,))).difference == 0
    alone = replace(parent, stated_cost=StatedCost(7_500, "run"), subagents=(child,))
    assert bill_of(alone).difference == 0


@pytest.mark.parametrize(("stated", "warns"), [(7_500, False), (7_570, False), (7_580, True), (15_000, True)])
def test_a_difference_above_one_percent_is_a_warning(stated: int, warns: bool) -> None:
    frame = bl.bills_df(run_of(USAGE, stated=StatedCost(stated, "run")))
    assert bool(frame.attrs["warnings"]) is warns


def test_a_warning_has_both_bills_and_the_reason() -> None:
    run = replace(run_of(USAGE, USAGE, Usage(), stated=StatedCost(30_000, "run")), run_id="r")
    assert bill_of(run).warning == (
        "Run r costs $0.0150 less at list prices than the $0.0300 that its log states: "
        "the tokens of 1 request are not on record."
    )


def test_a_request_without_a_price_leaves_the_bill_unknown() -> None:
    run = replace(run_of(USAGE, USAGE), model="claude-opus-4-8-anything")
    row = row_of(run)
    assert bl.bills_df(run)["computed_usd"].isna().all()
    assert row["why"].endswith("(claude-opus-4-8-anything, 2 requests)")


def test_a_name_with_its_provider_has_that_ones_price() -> None:
    assert bill_of(replace(run_of(USAGE), model=f"anthropic/{OPUS}", source="mini_swe_agent")).computed == 7_500


@pytest.mark.parametrize(
    ("costs", "expected"),
    [([0.01], 10_000), ([0.01, 0.03], 30_000), ([0.02, 0.01], 30_000), ([0.02, 0.02], 20_000), ([], None), ([0], None)],
)
def test_bills_of_results_count_on_until_one_falls(costs: list[float], expected: int | None) -> None:
    builder = RunBuilder("claude_code", Damage(Path("a.jsonl")))
    state_cost(builder, [{"total_cost_usd": cost} for cost in costs])
    assert (builder.stated_cost and builder.stated_cost.cost) == expected


def test_a_stream_has_the_bill_and_the_context_of_its_result(tmp_path: Path) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    message = {
        "id": "m",
        "role": "assistant",
        "model": OPUS,
        "usage": usage,
        "content": [{"type": "text", "text": "Hi"}],
    }
    models = {
        f"{OPUS}[1m]": {"costUSD": 0.0075, "contextWindow": 1_000_000},
        "claude-haiku-4-5": {"costUSD": 0.001, "contextWindow": 200_000},
        "odd": {"costUSD": "much"},
        "worse": [],
    }
    lines = [
        {"type": "system", "subtype": "init", "session_id": "s"},
        {"type": "assistant", "session_id": "s", "parent_tool_use_id": None, "message": message},
        {"type": "result", "session_id": "s", "num_turns": 1, "total_cost_usd": 0.0085, "modelUsage": models},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    (run,) = bl.load_runs(path)
    parts = (ModelCost(OPUS, 7_500), ModelCost("claude-haiku-4-5", 1_000))
    assert run.stated_cost == StatedCost(8_500, "session", parts)
    assert run.context_window == 1_000_000
    bill = bill_of(run)
    assert (bill.computed, bill.difference) == (7_500, -1_000)
    for name in ("runs.jsonl", "runs.parquet"):
        bl.save_runs([run], tmp_path / name)
        assert bl.load_runs(tmp_path / name)[0].stated_cost == run.stated_cost
    with bl.Store(tmp_path / "runs.db") as store:
        store.add(run)
    assert bl.stored_runs(tmp_path / "runs.db")[0].stated_cost == run.stated_cost
    bl.save_runs([run], tmp_path / "facts.jsonl", contents="facts")
    assert bl.load_runs(tmp_path / "facts.jsonl")[0].stated_cost == run.stated_cost


def claude_session(path: Path, *messages: dict[str, Any]) -> Run:
    """A session of Claude Code with these responses; each calls a tool, whose result is short."""
    lines: list[dict[str, Any]] = [{"type": "user", "message": {"role": "user", "content": "Go"}}]
    for place, message in enumerate(messages):
        call = {"type": "tool_use", "id": f"t{place}", "name": "Bash", "input": {"command": "x" * 4_000}}
        about = {"id": f"m{place}", "role": "assistant", "model": OPUS, "content": [call]}
        result = {"type": "tool_result", "tool_use_id": f"t{place}", "content": "ok"}
        lines.append({"type": "assistant", "message": {**about, **message}})
        lines.append({"type": "user", "message": {"role": "user", "content": [result]}})
    base = {"sessionId": "s", "version": "2.1.280"}
    stamps = [{"uuid": f"u{n}", "parentUuid": f"u{n - 1}", "timestamp": f"2026-11-01T00:00:{n:02d}Z"} for n in range(9)]
    path.write_text(
        "\n".join(json.dumps({**base, **about, **line}) for about, line in zip(stamps, lines, strict=False))
    )
    (run,) = bl.load_runs(path)
    return run


def tokens(fresh: int, read: int, output: int) -> dict[str, int]:
    counts = {"input_tokens": fresh, "cache_read_input_tokens": read, "output_tokens": output}
    return {**counts, "cache_creation_input_tokens": 0}


def test_a_bill_names_what_a_log_lacks_of_the_output(tmp_path: Path) -> None:
    cut, exact = (
        claude_session(tmp_path / f"{n}.jsonl", {"usage": tokens(1_000, 0, n)}, {"usage": tokens(100, 2_000, 1_000)})
        for n in (8, 1_000)
    )
    (reason,) = bill_of(cut).reasons
    assert reason.startswith("the log lacks about $0.0")
    assert "it has a part of the output only" in reason
    assert bill_of(exact).reasons == ()
    assert cut.steps[0].response.usage.output_tokens == 8


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ({"type": "tools_changed", "cache_missed_input_tokens": 9_000}, ("tools_changed", 9_000)),
        ({"type": "tools_changed"}, ("tools_changed", None)),
        ({"type": "none", "cache_missed_input_tokens": 0}, None),  # as in a real file of 2.1.220
        ({"type": 3, "cache_missed_input_tokens": 9_000}, None),
        ("tools_changed", None),
        ({}, None),
    ],
)
def test_the_reason_of_a_cache_miss_is_read_where_it_is(reason: object, expected: object, tmp_path: Path) -> None:
    run = claude_session(
        tmp_path / "s.jsonl",
        {"usage": tokens(9_000, 0, 1_000)},
        {"usage": tokens(10_100, 0, 1_000), "diagnostics": {"cache_miss_reason": reason}},
    )
    found = [event.payload for event in run.events if event.kind == "cache_miss"]
    assert [(payload["reason"], payload["tokens"]) for payload in found] == ([] if expected is None else [expected])
    assert [payload["after_step"] for payload in found] == ([] if expected is None else [2])
    cause = "unexplained" if expected is None else "stated"
    assert bl.cache_misses_df(run)["cause"].tolist() == [cause]
