"""What leaves the machine has no path of it: pages, JSON and exports. What a terminal prints can be copied there."""

import base64
import gzip
import html
import json
import re
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.errors import program
from boolab.io.resources import data_path, shared_path
from boolab.report.question import Question
from boolab.report.study import study_of
from boolab.report.text import as_json, text
from boolab.widgets.sweep_view.data import SweepCounts
from tests.support import claude_logs
from tests.support.claude_logs import Session

N = 40


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with logs of Claude Code, one of which is broken; some other folder is the current one."""
    folder = tmp_path / "casey"
    project = folder / ".claude" / "projects" / "acme"
    for n in range(N):
        name = f"0f0f0f0f-1111-4222-8333-{n:012}"
        session = Session(sessionId=name, version="2.0.1")
        session.user(f"look at issue {n}")  # runs that are equal, times included, count once
        for step in range(30 if n % 4 == 0 else 2):
            session.say(f"m{step}", claude_logs.call(f"c{step}"), usage=claude_logs.usage(100, 10))
            session.answer(f"c{step}")
        if n % 4:
            session.say("end", claude_logs.text(), usage=claude_logs.usage(100, 10), stop="end_turn")
        session.write(project / f"{name}.jsonl")
    with (project / f"0f0f0f0f-1111-4222-8333-{0:012}.jsonl").open("a") as log:
        log.write('{"type": "assis\n')
    (project / "broken.jsonl").write_text("not JSON\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # where the shell does not find boolab
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder


def paths_in(shared: str) -> list[str]:
    """The places of a text, also of pages within it, at which a path of this machine is."""
    packed = re.findall(r"H4sI[A-Za-z0-9+/=]{100,}", shared)
    texts = [shared, *(gzip.decompress(base64.b64decode(data)).decode() for data in packed)]
    found = [one for one in packed_in(texts) if one]
    own = rf"{re.escape(str(Path.home().parent))}|{re.escape(str(data_path('datasets')))}|/bin/boolab"
    return [
        text[max(0, hit.start() - 60) : hit.end() + 60]
        for text in map(html.unescape, [*texts, *found])
        for hit in re.finditer(own, text)
    ]


def packed_in(texts: list[str]) -> list[str]:
    """The data that pages within a page hold."""
    data = [one for text in texts[1:] for one in re.findall(r"H4sI[A-Za-z0-9+/=]{100,}", text)]
    return [gzip.decompress(base64.b64decode(one)).decode(errors="replace") for one in data]


def test_shared_path_hides_the_home_and_folders_of_others(home: Path) -> None:
    (home / "work").mkdir()
    assert shared_path("logs/a.jsonl") == "logs/a.jsonl"
    assert shared_path(str(home / ".claude" / "projects")) == "~/.claude/projects"
    assert shared_path(str(Path.cwd() / "logs" / "a.jsonl")) == "logs/a.jsonl"
    assert shared_path(str(home.parent / "customer" / "a.jsonl")) == "\u2026/a.jsonl"
    assert shared_path(str(data_path("datasets") / "atlas" / "tau-airline.jsonl.bz2")) == "atlas/tau-airline"
    assert shared_path("/") == "\u2026/"


def test_json_has_no_path_and_a_terminal_has_commands_to_copy(home: Path) -> None:
    logs = str(home / ".claude" / "projects")
    study = study_of([logs], Question(keep=0.8))
    assert study.found.groups[0].action == "set"
    data = as_json(study)
    assert "~/.claude/projects/acme/broken.jsonl" in data
    assert paths_in(data) == []
    (way,) = json.loads(data)["how_to_set"]
    assert way["command"].startswith("boolab export claude-code ")
    printed = str(study.found)
    assert program() != "boolab"
    assert f"{program()} export TARGET" in printed.replace("\n", " ")
    assert f"  {program()} " not in study.found._repr_html_()
    assert paths_in(study.found._repr_html_()) == []
    assert str(home) in text(study)
    exported = study.found.export("claude-code")
    assert paths_in(exported._repr_html_()) == []
    assert f"\n{program()} hook claude-code" in str(exported)


def test_widgets_have_no_path(home: Path) -> None:
    (log,) = (home / ".claude" / "projects" / "acme").glob("*-000000000001.jsonl")
    page = bl.Replay(bl.load_runs(log)[0]).to_html()
    assert paths_in(page) == []
    assert any("~/.claude/projects/acme" in data for data in packed_in(["", page]))
    assert SweepCounts(1, {}, str(home / "sweep.db")).snapshot("done", 0.0)["store"] == "~/sweep.db"


@pytest.mark.slow  # it draws all figures
def test_page_of_a_report_has_no_path_of_the_machine(home: Path) -> None:
    (home / ".claude" / "settings.json").write_text('{"hooks": {}}')
    assert main(["report", str(home / ".claude" / "projects"), "--keep", "0.8", "-o", "page.html"]) == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "boolab export " in page
    assert "~/.claude/projects" in page
    assert paths_in(page) == []
