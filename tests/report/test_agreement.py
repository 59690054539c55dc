"""What is one is never in the plural, in all that is printed of a single run with a single step."""

import json
import re
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main
from tests.support.hook_events import Did, Session
from tests.support.report_cases import draw_no_figures

NOUNS = (
    "runs", "steps", "calls", "turns", "tasks", "files", "successes", "failures", "responses", "messages", "warnings",
    "agents", "groups", "settings", "tokens", "branches", "tools", "limits", "reasons", "logs",
)  # fmt: skip
WRONG = re.compile(
    rf"(?<![\d.,:-])1 (tool |further |input |other )*({'|'.join(NOUNS)})\b|(?<![\d.,])1 [a-z]+ (are|have)\b"
)
"""A plural after 1, alone or with an adjective; `1 run are`."""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One run with one step, one call and one message of the user; a second one of another task has no step."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = bl.run_sync(None, "Look", model=bl.ScriptedModel([{"tool_calls": [{"name": "ls"}]}], tools={"ls": "a"}),
                      policy=bl.fixed_turns(1))  # fmt: skip
    bl.save_runs([run], tmp_path / "one.jsonl")
    return tmp_path / "one.jsonl"


@pytest.mark.parametrize(
    "words",
    [
        ["whatif", "one.jsonl", "--full"],
        ["whatif", "one.jsonl", "--by", "agent", "--max-steps", "1,2"],
        ["audit", "one.jsonl", "--limit", "max_steps=1"],
        ["import", "one.jsonl", "-o", "more.jsonl"],
        ["report", "one.jsonl"],
        ["hook", "claude-code", "--log"],
        ["doctor"],
        ["watch", "one.jsonl", "--once", "--max-steps", "1"],
        ["bench", "baseline:never", "--data", "one.jsonl"],
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_commands_count_one_run_in_the_singular(
    words: list[str], log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_no_figures(monkeypatch)
    session = Session("--max-steps 9 --shadow", agent="a")
    session.step(Did())
    session.event("SubagentStop")
    main(words)
    shown = "".join(capsys.readouterr())
    if words[0] == "report":
        shown += re.sub(
            r"<(script|style|svg).*?</\1>|<[^>]+>", " ", (log.parent / "report.html").read_text(), flags=re.DOTALL
        )
    assert not [match[0] for match in WRONG.finditer(" ".join(shown.split()))]


def test_objects_count_one_run_in_the_singular(log: Path) -> None:
    reading = bl.read_logs(log)
    (run,) = reading.runs
    table = bl.counterfactual(run, grid={"max_steps": [1, 2, None]}, aggregate=True)
    shown = [
        repr(reading), repr(run), str(run), bl.recommend(run), bl.audit(run, {"max_steps": 1}), bl.survival([run]),
        bl.Replay(run).to_html(), bl.CapLab([run]).to_html(), bl.Heatmap(table, [run], x="max_steps").to_html()
        if "tool_budget" in table else "", bl.Compare(run, run)._text(), bl.SimulatedModel.load("coder"),
        bl.ScriptedModel(["Hi."]), json.dumps(bl.plots.plot_caps(table).get_title()),
    ]  # fmt: skip
    for one in map(str, shown):
        text = re.sub(r"<(script|style)(?! type=.application/json).*?</\1>", " ", one, flags=re.DOTALL)
        assert not [text[max(0, m.start() - 40) : m.end() + 20] for m in WRONG.finditer(text)]
