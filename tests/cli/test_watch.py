"""`boolab watch`: what it prints, runs and ends with."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.cli.watch import Board, JsonLines, Output, Summary, seconds_of
from boolab.live.follow import rows
from boolab.live.follow.fleet import Fleet
from boolab.live.follow.places import places_of
from boolab.live.follow.rows import AgentChange, table
from boolab.live.follow.watch import Commands
from tests.support.growing import claude_lines, encoded
from tests.support.pages import blocks_of, pages
from tests.support.screen import Screen


@pytest.fixture(autouse=True)
def _read_at_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a read takes longer than `FREE_S`, and the next one waits."""
    monkeypatch.setattr("boolab.live.follow.fleet.FREE_S", float("inf"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a running agent that makes the same call three times."""
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"".join(map(encoded, claude_lines(3, same=True))))
    return path


def exit_of(given: list[str]) -> int:
    """The exit code of the command, also where the parser refuses."""
    try:
        return main(given)
    except SystemExit as end:
        return int(end.code or 0)


def test_watch_explains_a_turn_limit_beside_the_steps_of_the_run(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch = ["watch", str(log.parent), "--max-steps", "9", "--once", "--no-prices"]
    assert main(watch) == 0
    one_turn = capsys.readouterr().out
    assert ("3 of 9 steps" in one_turn, "current turn" in one_turn) == (True, False)
    lines, (prompt, *more) = list(claude_lines(3, same=True)), claude_lines(2, minute=1)
    log.write_bytes(b"".join(map(encoded, [*lines, {**prompt, "parentUuid": lines[-1]["uuid"]}, *more])))
    assert main(watch) == 0
    two_turns = capsys.readouterr().out
    assert ("2 of 9 steps" in two_turns, "A limit counts in the agent's current turn" in two_turns) == (True, True)


def test_once_prints_a_table(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(log.parent), "--max-steps", "56", "--doom-loop", "5", "--once", "--no-prices"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "agent",
        "next",
        "limit",
        "state",
        "turn",
        "steps",
        "calls",
        "tokens",
        "cost",
        "streak",
        "task",
    ]
    assert row.split()[:10] == ["claude_code", "s1", "streak", "3", "of", "5", "1", "3", "3", "360"]
    assert row[:80].index("streak 3 of 5") == head.index("next limit")  # a narrow terminal shows it


def test_a_narrow_table_leaves_out_whole_columns(log: Path) -> None:
    fleet = Fleet(places_of([str(log.parent)]), bl.max_steps(56))
    fleet.look()
    whole = table(fleet.rows())
    for width in (40, 60, 79, 200):
        lines = table(fleet.rows(), width)
        assert lines[0].startswith(("agent", *whole[0].split()))
        assert "…" not in lines[0]
        assert all(line in full for line, full in zip(lines, whole, strict=True))
        assert max(map(len, lines)) <= width or lines[0].split()[-1] == "state"


def test_once_with_json_prints_an_object_for_each_agent(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(log), "--max-steps", "2", "--once", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    data = json.loads(line)
    assert (data["run_id"], data["steps"], data["fired"]["stop_step"]) == ("s1", 3, 2)


def test_in_a_pipe_there_is_a_line_for_each_change(log: Path) -> None:
    fleet = Fleet(places_of([log]), bl.max_steps(4) | bl.doom_loop(3), prices=False)
    out = StringIO()
    output = Output(out)
    output.show(fleet.look(), fleet)
    with log.open("ab") as file:
        file.write(b"".join(map(encoded, [*claude_lines(4, same=True)][-2:])))
    output.show(fleet.look(), fleet)
    lines = [line.split(" ", 1)[1] for line in out.getvalue().splitlines()]
    assert lines == [
        "claude_code s1: streak 3 of 3; 3 of 4 steps; 3 calls; 360 tokens; would stop: doom loop",
        "ALERT claude_code s1: doom loop after step 3 of turn 1: doom_loop(3, canonical)",
        "claude_code s1: streak 4 of 3; 4 of 4 steps; 4 calls; 480 tokens; would stop: doom loop, 1 step ago",
    ]


def test_on_a_terminal_the_table_is_drawn_again_below_the_alerts(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("boolab.cli.watch.REDRAW_S", 0.0)
    fleet = Fleet(places_of([log]), bl.max_steps(4), prices=False)
    out = StringIO()
    board = Board(out)
    board.show(fleet.look(), fleet)
    assert "\a" not in out.getvalue()
    with log.open("ab") as file:
        file.write(b"".join(map(encoded, [*claude_lines(5)][-4:])))
    board.show(fleet.look(), fleet)
    assert out.getvalue().count("\a") == 1
    screen = Screen(100)
    screen.feed(out.getvalue().replace("\a", ""))
    alert, head, row = (line for line in screen.text.splitlines() if line)
    assert "ALERT claude_code s1: step cap after step 4 of turn 1" in alert
    assert head.startswith("agent")
    assert "5 of 4 steps" in row
    board.show([], fleet)
    assert out.getvalue().count("\x1b[J") == 2  # nothing changed, so nothing is drawn


def test_text_of_a_log_reaches_no_terminal_raw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [*claude_lines(1)]
    lines[0]["message"]["content"] = "\x1b[2J\x07 \u202e evil"
    (tmp_path / "s1.jsonl").write_bytes(b"".join(map(encoded, lines)))
    assert main(["watch", str(tmp_path), "--once"]) == 0
    shown = capsys.readouterr().out
    assert "evil" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_alert_command_gets_facts_as_variables_not_shell_text(tmp_path: Path) -> None:
    evil = "s1'; touch owned; $(touch owned) #"
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(map(encoded, claude_lines(3, session=evil))))
    fleet = Fleet(places_of([path]), bl.max_steps(3), prices=False)
    commands = Commands(
        f'cd {tmp_path}; printf "%s|" "$BOOLAB_RUN_ID" "$BOOLAB_STOP_REASON" "$BOOLAB_VALUE" > facts', 60, print
    )
    commands.start(fleet.look())
    commands.end()
    assert (tmp_path / "facts").read_text() == f"{evil}|step_cap|3|"
    assert not (tmp_path / "owned").exists()


def alerts_of(folder: Path, count: int, session: str = "s") -> list[AgentChange]:
    for number in range(count):
        path = folder / f"{session[:9]}{number}.jsonl"
        path.write_bytes(b"".join(map(encoded, claude_lines(3, session=f"{session}{number}"))))
    return Fleet(places_of([folder]), bl.max_steps(3), prices=False).look()


def run_commands(command: str, changes: list[AgentChange], timeout: float = 60) -> list[str]:
    """What is said of the command of `--exec` for these changes."""
    said: list[str] = []
    commands = Commands(command, timeout, said.append)
    commands.start(changes)
    commands.end()
    return said


def test_exec_that_fails_is_reported(tmp_path: Path) -> None:
    assert run_commands("exit 7", alerts_of(tmp_path, 1)) == [
        "the command of --exec for claude_code s0 ended with code 7"
    ]


def test_exec_with_texts_over_the_systems_limit_runs(tmp_path: Path) -> None:
    changes = alerts_of(tmp_path, 2, session="A" * 300_000)
    assert run_commands(f'printf "%s\\n" "$BOOLAB_RUN_ID" >> {tmp_path}/facts', changes) == []
    assert [len(line) for line in (tmp_path / "facts").read_text().splitlines()] == [4096, 4096]


@pytest.mark.parametrize("fault", [OSError(11, "Resource temporarily unavailable"), ValueError("embedded null byte")])
def test_exec_that_cannot_start_stops_no_other(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failing = subprocess.Popen, [fault]

    def start(*args: Any, **options: Any) -> Any:
        if failing:
            raise failing.pop()
        return real(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    (said,) = run_commands(f"echo x >> {tmp_path}/facts", alerts_of(tmp_path, 3))
    assert said.startswith("the command of --exec cannot be started for claude_code s0: ")
    assert (tmp_path / "facts").read_text() == "x\nx\n"


def test_exec_that_hangs_is_ended_and_others_start(tmp_path: Path) -> None:
    hanging = f'case "$BOOLAB_RUN_ID" in s0) (trap "" TERM; sleep 60);; *) echo x >> {tmp_path}/facts;; esac'
    said = run_commands(hanging, alerts_of(tmp_path, 12), timeout=0.05)
    assert said == [
        "the command of --exec for claude_code s0 ran longer than 0.05 seconds (--exec-timeout), and is ended"
    ]
    assert (tmp_path / "facts").read_text() == "x\n" * 11


def test_alerts_whose_exec_did_not_start_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boolab.live.follow.watch.COMMANDS_TIMEOUT_S", 0.1)
    said = run_commands(f"echo $$ >> {tmp_path}/pids; sleep 60", alerts_of(tmp_path, 12))
    assert said == [
        (
            "8 commands of --exec had not ended, and were ended: "
            "claude_code s0, claude_code s1, claude_code s10 and 5 more"
        ),
        "4 alerts had no command, as 8 others ran: claude_code s6, claude_code s7, claude_code s8 and 1 more",
    ]
    for pid in (tmp_path / "pids").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.parametrize("output", [Output, JsonLines, Board])
def test_change_that_cannot_be_shown_stops_no_other(
    output: type[Output], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")

    def failing(real: Callable[[AgentChange], Any]) -> Callable[[AgentChange], Any]:
        def write(change: AgentChange) -> Any:
            if change.row.run_id == "s1":
                raise KeyError("boom")
            return real(change)

        return write

    for name in ("alert_line", "data_of"):
        monkeypatch.setattr(rows, name, failing(getattr(rows, name)))
    out = StringIO()
    changes = alerts_of(tmp_path, 3)
    output(out).show(changes, Fleet(places_of([tmp_path])))
    shown = out.getvalue()
    assert "KeyError: 'boom'" in shown
    assert all(re.search(rf"{name}\b.*(step cap|step_cap)", shown) for name in ("s0", "s2"))


def test_sentences_stand_above_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = StringIO()
    board = Board(out)
    board.say("a.jsonl: Permission \x1b denied")
    board.show([], Fleet(places_of([tmp_path])))
    assert out.getvalue().count("boolab: a.jsonl: Permission \ufffd denied\n") == 1
    board.say("too late")
    board.end()
    assert capsys.readouterr().err == "boolab: too late\n"


def test_the_summary_counts_agents_and_alerts(log: Path) -> None:
    fleet = Fleet(places_of([log]), bl.max_steps(3), prices=False)
    summary = Summary()
    summary.count(fleet.look())
    assert summary.text(fleet).startswith("boolab: 1 agent in 1 file in ")
    assert summary.text(fleet).endswith(", 1 alert (step cap 1)")


def test_the_summary_leaves_out_alerts_that_were_withdrawn(log: Path) -> None:
    fleet = Fleet(places_of([log]), bl.max_steps(3), prices=False)
    summary, kinds = Summary(), []
    for steps in (3, 2, 3):
        log.write_bytes(b"".join(map(encoded, claude_lines(steps, same=True))))
        changes = fleet.look()
        kinds.append([change.kind for change in changes])
        summary.count(changes)
        assert summary.text(fleet).endswith(", 0 alerts" if steps == 2 else ", 1 alert (step cap 1)")
    assert kinds == [["begins", "fires"], ["step", "withdrawn"], ["step", "fires"]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--exec", "true"], "there is no rule"),
        (["--max-steps", "0"], "expected a whole number, 1 or more"),
        (["--doom-loop", "1"], "expected a whole number, 2 or more"),
        (["--idle", "soon"], "is not a duration"),
        (["no-such-folder"], "no such file or folder"),
    ],
)
def test_what_is_not_accepted_is_explained(
    log: Path, given: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(log.parent)
    paths = [] if given[0] == "no-such-folder" else [str(log)]
    code = exit_of(["watch", *paths, *given, "--once"])
    assert code == (2 if "expected" in message or "duration" in message else 1)
    assert message in capsys.readouterr().err
    assert seconds_of("2h") == 7200


def test_ctrl_c_ends_it_with_a_summary(log: Path) -> None:
    command = [sys.executable, "-m", "boolab", "watch", str(log), "--max-steps", "3", "--json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["kind"] == "begins"
        assert json.loads(process.stdout.readline())["kind"] == "fires"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "1 agent in 1 file" in errors


@pytest.mark.slow
def test_the_commands_of_the_how_to_print_what_it_shows(tmp_path: Path) -> None:
    page = pages()["howto/watch_a_fleet"].read_text(encoding="utf-8")
    blocks = list(blocks_of(page))
    (log,) = (block for block in blocks if block.mark == ("file", "logs/s1.jsonl"))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "s1.jsonl").write_text(log.code)
    shown = [line.partition(" ")[2] for line in page.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]
    commands = [block.code for block in blocks if block.not_run]
    for place, command in enumerate(commands):
        given = ["exec", f"{sys.executable} -m {command.strip()}"]
        process = subprocess.Popen(
            ["/bin/sh", "-c", " ".join(given)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdout is not None
            printed = [process.stdout.readline().strip().partition(" ")[2] for _ in shown]
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        assert process.returncode == 130
        if place == 0:
            assert printed == shown
    # the command was started before the alert was printed, and the end waits for it
    assert (tmp_path / "alerts.txt").read_text() == "claude_code doom_loop after 3\n"
