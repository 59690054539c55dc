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
from boolab.report.frontier_chart import LimitCurve, _draw, best_at, curves_of, frontier_chart, title_of
from boolab.report.how_to_set import how_to_set, how_to_set_text
from boolab.report.question import Question
from boolab.report.study import Study, study_of
from boolab.report.summary import summary_frame, summary_rows, trade_words
from boolab.report.text import text
from boolab.report.units import key_of
from boolab.stats.trade import Trade

SETS = ("atlas/intercode-python", "atlas/tau2-telecom", "atlas/swebench-verified")


@pytest.fixture(scope="module")
def several() -> Study:
    return study_of([str(path) for name in SETS for path in atlas_files(name)], Question(keep=0.9))


@pytest.fixture(scope="module")
def one() -> Study:
    return study_of([str(path) for path in atlas_files("atlas/swebench-verified")], Question(keep=0.9))


@pytest.mark.slow
def test_a_row_has_the_numbers_of_the_recommendation(several: Study) -> None:
    rows = {row.key: row for row in summary_rows(several)}
    frame = several.found.frame
    assert len(rows) == len(frame) > 2
    for found in frame.to_dict("records"):
        row = rows[key_of([found["agent"], found["set"]])]
        on = {name: value for name, value in row.limits.items() if value is not None}
        wanted = {name: found[name] for name in LIMITS if name in found and not is_missing(found[name])}
        assert on == (wanted if found["qualifies"] else {})
        assert (*row.kept, row.successes) == (found["kept_lower"], found["kept_upper"], found["successes"])
        assert row.saved == (found["saved"], found["saved"] + found["spent"])


def test_summary_lists_good_trades_first_and_no_limit_last(several: Study) -> None:
    rows = summary_rows(several)
    ranks = [2 if not row.is_on else 1 if row.trade is not None and row.trade.is_poor else 0 for row in rows]
    assert ranks == sorted(ranks)
    assert {0, 1} <= set(ranks)


@pytest.mark.slow
def test_a_single_agent_has_a_row_for_each_other_limit_by_itself(one: Study) -> None:
    whole, *others = summary_rows(one)
    assert whole.recommended
    assert [row.name for row in others] == ["doom-loop threshold by itself", "tool budget by itself"]
    paths = one.found.paths.set_index("path").to_dict("index")
    for row, name in zip(others, ("doom_loop", "tool_budget"), strict=True):
        assert row.limits == {name: paths[name][name]}
        assert row.kept == (whole.successes - paths[name]["lost"],) * 2
        assert row.saved is not None
        assert row.saved[0] == paths[name]["saved"]


def test_listed_runs_are_those_that_the_setting_stops(several: Study) -> None:
    for row in summary_rows(several):
        on = {name: value for name, value in row.limits.items() if value is not None}
        cuts = several.find_stopped(on, row.key)
        assert {several.unit_keys[cut.unit] for cut in cuts} <= {row.key}
        assert sum(cut.success is True for cut in cuts) == row.successes - row.kept[0]


@pytest.mark.slow
def test_caplab_in_the_report_recommends_what_the_report_does(several: Study) -> None:
    frame = several.found.frame
    qualifies = {key_of([row["agent"], row["set"]]): row["qualifies"] for row in frame.to_dict("records")}
    for row, lab in labs_of(several, summary_rows(several), transcripts=False):
        assert (lab.recommended["setting"] is not None) == qualifies[row.key]
        set_ = {name: lab.setting[name] for name in ("max_steps", "tool_budget", "doom_loop")}
        assert set_ == {name: row.limits.get(name) for name in set_}
        assert lab.answer["kept"] == {"lower": row.kept[0], "upper": row.kept[1], "of": row.successes}


def test_without_transcripts_no_text_of_a_run_is_in_caplab(tmp_path_factory: pytest.TempPathFactory) -> None:
    from tests.support.report_cases import write_log

    log = write_log(tmp_path_factory.mktemp("logs") / "log.json", [1, 2, 3], said="a secret")
    study = study_of([str(log)], Question(scope="run"))
    for transcripts in (True, False):
        [(_, lab)] = labs_of(study, summary_rows(study), transcripts=transcripts)
        said = [message.text for run in lab._tables.runs for message in run.prompt]
        assert any("a secret" in text for text in said) == transcripts


def test_a_curve_has_a_point_for_each_value_of_the_cap(several: Study) -> None:
    rows = summary_rows(several)
    for curve in curves_of(several, "max_steps", rows):
        frame = several.margins["max_steps"]
        agent, _, data = curve.name.rpartition(", ")
        part = frame[(frame["set"] == data) & (frame["agent"] == agent if agent else True)]
        kept = (part["kept_lower"] / part["successes"]).astype(float)
        saved = (part["saved_steps"] / (part["saved_steps"] + part["steps"])).astype(float)
        assert sorted(curve.points) == sorted(zip(saved, kept, strict=True))
        assert curve.points[0] == (0, 1)


def test_the_title_of_the_chart_has_the_numbers_of_the_table(one: Study, several: Study) -> None:
    whole = summary_rows(one)[0]
    chart = frontier_chart(one, summary_rows(one), PageFigures())
    assert chart is not None
    assert whole.is_poor
    assert chart.title == (
        f"The tightest limits that are safe save {percent(whole.saved_share or 0)} of the steps and keep "
        f"{percent(whole.kept[0] / whole.successes)} of the successes"
    )
    good = [row for row in summary_rows(several) if row.is_on and not row.is_poor]
    both = frontier_chart(several, summary_rows(several), PageFigures())
    assert both is not None
    assert all(percent(row.saved_share or 0) in both.title for row in good)
    assert both.title.startswith("The recommended limits save")


def test_chart_title_names_the_best_cap_without_a_recommendation(one: Study) -> None:
    chart = frontier_chart(one, [row._replace(limits={}) for row in summary_rows(one)], PageFigures())
    assert chart is not None
    cap = re.fullmatch(
        r"With 90% of successes kept on record, a step cap of (\d+) saves [\d.]+% of the steps", chart.title
    )
    assert cap is not None
    part = one.margins["max_steps"]
    enough = part[part["kept_lower"] >= 0.9 * part["successes"]]
    assert int(cap[1]) == enough["max_steps"].min()


def test_data_sets_have_a_row_each_with_the_agent_above(several: Study) -> None:
    rows = summary_rows(several)
    assert {(row.title, row.data) for row in rows} == {
        ("intercode", "intercode-python"), ("llm_agent", "tau2-telecom"), ("llm_agent_solo", "tau2-telecom"),
        ("swe_agent", "swebench-verified"),
    }  # fmt: skip
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
        frontier_chart(one, some, PageFigures()) for some in (rows, [row._replace(limits={}) for row in rows])
    )
    assert with_dots is not None
    assert without is not None
    assert with_dots.note == f"{note} Dot: the limits of the table together. Hollow: better left off."
    assert without.note == note


def test_a_limit_that_saves_nothing_is_said_to_save_nothing() -> None:
    curve = LimitCurve("a", [(0.0, 1.0), (0.4, 0.2)], [None, 3], None)
    assert best_at(curve, 0.95) is None
    assert title_of([curve], 0.95, "step cap", "steps").endswith("a step cap saves none of the steps")


def test_the_word_for_a_trade_is_that_of_the_trade(several: Study) -> None:
    for row in summary_rows(several):
        word, numbers = trade_words(row)
        if row.trade is None:
            assert word == ""
        else:
            assert word == ("loses none" if not row.trade.lost else "poor" if row.trade.is_poor else "good")
            assert (numbers == "") == (row.trade.lost == 0)
    even = summary_rows(several)[0]._replace(trade=Trade(10, 1, 20, 2))
    assert trade_words(even)[0] == "even"


def test_the_table_for_a_spreadsheet_has_the_rows_of_the_page(several: Study) -> None:
    rows = summary_rows(several)
    table = summary_frame(several, rows)
    assert table["agent"].tolist() == [row.title for row in rows]
    assert table["runs"].tolist() == [row.runs for row in rows]
    assert table["successes kept, at least"].tolist() == [row.kept[0] for row in rows]
    assert not [name for name in table if "_" in str(name)]
    (poor,) = (row for row in rows if row.is_poor)
    cell = table["step cap"][rows.index(poor)]
    assert cell == f"none ({poor.limits['max_steps']} is safe)"


def test_poor_limits_are_not_listed_unless_full_is_requested(several: Study) -> None:
    shown, whole = how_to_set_text(several), how_to_set_text(several, full=True)
    (poor,) = (way for way in how_to_set(several) if way.poor)
    assert poor.command not in shown
    assert f"Better left off, so not listed here: {poor.group}." in " ".join(shown.split())
    assert poor.command in whole


def test_shares_of_one_column_have_one_form(several: Study) -> None:
    shown = text(several)
    block = shown[shown.index("By agent") : shown.index("What this rests on")]
    forms = {"." in share for share in re.findall(r"([\d.]+)%$", block, re.MULTILINE)}
    assert len(forms) == 1
