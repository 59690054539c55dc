"""The Tab key: what the shell is given, in the way in which it asks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def completed(line: str, folder: Path) -> list[str]:
    """What may stand at the end of a line: the answer of a process of its own, as bash would start it."""
    answer = folder / "answer"
    answer.write_text("")
    asked = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "COMP_LINE": line, "COMP_POINT": str(len(line)),
    }  # fmt: skip
    command = [sys.executable, "-m", "boolab"]
    subprocess.run(command, env={**os.environ, **asked}, cwd=folder, check=True, capture_output=True)
    return [word.strip() for word in answer.read_text().splitlines()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("boolab w", ["whatif", "watch"]),
        pytest.param(*("boolab rep", ["report"]), marks=pytest.mark.slow),
        pytest.param(*("boolab whatif --max", ["--max-steps", "--max-cost"]), marks=pytest.mark.slow),
        pytest.param(*("boolab store ", ["ls", "show", "export", "prune"]), marks=pytest.mark.slow),
        pytest.param(*("boolab export claude", ["claude-code"]), marks=pytest.mark.slow),
        pytest.param(*("boolab whatif lo", ["logs/"]), marks=pytest.mark.slow),
        ("boolab whatif atlas/tau", ["atlas/tau-airline", "atlas/tau2-retail"]),
        pytest.param(*("boolab bench baselines --data atlas/inter", ["atlas/intercode-bash"]), marks=pytest.mark.slow),
        pytest.param(*("boolab import --format claude", ["claude_code"]), marks=pytest.mark.slow),
        pytest.param(*("boolab audit logs --policy open", ["opencode_v2", "openhands"]), marks=pytest.mark.slow),
        pytest.param(*("boolab run sc", ["scout"]), marks=pytest.mark.slow),
    ],
)
def test_commands_options_values_and_files_are_completed(line: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert set(words) <= set(completed(line, tmp_path))


def test_a_word_that_cannot_be_completed_gives_nothing(tmp_path: Path) -> None:
    assert completed("boolab nosuch --x", tmp_path) == []


def test_the_line_that_the_help_shows_turns_it_on_in_bash(tmp_path: Path) -> None:
    place = Path(sys.executable).parent
    bash = shutil.which("bash")
    if bash is None or not (place / "register-python-argcomplete").exists():
        pytest.skip("no bash, or an installation without its scripts")
    script = 'eval "$(register-python-argcomplete boolab)"; complete -p boolab'
    path = f"{place}:{os.environ['PATH']}"
    shown = subprocess.run(
        [bash, "--norc", "-c", script], env={**os.environ, "PATH": path}, cwd=tmp_path, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert shown.stdout.split()[-1] == "boolab"
    assert "_python_argcomplete" in shown.stdout
