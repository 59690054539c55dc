"""The command line: its help, its errors and its exit codes."""

import argparse
import os
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

import boolab
from boolab.cli.lab import lab_command
from boolab.cli.main import exit_code, main
from boolab.errors import BoolabError, SettingError

NOTHING = argparse.Namespace()


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"boolab {version('boolab')}\n"
    assert boolab.__version__ == version("boolab")


def test_without_a_command_it_shows_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("usage: boolab")


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--nonsense"], ["demo", "--out"]])
def test_what_it_does_not_understand_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: boolab" in capsys.readouterr().err


def test_an_error_of_boolab_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: argparse.Namespace) -> int:
        msg = "one thing\n  and another"
        raise BoolabError(msg)

    assert exit_code(fail, NOTHING) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "boolab: one thing and another\n")


def test_an_interrupt_is_exit_code_130(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    assert exit_code(interrupt, NOTHING) == 130
    assert capsys.readouterr().err == "boolab: interrupted\n"


def test_an_error_that_is_a_bug_keeps_its_traceback() -> None:
    def fail(_: argparse.Namespace) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        exit_code(fail, NOTHING)


def test_the_demo_refuses_a_folder_that_it_cannot_make(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "-o", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith(f"boolab: {tmp_path / 'file'} cannot be written to")


def test_the_lab_opens_the_notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (Path(lab_command()[3]) / "01_sixty_seconds.ipynb").is_file()


def test_the_lab_opens_another_folder_and_passes_options_on(tmp_path: Path) -> None:
    command = lab_command(str(tmp_path), ["--no-browser"])
    assert [*command[:4], command[-1]] == [sys.executable, "-m", "jupyterlab", str(tmp_path), "--no-browser"]


def test_the_lab_refuses_a_folder_that_does_not_exist(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="does not exist"):
        lab_command(str(tmp_path / "nowhere"))
    assert main(["lab", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err == f"boolab: {tmp_path / 'nowhere'} does not exist\n"


def lab(*arguments: str, **environment: str) -> str:
    """What JupyterLab prints as `boolab lab` becomes it."""
    command = [sys.executable, "-m", "boolab", "lab", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return done.stdout.strip()


@pytest.mark.slow
def test_the_lab_becomes_jupyterlab() -> None:
    assert lab("--", "--version") == version("jupyterlab")


@pytest.mark.parametrize("path", [[], ["."]])
def test_the_lab_is_given_the_folder_and_the_options(
    path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jupyterlab.py").write_text("import sys; print(sys.argv[1:])")
    words = lab_command(*path)[3:]
    assert lab(*path, "--", "--version", PYTHONPATH=str(tmp_path)) == str([*words, "--version"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["store", "ls", "--help"], ["doctor"]])
def test_output_on_a_full_disk_is_exit_code_1(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(words) == 1
        monkeypatch.undo()
        with suppress(OSError):
            full.close()  # what it still holds
    assert capsys.readouterr().err == "boolab: No space left on device\n"


def test_help_in_a_closed_pipe_ends_without_words() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "boolab", "--help"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_next_step_on_a_full_disk_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert main(["export", "boolab", "--max-steps", "5"]) == 1
        monkeypatch.undo()
        with suppress(OSError):
            full.close()
