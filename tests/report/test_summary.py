"""The first screen of the report: its table, its chart and its pages agree with the recommendation."""

import io
import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from boolab.display.numbers import percent
from boolab.frames.dtypes import is_missing
from boolab.limits.table import LIMITS
from boolab.logs.shipped import atlas_files
from boolab.report.caplab_frames import labs_of
from boolab.report.figures import PageFigures
from boolab.report.frontier_chart import LimitCurve, _draw, curves_of, frontier_chart
from boolab.report.how_to_set import how_to_set, how_to_set_text
from boolab.report.question import Question
from boolab.report.study import Study, study_of
from boolab.report.summary import summary_frame, summary_rows
from boolab.report.text import text
from boolab.report.units import key_of
from boolab.stats.units import short_names

SETS = ("atlas/intercode-python", "atlas/tau2-telecom", "atlas/swebench-verified")


@pytest.fixture(scope="module")
def several() -> Study:
    return study_of([str(path) for name in SETS for path in atlas_files(name)], Question(keep=0.9))


@pytest.fixture(scope="module")
def one() -> Study:
    return study_of([str(path) for path in atlas_files("atlas/swebench-verified")], Question(keep=0.9))


@pytest.mark.slow
def test_a_row_has_the_numbers_of_the_decision(several: Study) -> None:
    rows = {row.key: row for row in summary_rows(several)}
    frame = several.found.frame
    assert len(rows) == len(frame) > 2
    for found in frame.to_dict("records"):
        row = rows[key_of([found[name] for name in several.keys])]
        wanted = {name: found[name] for name in LIMITS if name in found and not is_missing(found[name])}
        assert row.limits == wanted
        assert row.is_set == (found["action"] == "set") == bool(wanted)
        assert (*row.kept, row.successes) == (found["kept_lower"], found["kept_upper"], found["successes"])
        assert row.saved == (found["saved"], found["spent"] + found["saved"])


def test_summary_lists_groups_to_set_first_and_too_few_last(several: Study) -> None:
    actions = [row.group.action for row in summary_rows(several)]
    assert actions == sorted(actions, key=["set", "leave", "not_yet"].index)
    assert {*actions} == {"set", "leave", "not_yet"}


def test_what_is_left_off_has_a_reason_and_no_limit(several: Study) -> None:
    rows = {row.group.action: row for row in summary_rows(several)}
    assert (rows["set"].reason, rows["leave"].limits, rows["not_yet"].limits) == ("", {}, {})
    assert rows["leave"].reason.startswith("a doom-loop threshold of 4 would keep enough, but")
    assert rows["leave"].evidence == {"doom_loop": 4}
    assert rows["not_yet"].reason.endswith(" needed")


@pytest.mark.slow
def test_a_single_agent_has_a_row_for_each_other_limit_by_itself() -> None:
    alone = study_of([str(path) for path in atlas_files("atlas/intercode-python")], Question(keep=0.9))
    whole, *others = summary_rows(alone)
    assert [row.by_itself for row in (whole, *others)] == [False, True, True]
    paths = alone.found.paths.set_index("path").to_dict("index")
    for row in others:
        ((name, value),) = row.limits.items()
        assert row.name == f"{LIMITS[name].label} by itself"
        assert value == paths[name][name]
        assert row.kept == (whole.successes - paths[name]["lost"],) * 2
        assert row.saved is not None
        assert row.saved[0] == paths[name]["saved"]


def test_listed_runs_are_those_that_the_setting_stops(several: Study) -> None:
    for row in summary_rows(several):
        cuts = several.find_stopped(row.evidence, row.key)
        assert {several.unit_keys[cut.unit] for cut in cuts} <= {row.key}
        assert sum(cut.success is True for cut in cuts) == row.successes - row.kept[0]


@pytest.mark.slow
def test_caplab_in_the_report_shows_what_is_to_be_set(several: Study) -> None:
    for row, lab in labs_of(several, summary_rows(several), transcripts=False):
        set_ = {name: lab.setting[name] for name in ("max_steps", "tool_budget", "doom_loop")}
        assert set_ == {name: row.limits.get(name) for name in set_}
        if row.is_set:
            assert lab.answer["kept"] == {"lower": row.kept[0], "upper": row.kept[1], "of": row.successes}


def test_without_transcripts_no_text_of_a_run_is_in_caplab(tmp_path_factory: pytest.TempPathFactory) -> None:
    from tests.support.report_cases import write_log

    log = write_log(tmp_path_factory.mktemp("logs") / "log.json", [1, 2, 3], said="a secret")
    study = study_of([str(log)], Question(scope="run"))
    for transcripts in (True, False):
        [(_, lab)] = labs_of(study, summary_rows(study), transcripts=transcripts)
        said = [message.text for run in lab._tables.runs for message in run.prompt]
        assert any("a secret" in text for text in said) == transcripts


@pytest.mark.slow
def test_a_curve_has_a_point_for_each_value_of_the_cap(several: Study) -> None:
    rows = summary_rows(several)
    short = short_names(several.keys, [row.names for row in rows])
    keys = dict(zip(short, [row.key for row in rows], strict=True))
    for curve in curves_of(several, "max_steps", rows):
        part = next(part for key, part in several.groups("max_steps") if key == keys[curve.name])
        kept = (part["kept_lower"] / part["successes"]).astype(float)
        saved = (part["saved_steps"] / (part["saved_steps"] + part["steps"])).astype(float)
        assert sorted(curve.points) == sorted(zip(saved, kept, strict=True))
        assert curve.points[0] == (0, 1)


def test_chart_title_has_the_numbers_of_what_is_to_be_set(one: Study, several: Study) -> None:
    chart = frontier_chart(several, summary_rows(several), PageFigures())
    assert chart is not None
    shares = [percent(row.saved_share or 0) for row in summary_rows(several) if row.is_set]
    assert len(shares) > 1
    assert chart.title.startswith(f"The limits to set save {shares[-1]} to {shares[0]} of the steps and keep 98.")
    left_off = frontier_chart(one, summary_rows(one), PageFigures())
    assert left_off is not None
    assert left_off.title == "What each step cap keeps and saves, on record"


def test_data_sets_have_a_row_each_with_the_agent_above(several: Study) -> None:
    rows = summary_rows(several)
    assert {row.data for row in rows} == {"intercode-python", "tau2-telecom", "swebench-verified"}
    whole = summary_rows(study_of([str(path) for path in atlas_files("atlas/intercode-ctf")], Question()))[0]
    assert (whole.title, whole.data) == ("intercode", "intercode-ctf")


def test_names_in_the_chart_are_text_and_clear_of_curves() -> None:
    slopes = {"steep": 4.0, "middle": 2.0, "gentle": 1.2}
    curves = [
        LimitCurve(
            name, [(x / 100, 1 - slope * x / 100) for x in range(40)], [None, *range(39)], (0.02, 1 - 0.02 * slope)
        )
        for name, slope in slopes.items()
    ]
    figure = Figure(figsize=(6, 4.6), dpi=72, layout="constrained")  # the dpi of an SVG
    ax = _draw(figure.add_subplot(), curves, 0.95, "steps saved", "successes")
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(file := io.BytesIO(), format="svg", metadata={"Date": None})
    names = {label.get_text(): label for label in ax.texts if label.get_gid() == "line label"}
    assert set(names) == {*slopes, "even trade"}
    assert all(f">{name}</text>" in file.getvalue().decode() for name in names)
    saved = np.linspace(0, 0.39, 500)
    for curve in curves:
        x, y = zip(*curve.points, strict=True)
        at = ax.transData.transform(np.column_stack([saved, np.interp(saved, x, y)]))
        for name, label in names.items():
            box = label.get_window_extent()
            assert not any(box.contains(*point) for point in at), (curve.name, name)


@pytest.mark.slow
def test_texts_of_figures_have_the_font_of_the_page() -> None:
    def draw(ax: Axes | None) -> Axes:
        assert ax is not None
        ax.set_title("Steps")
        return ax

    figure = PageFigures().draw(draw, "Steps")
    assert "font-family: var(--font)" in figure
    assert "DejaVu" not in figure


def test_chart_note_explains_dots_only_if_there_are_any(one: Study) -> None:
    rows = summary_rows(one)
    note = "Line: the step cap by itself."
    with_dots, without = (
        frontier_chart(one, some, PageFigures()) for some in (rows, [row._replace(evidence={}) for row in rows])
    )
    assert with_dots is not None
    assert without is not None
    assert with_dots.note == f"{note} Dot: a doom-loop threshold of 4, left off."
    assert without.note == note


def test_the_table_for_a_spreadsheet_has_the_rows_of_the_page(several: Study) -> None:
    rows = summary_rows(several)
    table = summary_frame(several, rows)
    assert table["agent"].tolist() == [row.title for row in rows]
    assert table["runs"].tolist() == [row.group.units.n_runs for row in rows]
    assert table["successes kept, at least"].tolist() == [row.kept[0] for row in rows]
    assert not [name for name in table if "_" in str(name)]
    for row, cell, trade in zip(rows, table["step cap"], table["trade"], strict=True):
        assert cell == (row.limits["max_steps"] if row.is_set else "none")
        assert trade == (row.group.trade.sentence if row.is_set else "")


def test_only_what_is_to_be_set_gets_a_command(several: Study) -> None:
    ways = how_to_set(several)
    assert [way.group for way in ways] == [row.name for row in summary_rows(several) if row.is_set]
    shown = how_to_set_text(several, full=True)
    assert all(way.command in shown for way in ways)
    assert "swe_agent" not in shown


def test_tables_mark_what_is_to_set_and_what_is_left_off(several: Study) -> None:
    shown = text(several)
    assert len(re.findall("^ +[35] .* <- to set$", shown, re.MULTILINE)) == 1
    assert len(re.findall("^ +4 .* <- left off$", shown, re.MULTILINE)) == 1
    assert "recommended" not in shown


def test_shares_of_one_column_have_one_form(several: Study) -> None:
    shown = text(several)
    block = shown[shown.index("By agent") : shown.index("What the runs of the other")]
    forms = {"." in share for share in re.findall(r"([\d.]+)%$", block, re.MULTILINE)}
    assert len(forms) == 1
