"""The last line of a command: one command that can be run as it is printed."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import COMMANDS, main, parser_of
from boolab.store.writer import Store
from tests.support.report_cases import draw_no_figures

LOGS = "atlas/intercode-python"


def step(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> list[str]:
    """What to type next after a command."""
    assert main(list(words)) == code
    shown = capsys.readouterr()
    lines = [line for line in (shown.out + shown.err).splitlines() if line.startswith("Next: ")]
    assert len(lines) == 1
    return shlex.split(lines[0].removeprefix("Next: boolab "))


def parsed(words: list[str]) -> None:
    args, unknown = parser_of(*COMMANDS).parse_known_args(words)
    assert not unknown
    assert args.run is not None


def test_one_step_leads_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    draw_no_figures(monkeypatch)
    words = step(capsys, "import", LOGS, "-o", "runs.jsonl")
    assert words == ["whatif", "runs.jsonl"]
    words = step(capsys, *words, "--keep", "0.9", "--full")
    assert words == ["report", "runs.jsonl", "--keep", "0.9", "-o", "report.html"]
    words = step(capsys, "report", "runs.jsonl", "--no-transcripts", "--max-steps", "5,10")
    assert words == ["audit", "runs.jsonl"]
    words = step(capsys, *words)
    assert words == ["whatif", "runs.jsonl"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["export", "claude-code", "--max-steps", "56"], ["watch", "--max-steps", "56"]),
        (
            ["export", "claude-code", "--max-steps", "22", "--scope", "run", "--identity", "tool", "--exempt", "Wait"],
            ["watch", "--max-steps", "22", "--scope", "run", "--identity", "tool", "--exempt", "Wait"],
        ),
        (["export", "codex", "--max-tokens", "9", "--token-weights", "output=1"], ["doctor"]),
        (["export", "boolab", LOGS, "--format", "atif", "--keep", "0.9"], ["audit", LOGS, "--format", "atif"]),
        (["export", "boolab", LOGS, "--keep", "0.9"], ["audit", LOGS]),
        (["watch", "logs", "--once"], ["whatif", "logs"]),
        (["hook", "claude-code", "--install", "--yes", "--settings", "s.json", "--max-steps", "9"], None),
        (["doctor"], None),
    ],
)
def test_a_step_is_understood(
    words: list[str],
    expected: list[str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "logs").mkdir()
    (tmp_path / ".claude/projects").mkdir(parents=True)
    found = step(capsys, *words)
    parsed(found)
    assert expected is None or found == expected


def test_export_without_harness_logs_suggests_the_log_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There `boolab watch` would end with an error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert main(["watch", "--max-steps", "56", "--once"]) == 1
    capsys.readouterr()
    assert step(capsys, "export", "claude-code", "--max-steps", "56") == ["doctor"]
    (tmp_path / ".claude/projects").mkdir(parents=True)
    words = ["export", "opencode", "--max-steps", "56", "--agent", "coder", "--write", str(tmp_path)]
    assert step(capsys, *words) == ["doctor"]  # the logs here are of another harness
    sessions = tmp_path / ".local/share/opencode"  # its database lies there, beside its storage
    (sessions / "storage/session").mkdir(parents=True)
    assert step(capsys, *words) == ["audit", str(sessions)]
    parsed(["audit", str(sessions)])


def test_there_is_none_after_an_error_or_with_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", str(tmp_path / "missing.json")]) == 1
    assert main(["whatif", LOGS, "--max-steps", "5", "--json"]) == 0
    shown = capsys.readouterr()
    assert "Next: " not in shown.out + shown.err


def test_an_export_without_a_recommendation_leads_to_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = bl.run_sync(None, "x", model=bl.ScriptedModel(["Hi."]))
    bl.save_runs([run], tmp_path / "one.jsonl")
    log = str(tmp_path / "one.jsonl")
    words = step(capsys, "export", "boolab", log, code=1)
    assert words == ["whatif", log]
    words = step(capsys, "export", "boolab", log, "--keep", "0.99", "--agent", "a", "--write", str(tmp_path), code=1)
    assert words == ["whatif", log, "--keep", "0.99"]
    words = step(capsys, "export", "boolab", log, "--exempt=-x", "--write", code=1)
    assert words == ["whatif", log, "--exempt=-x"]


@pytest.mark.slow
def test_printed_commands_run_where_boolab_is_not_on_the_path(tmp_path: Path) -> None:
    """In a checkout it is in .venv/bin."""
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    (tmp_path / ".claude/projects").mkdir(parents=True)
    here = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    typed = ".venv/bin/boolab"
    for start in ([typed], [".venv/bin/python", "-m", "boolab"]):
        done = subprocess.run(
            [*start, "export", "claude-code", "--doom-loop", "5"], cwd=tmp_path, env=here, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        assert f"\n{typed} hook claude-code --install --doom-loop 5\n" in done.stdout
        assert f"Next: {typed} watch --doom-loop 5\n" in done.stderr
    there = {**here, "PATH": f"{tmp_path}/.venv/bin:/usr/bin:/bin"}
    named = f"{tmp_path}/.venv/bin/boolab"  # what a shell starts for the name
    done = subprocess.run([named, "doctor"], cwd=tmp_path, env=there, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("Next: boolab report atlas/swebench-verified -o report.html\n")


def test_a_store_leads_to_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.db"
    with Store(path) as store:
        store.add(bl.run_sync(None, "x", model=bl.ScriptedModel(["Hi."])))
    words = step(capsys, "store", "ls", str(path))
    assert words == ["whatif", str(path)]
    step(capsys, *words)


def test_a_pdf_is_refused_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", LOGS, "-o", "x.pdf"]) == 1
    assert (
        "x.pdf: a page is written as HTML: write x.html, open it in a browser, and print it to a PDF"
        in capsys.readouterr().err
    )


def test_the_demo_gives_the_answer_and_two_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "Set a step cap of 3: on record it keeps 136 of 139 successes" in " ".join(shown.out.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["caps.png", "heatmap.png"]
    assert shown.err.endswith("Next: boolab doctor\n")
