"""Each text on recorded conversations names one unit: the turn where a run has several, else the run."""

import json
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import boolab as bl
from boolab.cli.main import main
from boolab.display.numbers import format_runs
from boolab.plots import plot_heatmap, plot_steps
from boolab.report.html_page import page_of
from boolab.report.question import Question
from boolab.report.study import study_of
from boolab.stats.units import units_of
from tests.support.report_cases import draw_no_figures, write_sessions

CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
TURN = [
    {"role": "user", "content": "Look"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a"},
    {"role": "assistant", "content": "Done."},
]


@pytest.fixture(autouse=True)
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_figures(monkeypatch)


def texts(turns: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What `boolab whatif` and `boolab report` show of five conversations without labels."""
    log = folder / "chats.jsonl"
    log.write_text("\n".join(json.dumps({"messages": TURN * turns}) for _ in range(5)))
    assert main(["whatif", str(log)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert main(["report", str(log), "-o", str(folder / "page.html")]) == 0
    page = re.sub(r"<(script|style|svg).*?</\1>|<[^>]+>", " ", (folder / "page.html").read_text(), flags=re.DOTALL)
    return shown, " ".join(page.split())


@pytest.mark.slow
def test_where_a_run_has_several_turns_all_count_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = texts(3, tmp_path, capsys)
    for shown in told:
        assert "15 turns that ended by themselves" in shown
        assert "stops a turn after this many model responses" in shown
        assert not re.search(r"runs stopped|stops a run (after|once|when)|stopped other runs", shown)
    assert "turns stopped" in told[0]
    assert not re.search(r"\d runs that ended", told[0])
    runs = bl.load_runs(tmp_path / "chats.jsonl")
    assert bl.CapLab(runs).recommended["reason"] == "too_few"


def test_where_each_run_is_one_turn_all_count_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in texts(1, tmp_path, capsys):
        assert "5 runs that ended by themselves" in shown
        assert "stops a run after this many model responses" in shown
        assert not re.search(r"turns stopped|stops a turn|stopped other turns|\d turns? (that|is|are)\b", shown)


def test_report_of_turns_names_turns_and_counts_their_endings(tmp_path: Path) -> None:
    log = write_sessions(tmp_path) / "session1.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:2], *lines[6:]]))  # the user interrupts the first turn
    study = study_of([str(tmp_path)], Question())
    ended = [study.end_reason(unit) for unit in range(len(study.units))]
    assert "interrupted" in ended
    assert sorted(ended) == sorted(units_of(study.runs, scope="turn")["stop_reason"])
    steps = plot_steps(study.units_frame(), unit=study.counted_units[0].noun, ax=Figure(figsize=(9, 4)).subplots())
    grid = {"max_steps": [1, 2, 9], "tool_budget": [1, 2, 9]}
    pairs = plot_heatmap(study.aggregate(grid), ax=Figure(figsize=(9, 4)).subplots())
    assert (study.noun, len(study.units), len(study.runs)) == ("turn", 6, 3)
    for axes in (steps, pairs):
        shown = " ".join(item.get_text() for item in axes.figure.findobj(Text) if isinstance(item, Text))
        assert "6 turns" in shown
        assert not re.search(r"\d runs?\b|\bruns that|steps per run", shown)


def test_only_runs_and_turns_have_steps_to_draw() -> None:
    with pytest.raises(bl.SettingError, match="unit='span': expected 'run' or 'turn'"):
        plot_steps([], unit="span")  # type: ignore[arg-type]


def test_subagent_runs_are_counted_alike_and_their_agents_last(capsys: pytest.CaptureFixture[str]) -> None:
    logs = str(Path(__file__).parents[1] / "data" / "claude_code")
    study = study_of([logs], Question())
    assert (
        [counts.agent for counts in study.agent_counts] == study.found["agent"].tolist() == ["claude_code", "subagent"]
    )
    base, of = study.root_successes
    size = format_runs(2, len(study.units), 1)
    page = " ".join(re.sub(r"<[^>]+>", " ", page_of(study, transcripts=False)).split())
    assert f"{size}, " in page
    assert f"{base} {study.success_noun(base)} of {of} turns" in page
    assert main(["whatif", logs]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert size in shown
    assert f"{base} of {of} turns" in shown
    assert main(["audit", logs]) == 0
    assert "these 2 runs, 1 of them of subagents" in " ".join(capsys.readouterr().out.split())
