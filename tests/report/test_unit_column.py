"""Each frame names what it counts as one, in its column `unit`; equal units have equal numbers."""

import contextlib
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.report.question import Question
from boolab.report.study import study_of
from boolab.report.units import turns_as_units
from tests.support.caplab_cases import Told, runs_of
from tests.support.project import ROOT

CAPS = [2, 3, 4, None]
COUNTS = ["n_runs", "successes", "kept_lower", "kept_upper", "n_truncated", "saved_steps"]


def sessions() -> list[Run]:
    """Conversations of three turns without labels."""
    turns = ["A B C -", "A B -", "A -", "AB CD EF GH -"]
    return runs_of(*(Told(tuple(turns[(n + turn) % 4] for turn in range(3)), task=f"t{n}") for n in range(12)))


def labelled() -> list[Run]:
    return [replace(run, success=n % 3 > 0) for n, run in enumerate(sessions())]


def whatif(runs: list[Run], folder: Path, *options: str) -> dict[str, Any]:
    """What `boolab whatif --json` prints of some caps."""
    path, out = folder / "runs.jsonl", io.StringIO()
    bl.save_runs(runs, path)
    with contextlib.redirect_stdout(out):
        assert main(["whatif", str(path), "--max-steps", "2:4", *options, "--json"]) == 0
    data: dict[str, Any] = json.loads(out.getvalue())
    return data


def counted(runs: list[Run]) -> pd.DataFrame:
    return bl.counterfactual(runs, grid={"max_steps": CAPS}, scope="turn", aggregate=True)


def test_whatif_and_counterfactual_agree_on_runs_with_labels(tmp_path: Path) -> None:
    said, frame = whatif(labelled(), tmp_path, "--scope", "turn"), counted(labelled())
    rows = pd.DataFrame(said["axes"]["max_steps"])
    assert set(rows["unit"]) == set(frame["unit"]) == {said["data"]["unit"]} == {"run"}
    assert rows[COUNTS].to_numpy().tolist() == frame[COUNTS].to_numpy().tolist()


def test_whatif_counts_what_counterfactual_counts_once_split(tmp_path: Path) -> None:
    runs = sessions()
    rows = pd.DataFrame(whatif(runs, tmp_path, "--scope", "turn")["axes"]["max_steps"])
    by_run = counted(runs)
    assert set(rows["unit"]) == {"turn"}
    assert set(by_run["unit"]) == {"run"}
    assert (rows["n_runs"].max(), by_run["n_runs"].max()) == (36, 12)
    assert rows["kept_lower"].tolist() != by_run["kept_lower"].tolist()
    split = counted([unit.run for n, run in enumerate(runs) for unit in turns_as_units(run, n)])
    assert rows[COUNTS].to_numpy().tolist() == split[COUNTS].to_numpy().tolist()


@pytest.mark.parametrize("turns", [1, 3])
def test_success_by_names_the_unit_of_the_proxy(turns: int, tmp_path: Path) -> None:
    runs = runs_of(*(Told(("A B -", "A -", "A B C -")[:turns]) for _ in range(4)))
    unit = "turn" if turns > 1 else "run"
    said = whatif(runs, tmp_path, "--scope", "turn")
    rows = [*said["axes"]["max_steps"], {"unit": said["data"]["unit"], **said["recommendation"]["groups"][0]}]
    assert {row["success_by"] for row in rows} == {f"{unit} ended by itself"}
    assert {row["unit"] for row in rows} == {unit}
    assert bl.survival(runs, scope="turn").frame["unit"].unique().tolist() == [unit]


def test_every_frame_of_statistics_names_its_unit(tmp_path: Path) -> None:
    runs = labelled()
    rules = [bl.max_steps(2), bl.max_steps(4)]
    frames = {
        "scorecard": bl.scorecard(runs, rules).frame,
        "precision": bl.stats.precision_recall_df(runs, {"max_steps": [2, 3]}),
        "frontier": bl.stats.frontier(runs, rules, progress=False).frame,
        "crossval": bl.stats.crossval(runs, bl.stats.smallest_cap(0.9), folds=3, progress=False).frame,
        "survival": bl.survival(runs, scope="run").frame,
    }
    assert {name: frame["unit"].unique().tolist() for name, frame in frames.items()} == {
        name: ["run"] for name in frames
    }
    path = tmp_path / "table.csv"
    bl.save_runs(sessions(), tmp_path / "runs.jsonl")
    assert main(["whatif", str(tmp_path / "runs.jsonl"), "--scope", "turn", "--max-steps", "2:4", "-o", str(path)]) == 0
    assert pd.read_csv(path)["unit"].unique().tolist() == ["turn"]


def test_agents_of_families_have_one_unit_in_caplab_and_whatif(tmp_path: Path) -> None:
    roots = [replace(run, run_id=f"root{n}", agent="lead") for n, run in enumerate(sessions())]
    scouts = runs_of(*(Told(("A B -",), agent="scout") for _ in roots))
    runs = [*roots, *(replace(run, parent_run_id=root.run_id) for run, root in zip(scouts, roots, strict=True))]
    lab, units = bl.CapLab(runs, scope="turn"), set()
    for agent in ("lead", "scout"):
        lab.setting = {"agent": agent, "max_steps": 2}
        units.add(re.findall(r"(turn|run)s that ended by themselves", lab.answer["verdict"][0])[0])
    rows = whatif(runs, tmp_path, "--scope", "turn")["axes"]["max_steps"]
    assert units == {row["unit"] for row in rows} == {"turn"}


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("families", [False, True])
def test_proxy_counts_are_one_in_note_table_and_report(turns: int, families: bool, tmp_path: Path) -> None:
    runs = runs_of(*(Told(words) for words in [("A -",) * turns, ("A B -",) * turns, ("A",) * turns, ("",)]))
    if families:
        scouts = [replace(run, run_id=f"s{n}", agent="scout") for n, run in enumerate(runs_of(*[Told(("A -",))] * 4))]
        runs += [replace(run, parent_run_id=root.run_id) for run, root in zip(scouts, runs, strict=True)]
    found = bl.recommend(runs[::-1], by=[], scope="turn")
    (note,) = (note for note in found.notes if "counts as a success" in note)
    said = re.findall(r"counts as a success, (\d+) of (\d+) ", note)
    assert said == [(str(found.frame["successes"].sum()), said[0][1])]
    rows = whatif(runs[::-1], tmp_path, "--scope", "turn", "--by", "all")["axes"]["max_steps"]
    assert {row["successes"] for row in rows} == {int(said[0][0])}
    study = study_of([str(tmp_path / "runs.jsonl")], Question(by=(), scope="turn"))
    assert study.root_successes == tuple(map(int, said[0]))


def test_terms_name_columns_that_frames_have() -> None:
    page = (ROOT / "docs/terms.md").read_text(encoding="utf-8")
    runs = labelled()
    frames = [
        bl.runs_df(runs),
        counted(runs),
        bl.counterfactual(runs, grid={"max_steps": CAPS}),
        bl.recommend(runs).frame,
        bl.scorecard(runs, bl.max_steps(2)).frame,
    ]
    columns = {str(column) for frame in frames for column in frame}
    for term in ("Turn and run", "Task", "Group", "Success and proxy", "On record", "Keeps", "At least",
                 "Bound, confidence and promise", "Held out", "Trade", "Margin"):  # fmt: skip
        assert f"\n## {term}\n" in page
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", page))
    assert named <= columns
