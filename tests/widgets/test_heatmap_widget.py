"""Heatmap without a browser: its numbers are those of the plot, its lists those of the table, its colours readable."""

import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import boolab as bl
from boolab.plots import plot_heatmap
from boolab.whatif.tables import sum_rows
from boolab.widgets.heatmap.layers import ink_on, luminance_of, on_frontier
from tests.support.cases import cases, first
from tests.support.helpers import TOOLS, steps
from tests.support.packed import unpacked

GRID = {"max_steps": [2, 4, 6, None], "tool_budget": [3, 8, None]}


def recorded(patterns: list[str], labels: list[bool | None]) -> list[bl.Run]:
    runs = []
    for n, (pattern, label) in enumerate(zip(patterns, labels, strict=True)):
        run = bl.run_sync(None, f"task {n}", model=bl.ScriptedModel(steps(pattern)), tools=TOOLS, policy="naive")
        runs.append(replace(run, run_id=f"run-{n}", success=label))
    return runs


def some_runs(n: int = 14) -> list[bl.Run]:
    words = ("A", "BC", "A", "AB", "C", "CC", "B", "A", "AC")
    patterns = [" ".join(words[k % 5 + n % 5] for k in range(1 + n % 9)) for n in range(n)]
    return recorded(patterns, [n % 3 != 0 for n in range(n)])


RUNS = some_runs()
TALLY = bl.counterfactual(RUNS, grid=GRID, aggregate=True)
ROWS = bl.counterfactual(RUNS, grid=GRID)


def data_of(heatmap: bl.Heatmap) -> dict[str, Any]:
    data = unpacked(heatmap._view._data)
    assert isinstance(data, dict)
    return data


def cell_at(heatmap: bl.Heatmap, x: str, y: str) -> dict[str, Any]:
    data = data_of(heatmap)
    up = data["y"]["ticks"][::-1].index(y)
    cell = data["rows"][up][data["x"]["ticks"].index(x)]
    assert isinstance(cell, dict)
    return cell


def listed(heatmap: bl.Heatmap, x: str, y: str) -> list[tuple[str, int, str]]:
    """Run, step and fate of each run that a cell lists."""
    data, lists = data_of(heatmap), cell_at(heatmap, x, y)["listed"]
    rows = zip(lists["run"], lists["step"], lists["why"], strict=True)
    return [(data["runs"][run]["id"], step, data["whys"][why]["text"]) for run, step, why in rows]


def test_the_sums_of_a_table_are_the_tally() -> None:
    keys = ["max_steps", "tool_budget"]
    mine, its = (frame.sort_values(keys).reset_index(drop=True) for frame in (sum_rows(ROWS)[list(TALLY)], TALLY))
    pd.testing.assert_frame_equal(mine, its, check_dtype=False)


@pytest.mark.parametrize("value", first(3, ["kept_lower", "saved_steps", "n_truncated", "kept_upper", "tool_calls"]))
def test_the_numbers_are_those_of_the_plot(value: str) -> None:
    ax = Figure(figsize=(12, 8)).subplots()
    plot_heatmap(TALLY, value=value, ax=ax)
    drawn = sorted(text.get_text() for text in ax.texts if text.get_gid() == "cell")
    for heatmap in (bl.Heatmap(TALLY, RUNS, value=value), bl.Heatmap(ROWS, value=value)):
        data = data_of(heatmap)
        assert sorted(cell["text"] for row in data["rows"] for cell in row) == drawn
        if value not in ("kept_lower", "saved_steps"):  # these name the setting that saves most
            assert data["title"] == ax.get_title(loc="left").replace("\n", " ")


def test_heatmap_cell_lists_stopped_runs_lost_successes_first() -> None:
    heatmap = bl.Heatmap(TALLY, RUNS)
    for cap in (2, 4, 6):
        rows = listed(heatmap, str(cap), "No limit")
        assert sorted(run for run, _, _ in rows) == sorted(run.run_id for run in RUNS if run.n_steps > cap)
        by_id = {run.run_id: run for run in RUNS}
        lost = [why == "success, lost" for _, _, why in rows]
        assert lost == sorted(lost, reverse=True)
        for run_id, step, why in rows:
            run = by_id[run_id]
            assert step == cap, run_id
            assert (why == "success, lost") == (bool(run.success) and _calls_after(run, cap))


def _numbers() -> list[tuple[int, int]]:
    return [(int(kept), int(saved)) for kept, saved in zip(TALLY["kept_lower"], TALLY["saved_steps"], strict=True)]


def _beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one != other and one[0] >= other[0] and one[1] >= other[1]


def _calls_after(run: bl.Run, step: int) -> bool:
    return any(later.response.tool_calls for later in run.steps[step:])


@pytest.mark.slow
def test_heatmap_of_rows_and_of_tally_list_the_same_runs() -> None:
    one, other = bl.Heatmap(TALLY, RUNS), bl.Heatmap(ROWS, RUNS)
    for x in ("2", "4", "6", "No limit"):
        for y in ("3", "8", "No limit"):
            assert listed(one, x, y) == listed(other, x, y)


@given(
    patterns=st.lists(st.lists(st.sampled_from(["A", "B", "AB", "AA"]), min_size=1, max_size=7), min_size=1, max_size=4)
)
@cases(8)
def test_each_list_has_as_many_stopped_runs_as_the_tally_counts(patterns: list[list[str]]) -> None:
    runs = recorded([" ".join(words) for words in patterns], [n % 2 == 0 for n in range(len(patterns))])
    tally = bl.counterfactual(runs, grid={"max_steps": [1, 3, None], "tool_budget": [2, None]}, aggregate=True)
    heatmap = bl.Heatmap(tally, runs, keep=None)
    for row in tally.to_dict("records"):
        x, y = ("No limit" if pd.isna(row[name]) else str(row[name]) for name in ("max_steps", "tool_budget"))
        cell = cell_at(heatmap, x, y)["listed"]
        assert cell["all"] == row["n_runs"]
        assert cell["stopped"] == row["n_truncated"] + row["n_not_identified"] + row["n_unknown"]
        assert cell["cut"] == row["successes"] - row["successes_censored"] - row["kept_upper"]
        assert cell["undecided"] == row["kept_upper"] - row["kept_lower"]


def test_runs_that_do_not_give_the_tables_numbers_are_refused() -> None:
    with pytest.raises(bl.SettingError, match=r"at step cap .* they give n_runs 13, the table has 14"):
        bl.Heatmap(TALLY, RUNS[1:])
    with pytest.raises(bl.SettingError, match="none of the 1 is in the table"):
        bl.Heatmap(ROWS, [replace(RUNS[0], run_id="another")])


def test_a_run_opens_below_at_its_step_and_the_step_is_followed() -> None:
    heatmap = bl.Heatmap(TALLY, RUNS)
    heatmap.opened = {"run": "run-8", "step": 4}
    replay = heatmap.replay
    assert replay is not None
    assert (replay.run.run_id, replay.step) == ("run-8", 4)
    replay.step = 6
    assert heatmap.opened == {"run": "run-8", "step": 6}
    heatmap.opened = {"run": "run-8", "step": 400}
    assert heatmap.replay is replay
    assert replay.step == RUNS[8].n_steps
    heatmap.opened = {"run": "run-3", "step": 0}
    assert heatmap.replay is not None
    assert (heatmap.replay.run.run_id, heatmap.replay.step) == ("run-3", 1)
    heatmap.set_trait("opened", None)
    assert heatmap._below.children == ()


def test_what_is_chosen_from_python_must_be_there() -> None:
    heatmap = bl.Heatmap(TALLY, RUNS)
    heatmap.selected = {"max_steps": 4, "tool_budget": None}
    assert heatmap._view.selected == heatmap.selected
    with pytest.raises(bl.SettingError, match=r"expected one value of each of .*max_steps.*\[2, 4, 6, None\]"):
        heatmap.selected = {"max_steps": 5, "tool_budget": None}
    with pytest.raises(bl.SettingError, match="one of the 14 runs here"):
        heatmap.opened = {"run": "nobody", "step": 1}


def test_the_runs_of_a_sweep_are_counted_by_setting() -> None:
    runs = [
        replace(run, run_id=f"{run.run_id}-{cap}-{budget}", settings={"max_steps": cap, "tool_budget": budget})
        for run in RUNS[:6]
        for cap in (3, None)
        for budget in (4, 9)
    ]
    heatmap = bl.Heatmap(runs)
    cell = cell_at(heatmap, "3", "9")
    succeed = sum(bool(run.success) for run in RUNS[:6])
    assert cell["text"] == f"{100 * succeed // 6}%"
    assert f"{succeed} of 6 runs succeed" in cell["facts"]
    assert sorted(run for run, _, _ in listed(heatmap, "3", "9")) == sorted(f"{run.run_id}-3-9" for run in RUNS[:6])
    mean = sum(run.n_steps for run in RUNS[:6]) / 6
    assert cell_at(bl.Heatmap(runs, value="mean_steps"), "No limit", "4")["text"] == f"{mean:.3g}"
    with pytest.raises(bl.SettingError, match="expected the runs of a sweep of two settings"):
        bl.Heatmap([])


def test_heatmap_refuses_bare_runs_and_names_the_right_call() -> None:
    with pytest.raises(bl.SettingError) as refused:
        bl.Heatmap(RUNS)
    call = str(refused.value).partition("or for recorded runs ")[2]
    assert call.startswith("bl.Heatmap(bl.counterfactual(runs, grid=")
    shown = eval(call.replace("[...]", "[3, None]"), {"bl": bl, "runs": RUNS})  # noqa: S307 - the text of our own error
    assert isinstance(shown, bl.Heatmap)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"x": "max_step"}, "'max_step' is not an axis; did you mean 'max_steps'?"),
        ({"y": "nothing"}, "'nothing' is not an axis; axes: max_steps, tool_budget, doom_loop"),
        ({"value": "kept_lowr"}, "no column 'kept_lowr'; did you mean 'kept_lower'?"),
        ({"at": {"dom_loop": 3}}, "at='dom_loop' (did you mean 'doom_loop'?)"),
    ],
)
def test_a_misspelt_axis_or_column_is_answered_with_the_nearest(options: dict[str, Any], hint: str) -> None:
    grid: dict[str, list[int | None]] = {"max_steps": [3, None], "tool_budget": [4, 9], "doom_loop": [3, None]}
    table = bl.counterfactual(RUNS, grid=grid, aggregate=True)
    for draw in (lambda: bl.Heatmap(table, RUNS, **options), lambda: bl.plots.plot_heatmap(table, **options)):
        with pytest.raises(bl.SettingError, match=re.escape(hint)):
            draw()


@given(st.integers(0, 0xFFFFFF))
@cases(100)
def test_a_number_is_readable_on_any_colour(colour: int) -> None:
    fill = f"#{colour:06x}"
    one, other = sorted((luminance_of(fill), luminance_of(ink_on(fill))))
    assert (other + 0.05) / (one + 0.05) >= 4.5


def test_heatmap_cells_have_readable_numbers_on_light_and_dark() -> None:
    data = data_of(bl.Heatmap(TALLY, RUNS, keep=0.5))
    fills = [cell["fill"] for layer in data["layers"] for line in layer["cells"] for cell in line if cell["fill"]]
    assert all(ink_on(fill[at]) == fill[at + 1] for fill in fills for at in (0, 2))
    good = [cell["fill"] for line in data["rows"] for cell in line if cell["good"]]
    assert good
    assert all(luminance_of(on_dark) < 0.2 < luminance_of(on_light) for on_light, _, on_dark, _ in good)


def test_the_line_is_explained_once_in_the_key() -> None:
    data = data_of(bl.Heatmap(TALLY, RUNS, keep=0.5))
    assert data["keep"] == "at least 50% of successes are kept on record"
    assert not any(data["keep"] in note for layer in data["layers"] for note in layer["notes"])


def test_the_line_is_between_cells_that_keep_enough_and_others() -> None:
    data = data_of(bl.Heatmap(TALLY, RUNS, keep=0.5))
    rows = data["rows"]
    sides = {"t": (-1, 0), "b": (1, 0), "l": (0, -1), "r": (0, 1)}
    assert any(cell["good"] for row in rows for cell in row)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            near = {
                s: (i + a, j + b) for s, (a, b) in sides.items() if 0 <= i + a < len(rows) and 0 <= j + b < len(row)
            }
            expected = {side for side, (k, m) in near.items() if cell["good"] and not rows[k][m]["good"]}
            assert set(cell["edges"]) == expected


def test_text_picture_and_page_stand_in_for_the_widget() -> None:
    tally = bl.counterfactual(RUNS[:5], grid=GRID, aggregate=True)
    heatmap = bl.Heatmap(tally, RUNS[:5], recommended={"max_steps": 6, "tool_budget": 8})
    bundle = heatmap._repr_mimebundle_()
    assert "recommended: step cap 6, tool budget 8" in bundle["text/plain"]
    assert heatmap._picture().startswith(b"\x89PNG")
    assert len(repr(heatmap)) < 200
    stopped = bl.counterfactual(RUNS[:5], grid=GRID).query("outcome != 'unchanged'")["run_id"]
    assert set(heatmap._runs()) == set(stopped)
    assert data_of(bl.Heatmap(TALLY))["can_list"] is False


def test_heatmap_metrics_have_titles_counts_and_a_frontier() -> None:
    heatmap = bl.Heatmap(TALLY, RUNS)
    layers = {layer["value"]: layer for layer in data_of(heatmap)["layers"]}
    assert list(layers) == ["kept_lower", "saved_steps", "n_truncated", "frontier"]
    row = TALLY[(TALLY["max_steps"] == 4) & TALLY["tool_budget"].isna()].iloc[0]
    cells = {name: layer["cells"][0][1] for name, layer in layers.items()}
    assert cells["kept_lower"]["count"] == f"{row['kept_lower']}/{row['successes']}"
    assert cells["n_truncated"]["count"] == f"{row['n_truncated']}/{row['n_runs']}"
    coloured = sum(cell["fill"] is not None for line in layers["frontier"]["cells"] for cell in line)
    assert layers["frontier"]["title"] == (
        f"No setting is better than these {coloured} of 12 in both successes kept and steps saved"
    )
    assert coloured == len({one for one in _numbers() if not any(_beats(other, one) for other in _numbers())})
    heatmap.metric = "frontier"
    assert heatmap._view.metric == "frontier"
    with pytest.raises(bl.SettingError, match="expected one of kept_lower, saved_steps, n_truncated, frontier"):
        heatmap.metric = "saved_time"


def test_heatmap_scale_is_centred_at_keep_and_ends_with_the_data() -> None:
    ticks = [tick["text"] for tick in data_of(bl.Heatmap(TALLY, RUNS, keep=0.9))["scale"]["ticks"]]
    least = min(TALLY["kept_lower"] / TALLY["successes"])
    assert ticks == [f"{int(100 * least)}%", "90%", "100%"]


def test_heatmap_marks_no_setting_of_its_own_choice() -> None:
    for heatmap in (bl.Heatmap(TALLY, RUNS, keep=0.5), bl.Heatmap(TALLY, keep=0.5)):
        data = data_of(heatmap)
        assert not any(cell["recommended"] for row in data["rows"] for cell in row)
        assert "of 12 settings keep at least 50% of 9 successes" in data["title"]


def test_a_recommended_setting_is_the_verdict_and_the_one_mark() -> None:
    data = data_of(bl.Heatmap(TALLY, RUNS, recommended={"max_steps": 6, "tool_budget": 8}))
    assert data["title"].startswith("Step cap 6 with tool budget 8 keeps")
    (cell,) = [cell for row in data["rows"] for cell in row if cell["recommended"]]
    assert cell["name"] == "step cap 6, tool budget 8"


def test_a_decision_to_set_nothing_is_the_verdict() -> None:
    decision = bl.recommend(RUNS)
    assert decision.action == "not_yet"
    data = data_of(bl.Heatmap(TALLY, RUNS, recommended=decision))
    assert data["title"] == decision.verdict[0]
    assert not any(cell["recommended"] for row in data["rows"] for cell in row)


def test_frontier_has_no_dominated_setting() -> None:
    assert on_frontier([10, 9, 9, 8], [0, 5, 4, 5]).tolist() == [True, True, False, False]
