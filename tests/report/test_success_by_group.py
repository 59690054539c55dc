"""Labels of one group leave the others as they are without them: each group has labels, or the proxy."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.logs.load import Reading
from boolab.report.html_page import page_of
from boolab.report.question import Question
from boolab.report.study import Study, study_of, study_of_runs
from tests.support.cases import first
from tests.support.growing import codex_lines
from tests.support.report_cases import write_log, write_sessions

LABELLED = "label"


def write_codex(folder: Path) -> Path:
    """Sessions of Codex, without labels: three that end by themselves, and one that breaks off."""
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    ends: list[dict[str, Any]] = [
        {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": said},
        {"timestamp": "2026-01-01T00:00:00Z", "type": "event_msg", "payload": {"type": "task_complete"}},
    ]
    for number, steps in enumerate((2, 3, 5, 9)):
        lines = [*codex_lines(steps), *(ends if steps < 9 else [])]
        lines[0]["payload"]["id"] = f"c{number}"
        (folder / f"rollout-{number}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


@pytest.fixture(params=first(1, [write_codex, write_sessions]), ids=["codex", "claude_code"])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The path of labelled logs, and that of logs without labels."""
    for name in ("labelled", "bare"):
        (tmp_path / name).mkdir()
    write: Callable[[Path], Path] = request.param
    write_log(tmp_path / "labelled" / "log.json", [1, 2, 3, 8], rewards=[1, 1, 0, 1])
    return [str(tmp_path / "labelled"), str(write(tmp_path / "bare"))]


def proxy_of(path: str) -> str:
    """What a success is in logs without labels: sessions of Claude Code have two turns here, those of Codex one."""
    several = any(run.steps and run.steps[-1].turn > 1 for run in bl.load_runs(path))
    return f"{'turn' if several else 'run'} ended by itself"


def read(logs: list[str], **how: Any) -> Study:
    return study_of(logs, Question(**how))


def of(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows of a source, without what stands beside it."""
    return frame[frame["source"] == source].drop(columns="source").reset_index(drop=True)


def counts(row: pd.Series) -> dict[str, Any]:
    names = ("n_units", "successes", "kept_lower", "kept_upper", "spent", "more_needed", "success_by")
    return {name: row[name] for name in names}


def test_recommend_counts_a_group_as_it_does_alone(logs: list[str]) -> None:
    labelled, bare = (bl.load_runs(path) for path in logs)
    for runs in ([*labelled, *bare], [*bare, *labelled]):
        both = bl.recommend(runs, by="source", objective="steps")
        assert both["source"].tolist() == list(dict.fromkeys(run.source for run in runs))
        for own in (labelled, bare):
            alone = bl.recommend(own, by="source", objective="steps")
            row = both.frame[both["source"] == own[0].source].iloc[0]
            assert counts(row) == counts(alone.frame.iloc[0])
        frame = bl.recording_df(runs)
        pd.testing.assert_frame_equal(bl.recommend(frame, by="source", objective="steps").frame, both.frame)
    assert dict(zip(both["source"], both["success_by"], strict=True)) == {
        labelled[0].source: LABELLED,
        bare[0].source: proxy_of(logs[1]),
    }
    assert all(both["successes"] > 0)


def test_whatif_and_report_count_a_group_as_they_do_alone(logs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*paths: str) -> dict[str, Any]:
        assert main(["whatif", *paths, "--json", "--by", "source", "--objective", "steps", "--max-steps", "1,2,4"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    both, alone = printed(*logs), [printed(path) for path in logs]
    assert both["data"]["success_by"] == "mixed"
    assert [one["data"]["success_by"] for one in alone] == [LABELLED, proxy_of(logs[1])]
    for own in alone:
        source = own["recommendation"]["groups"][0]["source"]
        rows = [row for row in both["recommendation"]["groups"] if row["source"] == source]
        assert rows == own["recommendation"]["groups"]
        for axis, table in own["axes"].items():
            shown = [row for row in both["axes"][axis] if row["source"] == source]
            assert [{**row, **part} for row, part in zip(shown, table, strict=True)] == shown
    assert both["data"]["units"] == sum(one["data"]["units"] for one in alone)
    assert both["data"]["units_cut"] == sum(one["data"]["units_cut"] for one in alone)


def test_lists_of_stopped_runs_are_those_of_a_group_alone(logs: list[str]) -> None:
    how: dict[str, Any] = {"by": ("source",), "objective": "steps", "scope": "run"}
    both = read(logs, **how)
    for path in logs:
        alone = read([path], **how)
        key = alone.run_keys[0]
        cuts = [cut for cut in both.cuts("max_steps", [2])[2] if both.unit_keys[cut.unit] == key]
        assert [cut[1:] for cut in cuts] == [cut[1:] for cut in alone.cuts("max_steps", [2])[2]]
        stopped = [cut[1:] for cut in both.find_stopped({"max_steps": 2}, key)]
        assert stopped == [cut[1:] for cut in alone.find_stopped({"max_steps": 2}, key)]
        assert both.counted_units_of(key) == alone.counted_units_of("")


@pytest.mark.slow
def test_each_group_names_what_its_successes_are(logs: list[str]) -> None:
    both = read(logs, by=("source",), objective="steps")
    labelled, bare = dict.fromkeys(both.run_keys)
    noun = both.counted_units_of(bare).noun
    assert [group.labelled for group in both.found.groups] == [True, False]
    notes = [note for note in both.found.notes if "success" in note]
    assert any(
        re.match(rf"{labelled}: 4 labelled: .*A success is a run with a success label: 3 of 4", note) for note in notes
    )
    assert any(
        note.startswith(f"{bare}: No run has a success label: by a proxy, a {noun} that ended") for note in notes
    )
    assert any(f"No success label is used for {bare}: a {noun}" in sentence for sentence in both.found.verdict)
    page = " ".join(re.sub(r"<(script|style|svg).*?</\1>|<[^>]+>", " ", page_of(both), flags=re.DOTALL).split())
    assert "Not drawn" not in page
    assert f"No run of some groups has a label of success. That a {noun} ended by itself is a proxy" in page
    assert "no success on record" not in page


def test_labels_and_the_proxy_are_as_they_are_asked_for(logs: list[str]) -> None:
    runs = [run for path in logs for run in bl.load_runs(path)]
    ended = bl.recommend(runs, by="source", success="ended")
    assert set(ended["success_by"]) == {proxy_of(logs[1])}
    label = bl.recommend(runs, by="source", success="label")
    assert set(label["success_by"]) == {LABELLED}
    assert label["successes"].tolist() == [3, 0]
    bare = runs[-1].source
    assert f"{bare}: no run of it has a label, so none counts as a success." in label.notes
    assert bl.recommend(runs, by=[], scope="run")["success_by"].tolist() == [LABELLED]


def test_a_setting_of_groups_may_be_missing_without_labels(logs: list[str]) -> None:
    labelled, bare = (bl.load_runs(path) for path in logs)
    for value in ("a set", 2.5):
        runs = [*bare, *(replace(run, settings={**run.settings, "set": value}) for run in labelled)]
        both = study_of_runs(runs, Question(objective="steps", scope="run"), Reading(tuple(runs), ()))
        assert "set" in both.keys
        assert sorted(both.found["success_by"]) == [LABELLED, both.found["success_by"].max()]
        keys = [key for key, _ in both.groups("max_steps")]
        assert keys == list(dict.fromkeys(both.run_keys))
        for key, part in both.groups("max_steps"):
            assert set(part["successes"]) == {both.decisions[key].choice.successes} != {0}
        for keys, own in both.kinds:
            found = bl.scorecard(own, bl.doom_loop(3), by=list(both.keys))
            assert len(found.frame) == len(keys) == 1
            assert found["n_positive"].notna().all()


@pytest.mark.parametrize("success", first(1, [True, None]))
def test_costs_of_runs_without_steps_are_unknown(
    success: bool | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = replace(bl.run_sync(None, "Hi", model=bl.ScriptedModel(["Hi."])), steps=(), success=success)
    bl.save_runs(run, tmp_path / "log.jsonl")
    assert main(["whatif", str(tmp_path / "log.jsonl")]) == 0
    assert "$0.00" not in capsys.readouterr().out
    assert main(["whatif", str(tmp_path / "log.jsonl"), "--json"]) == 0
    assert not re.search(r'(cost_usd|tokens)\w*": [0-9]', capsys.readouterr().out)
    study = study_of([str(tmp_path / "log.jsonl")], Question())
    assert "$0.00" not in page_of(study)


def test_a_group_without_steps_is_left_out_beside_labels() -> None:
    run = bl.run_sync(None, "Hi", model=bl.ScriptedModel(["Hi."]))
    runs = [replace(run, agent="a", success=True), replace(run, agent="b", run_id="b", steps=())]
    found = bl.recommend(runs, by="agent")
    assert found["agent"].tolist() == ["a"]
    assert not any(note.startswith(":") for note in found.notes)
