"""`boolab run`, as a real process: on a terminal and in a pipe, interrupted, and with a server behind it."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.cli.run_agent import agent_of, exit_code, protocol_of
from boolab.core.run import Run
from boolab.io.resources import data_path
from tests.support.cases import first
from tests.support.helpers import distinct, play
from tests.support.model_protocols import CHAT, Said, Speaks, both
from tests.support.model_server import PATIENCE_S, Gate, ModelServer, stream, whole
from tests.support.screen import Screen

KEY = "sk-canary-0123456789"
SCRIPT = """
tools: {read_file: a line}
items:
- text: Let me look.
  tool_calls: [{name: read_file, arguments: {path: a.py}}]
- text: It is in a.py.
"""
SLOW = """
- text: One two three four five.
  latency_ms: 600000
"""
"""The first word comes at once, the next one after two minutes."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in, with two scripts."""
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "slow.yaml").write_text(SLOW)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # it finds boolab
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "boolab", "run", *arguments]


def ran(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """What the command prints when it ends by itself."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stderr
    return done


def called(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    """What the command prints in this process, which takes a twentieth of the time of one of its own."""
    assert main(["run", *arguments]) == code
    return capsys.readouterr()


def the_record() -> Run:
    (path,) = Path("runs").iterdir()
    (run,) = bl.load_runs(path)
    return run


class Terminal:
    """A process on a pseudo-terminal."""

    def __init__(self, *arguments: str, columns: int = 80) -> None:
        self.process, self._screen = -1, Screen(columns)
        environment = {**os.environ, "COLUMNS": str(columns)}
        self.process, self._end = pty.fork()
        if self.process == 0:
            os.execve(sys.executable, list(arguments), environment)  # noqa: S606 - it becomes this very Python

    def read_until(self, what: str) -> str:
        """Read until this stands on the screen; the screen."""
        while what not in self._screen.text:
            assert self._read(), f"{what!r} is not in:\n{self._screen.text}"
        return self._screen.text

    def type(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def wait(self) -> tuple[str, int]:
        """The last screen and the exit code."""
        while self._read():
            pass
        os.close(self._end)
        _, status = os.waitpid(self.process, 0)
        return self._screen.text, os.waitstatus_to_exitcode(status)

    def hang_up(self) -> int:
        """Close the terminal; the exit code."""
        os.close(self._end)
        _, status = os.waitpid(self.process, 0)
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        try:
            output = os.read(self._end, 1 << 16)
        except OSError:  # Linux says it so when the other side has closed
            return False
        self._screen.feed(output.decode().replace("\r\n", "\n"))
        return bool(output)


def test_a_run_is_told_in_a_pipe_without_a_single_escape(folder: Path) -> None:
    done = ran("explorer", "Where is it?", "--model", "script.yaml")
    assert done.stderr.startswith("Next: boolab whatif runs/")
    assert done.stderr.count("\n") == 1
    assert done.stdout.isprintable() or set(filter(lambda char: not char.isprintable(), done.stdout)) == {"\n"}
    assert "  1. Let me look.\n     -> read_file" in done.stdout
    assert "\n━━ finished after 2 steps ━" in done.stdout
    run = the_record()
    assert (run.stop_reason, run.agent, run.text) == ("finished", "explorer", "It is in a.py.")
    assert f"   to view it: boolab report runs/{next(Path('runs').iterdir()).name}\n" in done.stdout


def test_terminal_run_shows_a_status_line_and_removes_it(folder: Path) -> None:
    terminal = Terminal(
        *command("explorer", "Where is it?", "--model", "slow.yaml", "--max-steps", "5", "--max-time", "60")
    )
    shown = terminal.read_until("answering")
    assert shown.splitlines()[-2].strip() == "1. One"
    assert shown.splitlines()[-1].startswith("step 1 of 5 · answering ")
    assert " · 0 of 50 calls · tokens 0 in, 0 out · " in shown.splitlines()[-1]
    terminal.type(b"\x03")
    shown, code = terminal.wait()
    assert code == 130
    assert "  1. One" in shown
    assert "     ** interrupted" in shown
    assert "━━ aborted in step 1 ━" in shown
    assert "answering" not in shown
    run = the_record()
    assert (run.stop_reason, run.steps[0].response.text) == ("aborted", "One ")


@pytest.mark.parametrize("options", first(1, [(), ("--quiet",), ("--json",)]))
def test_an_interrupt_ends_the_run_and_keeps_its_record(folder: Path, options: tuple[str, ...]) -> None:
    with ModelServer(stream(CHAT.opening((10, 5)), CHAT.text("One "), Gate())) as server:
        process = subprocess.Popen(
            command("go", "--model", "m", "--base-url", server.url + CHAT.root, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        asked = server.wait_for(1)
        process.send_signal(signal.SIGINT)
        asked.gone.wait()
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert the_record().stop_reason == "aborted"
    assert "Traceback" not in stdout + stderr
    assert ("aborted" in stderr) == bool(options)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_kill_or_a_closed_terminal_keeps_the_record_too(folder: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(command("go", "--model", "slow.yaml", "--json"), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "step_start" in process.stdout.readline()
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number
    assert the_record().stop_reason == "aborted"


@pytest.mark.slow
def test_under_nohup_a_closed_terminal_changes_nothing(folder: Path) -> None:
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    nohup = [sys.executable, "-c", ignoring, *command("go", "--model", "slow.yaml", "--json")]
    process = subprocess.Popen(nohup, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "step_start" in process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_run_whose_terminal_is_gone_keeps_its_record(folder: Path) -> None:
    terminal = Terminal(*command("go", "--model", "slow.yaml"))
    terminal.read_until("answering")
    assert terminal.hang_up() != 0
    assert the_record().stop_reason == "aborted"


STUBBORN = """
import asyncio, sys
import boolab.cli.run_agent
from boolab.cli.main import main

class Stubborn:
    name = "stubborn"

    async def respond(self, request, emit=None):
        emit("text", "One ")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                emit("text", "I stay. ")

boolab.cli.run_agent.model_of = lambda args, agent: (Stubborn(), "nowhere")
raise SystemExit(main(["run", "go", "--model", "m"]))
"""


def test_a_second_interrupt_leaves_at_once(folder: Path) -> None:
    terminal = Terminal(sys.executable, "-c", STUBBORN)
    terminal.read_until("answering")
    terminal.type(b"\x03")
    terminal.read_until("I stay.")
    terminal.type(b"\x03")
    shown, code = terminal.wait()
    assert code == 130
    assert shown.endswith("boolab: left without a record")
    assert list(Path("runs").iterdir()) == []


def test_a_reader_who_leaves_ends_the_run_and_its_record_is_kept(folder: Path) -> None:
    hold = Gate()
    with ModelServer(stream(CHAT.opening((10, 5)), CHAT.text("One two "), hold, CHAT.text("three "), Gate())) as server:
        process = subprocess.Popen(
            command("go", "--model", "m", "--base-url", server.url + CHAT.root),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        server.wait_for(1)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        hold.open()
        stderr = process.stderr.read()
        assert process.wait(PATIENCE_S) == 1
        process.stderr.close()
    assert "Traceback" not in stderr
    run = the_record()
    assert run.stop_reason == "aborted"
    assert run.steps[0].response.text in ("One two ", "One two three ")  # as the close came before or after the first


# --- With a server ----------------------------------------------------------------------------------------------------


@both
def test_run_uses_a_server_of_either_protocol_and_hides_the_key(
    speaks: Speaks, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    (folder / "a.py").write_text("here it is\n")
    look = Said("Let me look. ", [("call_1", "read_file", '{"path": "a.py"}')], usage=(20, 7))
    with ModelServer(stream(*speaks.events(look)), stream(*speaks.events(Said("It is in a.py.")))) as server:
        stdout, stderr = called(
            capsys,
            "explorer",
            "Where is it?",
            *("--model", "m", "--base-url", server.url + speaks.root, "--protocol", speaks.name, "--key-env", "MY_KEY"),
            *("--temperature", "0.5", "--param", "top_p=0.9", "--record", "recording.jsonl"),
        )
    first, second = server.asked
    assert (speaks.key_in(first), speaks.key_in(second)) == (KEY, KEY)
    assert (first.json["temperature"], first.json["top_p"]) == (0.5, 0.9)
    assert "here it is" in json.dumps(second.json)
    assert "     <- ok " in stdout
    assert f"model m at {server.url}{speaks.root}" in stdout
    run = the_record()
    assert (run.stop_reason, run.steps[0].response.usage[:2]) == ("finished", (20, 7))
    played, _ = called(capsys, "explorer", "Where is it?", "--model", "recording.jsonl", "--quiet")
    assert played == "It is in a.py.\n"
    everything = [stdout, stderr, *(path.read_text() for path in folder.rglob("*.jsonl"))]
    assert len(everything) == 5
    assert not any(KEY in text for text in everything)


@pytest.mark.parametrize("options", first(1, [(), ("--quiet",), ("--json",)]))
def test_failing_model_exits_with_1_a_reason_and_a_record(
    folder: Path, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer(whole(CHAT.error("no such model"), 404)) as server:
        shown = called(capsys, "go", "--model", "m", "--base-url", server.url + CHAT.root, *options, code=1)
    assert "no such model" in shown[bool(options)]
    run = the_record()
    assert run.stop_reason == "error"
    assert run.error is not None
    assert "no such model" in run.error


def test_what_a_model_says_cannot_upset_a_terminal(folder: Path) -> None:
    said = Said("\x1b]0;owned\x07 \x9b2J \r gone", [("call_1", "read_\x1b[2Jfile", '{"path": "\x1b[1A"}')])
    with ModelServer(stream(*CHAT.events(said)), stream(*CHAT.events(Said("Done \x1b[31m.")))) as server:
        terminal = Terminal(*command("go", "--model", "m\x1b[2J", "--base-url", server.url + CHAT.root))
        shown, code = terminal.wait()  # its screen takes no other sequences than those of the status line
    assert code == 0
    assert "�]0;owned� �2J" in shown
    assert "Done �[31m." in shown


@pytest.mark.slow
def test_no_color_leaves_a_terminal_plain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal(*command("explorer", "Where is it?", "--model", "script.yaml"))
    shown, code = terminal.wait()
    before, end, _ = shown.partition("finished after 2 steps")
    assert (code, "step 1 " in before, "It is in a.py." in before, bool(end)) == (0, False, True, True)


# --- Limits and exit codes --------------------------------------------------------------------------------------------


def test_a_limit_is_exit_code_3_and_stands_on_the_record(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("script.yaml").write_text(SCRIPT.replace("Let me look.", "Let me look.\n  usage: {cost_usd: 0.01}"))
    given = "explorer go --model script.yaml --max-steps 1 --tool-budget none --doom-loop 4"
    _, told = called(capsys, *given.split(), "--max-cost", "0.5", "--max-time", "60", "--quiet", code=3)
    assert told.startswith("boolab: the run ended with step_cap after 1 step by max_steps(1); its record is ")
    assert the_record().limits == {"steps": 1, "repeat_streak": 4, "cost": 500_000, "elapsed": 60_000}


def test_cost_limit_with_unknown_cost_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, told = called(capsys, "explorer", "go", "--model", "script.yaml", "--max-cost", "0.5", "--quiet", code=1)
    assert "UnknownCounter" in told
    assert the_record().n_steps == 1


@pytest.mark.parametrize(
    ("script", "code"),
    [(["Done."], 0), (distinct(5), 3), ([{"tool_calls": [{"name": "ask"}]}], 3), ([{"error": {"status": 500}}], 1)],
)
def test_the_exit_code_says_how_the_run_ended(script: Any, code: int) -> None:
    assert exit_code(play(script, max_steps=2)) == code


def test_quiet_prints_the_last_word_alone_and_json_the_events(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = called(capsys, "explorer", "go", "--model", "script.yaml", "--quiet")
    assert quiet == ("It is in a.py.\n", "")
    stdout, _ = called(capsys, "explorer", "go", "--model", "script.yaml", "--json")
    rows = [json.loads(line) for line in stdout.splitlines()]
    assert [row["kind"] for row in rows if row["kind"] != "delta"] == [
        *("step_start", "text", "tool_call", "tool_result", "step_start", "text", "stop", "record")
    ]
    assert bl.load_runs(rows[-1]["path"])[0].text == "It is in a.py."


# --- Who, what and where ----------------------------------------------------------------------------------------------

OPTIONS = {
    **dict.fromkeys(
        ("agents", "policy", "max_steps", "tool_budget", "doom_loop", "max_cost", "max_time", "temperature", "agent")
    )
}


def given(**options: Any) -> Namespace:
    return Namespace(**OPTIONS | {"task": "go"} | options)


def agent_file(path: str, *names: str) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("".join(f"---\nname: {name}\nsteps: 7\n---\nI am {name} in {path}.\n\n" for name in names))


def test_agent_is_found_here_then_below_then_in_boolab(folder: Path) -> None:
    def prompt(name: str) -> str:
        agent = agent_of(given(agent=name))
        assert agent is not None
        return agent.prompt

    assert "code base" in prompt("explorer")
    assert "sent ahead" in prompt("scout")
    agent_file("agents/AGENTS.md", "explorer", "mine")
    assert prompt("explorer") == "I am explorer in agents/AGENTS.md."
    Path("AGENTS.md").write_text("# How to work here\n\nRun the tests.\n")  # other tools' kind of AGENTS.md
    assert prompt("mine") == "I am mine in agents/AGENTS.md."
    agent_file("AGENTS.md", "explorer")
    assert prompt("explorer") == "I am explorer in AGENTS.md."
    assert prompt("mine") == "I am mine in agents/AGENTS.md."
    agent_file("one.md", "other")
    assert prompt("one.md") == "I am other in one.md."
    with pytest.raises(
        bl.SettingError, match=r"no agent 'explorr'; did you mean 'explorer'\? Looked in AGENTS.md: explorer; "
    ):
        prompt("explorr")
    with pytest.raises(bl.SettingError, match="holds 2 agents"):
        prompt("agents/AGENTS.md")
    with pytest.raises(bl.SettingError, match="'mine' is an agent, and has no task"):
        agent_of(given(task="mine"))
    assert agent_of(given(agent="-", task="mine")) is None
    with pytest.raises(bl.errors.AgentFileError, match="nowhere"):
        agent_of(given(agent="explorer", agents="nowhere"))


def test_a_bare_model_is_no_agent_until_somebody_sets_it_a_limit() -> None:
    assert agent_of(given()) is agent_of(given(agent="-")) is None
    capped = agent_of(given(max_steps=3, max_cost=0.5))
    assert capped is not None
    assert (capped.name, capped.max_steps, bl.policies["boocode"].budgets.no_agent) == ("", 3, capped.tool_budget)
    changed: Any = capped.policy
    assert changed.budgets.cost == 0.5


def test_options_override_the_agent_file_and_others_stay() -> None:
    agent = agent_of(given(agent="debugger", max_steps="none", policy="opencode_3631", temperature=0.3))
    assert agent is not None
    assert (agent.max_steps, agent.tool_budget, agent.doom_loop, agent.temperature) == (None, 40, 2, 0.3)
    assert str(agent.policy) == "opencode_3631"


def test_a_limit_that_the_policy_does_not_have_is_refused() -> None:
    with pytest.raises(bl.SettingError, match="policy naive has no limit called doom_loop"):
        agent_of(given(agent="explorer", policy="naive", doom_loop=3))


@pytest.mark.parametrize(
    ("name", "url", "protocol"),
    [
        ("claude-haiku-4-5", None, "anthropic"),
        ("gpt-4.1-mini", None, "openai"),
        ("anthropic/claude-haiku-4-5", "https://openrouter.ai/api/v1", "openai"),
        ("any", "https://api.anthropic.com/v1", "anthropic"),
        ("any", "https://api.anthropic.com.example.org/v1", "openai"),
    ],
)
def test_protocol_follows_from_model_name_and_server(name: str, url: str | None, protocol: str) -> None:
    assert protocol_of(name, url) == protocol


@contextmanager
def refused(capsys: pytest.CaptureFixture[str], why: str) -> Iterator[None]:
    before = sorted(Path().rglob("*"))
    yield
    assert why in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "no model: --model NAME"),
        (["--model", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--model", "script.yaml", "--base-url", "http://127.0.0.1:9"], "script.yaml is a file"),
        (["--model", "m", "--key-env", "NO_SUCH_KEY"], "--key-env NO_SUCH_KEY: there is no such"),
        (["--model", "m", "--base-url", "http://127.0.0.1:9", "--param", 'api_key="x"'], "--param api_key: that is no"),
        (["--model", "gpt-4.1-mini"], "OPENAI_API_KEY"),
        (["--model", "script.yaml", "--root", "nowhere"], "nowhere"),
        (["--model", "script.yaml", "--out", "record.csv"], "runs are saved as .jsonl (ATIF), .jsonl.bz2 or .parquet"),
        (["--model", "script.yaml", "--out", "slow.yaml/x.jsonl"], "slow.yaml"),
        (["--model", "script.yaml", "--policy", "nonsense"], "nonsense"),
    ],
)
def test_invalid_arguments_are_refused_first_and_leave_no_file(
    arguments: list[str], why: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with refused(capsys, why):
        assert main(["run", "explorer", "go", *arguments]) == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--max-steps", "-1"], "expected 0 or more, or none"),
        (["--doom-loop", "1"], "expected 2 or more, or none"),
        (["--max-cost", "much"], "expected a number, 0 or more"),
        (["--param", "effort=low"], "a text needs quotes within quotes, such as 'effort=\"low\"'"),
        (["--quiet", "--json"], "not allowed with"),
    ],
)
def test_what_it_does_not_understand_is_wrong_usage(
    arguments: list[str], why: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with refused(capsys, why), pytest.raises(SystemExit) as left:
        main(["run", "go", "--model", "m", *arguments])
    assert left.value.code == 2


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("options", first(1, [(), ("--quiet",), ("--json",)]))
def test_a_stream_that_was_closed_before_changes_nothing_else(
    folder: Path, stream: str, options: tuple[str, ...]
) -> None:
    number = {"stdout": 1, "stderr": 2}[stream]
    closing = f"exec {shlex.join(command('-', 'Go', '--model', 'script.yaml', *options))} {number}>&-"
    done = subprocess.run(["/bin/sh", "-c", closing], capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if not line.startswith(b"Next: ")] == []
    assert the_record().text == "It is in a.py."


@pytest.mark.parametrize("wrong", [("--out", "there.jsonl"), ("--root", "nowhere")])
def test_a_run_that_cannot_begin_leaves_no_recording(
    folder: Path, wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("there.jsonl").touch()
    assert main(["run", "-", "Go", "--model", "script.yaml", "--record", "new.jsonl", *wrong]) == 1
    assert wrong[1] in capsys.readouterr().err
    assert not Path("new.jsonl").exists()


def test_a_record_is_never_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.jsonl").write_text("mine")
    with refused(capsys, "mine.jsonl exists, and is not overwritten"):
        assert main(["run", "go", "--model", "script.yaml", "--out", "mine.jsonl"]) == 1
    for _ in range(3):  # within the same second, most likely
        assert main(["run", "go", "--model", "script.yaml", "--quiet"]) == 0
    assert len(list(Path("runs").iterdir())) == 3


@pytest.mark.parametrize("content", ["", "{}"])
def test_a_record_with_content_stays_after_an_error(
    content: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(_run: Run, record: Path) -> None:
        record.write_text(content)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("boolab.cli.run_agent.save_runs", save)
    assert main(["run", "go", "--model", "script.yaml", "--out", "run.jsonl"]) == 1
    assert "the record cannot be written to run.jsonl: Input/output error" in capsys.readouterr().err
    assert (folder / "run.jsonl").exists() == bool(content)


def test_unknown_key_of_an_agent_file_is_a_line_on_stderr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.md").write_text("---\nname: odd\nstep: 3\n---\nHello.\n")
    assert main(["run", "odd.md", "go", "--model", "script.yaml", "--quiet"]) == 0
    assert capsys.readouterr().err.startswith("boolab: odd.md:3: agent 'odd': the key 'step' is not known")


def test_every_shipped_agent_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert f": {', '.join(bl.load_agents(data_path('agents')))}." in said
