"""Submissions and the page that is made of them."""

import json
import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from benchmarks.stoprulebench.baselines import baselines, detectors_of
from benchmarks.stoprulebench.judge import judge
from benchmarks.stoprulebench.kinds import KIND_OF, KINDS, counted
from benchmarks.stoprulebench.leaderboard import FOLDER, page_of, plot_leaderboard, ranked, read_board, write_board
from benchmarks.stoprulebench.ranks import ranks_of
from benchmarks.stoprulebench.rule_file import parse_rules
from benchmarks.stoprulebench.submission import Submission, as_json, read_submission
from benchmarks.stoprulebench.terminal import headline
from boolab.errors import FileError
from boolab.harnesses.presets import policies
from tests.support.bench_cases import some_recordings
from tests.support.project import ROOT

DATA = some_recordings(7)


def submissions(*texts: str) -> list[Submission]:
    return list(judge([parse_rules(text) for text in texts], DATA))


def folder_of(tmp_path: Path, *found: Submission) -> Path:
    folder = tmp_path / FOLDER
    folder.mkdir(exist_ok=True)
    for submission in found:
        (folder / submission.file_name).write_text(as_json(submission), encoding="utf-8")
    return folder


ONE, OTHER = submissions("name: loops\nrules: [{doom_loop: 3}]", "name: a cap\nrules: [{max_steps: '2:20'}]")


def test_a_submission_reads_back_as_it_was_written(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, ONE)
    assert read_submission(folder / "loops.json") == ONE


def change(values: dict[str, Any], place: str, value: object) -> None:
    *path, last = place.split(".")
    for part in path:
        values = values[part]
    values[last] = value


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        ("version", -1, r"version: Input should be greater than or equal to 0"),
        ("tracks.within.mean.score", [1.2, 0, 1], r"tracks.within.mean: .*score is \[1.2, 0.0, 1.0\]: expected shares"),
        ("tracks.within.mean.kept", [0.9, None], r"tracks.within.mean.kept"),
        ("tracks.within.sets_kept", 99, r"sets_kept is 99: expected at most the number of sets, 4"),
        ("tracks.within.sets.sql.kind", "poems", r"tracks.within.sets.sql: .*kind is 'poems': expected one of coding"),
        ("tracks.within.sets.sql.scores", [1, 2], r"tracks.within.sets.sql.scores: Tuple should have at least 100"),
        ("tracks.within.sets", {}, r"tracks.within.sets: Dictionary should have at least 1 item"),
        ("tracks.none", "all", r"tracks.none"),
        ("tracks.other", {}, r"tracks.other"),
        ("data.files", {"x": "12"}, r"data.files.x: String should match pattern"),
        ("url", "javascript:alert(1)", r"url: String should match pattern"),
        ("name", "two\nlines", r"name: String should match pattern"),
        ("benchmark", "Other", r"benchmark: Input should be 'StopRuleBench'"),
        ("more", 1, r"more: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_in_a_submission_is_named(tmp_path: Path, place: str, value: object, match: str) -> None:
    values = json.loads(as_json(ONE))
    change(values, place, value)
    (tmp_path / "one.json").write_text(json.dumps(values))
    with pytest.raises(FileError, match=match):
        read_submission(tmp_path / "one.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"score": NaN}', "\x00"])
def test_a_file_that_is_no_submission_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.json").write_text(text)
    with pytest.raises(FileError, match=r"one.json: .*expected a file of `boolab bench`"):
        read_submission(tmp_path / "one.json")


def test_the_page_ranks_by_score_in_each_track(tmp_path: Path) -> None:
    board = read_board(folder_of(tmp_path, ONE, OTHER))
    score = {one.name: one.tracks["within"].mean.score.value or 0.0 for one in (ONE, OTHER)}
    names = sorted(score, key=lambda name: -score[name])
    assert [one.name for one in ranked(board.entries, "within")] == names
    page = page_of(board)
    rows = page.partition("## Within a set")[2].partition("## New model")[0].splitlines()
    found = [line.split("|") for line in rows if "](leaderboard/" in line]
    assert [[cells[1].split()[0], cells[3].strip()] for cells in found] == [
        [str(rank), f"[{name}](leaderboard/{name.replace(' ', '-')}.json)"] for rank, name in enumerate(names, 1)
    ]
    assert all(re.fullmatch(r" \d \(\d-\d\) ", cells[1]) for cells in found)
    assert {cells[2].strip() for cells in found} == {"2 customer service, 2 other"}
    assert "\n## No training\n" in page
    assert page.count("](leaderboard/a-cap.json)") == 3
    assert page.count("](leaderboard/loops.json)") == 4


def test_rows_for_scale_have_no_rank(tmp_path: Path) -> None:
    scale = [entry for entry in baselines() if entry.kind == "scale"]
    page = page_of(read_board(folder_of(tmp_path, ONE, *judge(scale, DATA))))
    rows = [line for line in page.splitlines() if line.startswith("| ") and "*" in line]
    assert len(rows) == 4 * 3
    assert all(line.startswith(("|  | 2 customer service", "|  | 2 other | *")) for line in rows)


def test_a_submission_on_other_data_is_named_and_left_out(tmp_path: Path) -> None:
    (strange,) = judge([parse_rules("name: strange\nrules: [{max_steps: 3}]")], some_recordings(8))
    board = read_board(folder_of(tmp_path, ONE, OTHER, strange))
    page = page_of(board)
    assert "\nstrange was judged on other data or splits, and is left out.\n" in page
    assert "strange.json" not in page


def test_a_text_of_a_submission_means_nothing_in_markdown(tmp_path: Path) -> None:
    values = json.loads(as_json(ONE))
    values |= {"name": "a|b <img src=x> `c` [d](e)", "authors": "*x*", "description": "<script>|"}
    page = page_of(read_board(folder_of(tmp_path, Submission.model_validate(values))))
    assert "<img" not in page
    assert "<script>" not in page
    assert r"a\|b &lt;img src=x&gt; \`c\` \[d\](e)" in page
    assert r"\*x\*" in page


def test_a_file_has_the_name_of_its_entry(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, ONE)
    (folder / "loops.json").rename(folder / "x.json")
    with pytest.raises(FileError, match=r"x.json: its name is 'loops': expected the file name loops.json"):
        read_board(folder)


def test_a_folder_without_submissions_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"there is no submission: expected .json files"):
        read_board(tmp_path)


def test_the_page_and_the_figure_are_written(tmp_path: Path) -> None:
    folder_of(tmp_path, ONE, OTHER)
    page = write_board(tmp_path)
    assert page.read_text() == page_of(read_board(tmp_path / FOLDER))
    assert (tmp_path / "pictures" / "leaderboard.png").stat().st_size > 1000


def test_the_figure_has_a_row_for_each_entry_and_names_the_best(tmp_path: Path) -> None:
    ax = plot_leaderboard(read_board(folder_of(tmp_path, ONE, OTHER)))
    first = ranked([ONE, OTHER], "within")
    assert [label.get_text() for label in ax.get_yticklabels()] == [one.name for one in first]
    assert ax.get_title(loc="left").startswith(f"First within a set: {first[0].name}, which saves ")
    plt.close("all")


def test_the_committed_page_is_what_the_submissions_give() -> None:
    folder = ROOT / "docs" / FOLDER
    if not folder.is_dir():
        pytest.skip("this is no checkout")
    assert (ROOT / "docs" / "leaderboard.md").read_text() == page_of(read_board(folder)), "run: make leaderboard"


# --- Ranks ------------------------------------------------------------------------------------------------------------


def scored(name: str, scores: dict[str, float], spread: float = 0.0) -> Submission:
    """A submission with these scores by set, and samples of the tasks that differ from each by up to `spread`."""
    values = json.loads(as_json(ONE))
    some = values["tracks"]["none"]["sets"]["sql"]
    samples = [spread * (2 * place / 99 - 1) for place in range(100)]
    sets = {
        key: {**some, "score": [score, 0, 1], "scores": [round(1e5 * min(max(score + by, 0), 1)) for by in samples]}
        for key, score in scores.items()
    }
    track = {"mean": values["tracks"]["none"]["mean"], "sets_kept": 0, "sets": sets}
    return Submission.model_validate({**values, "name": name, "tracks": {"none": track}})


def test_rank_interval_is_narrow_where_all_sets_agree() -> None:
    names = [f"set{n}" for n in range(9)]
    entries = [scored(name, dict.fromkeys(names, score)) for name, score in (("a", 0.3), ("b", 0.2), ("c", 0.1))]
    assert [tuple(rank) for rank in ranks_of(entries, "none")] == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]


def test_rank_that_rests_on_one_set_has_a_wide_interval() -> None:
    names = [f"set{n}" for n in range(9)]
    steady = scored("steady", dict.fromkeys(names, 0.1))
    once = scored("once", {**dict.fromkeys(names, 0.0), "set0": 0.95})
    first, second = ranks_of([once, steady], "none")
    assert (first.value, second.value) == (1, 2)
    assert first[1:] == second[1:] == (1, 2)


def test_rank_interval_widens_with_the_tasks_within_sets() -> None:
    entries = [scored("a", {"set0": 0.2, "set1": 0.2}), scored("b", {"set0": 0.19, "set1": 0.19}, spread=0.1)]
    assert ranks_of(entries, "none")[0] == (1, 1, 2)


def test_equal_scores_share_a_rank() -> None:
    sets = {"set0": 0.2, "set1": 0.4}
    entries = [scored("a", sets), scored("b", sets), scored("c", dict.fromkeys(sets, 0.1))]
    assert [rank.value for rank in ranks_of(entries, "none")] == [1, 1, 3]


def test_ranks_are_those_of_a_plain_resampling() -> None:
    found = submissions(*(f"name: cap {cap}\nrules: [{{max_steps: {cap}}}]" for cap in (3, 5, 7, 9)))
    ranks = ranks_of(found, "none")
    rng = np.random.default_rng(1)
    sets = list(found[0].tracks["none"].sets)
    samples: list[list[int]] = [[] for _ in found]
    for _ in range(2_000):
        drawn = [(sets[rng.integers(len(sets))], int(rng.integers(100))) for _ in sets]
        means = []
        for one in found:
            scores = [one.tracks["none"].sets[name].scores[place] for name, place in drawn]
            means.append(np.mean([score for score in scores if score is not None]))
        for place, mean in enumerate(means):
            samples[place].append(1 + sum(other > mean for other in means))
    for rank, drawn_ranks in zip(ranks, samples, strict=True):
        ends = np.quantile(drawn_ranks, [0.025, 0.975], method="inverted_cdf")
        assert (rank.low, rank.high) == pytest.approx(tuple(ends), abs=1)


def test_every_kind_of_a_public_set_is_a_named_one() -> None:
    assert set(KIND_OF.values()) <= set(KINDS)
    shipped = {path.name.removesuffix(".jsonl.bz2") for path in (ROOT / "datasets/atlas").glob("*.bz2")}
    shipped.remove("coding-sessions")  # without outcomes, no rule can be scored
    assert shipped <= KIND_OF.keys()
    assert counted(map(KIND_OF.__getitem__, shipped)) == "3 coding, 4 customer service, 1 security, 1 SQL, 2 assistants"


def test_page_says_on_how_many_runs_the_cost_is_known(tmp_path: Path) -> None:
    page = page_of(read_board(folder_of(tmp_path, ONE)))
    known = sum(run.settings["set"] != "code" for run in DATA.runs)
    assert f"| cost saved, {known} of {len(DATA.runs)} runs |" in page


# --- The baselines ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_baselines_have_unique_names_and_each_enters_a_track() -> None:
    entries = baselines()
    found = list(judge(entries, DATA))
    assert len({one.file_name for one in found}) == len(entries) > 25
    score = {one.name: {track: result.mean.score.value for track, result in one.tracks.items()} for one in found}
    assert score["never stop"] == dict.fromkeys(score["never stop"], 0)
    for name, of_track in score.items():
        for track, value in of_track.items():
            assert value <= score["an oracle"][track], name  # type: ignore[operator]
    oracle = next(one for one in found if one.name == "an oracle")
    assert {result.mean.kept.value for result in oracle.tracks.values()} == {1}
    assert set(score["K95: a cap"]) == {"within", "model", "set"}


def test_the_detectors_of_a_preset_have_its_own_thresholds() -> None:
    rules = {name: [(str(each.rule), each.scope) for each in detectors_of(policies[name])] for name in policies}
    assert rules["boocode"] == [("doom_loop(3, ordered)", "turn")]
    assert rules["cline"] == [("repeat_streak:canonical >= 5", "run"), ("error_streak >= 6", "turn")]
    assert rules["crush"] == [("step_repeats:10 >= 6", "turn")] or rules["crush"][0][0].endswith(">= 6")
    assert rules["gemini_cli"][0][0].endswith(">= 2")  # it nudges at 1
    assert rules["roo"][0][0].endswith(">= 4")  # it blocks
    assert rules["smolagents"] == []  # a cap alone


def test_headline_says_on_how_many_runs_a_cost_is_known() -> None:
    every, some, none = some_recordings(7, sets=["sql"]), some_recordings(7), some_recordings(7, sets=["code"])
    assert not any("cost" in line for line in headline(every))
    n, known = len(some.runs), sum(run.settings["set"] != "code" for run in some.runs)
    assert [*headline(some)][-1] == f"cost saved: over the {known} of {n} runs whose cost is known"
    assert [*headline(none)][-1] == "cost saved: unknown, as the cost of no run is known"
