"""The watch over the test-suite's key (conftest.py) would notice it."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.canary import CANARY, KEYS, Listening, files_with
from tests.support.cases import first
from tests.support.project import ROOT

SUITE = """
import logging
from pathlib import Path

def test_that_{what}(tmp_path):
    {act}
"""
ACTS = {
    "writes": "tmp_path.joinpath('deep').mkdir(); (tmp_path / 'deep' / 'run.jsonl').write_text('...' + KEY)",
    "logs": "logging.getLogger('some.library').warning('sent %s', {'authorization': KEY})",
    "is_silent": "(tmp_path / 'run.jsonl').write_text('nothing')",
}


def test_the_key_is_in_the_environment_of_all_tests() -> None:
    assert {os.environ[name] for name in KEYS} == {CANARY}


def test_files_and_log_records_that_hold_a_canary_are_found(tmp_path: Path) -> None:
    for name, text in {"a.txt": "x", "b.bin": "\0bird", "bird": "", ".hidden": "a bird"}.items():
        (tmp_path / name).write_text(text)
    assert [path.name for path in files_with("bird", [tmp_path, tmp_path / "none"])] == [".hidden", "b.bin", "bird"]
    log, listening = logging.getLogger("tests.support.canary"), Listening("bird")
    log.addHandler(listening)
    log.warning("a %s", "bird")
    log.warning("no fish")
    log.error("it flew", exc_info=ValueError("bird"))
    log.removeHandler(listening)
    assert listening.sung_by == ["tests.support.canary"] * 2


@pytest.mark.parametrize("what", first(2, ["writes", "is_silent", "logs"]))
def test_a_test_that_leaks_the_key_fails_the_session(what: str, tmp_path: Path) -> None:
    """The real fixture, in a session of its own."""
    root = ROOT
    key = f"import os\nKEY = os.environ['{KEYS[0]}']\n"
    (tmp_path / "test_leak.py").write_text(key + SUITE.format(what=what, act=ACTS[what]))
    (tmp_path / "conftest.py").write_text("from tests.conftest import canary\n")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:llmock", "--basetemp", str(tmp_path / "written")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)],
        env=os.environ | {"BOOLAB_TEST_CANARY": "sk-canary-of-the-inner-session", "PYTHONPATH": str(root)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) == (what == "is_silent"), done.stdout + done.stderr
    assert "1 passed" in done.stdout
