"""The state of the hook under processes at once, and under processes that are killed."""

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.hooks.journal import Journal, journal_path, prune, records
from boolab.hooks.options import Options
from boolab.hooks.replay import Boundary, replay
from tests.support.hook_events import Did, Session
from tests.support.project import ROOT

OPTIONS = Options.parse(["--max-steps", "1000000", "--doom-loop", "5", "--shadow"])


def worker(session: str, first: int, calls: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.hooks.worker", session, str(first), str(calls)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def stand(session: str) -> Boundary:
    with Journal(journal_path(session, None)) as journal:
        return replay(journal, OPTIONS)


def count_by_processes(processes: int, calls: int) -> None:
    running = [worker("s", number * calls, calls) for number in range(processes)]
    for process in running:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert stand("s").counted() == {"steps": processes * calls, "tool_calls": processes * calls}


def test_processes_at_once_lose_no_count() -> None:
    count_by_processes(3, 20)


@pytest.mark.slow
def test_1000_calls_by_8_processes_at_once_lose_no_count() -> None:
    count_by_processes(8, 125)


def kill_and_count(kills: int) -> None:
    """Kill a process again and again; what it had counted before is there, and the next continues."""
    chance = random.Random(22)  # noqa: S311 - no secret
    counted = 0
    for kill in range(kills):
        process = worker("s", kill * 10_000, 10_000)
        assert process.stdout is not None
        seen = [int(process.stdout.readline()) for _ in range(chance.randrange(1, 12))]
        process.kill()  # at any moment of the next call
        seen += [int(line) for line in process.stdout.read().split()]
        process.stdout.close()
        process.wait(timeout=60)
        steps = stand("s").counted()["steps"]
        assert steps is not None
        assert counted + len(seen) <= steps <= counted + len(seen) + 1
        counted = steps


def test_a_process_that_is_killed_leaves_a_state_that_is_read_again() -> None:
    kill_and_count(2)


@pytest.mark.slow
def test_processes_that_are_killed_forty_times_leave_a_state_that_is_read_again() -> None:
    kill_and_count(40)


@given(st.integers(0, 2000))
def test_a_journal_that_was_cut_off_anywhere_is_read_and_continued(cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        session = Session("--max-steps 100")
        for number in range(3):
            session.step(Did(arguments=number))
        path = Path(journal_path("s-1", None))
        whole = path.read_bytes()
        kept = whole[: min(cut, len(whole))]
        path.write_bytes(kept)
        before = records(kept)
        session.step(Did(arguments="more"))
        after = records(path.read_bytes())
        assert after[: len(before)] == before
        assert [record["e"] for record in after if record["e"] == "step"][-1:] == ["step"]
        with Journal(str(path)) as journal:
            counted = replay(journal, session.options).counted()["steps"]
        assert counted == 1 + sum(record["e"] == "step" for record in before)


def test_sessions_in_which_nothing_happened_for_two_weeks_are_removed(state: Path) -> None:
    for session in ("old", "new"):
        Session("--max-steps 3", session).step(Did())
    long_ago = time.time() - 15 * 24 * 3600
    for path in (state / "sessions/old/main.jsonl", state / "sessions/old"):
        os.utime(path, (long_ago, long_ago))
    prune()
    assert [path.name for path in (state / "sessions").iterdir()] == ["new"]


def test_records_of_other_forms_are_passed_over() -> None:
    assert records(b'[1]\n7\nnull\n{"e":\n\xff\n{"e":"ran","id":"1"}\n') == [{"e": "ran", "id": "1"}]
