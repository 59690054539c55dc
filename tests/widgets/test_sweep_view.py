"""The view of a sweep: what it counts is what `runs_df` says of the runs."""

import asyncio
import io
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageColor

import boolab as bl
from boolab.core.types import StopReason
from boolab.display.colours import LIGHT
from boolab.stats.intervals import ClusterBootstrap
from boolab.sweeps.progress import Begun, CellResult, result_of
from boolab.widgets._base.standalone_html import pack
from boolab.widgets.sweep_view.data import FAILURES, ROWS, Outcome, SweepCounts, first_runs, head_of, verdict_of
from tests.support.cases import cases, first
from tests.support.packed import unpacked
from tests.support.sweeping import EVERYTHING, LEAD, SOLO, swept

REASONS = ("finished", "step_cap", "doom_loop", "error")
LOOPING = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}], tools={"ls": "a.py"})
GRID = {"max_steps": [3, 6, None], "doom_loop": [2, None]}


def results() -> st.SearchStrategy[list[CellResult]]:
    names = st.sampled_from(["a", "b", "<b>"])
    return st.lists(
        st.builds(
            CellResult,
            run_id=st.uuids().map(str),
            agent=names,
            model=names,
            policy=st.sampled_from(["boocode", "naive"]),
            task=names,
            settings=st.fixed_dictionaries({"max_steps": st.sampled_from([None, 0, 5, 10])}),
            reason=st.sampled_from(REASONS),
            n_steps=st.integers(0, 50),
            cost_usd=st.none() | st.floats(0, 9),
            success=st.none() | st.booleans(),
            error=st.none() | st.text(max_size=9),
        ),
        max_size=40,
    )


def board_of(some: Sequence[CellResult], **about: Any) -> SweepCounts:
    board = SweepCounts(len(some), about)
    for one in some:
        board.add(one)
    return board


def table_of(told: dict[str, Any], runs: pd.DataFrame) -> None:
    """Hold a view's table to what pandas makes of the runs."""
    columns = told["columns"]
    groups = runs.groupby(columns, dropna=False) if columns else [((), runs)]
    expected = {}
    for key, some in groups:
        names = (
            "No limit" if pd.isna(value) else f"{value:,}" if isinstance(value, int) else str(value) for value in key
        )
        labels = some[some["success"].notna()]
        clusters = labels["task"] if len({*labels["task"]}) > 1 else range(len(labels))
        found = ClusterBootstrap(clusters).share(labels["success"], np.ones(len(labels)))
        expected[tuple(names)] = {
            "runs": len(some),
            "labelled": len(labels),
            "successes": int(labels["success"].sum()),
            "tasks": labels["task"].nunique(),
            "share": pytest.approx(float(found.value)) if len(labels) else None,
            "low": pytest.approx(float(found.low)) if len(labels) else None,
            "high": pytest.approx(float(found.high)) if len(labels) else None,
            "steps": pytest.approx(some["n_steps"].mean()),
            "cost": pytest.approx(some["cost_usd"].mean()) if some["cost_usd"].notna().any() else None,
            "priced": int(some["cost_usd"].notna().sum()),
            "reasons": some["stop_reason"].value_counts().to_dict(),
        }
    shown = {}
    for row in told["rows"]:
        shown[tuple(row["values"])] = {name: row[name] for name in next(iter(expected.values()))} | {
            "reasons": {one["reason"]: one["n"] for one in row["reasons"]}
        }
    assert shown == expected
    assert {one["reason"]: one["n"] for one in told["reasons"]} == runs["stop_reason"].value_counts().to_dict()
    assert told["done"] == len(runs)


@cases(100)
@given(results())
def test_the_table_is_what_grouping_the_runs_gives(some: list[CellResult]) -> None:
    told = board_of(some).snapshot("running", 0.0)
    if not some:
        assert told["rows"] == []
        return
    rows = [{**one._asdict(), **one.settings, "stop_reason": one.reason} for one in some]
    frame = pd.DataFrame(rows).astype({"success": "boolean", "cost_usd": "Float64", "max_steps": "Int64"})
    table_of(told, frame)


@cases(100)
@given(results(), st.randoms())
def test_the_order_in_which_cells_are_done_changes_no_number(some: list[CellResult], random: Any) -> None:
    mixed = random.sample(some, len(some))
    one, other = (board_of(each).snapshot("done", 0.0) for each in (some, mixed))
    for told in (one, other):
        for row in told["rows"]:
            row["cost"] = None if row["cost"] is None else pytest.approx(row["cost"], nan_ok=False)
        told["failures"] = sorted((each["error"], each["runs"]) for each in told["failures"])
    places = {tuple(row["values"]): row for row in other["rows"]}
    assert [places[tuple(row["values"])]["runs"] for row in one["rows"]] == [row["runs"] for row in one["rows"]]
    assert (one["reasons"], one["failures"]) == (other["reasons"], other["failures"])


@pytest.mark.parametrize("executor", first(1, [None, "processes"]))
@pytest.mark.parametrize("stored", [False, True])
def test_sweep_view_counts_every_kind_of_cell_as_runs_df_does(
    tmp_path: Path, executor: str | None, *, stored: bool
) -> None:
    view = bl.SweepView()
    some = {**EVERYTHING, "grid": {**EVERYTHING["grid"], "policy": ["boocode", "opencode_3631"]}, "repeats": 1}
    store = {"store": tmp_path / "runs.db"} if stored else {}
    options = {**some, **store, "executor": executor, "progress": view}
    runs = swept(options.pop("agents"), options.pop("tasks"), options.pop("model"), **options)
    frame = bl.runs_df(runs)
    cells = frame[frame["parent_run_id"].isna()]
    assert (view.data["state"], view.data["total"]) == ("done", len(cells))
    assert len(cells) < len(frame)
    table_of(dict(view.data), cells)
    if stored:
        snapshot = bl.SweepView(tmp_path / "runs.db")
        assert snapshot.data["rows"] == view.data["rows"]
        # Which of them was the first depends on who was done first.
        one, other = ([(each["error"], each["runs"]) for each in some.data["failures"]] for some in (snapshot, view))
        assert one == other


def test_sweep_view_counts_derived_and_previously_done_cells(tmp_path: Path) -> None:
    whole = swept(SOLO, ["one", "two"], LOOPING, grid=GRID)
    store = tmp_path / "runs.db"
    swept(SOLO, ["one", "two"], LOOPING, grid={"max_steps": [3], "doom_loop": [2, None]}, store=store)
    view = bl.SweepView()
    swept(SOLO, ["one", "two"], LOOPING, grid=GRID, store=store, reuse_prefixes=True, progress=view)
    assert (view.data["before"], view.data["done"]) == (4, 12)
    table_of(dict(view.data), bl.runs_df(whole))


def test_a_changed_cells_old_run_is_not_among_those_done_before(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    swept(bl.Agent("a", prompt="old"), "go", LOOPING, grid={"max_steps": [3, 6]}, store=store)
    view = bl.SweepView()
    swept(bl.Agent("a", prompt="new"), "go", LOOPING, grid={"max_steps": [3, 6]}, store=store, progress=view)
    assert (view.data["before"], view.data["done"]) == (0, 2)


def test_sweep_rows_are_in_plan_order_whatever_finishes_first() -> None:
    some = [result_of(run) for run in swept(SOLO, "go", LOOPING, grid=GRID)]
    about = {"grid": {"max_steps": [3, 6, None], "doom_loop": [2, None]}, "tasks": ["go"], "repeats": 1}
    orders = [
        [row["values"] for row in board_of(order, **about).snapshot("done", 0.0)["rows"]]
        for order in (some, some[::-1])
    ]
    assert orders[0] == orders[1] == [[s, d] for s, d in itertools.product(["3", "6", "No limit"], ["2", "No limit"])]


class Interrupting(bl.SweepView):
    """Ends its sweep after some cells, as Ctrl-C would."""

    def add(self, result: CellResult) -> None:
        super().add(result)
        if self._board.n_done == 3:
            raise KeyboardInterrupt


def test_interrupted_sweep_keeps_its_view_and_resumes(tmp_path: Path) -> None:
    view = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        swept(SOLO, ["one", "two"], LOOPING, grid=GRID, store=tmp_path / "runs.db", progress=view)
    assert (view.data["state"], view.data["done"], view.data["ended"]) == ("interrupted", 3, "")
    again = bl.SweepView()
    swept(SOLO, ["one", "two"], LOOPING, grid=GRID, store=tmp_path / "runs.db", progress=again)
    assert (again.data["state"], again.data["before"], again.data["done"]) == ("done", 3, 12)


def test_a_cancelled_sweep_is_an_interrupted_one() -> None:
    async def cancel() -> bl.SweepView:
        view = bl.SweepView()
        task = asyncio.create_task(bl.sweep(SOLO, "go", EVERYTHING["model"]["busy"], progress=view, repeats=500))
        while not view.data["total"]:  # noqa: ASYNC110 - the view has no event, and a few turns of the loop are enough
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return view

    assert asyncio.run(cancel()).data["state"] == "interrupted"


def test_what_broke_a_sweep_is_said(tmp_path: Path) -> None:
    class Broken(bl.SweepView):
        def add(self, result: CellResult) -> None:
            raise bl.errors.StoreError("the disk <is> full")

    view = Broken()
    with pytest.raises(bl.errors.StoreError):
        swept(SOLO, "go", LOOPING, progress=view)
    assert view.data["state"] == "failed"
    assert "the disk <is> full" in view.data["ended"]


def test_sweep_view_lists_each_error_once_with_count_and_run() -> None:
    ends = [f"{n % 30}: no such model" for n in range(60)]
    some = [
        CellResult(f"r{n}", "a", "m", "p", f"task {n}", {}, "error", 1, None, None, end) for n, end in enumerate(ends)
    ]
    told = board_of([*some, some[7]]).snapshot("done", 0.0)
    assert (told["failed"], told["n_failures"], len(told["failures"])) == (61, 30, FAILURES)
    first = {"run_id": "r7", "task": "task 7", "steps": 1, "where": []}
    assert told["failures"][0] == {"error": ends[7], "runs": 3, **first}


def test_sweep_view_draws_a_few_times_for_many_cells() -> None:
    drawn = []
    view = bl.SweepView()
    view._view.observe(lambda change: drawn.append(unpacked(change["new"])["done"]), "_data")  # type: ignore[index]
    swept(SOLO, [f"task {n}" for n in range(40)], LOOPING, grid=GRID, progress=view)
    assert drawn[0] == 0
    assert drawn[-1] == 240
    assert len(drawn) < 40


def test_what_is_sent_stays_small_with_thousands_of_settings() -> None:
    one = CellResult("r", "a", "m", "p", "t", {}, "finished", 3, 0.1, True, None)
    board = board_of([one._replace(settings={"max_steps": n}) for n in range(5000)])
    told = board.snapshot("running", 0.0)
    assert (len(told["rows"]), told["n_rows"]) == (ROWS, 5000)
    assert len(pack(told)) < 20_000
    assert any("first 200 of 5,000" in note for note in told["notes"])


def test_rate_and_time_left_are_those_of_the_last_while() -> None:
    board = SweepCounts(200, {})
    one = CellResult("r", "a", "m", "p", "t", {}, "finished", 3, None, None, None)
    board.add(one)
    board.begin(100.0)
    assert board.snapshot("running", 100.0)["rate"] is None
    for second in range(1, 100):
        board.add(one)
        told = board.snapshot("running", 100.0 + second)
    assert told["rate"] == pytest.approx(1.0)
    assert told["left_ms"] == 100_000
    assert told["elapsed_ms"] == 99_000
    for _ in range(20):
        board.add(one)
    assert board.snapshot("running", 200.0)["rate"] > 1.5


def test_a_store_is_looked_at_again_when_somebody_asks(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    swept(LEAD, "go", LOOPING, store=store)
    view = bl.SweepView(store)
    assert view.data["done"] == 1
    swept(SOLO, ["one", "two"], LOOPING, store=store)
    view.refreshed += 1
    assert (view.data["done"], view.data["total"], view.data["state"]) == (2, 2, "snapshot")
    assert bl.SweepView(store, sweep=1).data["done"] == 1
    with pytest.raises(bl.SettingError, match="there are: 1, 2"):
        bl.SweepView(store, sweep=3)


@pytest.mark.parametrize("stored", [False, True])
def test_a_run_of_the_sweep_is_opened_with_those_that_it_started(tmp_path: Path, *, stored: bool) -> None:
    view = bl.SweepView()
    store = {"store": tmp_path / "runs.db"} if stored else {}
    runs = swept(
        LEAD, ["one", "two"], EVERYTHING["model"]["busy"], grid={"max_steps": [3, None]}, progress=view, **store
    )
    named = first_runs(view.data)
    assert len(named) == 4
    lead = next(run for run in runs if run.run_id == named[0])
    started = [run.run_id for run in runs if run.parent_run_id == lead.run_id]
    assert started
    for one in (view, bl.SweepView(store["store"])) if stored else (view,):
        one.opened = {"run": lead.run_id, "step": 99}
        assert one.opened == {"run": lead.run_id, "step": lead.n_steps}
        replay = one.replay
        assert replay is not None
        assert replay.run.steps == lead.steps
        assert [child["run"]["run_id"] for child in replay._replay_data["children"]] == started
        (part,) = one._parts()
        data: Any = part.data
        assert data["opens"] == [*one._runs()] == named
    with pytest.raises(bl.SettingError, match="a run that is finished"):
        view.opened = {"run": "nowhere", "step": 1}
    swept(SOLO, "go", LOOPING, progress=view)
    assert not view.opened
    assert not view._below.children


def test_runs_of_no_sweep_are_shown_without_a_plan(tmp_path: Path) -> None:
    with bl.Store(tmp_path / "runs.db") as store:
        store.add(bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."])))
    view = bl.SweepView(tmp_path / "runs.db")
    assert (view.data["done"], view.data["total"]) == (1, None)
    assert repr(view) == "SweepView(sweep: 1 run in runs.db, snapshot)"
    with pytest.raises(bl.errors.StoreError):
        bl.SweepView(tmp_path / "none.db")


@pytest.mark.parametrize("wrong", ["yes", 3, None, bl.SweepView, object()])
def test_what_cannot_look_on_is_refused_before_anything_runs(wrong: Any) -> None:
    with pytest.raises(bl.SettingError, match="an object with begin, add and end"):
        swept(SOLO, "go", LOOPING, progress=wrong)


def test_a_view_shows_one_sweep_at_a_time(tmp_path: Path) -> None:
    view = bl.SweepView()
    swept(SOLO, "go", LOOPING, progress=view)
    swept(SOLO, ["one", "two"], LOOPING, progress=view)
    assert view.data["done"] == 2
    view.begin(Begun(1, {}))
    with pytest.raises(bl.SettingError, match="expected a new SweepView"):
        swept(SOLO, "go", LOOPING, progress=view)


def test_it_is_a_text_and_a_picture_where_no_javascript_runs() -> None:
    view = bl.SweepView()
    assert view._picture() == b""
    swept(SOLO, "go", LOOPING, grid=GRID, progress=view)
    bundle = view._repr_mimebundle_()
    assert "step cap 3, no doom-loop threshold: 1 run, " in bundle["text/plain"]
    assert view._picture().startswith(b"\x89PNG")
    (part,) = view._parts()
    data: Any = part.data
    assert data["still"]
    assert json.dumps(data, allow_nan=False)


def test_blue_is_a_success_also_in_the_picture() -> None:
    view = bl.SweepView()
    swept(SOLO, "go", bl.ScriptedModel(["Done."]), progress=view)
    with Image.open(io.BytesIO(view._picture())) as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24) or ()}
    assert ImageColor.getrgb(LIGHT["idle"]) in colours
    assert ImageColor.getrgb(LIGHT["kept"]) not in colours


class Output:
    """An output in a notebook, as `IPython.display.display` gives it: what is kept is what was published last."""

    def __init__(self, bundle: dict[str, Any]) -> None:
        self.kept = bundle

    def update(self, bundle: dict[str, Any], *, raw: bool) -> None:
        assert raw
        self.kept = bundle


@pytest.mark.parametrize("times", [1, 2])
def test_notebook_keeps_the_end_of_a_sweep_shown_before_it_began(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    outputs: list[Output] = []

    def display(bundle: dict[str, Any], *, raw: bool, display_id: bool) -> Output:
        assert raw
        assert display_id
        outputs.append(Output(bundle))
        return outputs[-1]

    monkeypatch.setattr("IPython.display.display", display)
    view = bl.SweepView()
    for _ in range(times):
        view._ipython_display_()
    live, pages = outputs[::2], outputs[1::2]
    assert [output.kept["text/plain"] for output in live] == ["SweepView(sweep: 0 runs, waiting)"] * times
    asyncio.run(bl.sweep(SOLO, "go", LOOPING, grid={"doom_loop": [2, 3]}, progress=view))
    for output in live:
        assert output.kept["text/plain"].startswith("SweepView(sweep: 2 of 2 runs, done)\n2 doom_loop")
        assert "application/vnd.jupyter.widget-view+json" in output.kept
    assert all("2 of 2 runs, done" in output.kept["text/html"] for output in pages)


def test_sweep_view_computes_success_share_and_known_mean_cost() -> None:
    board = board_of([])
    for n, (cost, success) in enumerate([(2.0, True), (None, False), (4.0, True)], 1):
        board.add(CellResult(f"r{n}", "a", "m", "boocode", f"t{n}", {}, "finished", 3, cost, success, None))
        (row,) = board.snapshot("running", 1.0)["rows"]
        assert row["share"] == row["successes"] / n
    assert (row["cost"], row["priced"], row["runs"]) == (3.0, 2, 3)


@pytest.mark.parametrize(
    ("steps", "reason", "noted"), [(3, "step_cap", True), (4, "step_cap", False), (3, "error", False)]
)
def test_a_limit_that_makes_no_difference_is_named(steps: int, reason: StopReason, noted: bool) -> None:
    """The last of four settings takes so many steps, and ends so."""
    board = SweepCounts(4, {"grid": {"max_steps": [3, 5], "doom_loop": [3, None]}})
    for cap in (3, 5):
        for loop in (3, None):
            last = cap == 5 and loop is None
            end: StopReason = reason if last else "step_cap"
            n = steps if last else 3
            settings = {"max_steps": cap, "doom_loop": loop}
            board.add(CellResult(f"{cap} {loop}", "a", "m", "boocode", "t", settings, end, n, None, True, None))
    words = "Settings that differ only in the doom-loop threshold have the same numbers"
    assert any(note.startswith(words) for note in board.snapshot("done", 0.0)["notes"]) == noted
    assert not any(note.startswith(words) for note in board.snapshot("running", 0.0)["notes"])


def a_finished_sweep(n_tasks: int = 20) -> SweepCounts:
    """All tasks succeed without a step cap, half of them with one of 5; the doom loop makes no difference."""
    grid = {"max_steps": [2, 5, None], "doom_loop": [3, None]}
    board = SweepCounts(6 * n_tasks, {"grid": grid, "tasks": [f"t{n}" for n in range(n_tasks)], "repeats": 1})
    for cap, loop, n in itertools.product(grid["max_steps"], grid["doom_loop"], range(n_tasks)):
        success = {2: False, 5: n % 2 == 0, None: True}[cap]
        names = (f"{cap} {loop} {n:03}", "a", "m", "boocode", f"t{n}", {"max_steps": cap, "doom_loop": loop})
        reason: StopReason = "step_cap" if cap else "finished"
        board.add(CellResult(*names, reason, cap or 8, (cap or 8) / 10, success, None))
    return board


def test_finished_sweep_names_best_setting_and_a_cheaper_one() -> None:
    told = a_finished_sweep().snapshot("done", 0.0)
    assert told["verdict"] == (
        "Most successes: no step cap, 20 of 20 runs for $0.80 a run. Next for less: step cap 5, 10 of 20 for $0.50."
    )
    assert a_finished_sweep().snapshot("interrupted", 0.0)["verdict"] == ""


def test_a_sweep_that_is_not_complete_has_no_verdict() -> None:
    board = a_finished_sweep()
    board.total = 121
    assert board.snapshot("snapshot", 0.0)["verdict"] == ""


def test_settings_with_equal_numbers_share_a_row_naming_them_all() -> None:
    rows = a_finished_sweep().snapshot("done", 0.0)["rows"]
    assert [row["spans"] for row in rows if not row["copy"]] == [
        ["2", "3, No limit"],
        ["5", "3, No limit"],
        ["No limit", "3, No limit"],
    ]
    assert [row["values"][1] for row in rows if row["copy"]] == ["No limit"] * 3
    assert not any(row["copy"] for row in a_finished_sweep().snapshot("running", 0.0)["rows"])


def test_all_runs_of_a_setting_are_listed_when_the_sweep_is_done() -> None:
    board = a_finished_sweep(30)
    assert {len(row["listed"]) for row in board.snapshot("running", 0.0)["rows"]} == {12}
    assert {len(row["listed"]) for row in board.snapshot("done", 0.0)["rows"]} == {30}


def test_verdict_names_the_best_and_the_next_for_less() -> None:
    loose = Outcome("no step cap", 41, 60, 41 / 60, 56.7, 5.93)
    tight = Outcome("step cap 40", 24, 60, 24 / 60, 39.1, 2.94)
    assert (
        verdict_of([tight, loose])
        == "Most successes: no step cap, 41 of 60 runs for $5.93 a run. Next for less: step cap 40, 24 of 60 for $2.94."
    )


def test_column_head_is_the_label_of_its_axis() -> None:
    assert head_of("max_steps") == "step cap"
    assert head_of("model") == "model"
