"""What runs would cost under other context policies."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import REDACTED, Image, Step, ToolCall
from boolab.errors import SettingError
from boolab.frames.dtypes import is_missing
from boolab.stats.cost import request_record
from boolab.stats.cost.allocated import AllocatedRun, allocate_runs
from boolab.stats.cost.policy_costs import basis_of, cost_under
from boolab.stats.cost.policy_walk import WalkCost, walk_policy
from boolab.stats.cost.request_record import RequestRecord, record_of
from tests.support.billed_runs import RATES, billed_run, billed_runs, billed_step, priced_usage
from tests.support.cases import cases

LISTED = "claude-sonnet-4-5"
MICRO = 10**8
READ, WRITE, FRESH, OUTPUT = (rate / 10_000 for rate in (RATES.read, RATES.write_5m, RATES.fresh, RATES.output))
"""Micro-dollars of a token."""
BASE = 9_990
"""The first prompt without its message of 40 characters."""


def read_step(index: int, context: int, growth: int, file: str = "", **usage: Any) -> Step:
    """A step that reads what the last prompt had, and writes what it added; its call reads a file, if there is one."""
    read = {"read": context - growth, "five": growth} | usage
    step = billed_step(index, priced_usage(context, 100, **read), ("Read", "y" * 6000), model=LISTED)
    arguments = json.dumps({"file_path": file or f"src/{index}.py"})
    call = ToolCall(f"{index}.0", "Read", arguments)
    return step._replace(response=step.response._replace(tool_calls=(call,)))


def steady(n_steps: int = 12, growth: int = 2000, **fields: Any) -> Run:
    """A run that reads another file at each step, and never misses."""
    steps = [
        read_step(1, 10_000, 10_000),
        *(read_step(n, 10_000 + growth * (n - 1), growth) for n in range(2, n_steps + 1)),
    ]
    return billed_run(*steps, **fields)


def record(run: Run) -> RequestRecord:
    (allocated,) = allocate_runs(run)
    return record_of(allocated)


def walk(run: Run, policy: bl.ContextPolicy, **how: Any) -> WalkCost:
    return walk_policy(record(run), policy, 1000, **how)


def dollars(run: Run, policy: bl.ContextPolicy, **how: Any) -> float:
    return walk(run, policy, **how).units / MICRO / 1e6


def bill(run: Run) -> float:
    return sum(step.response.usage.cost or 0 for step in run.steps) / 1e6


def test_the_recorded_policy_is_the_bill() -> None:
    for run in (steady(), steady(compacted_before=[7])):
        (row,) = bl.context_costs(run, bl.ContextPolicy()).to_dict("records")
        assert row["cost_usd"] == row["recorded_usd"] == pytest.approx(bill(run) + row["unlogged_usd"])
        assert (row["cost_is"], row["saved"], row["changes"]) == ("exact", 0, 0)


def test_the_walk_under_the_recorded_policy_gives_the_bill() -> None:
    miss = [*steady().steps]
    miss[6] = read_step(7, 22_000, 22_000)
    fall = [*steady().steps]
    fall[6:] = [read_step(n, 20_000 + 1000 * (n - 7), 1000) for n in range(7, 13)]
    compacted = [*steady().steps[:6], *(read_step(n, 12_000 + 900 * (n - 7), 2000) for n in range(7, 13))]
    for run in (steady(), billed_run(*miss), billed_run(*fall), billed_run(*compacted, compacted_before=[7])):
        assert dollars(run, bl.ContextPolicy(), estimate_all=True) == pytest.approx(bill(run), rel=1e-3)


def test_a_threshold_above_every_prompt_changes_nothing() -> None:
    (row,) = bl.context_costs(steady(), bl.ContextPolicy(compact_at=40_000)).to_dict("records")
    assert row["cost_usd"] == row["cost_lower"] == row["cost_upper"] == pytest.approx(bill(steady()))
    assert row["cost_is"] == "exact"


def test_a_compaction_costs_its_request_and_what_stays() -> None:
    run, policy = steady(4), bl.ContextPolicy(compact_at=15_000, summary_tokens=1000)
    made = walk(run, policy)
    summary = 14_000 * READ + 2000 * WRITE + 1000 * OUTPUT
    after = BASE * READ + 1000 * WRITE + 100 * OUTPUT
    before = sum(step.response.usage.cost or 0 for step in run.steps[:3])
    assert made.units / MICRO == pytest.approx(before + summary + after, rel=1e-3)
    assert made.extra_units / MICRO == pytest.approx(summary, rel=1e-3)
    assert (made.changes, made.exact_until) == (1, 3)
    assert made.exact_units / MICRO == before


def test_the_kept_steps_are_not_sent_to_be_summarised() -> None:
    run = steady(4)
    kept, none = (walk(run, bl.ContextPolicy(compact_at=15_000, keep_steps=keep)) for keep in (1, 0))
    # The step that is kept is no part of what the request for a summary sends: it is written once in either case.
    assert kept.units == pytest.approx(none.units, rel=1e-6)
    assert kept.extra_units / MICRO == pytest.approx(14_000 * READ + 1000 * OUTPUT, rel=1e-3)


def test_a_compaction_on_record_is_undone_without_a_miss() -> None:
    steps = [*steady(3).steps, read_step(4, 12_000, 2000)]
    run = billed_run(*steps, compacted_before=[4])
    undone = walk(run, bl.ContextPolicy(compact_at=90_000))
    added = 100 + 6000 // 3 + 15  # its last output and result, by characters
    expected = 14_000 * READ + added * WRITE + 100 * OUTPUT
    assert (undone.units - undone.exact_units) / MICRO == pytest.approx(expected, rel=1e-3)
    assert undone.changes == 0


def test_a_miss_on_record_is_not_counted_at_a_compaction() -> None:
    steps = [*steady(3).steps, read_step(4, 16_000, 16_000, read=0, five=16_000)]
    made = walk(billed_run(*steps), bl.ContextPolicy(compact_at=15_000, summary_tokens=1000))
    summary = 14_000 * FRESH + 2000 * WRITE + 1000 * OUTPUT
    after = BASE * READ + 1000 * WRITE + 100 * OUTPUT
    assert (made.units - made.exact_units) / MICRO == pytest.approx(summary + after, rel=1e-3)


def test_a_miss_after_a_change_stays_as_a_share() -> None:
    steps = [*steady(4).steps, read_step(5, 18_000, 18_000, read=8000, five=10_000)]
    made = walk(billed_run(*steps), bl.ContextPolicy(compact_at=15_000, summary_tokens=1000))
    before = walk(billed_run(*steps[:4]), bl.ContextPolicy(compact_at=15_000, summary_tokens=1000))
    last = BASE + 1000
    expected = last * 0.5 * READ + (last * 0.5 + 2000) * WRITE + 100 * OUTPUT
    assert (made.units - before.units) / MICRO == pytest.approx(expected, rel=1e-3)


def test_a_removed_file_is_read_again_where_it_is_named() -> None:
    steps = [*steady(5).steps]
    call = ToolCall("5.0", "Edit", json.dumps({"file_path": "src/2.py", "new": "z"}))
    steps[4] = steps[4]._replace(response=steps[4].response._replace(tool_calls=(call,)))
    run, policy = billed_run(*steps), bl.ContextPolicy(compact_at=15_000, summary_tokens=1000)
    lower, reference = walk(run, policy), walk(run, policy, by_reference=True)
    assert (lower.reads_again, reference.reads_again) == (0, 1)
    last = BASE + 1000 + 2000
    again = last * READ + 100 * OUTPUT + 1900 * WRITE
    assert (reference.units - lower.units) / MICRO == pytest.approx(again, rel=1e-3)


def test_a_file_that_the_record_reads_again_costs_nothing_more() -> None:
    run = billed_run(*steady(4).steps, read_step(5, 18_000, 2000, "src/2.py"))
    policy = bl.ContextPolicy(compact_at=15_000, summary_tokens=1000)
    assert walk(run, policy, by_reference=True) == walk(run, policy)


def test_a_file_that_is_kept_is_not_read_again() -> None:
    steps = [*steady(4).steps]
    call = ToolCall("4.0", "Edit", json.dumps({"file_path": "src/3.py"}))
    steps[3] = steps[3]._replace(response=steps[3].response._replace(tool_calls=(call,)))
    policies = [bl.ContextPolicy(compact_at=15_000, keep_steps=keep) for keep in (0, 1)]
    assert [walk(billed_run(*steps), policy, by_reference=True).reads_again for policy in policies] == [1, 0]


@pytest.mark.parametrize(
    ("command", "n_reads"),
    [("cat src/2.py", 1), ("cd src && sed -n 1,9p src/2.py | head -3", 1), ("sed -i s/a/b/ src/2.py", 0),
     ("cat > src/2.py", 0), ("grep x src/2.py | head", 0)],
)  # fmt: skip
def test_a_command_of_a_shell_may_read_a_file(command: str, n_reads: int) -> None:
    steps = [*steady(5).steps]
    for index, arguments in ((1, {"command": command}), (4, {"command": "python src/2.py"})):
        call = ToolCall(f"{index}.0", "Bash", json.dumps(arguments))
        steps[index] = steps[index]._replace(response=steps[index].response._replace(tool_calls=(call,)))
    policy = bl.ContextPolicy(compact_at=15_000, summary_tokens=1000)
    assert walk(billed_run(*steps), policy, by_reference=True).reads_again == n_reads


def test_clearing_rewrites_what_follows_the_first_cleared_result() -> None:
    run = steady(5)
    made = walk(run, bl.ContextPolicy(clear_at=17_000, clear_keep=1))
    cleared = 1900 - 20
    start = BASE + 10 + 100
    length = 18_000 - 3 * cleared
    expected = start * READ + (length - start) * WRITE + 100 * OUTPUT
    assert (made.units - made.exact_units) / MICRO == pytest.approx(expected, rel=1e-3)
    assert (made.changes, made.removed_tokens) == (1, 3 * cleared)
    assert walk(run, bl.ContextPolicy(clear_at=17_000, clear_at_least=6000)).changes == 0
    assert walk(run, bl.ContextPolicy(clear_at=17_000, clear_exclude=("Read",))).changes == 0


def test_cut_results_are_narrower_from_the_first_on() -> None:
    run = steady(4)
    made = walk(run, bl.ContextPolicy(cut_results=3000))
    assert made.exact_until == 1
    saved = 950 * (3 * WRITE + (2 + 1) * READ)
    assert (record(run).units - made.units) / MICRO == pytest.approx(saved, rel=1e-3)


def test_images_that_are_not_sent_cost_nothing() -> None:
    steps = [*steady(4).steps]
    (result,) = steps[1].results
    assert result is not None
    for size, tokens, words in (
        ((750, 800), 800, "what images showed"),
        ((None, None), 0, "images whose sizes are not"),
    ):
        shown = result._replace(content="[image]", images=(Image(*size),))
        run = billed_run(*steps[:1], steps[1]._replace(results=(shown,)), *steps[2:])
        made = walk(run, bl.ContextPolicy(images=False))
        saved = tokens * (WRITE + READ)
        assert (record(run).units - made.units) / MICRO == pytest.approx(saved, rel=1e-3, abs=1e-6)
        policies = [bl.ContextPolicy(images=False, compact_at=15_000), bl.ContextPolicy(compact_at=15_000)]
        without, kept = bl.context_costs(run, policies)["not_identified"]
        assert words in without
        assert "images" not in kept


def test_a_cold_cache_is_where_compaction_costs_least() -> None:
    steps = [*steady(6).steps]
    steps[4] = read_step(5, 18_000, 18_000, read=0, five=18_000)
    made = walk(billed_run(*steps), bl.ContextPolicy(cold_at=12_000))
    assert (made.changes, made.exact_until) == (1, 4)
    assert walk(steady(6), bl.ContextPolicy(cold_at=12_000)).changes == 0


def test_a_fresh_context_begins_before_the_named_steps() -> None:
    made = walk(steady(6), bl.ContextPolicy(fresh_at=[3, 5]))  # type: ignore[arg-type]
    assert (made.changes, made.exact_until) == (2, 2)


def test_another_lifetime_of_the_cache_is_exact() -> None:
    steps = [*steady(4).steps]
    steps[3] = read_step(4, 16_000, 16_000, read=0, five=16_000)._replace(start_ms=40_000 + 12 * 60_000)
    run = billed_run(*steps)
    rows = bl.context_costs(run, [bl.ContextPolicy(cache="5m"), bl.ContextPolicy(cache="1h")]).to_dict("records")
    assert rows[0]["cost_usd"] == pytest.approx(bill(run), rel=1e-3)
    hour = RATES.write_1h / 10_000
    expected = 10_000 * hour + (10_000 + 12_000 + 14_000) * READ + 3 * 2000 * hour + 400 * OUTPUT
    assert rows[1]["cost_usd"] * 1e6 == pytest.approx(expected, rel=1e-3)
    assert [row["cost_is"] for row in rows] == ["exact", "exact"]


def test_without_times_another_lifetime_is_refused() -> None:
    steps = [step._replace(start_ms=None) for step in steady().steps]
    (row,) = bl.context_costs(billed_run(*steps), bl.ContextPolicy(cache="1h")).to_dict("records")
    assert "no times" in row["refused"]


def redacted(step: Step) -> Step:
    call = step.response.tool_calls[0]._replace(arguments=REDACTED)
    return step._replace(response=step.response._replace(tool_calls=(call,)))


def compacted(change: Callable[[Step], Step]) -> Run:
    """A run of 14 steps, each second one after a compaction, that reads no file twice."""
    steps = [read_step(n, 10_000 if n % 2 else 12_000, 10_000 if n % 2 else 2000) for n in range(1, 15)]
    return billed_run(*map(change, steps), compacted_before=[*range(3, 15, 2)])


def test_redacted_arguments_leave_bounds_only() -> None:
    frame = bl.context_costs(billed_run(*map(redacted, steady().steps)), bl.ContextPolicy(compact_at=20_000))
    assert frame["cost_usd"].isna().all()
    assert frame["cost_is"].tolist() == ["bounds"]
    assert (frame["cost_lower"] < frame["cost_upper"]).all()


def test_redacted_arguments_show_no_share_read_again() -> None:
    runs = [compacted(lambda step: step), compacted(redacted)]
    shares = [basis_of(allocate_runs(run)).read_again[run.source] for run in runs]
    assert shares == [0, 0.3]


def test_compactions_that_bring_nothing_back_make_bounds_equal() -> None:
    frame = bl.context_costs(compacted(lambda step: step), bl.ContextPolicy(compact_at=11_000))
    assert frame["cost_lower"].equals(frame["cost_upper"])
    assert frame["break_even_share"].isna().all()


@pytest.mark.parametrize(
    ("make", "words"),
    [(lambda run: billed_run(*(step._replace(response=step.response._replace(model="unlisted")) for step in run.steps)),
      "price of a token is not known"),
     (lambda run: billed_run(billed_step(1, bl.models.Usage())), "not on record")],
)  # fmt: skip
def test_what_cannot_be_computed_is_refused_in_its_row(make: Callable[[Run], Run], words: str) -> None:
    frame = bl.context_costs([make(steady()), steady(run_id="b")], bl.ContextPolicy(compact_at=20_000))
    assert words in frame["refused"].iloc[0]
    assert frame[["cost_usd", "cost_lower", "saved"]].iloc[0].isna().all()
    assert frame["refused"].isna().tolist() == [False, True]
    assert any("1 run left out" in note for note in frame.attrs["notes"])
    total = bl.context_costs([make(steady()), steady(run_id="b")], bl.ContextPolicy(compact_at=20_000), aggregate=True)
    assert (total["n_runs"].item(), total["n_refused"].item()) == (1, 1)


def test_a_walk_that_misses_the_bill_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = request_record.record_of

    def wrong(allocated: AllocatedRun) -> RequestRecord:
        made = exact(allocated)
        return made._replace(
            requests=tuple([request._replace(missed_tokens=request.readable) for request in made.requests])
        )

    monkeypatch.setattr("boolab.stats.cost.policy_costs.record_of", wrong)
    (row,) = bl.context_costs(steady(), bl.ContextPolicy(compact_at=20_000)).to_dict("records")
    assert "of the bill" in row["refused"]
    assert row["walk_ratio"] > 1.03


def test_a_log_that_begins_late_has_a_smaller_base() -> None:
    late = [*steady(3).steps, *(read_step(index, 8000 + 2000 * index, 2000) for index in range(4, 9))]
    steps = [step._replace(index=index) for index, step in enumerate(late, 1)]
    steps[3] = read_step(4, 9000, 9000, read=0, five=9000)
    made = record(billed_run(*steps, compacted_before=[4]))
    assert made.base == 9000 - 6000
    assert [request.summary for request in made.requests][3] == 6000
    assert walk(billed_run(*steps, compacted_before=[4]), bl.ContextPolicy()).units == made.units


def test_facts_do_not_show_what_is_read_again() -> None:
    def session(arguments: str | None) -> Run:
        steps = []
        for index in range(1, 60):
            step = read_step(index, 10_000 + 2000 * ((index - 1) % 9), 2000 if index % 9 != 1 else 10_000)
            call = step.response.tool_calls[0]
            calls = (call if arguments is None else call._replace(arguments=arguments),)
            steps.append(step._replace(response=step.response._replace(tool_calls=calls)))
        return billed_run(*steps, compacted_before=[10, 19, 28, 37, 46, 55])

    for run, share in ((session(None), 0.0), (session(REDACTED), 0.3)):
        basis = basis_of(allocate_runs(run))
        assert basis.read_again == {"claude_code": share}
        row = cost_under(basis, 0, bl.ContextPolicy(compact_at=20_000))
        assert row.lower is not None
        assert row.upper is not None
        assert (row.lower < row.upper) == (share > 0)


def test_rows_say_what_is_not_identified() -> None:
    frame = bl.context_costs(steady(), [bl.ContextPolicy(compact_at=20_000, cut_results=500), bl.ContextPolicy()])
    changed, recorded = frame["not_identified"]
    assert changed.startswith("the outcome; the number of steps; what a summary forgets")
    assert "cut" in changed
    assert recorded == "the outcome"
    assert frame["identified"].tolist() == [False, True]
    assert not any("better" in note for note in frame.attrs["notes"])


def test_a_threshold_near_what_stays_compacts_at_every_step() -> None:
    frame = bl.context_costs(steady(), grid={"compact_at": [12_500, 40_000], "summary_tokens": [1500]})
    assert frame["compacts_every_step"].tolist() == [True, False]
    assert frame["changes"].iloc[0] > 8


def test_the_step_beyond_the_window_is_named() -> None:
    frame = bl.context_costs(steady(context_window=21_000), bl.ContextPolicy(compact_at=90_000, cut_results=5999))
    assert frame["over_window_at"].tolist() == [7]


def test_a_grid_has_a_row_for_each_combination() -> None:
    grid = {"compact_at": [15_000, 20_000], "keep_steps": [0, 1, 2]}
    frame = bl.context_costs([steady(), steady(run_id="b")], "anthropic_clear", grid=grid)
    assert len(frame) == 2 * 7
    total = bl.context_costs([steady(), steady(run_id="b")], grid=grid, aggregate=True)
    assert len(total) == 6
    per_run = frame[frame["run_id"] == "r"].iloc[1:]
    assert total["cost_usd"].tolist() == pytest.approx([2 * cost for cost in per_run["cost_usd"]])
    assert total["saved"].tolist() == pytest.approx([2 * saved for saved in per_run["saved"]])


@pytest.mark.parametrize(
    ("how", "words"),
    [({}, "no policy"), ({"grid": {"compact_att": [1]}}, "did you mean 'compact_at'"),
     ({"policies": "anthropic_cleer"}, "did you mean 'anthropic_clear'"), ({"policies": [3]}, "no bl.ContextPolicy")],
)  # fmt: skip
def test_what_is_no_policy_is_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        bl.context_costs(steady(), **how)


@pytest.mark.parametrize(
    "wrong",
    [{"compact_at": 0}, {"keep_steps": -1}, {"keep_steps": None}, {"clear_exclude": "Read"}, {"fresh_at": [1.5]},
     {"cache": "2h"}, {"cut_results": True}, {"images": 1}],
)  # fmt: skip
def test_a_policy_refuses_what_is_not_valid(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(SettingError, match=name):
        bl.ContextPolicy(**wrong)


def test_presets_are_those_of_the_harnesses() -> None:
    assert bl.ContextPolicy.preset("anthropic_clear") == bl.ContextPolicy(clear_at=100_000)
    assert bl.ContextPolicy.preset("opencode_v1", 200_000) == bl.ContextPolicy(compact_at=180_000, keep_steps=1)
    with pytest.raises(SettingError, match="depends on the window"):
        bl.ContextPolicy.preset("crush")
    with pytest.raises(SettingError, match="no context policy"):
        bl.ContextPolicy.preset("aider")


POLICIES = st.builds(
    bl.ContextPolicy,
    compact_at=st.none() | st.integers(1, 900),
    keep_steps=st.integers(0, 3),
    summary_tokens=st.integers(1, 60),
    clear_at=st.none() | st.integers(1, 900),
    clear_keep=st.integers(0, 2),
    cut_results=st.none() | st.integers(1, 200),
    cold_at=st.none() | st.integers(1, 900),
    cache=st.sampled_from(("recorded", "5m", "1h")),
)


def listed(run: Run) -> Run:
    """The same run on a model that the price table has."""
    steps = [step._replace(response=step.response._replace(model=LISTED)) for step in run.steps]
    return billed_run(*steps, inputs=run.inputs, events=run.events)


@cases(40)
@given(billed_runs(), POLICIES)
def test_bounds_are_in_order_and_costs_are_never_negative(run: Run, policy: bl.ContextPolicy) -> None:
    basis = basis_of(allocate_runs(listed(run)))
    for requests in basis.records:
        if not requests.refusal:
            least = walk_policy(requests, policy, 30)
            assert 0 <= least.exact_units <= least.units
            assert least.exact_until <= len(run.steps)
    row = cost_under(basis, 0, policy)
    if row.lower is not None and row.upper is not None:
        assert 0 <= row.lower <= (row.lower if row.cost is None else row.cost) <= row.upper
        assert row.walk is not None


@cases(40)
@given(billed_runs())
def test_the_recorded_policy_is_exact_for_any_run(run: Run) -> None:
    (row,) = bl.context_costs(listed(run), bl.ContextPolicy()).to_dict("records")
    if is_missing(row["refused"]):
        assert row["cost_usd"] == row["recorded_usd"]
