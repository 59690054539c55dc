"""What readers found wrong in the answers: each fault, rebuilt small, with the right value.

The faults that other modules hold in the same form are not repeated: counts of the proxy and units
(`test_unit_column`), export to a harness that lacks a limit (`test_export_target`), calls within a step
(`tests/whatif/test_calls_in_a_step`), notes on limits outside of a sweep's grid (`tests/sweeps/test_notes`), and all
surfaces asked the same (`test_forty_questions`).
"""

import contextlib
import html
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.core.types import ToolResult
from boolab.report.html_page import page_of
from boolab.report.question import Question
from boolab.report.study import Study, study_of
from boolab.report.text import text
from boolab.stats.trade import Trade
from tests.stats.test_recommend import LOOPS, plain, run_of
from tests.support.cases import first
from tests.support.pages import pages
from tests.support.project import ROOT
from tests.support.report_cases import draw_no_figures


def saved(runs: Sequence[Run], folder: Path) -> str:
    """The path of a file of these runs."""
    path = folder / "runs.jsonl"
    bl.save_runs(runs, path)
    return str(path)


def said(*words: str) -> str:
    """What a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(words) == 0
    return " ".join(out.getvalue().split())


def letters(n: int) -> str:
    """So many calls, each another one than the one before."""
    return "".join(chr(97 + i % 26) for i in range(n))


def uninformative(seed: int, n: int = 240) -> list[Run]:
    """Runs whose lengths tell nothing of their outcome; each prompt is longer than the one before, and costs more."""
    rng = np.random.default_rng(seed)
    runs = []
    for number in range(n):
        run = run_of(number, letters(min(int(rng.geometric(0.1)), 60)), success=bool(rng.random() < 0.9))
        steps = [
            step._replace(response=step.response._replace(usage=step.response.usage._replace(cost=1000 + 400 * i)))
            for i, step in enumerate(run.steps)
        ]
        runs.append(replace(run, steps=tuple(steps)))
    return runs


def two_models() -> list[Run]:
    """Runs of a model that needs few steps, and of one that needs many."""
    short = [*plain(90), *LOOPS]
    long = [run_of(5000 + i, letters(12), success=i < 80) for i in range(90)]
    return [*short, *(replace(run, model="long") for run in long)]


# --- One question, one answer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tasks", [90, 24])
def test_a_cap_has_one_answer_whatever_else_is_asked(tasks: int, tmp_path: Path) -> None:
    """A cap was safe if the grid had tighter, useless values, and needed 89 more successes if it was asked alone."""
    runs = [run_of(i, "abcd", task=f"t{i % tasks}") for i in range(90)] + LOOPS
    path, grids = saved(runs, tmp_path), {"5": [5], "4:5": [4, 5], "1:5": [*range(1, 6)], "5:40": [*range(5, 41)]}
    answers = set()
    for words, values in grids.items():
        (row,) = json.loads(_json("whatif", path, "--max-steps", words))["recommendation"]["groups"]
        found = bl.recommend(runs, grid={"max_steps": values}).evidence
        assert (row["action"], row["max_steps"], row["kept_bound"]) == (
            found["action"],
            found["max_steps"],
            pytest.approx(found["kept_bound"]) if found["kept_bound"] else None,
        )
        answers.add((row["action"], row["max_steps"], row["kept_bound"], row["more_needed"]))
    ((action, cap, *_),) = answers
    assert (action, cap) == (("set", 5) if tasks == 90 else ("not_yet", None))


def _json(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([*words, "--json"]) == 0
    return out.getvalue()


def test_bound_does_not_depend_on_what_was_read_before() -> None:
    """CapLab's lower bound of one cap was 0.92 or 0.95, by whether its decision was read before; 0.92 denied it."""
    runs = plain(90) + LOOPS
    lab, bounds = bl.CapLab(runs), []
    for read_first in (False, True, False):
        if read_first:
            assert lab.recommended["action"] == "set"
        lab.setting = {"max_steps": 9}
        lab.setting = {"max_steps": 5}
        bounds.append(lab.answer["at_least"])
    alone = bl.recommend(runs, grid={"max_steps": [5]}).evidence["kept_bound"]
    assert bounds == [pytest.approx(alone, abs=1e-4)] * 3
    assert bounds[0] >= lab.keep


def test_figure_of_caps_counts_in_the_unit_of_the_answer() -> None:
    """The answer saved dollars, and the title of the figure below it steps."""
    runs = plain(90) + LOOPS
    decision, table = bl.recommend(runs), bl.counterfactual(runs, grid={"max_steps": range(1, 30)}, aggregate=True)
    title = bl.plots.plot_caps(table, recommended=decision).get_title(loc="left")
    (amount,) = re.findall(r"saves? (\$[\d.]+ of \$[\d.]+)", decision.verdict[0])
    assert title == f"Step cap 5 keeps 90 of 90 successes and saves {amount}"
    assert "steps" in bl.plots.plot_caps(table, recommended=5).get_title(loc="left")
    assert "steps" in bl.plots.plot_caps(table, saved="steps", recommended=decision).get_title(loc="left")


@pytest.mark.slow
def test_what_is_left_off_is_to_be_set_on_no_surface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One surface called a cap better left off, and marked the same cap as recommended, with a button to set it."""
    draw_no_figures(monkeypatch)
    runs = uninformative(1)
    decision, study, lab = bl.recommend(runs), _study(runs, tmp_path), bl.CapLab(runs)
    candidate = decision.groups[0].candidate
    assert (decision.action, candidate is not None) == ("leave", True)
    assert (lab.recommended["setting"], study.found.action) == (None, "leave")
    page = html.unescape(re.sub(r"<[^>]+>", " ", page_of(study)))
    shown = [text(study), page, lab._text(), str(decision)]
    for one in shown:
        assert "Set no limit: " in one
        assert not re.search(r"Set (a|an) |<- to set|recommended cap|<- recommended", one)
    with pytest.raises(bl.SettingError, match="Set no limit: "):
        decision.export("claude-code")


@pytest.mark.slow
def test_saved_view_has_the_text_of_its_page() -> None:
    """A saved CapLab said cap 68 in its text and cap 77 in the page right below."""
    lab = bl.CapLab(plain(90) + LOOPS)
    *_, stored = lab._bundles()
    assert "Setting: step cap 5," in stored["text/plain"]
    page = html.unescape(stored["text/html"])
    for part in lab.recommended["verdict"]:
        assert part in stored["text/plain"]
        assert part in html.unescape(page)


# --- Whom a limit stops, and what that is worth -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", first(3, range(12)))
def test_lengths_that_tell_nothing_set_no_limit(seed: int) -> None:
    """In 22 of 25 such records a cap that stopped only successes was "Set ... The trade is good"."""
    runs = uninformative(seed)
    decision = bl.recommend(runs)
    assert decision.action in ("leave", "not_yet")
    if decision.evidence["reason"] == "stops_as_many_successes":
        assert "not shown to fail more often than the others" in decision.verdict[0]
    lab = bl.CapLab(runs)
    assert lab.recommended["setting"] is None
    for cap in (20, 30):
        lab.setting = {"max_steps": cap}
        assert "The trade is good" not in " ".join(lab.answer["verdict"])


def test_scorecard_and_decision_have_one_trade() -> None:
    """One called the trade of a limit good and the other poor: in dollars of turns, and in steps of runs, unsaid."""
    runs = [*plain(150), run_of(800, letters(9)), *LOOPS]
    decision = bl.recommend(runs, objective="steps", grid={"max_steps": [5]})
    card = bl.scorecard(runs, [bl.max_steps(5)])
    trade, row = decision.groups[0].trade, card.frame.iloc[0]
    assert (decision.setting["max_steps"], trade.lost) == (5, 1)
    assert row["saved_steps_per_lost_success"] == trade.per_lost_success
    assert row["steps_per_success"] == pytest.approx(trade.per_success)
    words = "The trade is good, in steps of runs: it saves "
    assert words in " ".join(decision.verdict)
    assert words in " ".join(card.sentences)
    assert "in dollars of turns" in Trade(2.0, 1, 3.0, 3, "cost", "turn").sentence


def test_saving_of_one_run_is_named_with_its_interval(tmp_path: Path) -> None:
    """A saving of 21% was one run to 93%, and stood there without an interval, as a good trade."""
    runs = [*plain(90), *LOOPS[:3], run_of(3000, "abc" + "d" * 300, success=False)]
    decision = bl.recommend(runs, objective="steps", grid={"max_steps": [5]})
    row = decision.evidence
    share = 299 / (3 * 19 + 299)
    assert (row["largest_run"], row["largest_run_share"]) == ("r3000", pytest.approx(share))
    assert row["saved_share_low"] < 0.1 < row["saved_share"] < row["saved_share_high"]
    shown = said("whatif", saved(runs, tmp_path), "--objective", "steps", "--max-steps", "5")
    assert "84% of the saving is one run, r3000." in shown
    assert re.search(r"The saving, \d+%, has a 95% interval of ", shown)
    lab = bl.CapLab(runs, objective="steps", decision=decision)
    assert "84% of the saving is one run, r3000." in " ".join(lab.answer["verdict"])


def test_answer_stops_where_the_next_step_is_poor() -> None:
    """A trade was judged as a whole: its last step lost 97 successes for 14 steps each, and a success took 17."""
    runs = [*plain(280), *(run_of(400 + i, letters(8)) for i in range(20))]
    runs += [run_of(700 + i, letters(60), success=False) for i in range(10)]
    decision = bl.recommend(runs, keep=0.85, objective="steps", grid={"max_steps": range(1, 62)})
    row = decision.evidence
    assert (decision.setting, row["kept_lower"], row["next_lost"]) == ({"max_steps": 9}, 300, 20)
    assert Trade(row["saved"] + row["next_saved"], 20, row["spent"] + row["saved"], 300).is_poor is False
    assert row["next_saved"] / row["next_lost"] < (row["spent"] + row["saved"]) / row["successes"]
    assert any(
        " the next tighter limit shown to keep 85%, would lose 20 " in sentence for sentence in decision.sentences
    )


def test_a_setting_that_keeps_too_little_has_no_good_trade() -> None:
    """Two verdicts stood in one line: "less than the 95% to keep ... The trade is good"."""
    lab = bl.CapLab([*plain(90), *(run_of(400 + i, letters(8)) for i in range(20)), *LOOPS])
    lab.setting = {"max_steps": 5}
    (only,) = lab.answer["verdict"]
    assert only.startswith("A step cap of 5 keeps 90 of 110 successes, less than the 95% to keep, and saves ")


def test_title_of_the_curve_leaves_the_saving_of_two_to_both() -> None:
    """The title gave to a cap what the cap and a doom-loop threshold save together: 37%, and it was 25%."""
    lab = bl.CapLab(plain(150) + LOOPS)
    lab.setting = {"max_steps": 5}
    assert "a cap of 5" in lab.answer["curve"]["title"] or "is 5" in lab.answer["curve"]["title"]
    assert "it saves" in lab.answer["curve"]["title"]
    lab.setting = {"max_steps": 5, "doom_loop": 3}
    assert "saves" not in lab.answer["curve"]["title"]


# --- Groups -----------------------------------------------------------------------------------------------------------


def test_models_of_unlike_length_have_limits_of_their_own(tmp_path: Path) -> None:
    """One cap for seven models promised 95%, and kept 92.5% of the successes of one; nothing said so."""
    runs = two_models()
    decision, study, lab = bl.recommend(runs, keep=0.9), _study(runs, tmp_path, keep=0.9), bl.CapLab(runs, keep=0.9)
    assert decision.keys == study.keys == ("model",)
    assert {agent["name"] for agent in lab._agents} >= {"m", "long"}
    of_group = {group.names[0]: group for group in decision.groups}
    assert of_group["m"].setting["max_steps"] == 5
    assert sum(group.lost for group in decision.groups) == 0
    pooled = said("whatif", saved(runs, tmp_path), "--keep", "0.3", "--by", "all", "--max-steps", "5")
    assert "less than 30% for model long (0 of 80, 0%)" in pooled


def test_tables_of_several_agents_have_values(tmp_path: Path) -> None:
    """With two agents the table of `whatif` was one row, no limit, and caps of 15 and 20 were not there."""
    runs = [run_of(i, letters(40 if i % 9 == 0 else 6)) for i in range(60)]
    runs += [replace(run, run_id=f"b{run.run_id}", agent="b") for run in runs]
    shown = text(_study(runs, tmp_path))
    for agent in ("a", "b"):
        part = shown.partition(f"Step cap for {agent}")[2].partition("\n\n")[0]
        caps = [int(cap) for cap in re.findall(r"^ +(\d+) +\d", part, re.MULTILINE)]
        assert {10, 15, 20, 30} <= {*caps}


def _study(runs: Sequence[Run], folder: Path, **asked: Any) -> Study:
    return study_of([saved(runs, folder)], Question(**asked))


# --- Few runs, few tasks ----------------------------------------------------------------------------------------------


def test_few_tasks_of_many_runs_have_no_answer() -> None:
    """Of 15 tasks of 10 runs each, 47 answers were given and 47 were wrong: a rare kind of task was not on record."""
    runs = [run_of(i, "abcd", task=f"t{i // 10}") for i in range(150)] + LOOPS
    row = bl.recommend(runs).evidence
    assert (row["action"], row["tasks"], row["successes"]) == ("not_yet", 15, 150)
    more = int(row["more_needed"])
    enough = [run_of(i, "abcd", task=f"t{i // 10}") for i in range(10 * (15 + more))] + LOOPS
    assert bl.recommend(enough, grid={"max_steps": [5]}).action != "not_yet"
    assert bl.recommend(enough[10:], grid={"max_steps": [5]}).action == "not_yet"
    assert row["rarest_kind"] > 0.15


def test_too_few_successes_show_what_can_be_kept_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CapLab said that nothing is set and nothing is saved; the report drew a cap that "saves 8.7%"."""
    titles: list[str] = []
    draw_no_figures(monkeypatch)
    runs = plain(21) + LOOPS
    lab = bl.CapLab(runs)
    assert lab.recommended["action"] == "not_yet"
    shown = " ".join(lab.answer["verdict"])
    assert "21 successes are too few" in shown
    assert "a limit that loses none of them keeps at least 86.7% of future ones" in shown
    page = html.unescape(re.sub(r"<[^>]+>", " ", page_of(_study(runs, tmp_path))))
    titles += re.findall(r"[Ss]tep cap (?:of )?\d+ (?:keeps|saves)[^.]*", page)
    assert titles == []
    assert bl.recommend(runs, keep=0.86).action == "set"


# --- Counts -----------------------------------------------------------------------------------------------------------


def _without_errors(results: Sequence[ToolResult | None]) -> tuple[ToolResult | None, ...]:
    return tuple(result and result._replace(is_error=None) for result in results)


@pytest.mark.slow
def test_unknown_alarms_are_unknown_in_figure_and_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure said of a detector "alarms unknown", and the table below it "0"."""
    draw_no_figures(monkeypatch)
    runs = [
        replace(run, steps=tuple(step._replace(results=_without_errors(step.results)) for step in run.steps))
        for run in plain(30) + LOOPS
    ]
    rules = [bl.doom_loop(3), bl.error_streak(3)]
    frame = bl.scorecard(runs, rules).frame.set_index("rule")
    assert frame["alarms"].isna().tolist() == [False, True]
    page = html.unescape(re.sub(r"<[^>]+>", " ", page_of(_study(runs, tmp_path))))
    assert re.search(r"error_streak\(3\)\s+not known", page)


def test_cap_of_zero_is_counted_as_the_rule_and_the_grid_say() -> None:
    """A cap of 0 leaves one answer, which is on no record; the rule stops before the first step."""
    runs = plain(2)
    by_grid = bl.counterfactual(runs, grid={"max_steps": [0]})
    by_rule = bl.counterfactual(runs, rules=[bl.max_steps(0)])
    assert by_grid["outcome"].tolist() == ["not_identified"] * 2
    assert by_rule["outcome"].tolist() == ["truncated"] * 2
    assert [*by_grid["saved_steps"]] == [*by_rule["saved_steps"]] == [5, 5]


@pytest.mark.parametrize(
    "ask",
    [
        lambda runs: bl.recommend(runs, exempt=["poll"]).evidence["action"],
        lambda runs: len(bl.counterfactual(runs, rules=[bl.doom_loop(3, exempt=["poll"])])),
        lambda runs: len(bl.scorecard(runs, [bl.doom_loop(3, exempt=["poll"])]).frame),
    ],
)
def test_one_list_of_rules_works_over_a_fleet(ask: Callable[[list[Run]], Any]) -> None:
    """A rule that exempts a tool was an error for runs that never call it."""
    assert ask(plain(60) + LOOPS) in ("set", 65, 1)


def test_one_page_says_in_how_many_sets_a_learned_rule_keeps_95() -> None:
    """Three pages gave three answers, 9, 7 and 6 of nine."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in pages().items()}
    said_of = {
        name: re.findall(r"learn_stop[^.]*?(?:\d|nine|seven|six) of (?:the )?(?:nine|9) sets", page, re.DOTALL)
        for name, page in texts.items()
    }
    assert {name for name, found in said_of.items() if found} <= {"conditions"}
    assert "## Does learn_stop keep 95%?" in texts["conditions"]
    assert "conditions.md#does-learn_stop-keep-95" in texts["study"]
    assert (ROOT / "docs/conditions.md").is_file()
