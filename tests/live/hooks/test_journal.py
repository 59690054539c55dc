"""The state of the hook under processes at once, and under processes that are killed."""

import fcntl
import json
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.live.hooks import journal
from boolab.live.hooks.counts import Boundary, state_after
from boolab.live.hooks.journal import (
    Journal,
    boundary_of,
    compact,
    journal_path,
    line_of,
    prune,
    records,
    session_key,
)
from boolab.live.hooks.options import Options
from tests.support.hook_events import Did, Session
from tests.support.project import ROOT

OPTIONS = Options.parse(["--max-steps", "1000000", "--doom-loop", "5", "--shadow"])


def worker(session: str, first: int, calls: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.live.hooks.worker", session, str(first), str(calls)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def stand(session: str) -> Boundary:
    return Boundary(state_after(Journal(journal_path(session, None)).data), OPTIONS)


def count_by_processes(processes: int, calls: int) -> None:
    running = [worker("s", number * calls, calls) for number in range(processes)]
    for process in running:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert stand("s").step_counts() == {"steps": processes * calls, "tool_calls": processes * calls}


def test_processes_at_once_lose_no_count() -> None:
    count_by_processes(3, 20)


@pytest.mark.slow
def test_1000_calls_by_8_processes_at_once_lose_no_count() -> None:
    count_by_processes(8, 125)


def lines_of(agent: int, step: int) -> list[bytes]:
    """The lines of a step with one call."""
    name = f"{agent}-{step}"
    kind = "failed" if step % 3 == 0 else "ran"
    boundary = boundary_of("step", calls=[[name, "ls", step, step, step, ""]])
    return [line_of({"e": "asked", "id": name}), line_of({"e": kind, "id": name}), line_of(boundary)]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_calls_of_processes_at_once_count_in_any_order(steps: list[int], chance: random.Random) -> None:
    waiting = [[line for step in range(count) for line in lines_of(agent, step)] for agent, count in enumerate(steps)]
    lines: list[bytes] = []
    while any(waiting):
        lines.append(chance.choice([queue for queue in waiting if queue]).pop(0))
    for line in chance.sample(lines, chance.randint(0, len(lines))):  # two hooks on the session keep a line twice
        lines.insert(chance.randint(lines.index(line) + 1, len(lines)), line)
    cut = chance.randint(0, len(lines))
    first = line_of({"e": "journal", "v": journal.VERSION})
    folded = line_of(
        {"e": "journal", "v": journal.VERSION, "state": state_after(first + b"".join(lines[:cut])).as_json()}
    )
    state = state_after(folded + b"".join(lines[cut:]))
    counters = state.run.place.counters
    assert (counters["steps"], counters["tool_calls"]) == (sum(steps), sum(steps))


def test_line_added_while_a_journal_is_rewritten_keeps_its_place(state: Path) -> None:
    session = Session("--max-steps 100")
    for number in range(8):
        session.step(Did(arguments=number))
    path, others = journal_path("s-1", None), []

    def fold(data: bytes) -> dict[str, object]:
        others.append(worker("s-1", 100, 1))  # it has to wait: the lines of its call are not in `data`
        assert others[0].stdout is not None
        assert not select.select([others[0].stdout], [], [], 0.5)[0]
        return state_after(data).as_json()

    compact(path, fold)
    others[0].communicate(timeout=60)
    kinds = [record["e"] for record in records(Journal(path).data) if record["e"] != "verdict"]
    assert kinds[-3:] == ["asked", "ran", "step"]
    assert stand("s-1").step_counts() == {"steps": 9, "tool_calls": 9}


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
        steps = stand("s").step_counts()["steps"]
        assert steps is not None
        assert counted + len(seen) <= steps <= counted + len(seen) + 1
        counted = steps


def test_killed_process_leaves_a_readable_state() -> None:
    kill_and_count(2)


@pytest.mark.slow
def test_forty_killed_processes_leave_a_readable_state() -> None:
    kill_and_count(40)


@given(st.integers(0, 2000))
def test_journal_truncated_anywhere_is_read_and_continued(cut: int) -> None:
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
        assert stand("s-1").step_counts()["steps"] == 1 + sum(record["e"] == "step" for record in before)


def test_sessions_inactive_for_two_weeks_are_removed(state: Path) -> None:
    for session in ("old", "new"):
        Session("--max-steps 3", session).step(Did())
    long_ago = time.time() - 15 * 24 * 3600
    for path in [*(state / "sessions/old").iterdir(), state / "sessions/old"]:
        os.utime(path, (long_ago, long_ago))
    prune()
    assert [path.name for path in (state / "sessions").iterdir()] == ["new"]


def test_session_that_cannot_be_removed_stays_and_others_go(state: Path) -> None:
    long_ago = time.time() - 15 * 24 * 3600
    for session in ("a", "b"):
        Session("--max-steps 3", session).step(Did())
    (state / "sessions/a/folder").mkdir()
    for path in [*(state / "sessions").rglob("*"), *(state / "sessions").iterdir()]:
        os.utime(path, (long_ago, long_ago))
    prune()
    assert [path.name for path in (state / "sessions").iterdir()] == ["a"]


def test_records_of_other_forms_are_passed_over() -> None:
    assert records(b'[1]\n7\nnull\n{"e":\n\xff\n{"e":"ran","id":"1"}\n') == [{"e": "ran", "id": "1"}]


def steps_of(session: Session, numbers: range, **more: object) -> None:
    for number in numbers:
        session.step(Did(arguments=number), *(Did(arguments=[number, name]) for name in more))


def test_a_journal_is_bounded_and_keeps_its_counts(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    monkeypatch.setattr(journal, "COMPACT_BYTES", 3000)
    monkeypatch.setattr("boolab.live.hooks.counts.MAX_CALL_IDS", 20)
    session, path = Session("--max-steps 1000"), state / "sessions/s-1/main.jsonl"
    sizes = []
    for number in range(120):
        session.step(Did(arguments=number))
        sizes.append(path.stat().st_size)
    assert max(sizes) < 8000
    assert max(sizes[60:]) <= max(sizes[:60]) + 200
    assert stand("s-1").step_counts() == {"steps": 120, "tool_calls": 120}
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in path.parent.iterdir()) == ["key", "main.jsonl"]


def test_lines_of_processes_that_gave_up_on_the_lock_are_kept(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_MAX_WAIT_S", 0.001)
    session, path = Session("--max-steps 1000"), state / "sessions/s-1/main.jsonl"
    steps_of(session, range(8))

    def late(data: bytes) -> dict[str, object]:
        steps_of(session, range(8, 11))  # of other processes
        return state_after(data).as_json()

    compact(str(path), late)
    assert len(records(path.read_bytes().split(b"\n")[0])) == 1
    assert b'"state"' in path.read_bytes().split(b"\n")[0]
    assert stand("s-1").step_counts()["steps"] == 11


def test_journal_is_not_rewritten_while_a_line_is_added(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    session, path = Session("--max-steps 1000"), state / "sessions/s-1/main.jsonl"
    steps_of(session, range(8))
    add = journal._add

    def rewrite_first(fd: int, lines: bytes) -> None:
        compact(str(path), lambda data: state_after(data).as_json())
        add(fd, lines)

    monkeypatch.setattr(journal, "_add", rewrite_first)
    steps_of(session, range(8, 9))
    assert b'"state"' not in path.read_bytes()
    assert stand("s-1").step_counts()["steps"] == 9


def test_journal_locked_by_another_process_is_not_compacted(state: Path) -> None:
    session, path = Session("--max-steps 1000"), state / "sessions/s-1/main.jsonl"
    steps_of(session, range(8))
    before = path.read_bytes()
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        compact(str(path), lambda data: state_after(data).as_json())
    assert path.read_bytes() == before


def test_a_journal_that_cannot_be_written_anew_gives_its_answer(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    def full(path: str, content: bytes) -> None:
        raise OSError(path)

    monkeypatch.setattr(journal, "COMPACT_BYTES", 0)
    session = Session("--max-steps 9")
    steps_of(session, range(8))
    monkeypatch.setattr(journal, "_replace", full)
    assert session.step(Did(arguments=9)) != ""
    assert b'"failed"' in (state / "log.jsonl").read_bytes()


def test_hashes_of_two_sessions_have_nothing_in_common(state: Path) -> None:
    texts = ["{}", '"secret"', "ok", json.dumps({"a": "secret"}, separators=(",", ":"))]
    numbers: list[set[int]] = []
    for name in ("one", "two"):
        Session("--max-steps 9", name).step(Did(arguments={"a": "secret"}), Did(arguments="secret"))
        lines = records((state / f"sessions/{name}/main.jsonl").read_bytes())
        calls = [call for line in lines for call in line.get("calls", [])]  # type: ignore[attr-defined]
        numbers.append({number for call in calls for number in call if isinstance(number, int)})
        assert len(numbers[-1]) == 3  # two arguments, sorted and ordered alike, and one result
    unkeyed = {int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big") for text in texts}
    assert numbers[0].isdisjoint(numbers[1] | unkeyed)


def test_a_key_is_the_users_alone_and_stays_for_the_session(state: Path) -> None:
    path = journal_path("s", None)
    Session("--max-steps 9", "s").step(Did())
    key = session_key(path)
    assert len(key) == 32
    assert session_key(journal_path("s", "agent")) == key != session_key(journal_path("other", None))
    assert (state / "sessions/s/key").stat().st_mode & 0o777 == 0o600
    for file in [*state.rglob("*.jsonl")]:
        assert key not in file.read_bytes()
        assert key.hex() not in file.read_text()


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 100])
def test_a_damaged_key_is_made_anew(damage: bytes, state: Path) -> None:
    session = Session("--doom-loop 2 --max-steps 3")
    session.step(Did())
    (state / "sessions/s-1/key").write_bytes(damage)
    assert session.step(Did()) == ""  # no call is the same as one before
    assert len((state / "sessions/s-1/key").read_bytes()) == 32
    assert session.step(Did()) != ""


def test_a_journal_tells_no_lengths(state: Path) -> None:
    sizes = set()
    for number, text in enumerate(["x", "x" * 5000]):
        name = f"session-{number}"
        Session("--max-steps 9", name).step(Did(arguments=text, result=text))
        lines = records((state / f"sessions/{name}/main.jsonl").read_bytes())
        (calls,) = [line["calls"] for line in lines if line["e"] == "step"]
        sizes.add(tuple(type(value) for value in calls[0]))  # type: ignore[index]
        assert not {len(text), len(json.dumps(text))} & set(calls[0])  # type: ignore[index]
    assert sizes == {(str, str, int, int, int, str)}


def test_a_step_that_two_processes_added_at_once_is_one() -> None:
    path = journal_path("s", None)
    names = []
    for calls in (["a"], ["b"], ["b"], ["b"]):
        record = boundary_of("step", calls=[[name] for name in calls])
        names.append(record["b"])
        journal.append(path, record)
    assert Journal(path).last_boundaries() == (names[3], names[0])
    journal.append(path, boundary_of("turn"))
    assert Journal(path).last_boundaries()[1] == names[3]
    assert Journal(path).last_step() is None


def test_a_short_journal_is_not_written_anew(state: Path) -> None:
    session, path = Session("--max-steps 1000"), state / "sessions/s-1/main.jsonl"
    steps_of(session, range(journal.TAIL))
    before = path.read_bytes()
    compact(str(path), lambda data: state_after(data).as_json())
    assert path.read_bytes() == before
    assert not journal.is_long(b"x" * 50_000 + b"\n" + b"x" * 14_000)  # counters of any length
    assert journal.is_long(b"x\n" + b"x" * 50_000)


def test_a_journal_that_was_just_written_anew_is_left_alone(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    session, path = Session("--max-steps 1000"), state / "sessions/s-1/main.jsonl"
    steps_of(session, range(8))
    lock, is_first = fcntl.flock, iter([True])

    def lock_after_another(fd: int, kind: int) -> None:
        if next(is_first, False):
            compact(str(path), lambda data: state_after(data).as_json())
            steps_of(session, range(8, 9))
        lock(fd, kind)

    monkeypatch.setattr("boolab.live.hooks.journal.fcntl.flock", lock_after_another)
    compact(str(path), lambda data: state_after(data).as_json())
    assert stand("s-1").step_counts()["steps"] == 9


def test_a_session_with_one_new_journal_stays(state: Path) -> None:
    Session("--max-steps 3", "s").step(Did())
    long_ago = time.time() - 15 * 24 * 3600
    for path in (state / "sessions/s/key", state / "sessions/s"):
        os.utime(path, (long_ago, long_ago))
    prune()
    assert (state / "sessions/s/main.jsonl").exists()


def test_a_long_log_begins_anew_beside_the_one_before(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    monkeypatch.setattr("boolab.live.hooks.journal.MAX_LOG_BYTES", 1000)
    for number in range(100):
        journal.append_log({"number": number})
    sizes = [path.stat().st_size for path in sorted(state.iterdir())]
    assert len(sizes) == 2
    assert all(0 < size < 1100 for size in sizes)


@pytest.mark.parametrize("words", [["--shadow=1"], ["--nudge=no"], ["max-steps", "3"], ["--max-steps"]])
def test_options_of_another_form_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"no option of the hook|invalid literal"):
        Options.parse(words)
