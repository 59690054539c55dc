"""The `bash` tool: real commands, their limits, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.clock import WallClock
from boolab.errors import SettingError, ToolError
from boolab.runtime.tools.bash import INHERITED, MAX_COMMAND_BYTES, _Ends, bash_tool
from boolab.runtime.tools.tool import ToolSpec
from boolab.sweeps.fingerprints import fingerprint

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="bash_tool says there that it does not work there")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who descends from whom")


def give(command: str, **options: Any) -> str:
    """What a command gives, also where it is an error result."""
    try:
        text: str = asyncio.run(bash_tool(**options)(command))
    except ToolError as error:
        return str(error)
    return text


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where fresh folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def mark() -> str:
    """A number of seconds to sleep that no other process on this machine sleeps."""
    return f"3600.{uuid.uuid4().int % 10**12}"


def left(mark: str) -> list[psutil.Process]:
    """The processes that sleep so long."""
    return [one for one in psutil.process_iter(["cmdline"]) if mark in " ".join(one.info["cmdline"] or ())]


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process tells nobody
            await asyncio.sleep(0.01)


def test_command_result_has_exit_code_and_output_in_order() -> None:
    assert give("echo one; echo two >&2; echo three") == "exit code 0\none\ntwo\nthree\n"
    assert give("true") == "exit code 0\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [("echo no; exit 3", "exit code 3\nno\n"), ("kill -SEGV $$", "killed by SIGSEGV\n"), ("((", "exit code 2\n")],
)
def test_a_command_that_fails_is_an_error_result_with_its_output(command: str, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        asyncio.run(bash_tool()(command))
    assert str(caught.value).startswith(words)


def test_a_command_sees_no_variable_of_yours_but_those_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK",
        "BASH_ENV",
        "ENV",
        "PYTHONPATH",
        "LD_PRELOAD",
    ):
        monkeypatch.setenv(name, f"canary-{name}")
    monkeypatch.setenv("TZ", "UTC")
    seen = dict(line.split("=", 1) for line in give("env; true", env={"MINE": "yes"}).splitlines()[1:])
    assert seen.keys() <= {*INHERITED, "HOME", "TMPDIR", "MINE", "PWD", "SHLVL", "_", "__CF_USER_TEXT_ENCODING"}
    assert (seen["MINE"], seen["TZ"]) == ("yes", "UTC")
    assert "canary" not in str(seen)


def test_command_has_no_input_and_no_open_files_of_boolab(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        assert give("cat") == "exit code 0\n"
        seen = give("for fd in /dev/fd/*; do readlink $fd; done; true")
    assert str(tmp_path) not in seen


def test_each_command_has_its_own_folder_removed_afterwards() -> None:
    text = give("pwd -P; echo $HOME; echo $TMPDIR; ls -A; ls -ld . | cut -c 1-10; echo x > file")
    code, place, home, temporary, rights = text.splitlines()
    assert (code, rights) == ("exit code 0", "drwx------")
    assert {os.path.realpath(home), os.path.realpath(temporary)} == {place}
    assert Path(place).parent == Path(tempfile.gettempdir()).resolve()
    assert not Path(place).exists()


def test_given_folder_is_kept_between_commands(tmp_path: Path) -> None:
    bash = bash_tool(tmp_path)
    assert asyncio.run(bash("echo here > file")) == "exit code 0\n"
    assert asyncio.run(bash("cat file")) == "exit code 0\nhere\n"
    assert "kept from one command to the next" in bash.description
    assert "removed afterwards" in bash_tool().description


def test_a_folder_that_is_gone_is_an_error_result(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    bash = bash_tool(folder)
    folder.rmdir()
    with pytest.raises(ToolError, match="cannot be started in .*gone: No such file"):
        asyncio.run(bash("true"))


def test_command_over_its_timeout_is_killed_and_output_is_kept(mark: str) -> None:
    assert give(f"echo begun; sleep {mark}", timeout=0.5) == "killed: it did not end within 0.5 s\nbegun\n"
    assert left(mark) == []


@pytest.mark.slow
def test_a_command_that_stops_its_watcher_is_killed_all_the_same(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boolab.runtime.tools.bash._SHUTDOWN_TIMEOUT_S", 1.0)
    told = give(f"echo begun; kill -STOP $PPID; sleep {mark}", timeout=0.5)
    assert told == "killed: the process that watches it was gone before its end (killed by SIGKILL)\nbegun\n"
    assert left(mark) == []


def test_a_command_that_interrupts_its_watcher_does_nothing() -> None:
    assert give("kill -INT $PPID; echo still here") == "exit code 0\nstill here\n"


@pytest.mark.parametrize("command", ["false", "kill -KILL $$", "kill -KILL $PPID; sleep 5", "sleep 5"])
def test_the_fresh_folder_is_removed_however_a_command_ends(command: str, folders: Path) -> None:
    give(f"touch made; {command}", timeout=0.5)
    assert list(folders.iterdir()) == []


@pytest.mark.slow
def test_fresh_folder_with_deeply_nested_folders_is_removed(folders: Path) -> None:
    # A shell's cd walks the whole path again each time, which took a minute here.
    dig = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\nprint('deep')"
    assert give(f'{sys.executable} -c "{dig}"') == "exit code 0\ndeep\n"
    assert list(folders.iterdir()) == []


@linux
@pytest.mark.parametrize(
    "command",
    [
        "sleep MARK &",
        "setsid sleep MARK >/dev/null 2>&1 & sleep 0.1",
        "(setsid bash -c '(setsid sleep MARK &) ; (nohup sleep MARK &)' &) ; sleep 0.2",
        "trap '' TERM INT HUP; (trap '' TERM; sleep MARK) & disown -a",
    ],
)
def test_nothing_that_a_command_leaves_behind_goes_on(command: str, mark: str) -> None:
    assert give(command.replace("MARK", mark)) == "exit code 0\n"
    assert left(mark) == []


def test_cancelling_repeatedly_kills_the_command(mark: str) -> None:
    async def main() -> None:
        task = asyncio.create_task(bash_tool()(f"sleep {mark} & sleep {mark}"))
        await until(lambda: len(left(mark)) >= 2)
        task.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert left(mark) == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_command_does_not_outlive_boolab(mark: str, tmp_path: Path) -> None:
    code = f"import asyncio, boolab as bl; asyncio.run(bl.bash_tool({str(tmp_path)!r})('sleep {mark} & sleep {mark}'))"
    with subprocess.Popen([sys.executable, "-c", code], cwd=Path(bl.__file__).parents[1]) as driver:
        asyncio.run(until(lambda: len([one for one in left(mark) if one.name() == "sleep"]) == 2))
        driver.kill()
    asyncio.run(until(lambda: not left(mark)))


@linux
def test_a_command_that_kills_its_guard_dies_too_and_it_is_said(mark: str) -> None:
    said = give(f"sleep {mark} & kill -9 $PPID; sleep {mark}")
    assert said.startswith("killed: the process that watches it was gone before its end (killed by SIGKILL)")
    asyncio.run(until(lambda: not left(mark)))


@pytest.mark.slow
@linux
def test_process_out_of_reach_does_not_block_the_run(mark: str) -> None:
    said = give(f"setsid sleep {mark} & sleep 0.3; echo said; kill -9 $PPID; sleep {mark}")
    try:
        assert said.startswith("killed: the process that watches it was gone")
        assert said.endswith("said\n")
    finally:
        for one in left(mark):
            one.kill()


@linux
def test_a_process_gets_no_more_memory_than_it_may_have() -> None:
    code = f"{sys.executable} -I -S -c 'bytearray(400 * 2**20)'"
    assert "MemoryError" in give(code, memory_mib=200)
    assert give(code, memory_mib=1000) == "exit code 0\n"


@linux
def test_processes_get_no_more_memory_together_than_one_may_have() -> None:
    holds = f"{sys.executable} -I -S -c 'import time; held = bytes([1]) * (60 * 2**20); time.sleep(60)'"
    assert (
        give(f"for i in 1 2 3 4; do {holds} & done; wait", memory_mib=150)
        == "killed: its processes held more than 150 MiB\n"
    )


@linux
def test_a_command_that_starts_ever_more_processes_is_killed(mark: str) -> None:
    said = give(f"for i in $(seq 100); do sleep {mark} & done; wait", processes=20)
    assert said.startswith("killed: it had more than 20 processes\n")
    assert left(mark) == []


def test_a_file_gets_no_longer_than_it_may(tmp_path: Path) -> None:
    give("head -c 3000000 /dev/zero > file; true", folder=tmp_path, file_mib=1)
    assert (tmp_path / "file").stat().st_size == 2**20


def test_cpu_and_core_file_limits_are_set_in_the_system() -> None:
    assert give("ulimit -St; ulimit -Ht; ulimit -c", cpu_seconds=7).splitlines()[1:] == ["7", "8", "0"]
    assert give("ulimit -St", timeout=6.5).splitlines()[1:] == ["7"]


@linux
def test_a_command_gains_no_rights_by_sudo_and_the_like() -> None:
    assert "NoNewPrivs:\t1" in give("cat /proc/self/status")


def test_long_output_keeps_both_ends_and_counts_the_rest() -> None:
    said = give("seq 200000", output_bytes=100)
    whole = "".join(f"{n}\n" for n in range(1, 200_001))
    assert said == f"exit code 0\n{whole[:50]}\n[... {len(whole) - 100:,} bytes left out ...]\n{whole[-50:]}"


@pytest.mark.slow
def test_output_without_end_takes_no_memory() -> None:
    before = psutil.Process().memory_info().rss
    assert "bytes left out" in give("yes", timeout=1)
    assert psutil.Process().memory_info().rss - before < 30 * 2**20


@given(st.lists(st.binary(max_size=40)), st.integers(1, 60))
def test_what_is_kept_of_a_stream_is_its_beginning_and_its_end(pieces: list[bytes], most: int) -> None:
    kept, whole = _Ends(most), b"".join(pieces)
    for piece in pieces:
        kept.add(piece)
    if len(whole) <= most:
        assert kept.text() == whole.decode("utf-8", "replace")
        return
    tail = most // 2
    head = most - tail
    assert kept.text().startswith(whole[:head].decode("utf-8", "replace"))
    assert f"[... {len(whole) - most:,} bytes left out ...]" in kept.text()
    assert kept.text().endswith(whole[len(whole) - tail :].decode("utf-8", "replace"))


def test_whatever_bytes_a_command_prints_the_result_is_text() -> None:
    said = give("printf '\\xff\\xfe\\x00\\xed\\xa0\\x80\\e[31m\\r\\n'; head -c 2000 /dev/urandom")
    assert said.encode("utf-8").decode("utf-8") == said
    assert said.startswith("exit code 0\n��\x00")


@pytest.mark.parametrize("command", ["echo \0", "\ud800", "x" * (MAX_COMMAND_BYTES + 1)])
def test_what_can_be_no_command_is_an_error_result_that_says_so(command: str) -> None:
    assert give(command).startswith("the command is n")


def test_the_longest_command_runs() -> None:
    assert give(f"true {'x' * (MAX_COMMAND_BYTES - 5)}") == "exit code 0\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"timeout": 0}, "timeout=0: expected seconds > 0"),
        ({"timeout": float("nan")}, "timeout=nan: expected seconds > 0"),
        ({"cpu_seconds": -1}, "cpu_seconds=-1: expected seconds > 0"),
        ({"cpu_seconds": 1e30}, "cpu_seconds=1e[+]30: expected seconds > 0, and less than 1,000,000,000"),
        ({"env": {"A": "\ud800"}}, "env: 'A': expected a name without"),
        ({"memory_mib": 0}, "memory_mib=0: expected a whole number"),
        ({"processes": 1.5}, "processes=1.5: expected a whole number"),
        ({"file_mib": True}, "file_mib=True: expected a whole number"),
        ({"output_bytes": 2**50}, "output_bytes=.*: expected a whole number"),
        ({"folder": "/nowhere/at/all"}, "is not a folder"),
        ({"folder": "a\0b"}, "expected the path of a folder"),
        ({"folder": 7}, "expected the path of a folder"),
        ({"env": {"A=B": "x"}}, "'A=B': expected a name"),
        ({"env": {"KEY": "secret\0"}}, "'KEY': expected a name"),
        ({"env": ["A"]}, "expected a mapping"),
    ],
)
def test_invalid_bash_options_are_refused_without_showing_values(options: Any, says: str) -> None:
    with pytest.raises(SettingError, match=says) as caught:
        bash_tool(**options)
    assert "secret" not in str(caught.value)


def test_without_bash_and_on_windows_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SettingError, match="no bash on the PATH"):
        bash_tool()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SettingError, match="run boolab in WSL or in a container"):
        bash_tool()


def calls(*commands: str) -> bl.ScriptedModel:
    made = [{"name": "bash", "arguments": {"command": command}} for command in commands]
    return bl.ScriptedModel([{"tool_calls": made}, "Done."])


def test_run_executes_commands_in_parallel_in_zero_virtual_time() -> None:
    agent = bl.Agent("coder", tools=(bash_tool(),))
    run = bl.run_sync(agent, "Go.", model=calls("sleep 0.2; echo 1", "exit 4"))
    first, second = run.steps[0].results
    assert first is not None
    assert second is not None
    assert (first.content, first.is_error, first.duration_ms) == ("exit code 0\n1\n", False, 0)
    assert (second.content, second.is_error) == ("exit code 4\n", True)


def test_on_the_walls_clock_it_takes_its_time() -> None:
    agent = bl.Agent("coder", tools=(bash_tool(),))
    run = asyncio.run(bl.run(agent, "Go.", model=calls("sleep 0.2"), clock=WallClock()))
    result = run.steps[0].results[0]
    assert result is not None
    assert result.duration_ms is not None
    assert result.duration_ms >= 200


def test_aborting_a_run_ends_its_command(mark: str) -> None:
    async def main() -> bl.Run:
        abort = bl.Abort()
        agent = bl.Agent("coder", tools=(bash_tool(),))
        running = asyncio.create_task(bl.run(agent, "Go.", model=calls(f"sleep {mark}"), abort=abort))
        await until(lambda: left(mark))
        abort.abort()
        return await running

    assert asyncio.run(main()).stop_reason == "aborted"
    assert left(mark) == []


def test_it_goes_to_other_processes_and_a_store_knows_it_again(tmp_path: Path) -> None:
    again: ToolSpec = cloudpickle.loads(cloudpickle.dumps(bash_tool(tmp_path, timeout=5)))
    assert asyncio.run(again("echo 1")) == "exit code 0\n1\n"
    same, other = bash_tool(tmp_path, timeout=5), bash_tool(tmp_path, timeout=6)
    assert fingerprint(again) == fingerprint(same) != fingerprint(other)


def test_signals_that_the_terminal_sends_do_not_reach_a_command(mark: str) -> None:
    """Ctrl-C is for boolab, which then cancels what it does."""

    async def main() -> None:
        task = asyncio.create_task(bash_tool()(f"sleep {mark}"))
        await until(lambda: left(mark))
        assert all(os.getpgid(one.pid) != os.getpgrp() for one in left(mark))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_in_root_a_command_starts_in_the_folder_of_its_run(tmp_path: Path) -> None:
    script = [{"tool_calls": [{"name": "bash", "arguments": {"command": "pwd; echo 1 > made"}}]}, "Done."]
    given: dict[str, Any] = {"model": bl.ScriptedModel(script), "tools": [bl.bash_tool(in_root=True)]}
    result = bl.run_sync(None, "go", root=tmp_path, **given).steps[0].results[0]
    assert result is not None
    assert result.content == f"exit code 0\n{tmp_path.resolve()}\n"
    assert (tmp_path / "made").read_text() == "1\n"
    result = bl.run_sync(None, "go", **given).steps[0].results[0]
    assert result is not None
    assert (result.is_error, result.content) == (True, "this run has no folder: give it root= or world=")


def test_in_root_and_a_folder_are_not_accepted_together(tmp_path: Path) -> None:
    with pytest.raises(bl.SettingError, match="leave one out"):
        bl.bash_tool(tmp_path, in_root=True)
