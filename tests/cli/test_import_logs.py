"""`boolab import`: logs of any formats into one file, and what it says about them."""

import bz2
import json
from pathlib import Path

import pandas as pd
import pytest

import boolab as bl
from boolab.cli.main import main
from tests.support.claude_logs import Session, call, text
from tests.support.samples import own


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two sessions of one id and a copy, a chat, a file of no format, and a damaged one."""
    folder = tmp_path / "logs"
    for name in ("a", "b", "c"):
        first, second = ("n1", "n2") if name == "b" else ("m1", "m2")
        session = Session(sessionId="one")
        session.user("look")
        session.say(first, call("t1"), call("t2"))
        session.answer("t1")
        session.answer("t2")
        session.say(second, text())
        session.write(folder / name / "one.jsonl")
    chat = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
    (folder / "chat.jsonl").write_text(json.dumps({"messages": chat}) + "\n{broken\n")
    (folder / "package.json").write_text('{"name": "x"}')
    (folder / "bad.json").write_text('[{"task_id": 1, "traj": [oops')
    return folder


@pytest.mark.parametrize("name", ["runs.parquet", "runs.jsonl", "runs.jsonl.bz2"])
def test_import_writes_logs_of_several_formats_to_one_file(
    logs: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(logs), "-o", str(tmp_path / name)]) == 0
    runs = bl.load_runs(tmp_path / name)
    assert sorted((run.source, run.run_id, run.n_steps, run.n_tool_calls) for run in runs) == [
        ("claude_code", "one", 2, 2),
        ("claude_code", "one#2", 2, 2),
        ("openai_chat", "chat", 1, 0),
    ]
    said = capsys.readouterr().out
    assert "Read 4 of 6 files in " in said
    assert "3 runs, 5 steps, 4 tool calls." in said
    assert "no reader recognises it:\n      " + str(logs / "package.json") in said
    assert str(logs / "bad.json") in said
    assert "chat.jsonl:2: not valid JSON" in said
    assert f"{logs / 'c' / 'one.jsonl'}: 1 run is a copy of a run in {logs / 'a' / 'one.jsonl'}: counted once" in said
    assert "1 run had the id of another run, which differs, and got a new one, such as one#2." in said
    assert f"Wrote {tmp_path / name} (" in said


def test_as_json_every_file_has_a_row_with_what_became_of_it(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.parquet"
    assert main(["import", str(logs), "-o", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["runs"], told["steps"]) == ("boolab/import/1", 3, {"claude_code": 4, "openai_chat": 1})
    rows = {Path(row["path"]).relative_to(logs).as_posix(): row for row in told["files"]}
    assert {name: (row["format"], row["runs"], row["skipped"] is None) for name, row in rows.items()} == {
        "a/one.jsonl": ("claude_code", 1, True),
        "b/one.jsonl": ("claude_code", 1, True),
        "c/one.jsonl": ("claude_code", 0, True),
        "bad.json": ("tau_bench", 0, False),
        "chat.jsonl": ("openai_chat", 1, True),
        "package.json": (None, 0, False),
    }
    assert len(rows["chat.jsonl"]["warnings"]) == 1


def test_import_gives_subagents_the_new_id_of_their_parent(tmp_path: Path) -> None:
    trajectory = own("atif/others.json").read_text()
    (tmp_path / "a.json").write_text(trajectory)
    (tmp_path / "b.json").write_text(trajectory.replace('"message": "', '"message": "So: '))
    assert main(["import", str(tmp_path / "*.json"), "-o", str(tmp_path / "runs.jsonl")]) == 0
    runs = bl.load_runs(tmp_path / "runs.jsonl")
    assert [(run.run_id, run.parent_run_id) for run in runs] == [
        ("shelf-7", None),
        ("binder-1", "shelf-7"),
        ("shelf-7#2", None),
        ("binder-1#2", "shelf-7#2"),
    ]


def test_the_file_answers_questions_like_the_logs(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.parquet"
    assert main(["import", str(logs / "a"), "-o", str(out)]) == 0
    from_logs = bl.counterfactual(bl.load_runs(logs / "a"), grid={"tool_budget": [1, 2, 3]})
    pd.testing.assert_frame_equal(bl.counterfactual(out, grid={"tool_budget": [1, 2, 3]}), from_logs, check_like=True)
    assert main(["whatif", str(out), "--tool-budget", "1,2"]) == 0


def test_import_does_not_read_its_earlier_output_among_the_logs(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(logs)
    for out in (logs / "runs.parquet", logs / "runs.parquet", "runs.parquet"):
        assert main(["import", str(logs), "-o", str(out)]) == 0
        assert "3 runs, 5 steps" in capsys.readouterr().out


def test_import_refuses_an_unwritable_file_before_reading_logs(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(logs), "-o", str(tmp_path / "runs.csv")]) == 1
    assert "runs are saved as .jsonl (ATIF), .jsonl.bz2 or .parquet; .csv is not accepted" in capsys.readouterr().err
    assert main(["import", str(logs), "-o", str(tmp_path / "no" / "runs.jsonl")]) == 1
    assert f"there is no folder {tmp_path / 'no'}" in capsys.readouterr().err


def test_an_import_that_fails_leaves_an_earlier_file_as_it_was(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.jsonl"
    out.write_text("mine")
    assert main(["import", str(logs / "bad.json"), "-o", str(out)]) == 1
    assert out.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "runs.jsonl"]


def test_import_without_runs_keeps_the_earlier_file_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.parquet"
    out.write_text("mine")
    (tmp_path / "empty").mkdir()
    assert main(["import", str(tmp_path / "empty"), "-o", str(out)]) == 1
    assert f"There is no run in these logs: {out} was not written." in capsys.readouterr().out
    assert out.read_text() == "mine"


def test_facts_have_no_texts_and_the_same_repeats(logs: Path, tmp_path: Path) -> None:
    facts, whole = tmp_path / "facts.jsonl.bz2", tmp_path / "whole.jsonl"
    assert main(["import", str(logs), "--facts", "-o", str(facts)]) == 0
    assert main(["import", str(logs), "-o", str(whole)]) == 0
    assert b"Hello" in whole.read_bytes()
    assert b"Hello" not in bz2.decompress(facts.read_bytes())
    rules = [bl.doom_loop(2), bl.error_streak(1)]
    found, expected = (bl.scorecard(bl.load_runs(path), rules).frame for path in (facts, whole))
    pd.testing.assert_frame_equal(found, expected)
