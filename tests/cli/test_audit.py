"""`boolab audit`: sentences and a table, JSON, and an exit code that a pipeline can use."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.audit import EPILOG, limit
from boolab.cli.main import help_pages, main
from boolab.live.audits.verdicts import VERDICTS
from boolab.logs.log_files import readers
from boolab.report.data_quality import Quality
from boolab.report.question import Question
from boolab.report.study import study_of
from tests.support.report_cases import write_sessions
from tests.support.samples import atlas


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three sessions, with at most two calls in a turn."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return str(write_sessions(tmp_path))


def test_the_exit_code_is_3_where_a_limit_was_exceeded(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", logs, "--limit", "max_turns=1"]) == 3
    told = capsys.readouterr().out
    assert "3 of 3 runs went beyond a limit that was set" in told
    assert main(["audit", logs, "--limit", "max_turns=3"]) == 0
    assert "None of 3 runs with a limit went beyond it." in capsys.readouterr().out
    assert main(["audit", logs]) == 0
    shown = capsys.readouterr().out
    assert "No limit was declared for these 3 runs." in shown
    option = shown.partition("You can name one: ")[2].partition(",")[0].split()
    assert main(["audit", logs, *option]) == 0


def test_json_has_all_rows(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", logs, "--limit", "max_turns=1", "--limit", "*.max_budget_usd=5", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["schema", "boolab", "exceeded", "sentences", "notes", "limits", "binding", "checks"]
    assert found["checks"] == []
    assert found["exceeded"] == 3
    assert [row["verdict"] for row in found["limits"]] == ["exceeded"] * 3 + ["unknown"] * 3
    assert [row["n_exceeded"] for row in found["binding"]] == [3, 0]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["--limit", "max_turn=1"], 1, "no harness has a limit 'max_turn'; did you mean 'max_turns'?"),
        (["--config", "gone.json"], 1, "gone.json"),
    ],
)
def test_an_error_is_one_line(
    logs: str, given: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", logs, *given]) == code
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("option", "word", "near", "all_of"),
    [
        ("--policy", "claude", "claude_code", sorted(bl.policies)),
        ("--policy", "foo", "roo", sorted(bl.policies)),
        ("--format", "claude", "claude_code", readers()),
        ("--format", "zzzzzz", "", readers()),
    ],
)
def test_unknown_word_is_refused_with_the_nearest_and_all_words(
    logs: str, option: str, word: str, near: str, all_of: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", logs, option, word]) == 1
    told = capsys.readouterr().err
    assert max(map(len, told.splitlines())) < 80
    shown = " ".join(told.split())
    assert (f"did you mean {near!r}?" in shown) == bool(near)
    assert ", ".join(all_of) in shown
    assert "any other word lists them all" in " ".join(help_pages()["boolab audit"].split())


def test_a_folder_without_logs_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.json").write_text('{"a": 1}')
    assert main(["audit", str(tmp_path)]) == 1
    assert "no log was found" in capsys.readouterr().err


def test_the_table_names_the_runs(logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "session0.jsonl"
    path.write_text(path.read_text().replace('"s0"', '"55604662-cf2a-4312-8f1a-ec234028f8ca"'))
    assert main(["audit", logs, "--limit", "max_turns=1"]) == 3
    head, row, *_ = capsys.readouterr().out.partition("verdict ")[2].splitlines()
    assert head.split()[0] == "run"
    assert row.split()[1].startswith("55604662-")


def test_long_names_of_runs_stay_apart_in_the_table() -> None:
    runs = atlas("intercode-ctf")[:2]
    names = [f"replay__marshmallow__{setting}__install-1/marshmallow-1867-and-more" for setting in ("xml", "default")]
    found = bl.audit([replace(run, run_id=name) for run, name in zip(runs, names, strict=True)], {"max_steps": 99})
    shown = [line.split()[-4] for line in str(found).splitlines() if "max_steps  " in line]
    assert len(set(shown)) == len(shown) == 2


def test_log_problems_are_counted_and_listed_on_request(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path, notes = tmp_path / "session0.jsonl", tmp_path / "notes.json"
    path.write_text(path.read_text() + "\n{oops")
    notes.write_text('{"a": 1}')
    assert main(["audit", logs]) == 0
    told = capsys.readouterr()
    counted = "1 skipped file, 1 warning"
    assert told.err == f"boolab: {counted}; --warnings lists them\nNext: boolab whatif {logs}\n"
    assert main(["audit", logs, "--warnings"]) == 0
    listed = capsys.readouterr()
    head, *lines = listed.err.splitlines()
    assert (head, listed.out) == (f"boolab: {counted}:", told.out)
    line = len(path.read_text().splitlines())
    assert lines[0] == f"  {notes}: skipped: no reader recognises it"
    assert lines[1].startswith(f"  {path}:{line}: ")
    assert list((tmp_path / "elsewhere").iterdir()) == []  # nothing is written
    assert str(Quality(study_of([logs], Question())).problems) == counted  # the title of the table in the report
    assert main(["whatif", logs]) == 0
    assert f"{path}:{line}:" in "".join(capsys.readouterr().out.split())


def test_a_limit_may_name_an_agent() -> None:
    assert limit("a.b.max_turns=1.5") == ("a.b", "max_turns", 1.5)
    name = "features.rollout_budget.limit_tokens"
    assert limit(f"{name}=9") == ("", name, 9)


def test_the_current_folder_is_not_above_a_relative_path(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    (scratch / ".claude").mkdir(parents=True)
    (scratch / ".claude" / "settings.local.json").write_text('{"env": {"CLAUDE_CODE_MAX_TURNS": "3"}}')
    (tmp_path / "kept").mkdir()
    for path in tmp_path.glob("*.jsonl"):
        path.rename(tmp_path / "kept" / path.name)
    monkeypatch.chdir(scratch)
    assert main(["audit", "../kept"]) == 0
    assert "No limit was declared for these 3 runs." in capsys.readouterr().out


def test_runs_with_an_uncheckable_limit_are_not_counted_as_kept(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", logs, "--limit", "max_budget_usd=5"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("0 of 3 runs with a limit can be checked.\n")
    assert "went beyond" not in shown
    path = tmp_path / "session0.jsonl"
    path.write_text(path.read_text().replace('"s0"', '"other"'))
    found = bl.audit(
        [replace(run, agent="alone" if run.run_id == "other" else "more") for run in bl.load_runs(logs)],
        {"alone": {"max_steps": 50}, "more": {"max_budget_usd": 5}},
    )
    assert found.sentences[:2] == (
        "1 of 3 runs with a limit can be checked.",
        "The run that can be checked did not go beyond its limit.",
    )


@pytest.mark.parametrize("command", ["audit", "whatif"])
def test_folder_without_logs_is_named_and_since_only_if_given(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"boolab: {tmp_path}: no log was found")
    assert "--since" not in told
    assert main([command, str(tmp_path), "--since", "30d"]) == 1
    assert "(is --since too recent?)" in capsys.readouterr().err


def test_the_help_has_all_verdicts() -> None:
    shown = dict(
        line.strip().split("  ", 1) for line in EPILOG.partition("verdicts:\n")[2].split("\n\n")[0].splitlines()
    )
    assert {name: text.strip() for name, text in shown.items()} == VERDICTS


def test_full_audit_prints_all_rows_columns_and_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "atlas/tau-airline", "--limit", "max_steps=200"]) == 0
    brief = capsys.readouterr().out
    assert "further rows not shown" in brief
    assert main(["audit", "atlas/tau-airline", "--limit", "max_steps=200", "--full"]) == 0
    full = capsys.readouterr().out
    assert "not shown" not in full
    assert "Further columns" not in full
    assert len(full.splitlines()) > 200
    assert "slack_p95" in full
