"""Each text on recorded conversations names one unit: the turn where a run has several, else the run."""

import json
import re
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main

CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
TURN = [
    {"role": "user", "content": "Look"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a"},
    {"role": "assistant", "content": "Done."},
]


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
    assert re.fullmatch(r"needs \d+ more turns that end by themselves", bl.CapLab(runs).recommended["reason"])


def test_where_each_run_is_one_turn_all_count_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in texts(1, tmp_path, capsys):
        assert "5 runs that ended by themselves" in shown
        assert "stops a run after this many model responses" in shown
        assert not re.search(r"turns stopped|stops a turn|stopped other turns|\d turns? (that|is|are)\b", shown)
