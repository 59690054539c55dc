"""A fleet finds logs, reads what changed, and reports what happened to each agent. Its clock is the test's."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import boolab as bl
from boolab.errors import RunFormatError, SettingError
from boolab.io.json_input import Damage
from boolab.live.follow.fleet import Fleet
from boolab.live.follow.places import places_of, usual_places
from boolab.live.follow.rows import AgentChange
from boolab.live.follow.rule_state import RuleState
from boolab.live.follow.watch import watch
from boolab.logs.fields import Head
from boolab.logs.log_files import readers
from tests.support.growing import claude_lines, codex_lines, encoded, openhands_lines

NOW = 1_700_000_000.0  # what a test writes itself has the time of the system, which is later


@pytest.fixture(autouse=True)
def every_read_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a read takes longer than `FREE_S`, and the next one waits."""
    monkeypatch.setattr("boolab.live.follow.fleet.FREE_S", float("inf"))


def write(path: Path, lines: object, *, at: float = NOW) -> Path:
    """Write a log that was changed at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(encoded, lines)))  # type: ignore[call-overload] # the lines of a log
    os.utime(path, (at, at))
    return path


def kinds(changes: list[AgentChange]) -> list[tuple[str, str]]:
    return [(change.kind, change.row.run_id) for change in changes]


def fleet_of(folder: Path | str, rule: bl.StopRule | None = None, **more: object) -> Fleet:
    return Fleet(places_of([folder]), rule, now=lambda: NOW, prices=False, **more)  # type: ignore[arg-type] # of a test


def test_an_alert_comes_with_the_line_that_completes_the_step(tmp_path: Path) -> None:
    lines = [*claude_lines(6)]
    path = write(tmp_path / "s1.jsonl", lines[:1])
    fleet = fleet_of(tmp_path, bl.max_steps(3) | bl.doom_loop(5))
    fleet.look()
    alerts = []
    for place, line in enumerate(lines[1:], 1):
        with path.open("ab") as file:
            file.write(encoded(line))
        alerts += [
            (place, c.fired.stop.step, c.row.steps) for c in fleet.read_changed([str(path)]) if c.fired is not None
        ]
    assert alerts == [(6, 3, 3)]  # the sixth line is the result of the third call
    (row,) = fleet.rows()
    assert (row.steps, row.tool_calls, row.tokens) == (6, 6, 720)
    assert row.fired is not None
    assert row.fired.stop.reason == "step_cap"
    assert row.limits[0][2:] == (6, 3)


def test_each_turn_has_an_alert_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", [*claude_lines(4), *claude_lines(4, minute=1)])
    fleet = fleet_of(tmp_path, bl.max_steps(3))
    assert kinds(fleet.look()) == [("begins", "s1"), ("fires", "s1")]
    assert [row.turn for row in fleet.rows()] == [2]
    more = [*claude_lines(3, minute=2)]
    with path.open("ab") as file:
        file.write(b"".join(map(encoded, more)))
    assert kinds(fleet.read_changed([str(path)])) == [("step", "s1"), ("fires", "s1")]
    one = fleet_of(tmp_path, bl.max_steps(3), scope="run")
    one.look()
    (row,) = one.rows(running=False)
    assert row.fired is not None
    assert row.fired.number == 3


def test_an_agent_that_finished_before_the_first_look_is_silent(tmp_path: Path) -> None:
    for final in (False, True):
        path = write(tmp_path / str(final) / "s1.jsonl", claude_lines(4, final=final))
        fleet = fleet_of(path.parent, bl.max_steps(3))
        assert [kind for kind, _ in kinds(fleet.look())] == ["begins", *([] if final else ["fires"])]
        assert [row.fired is not None for row in fleet.rows()] == [True]


def test_inactive_logs_are_read_only_when_they_change(tmp_path: Path) -> None:
    old = write(tmp_path / "old.jsonl", claude_lines(3, session="old"), at=NOW - 5_000)
    write(tmp_path / "s1.jsonl", claude_lines(2))
    fleet = fleet_of(tmp_path)
    assert kinds(fleet.look()) == [("begins", "s1")]
    assert fleet.files == 2
    write(old, claude_lines(4, session="old"))
    assert kinds(fleet.read_changed([str(old)])) == [("begins", "old")]
    assert len(fleet_of(tmp_path, since=0.0).look()) == 2


def test_a_log_that_comes_later_and_one_that_goes_are_seen(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path)
    assert fleet.look() == []
    path = write(tmp_path / "deep" / "er" / "s1.jsonl", claude_lines(1))
    assert kinds(fleet.read_changed([str(path)])) == [("begins", "s1")]
    path.unlink()
    assert kinds(fleet.look()) == [("gone", "s1")]
    assert fleet.rows() == []


def test_a_file_that_is_no_log_is_left_out(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "package.json").write_text("{}")
    assert fleet.look() == []
    assert fleet.read_changed([str(tmp_path / "notes.txt"), "/elsewhere/s1.jsonl"]) == []


def test_subagents_stand_below_the_agent_that_started_them(tmp_path: Path) -> None:
    write(tmp_path / "s2.jsonl", claude_lines(1, session="s2"), at=NOW - 20)
    write(tmp_path / "s1.jsonl", claude_lines(1), at=NOW - 50)
    write(tmp_path / "s1" / "subagents" / "agent-a1.jsonl", claude_lines(2, agent="a1"), at=NOW - 10)
    fleet = fleet_of(tmp_path, bl.max_steps(2))
    fleet.look()
    assert [(row.depth, row.run_id) for row in fleet.rows()] == [(0, "s1"), (1, "s1/a1"), (0, "s2")]
    assert [row.fired is not None for row in fleet.rows()] == [False, True, False]
    run = fleet.run("s1/a1")
    assert run is not None
    assert run == next(one for one in bl.load_runs(tmp_path) if one.run_id == "s1/a1")


def test_conversation_in_one_file_per_event_is_one_agent(tmp_path: Path) -> None:
    events = tmp_path / "talk" / "events"
    lines = [*openhands_lines(3)]
    names = [f"event-{n:05d}-0a1b2c3d.json" for n in range(len(lines))]
    for name, line in zip(names[:3], lines[:3], strict=True):
        write(events / name, [line])
    fleet = fleet_of(tmp_path)
    fleet.look()
    steps = [fleet.rows()[0].steps]
    for name, line in zip(names[3:], lines[3:], strict=True):
        path = write(events / name, [line])
        fleet.read_changed([str(path)])
        steps.append(fleet.rows()[0].steps)
    assert steps == [1, 2, 2, 3, 3]


def test_a_glob_may_match_nothing_yet_and_a_path_must_exist(tmp_path: Path) -> None:
    fleet = Fleet(places_of([tmp_path / "*" / "s?.jsonl"]), now=lambda: NOW)
    assert fleet.look() == []
    path = write(tmp_path / "a" / "s1.jsonl", codex_lines(1))
    other = write(tmp_path / "a" / "b" / "s1.jsonl", codex_lines(1))
    assert [c.row.run_id for c in fleet.read_changed([str(path), str(other)])] == ["c1"]
    with pytest.raises(RunFormatError, match="no such file or folder"):
        places_of([tmp_path / "typo"])
    with pytest.raises(RunFormatError, match="there is no folder"):
        places_of([tmp_path / "typo" / "*.jsonl"])
    with pytest.raises(SettingError, match="scope"):
        Fleet([], scope="session")  # type: ignore[arg-type] # not one of those accepted


def test_without_a_path_the_folders_of_harnesses_are_watched(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="keeps logs here"):
        usual_places(tmp_path, {})
    write(tmp_path / ".claude" / "projects" / "x" / "s1.jsonl", claude_lines(1))
    (place,) = usual_places(tmp_path, {})
    assert place.root == str(tmp_path / ".claude" / "projects")
    assert kinds(Fleet([place], now=lambda: NOW).look()) == [("begins", "s1")]


def test_a_log_that_takes_long_to_read_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boolab.live.follow.fleet.FREE_S", -1.0)
    monkeypatch.setattr("boolab.live.follow.fleet.MAX_SHARE", 1e-9)  # any read waits for years
    path = write(tmp_path / "s1.jsonl", claude_lines(1))
    fleet = fleet_of(tmp_path)
    fleet.look()
    write(path, claude_lines(2))
    assert fleet.read_changed([str(path)]) == []
    assert fleet.has_unread


def test_the_system_reports_lines_of_a_log_and_new_logs(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    lines = [*claude_lines(3)]
    path.write_bytes(encoded(lines[0]))
    fleet = Fleet(places_of([tmp_path]), bl.max_steps(3), prices=False)
    stop, seen = Event(), []
    for changes in watch(fleet, stop):  # the suite's timeout ends it if nothing is reported
        seen += kinds(changes)
        if ("begins", "s1") in seen and len(lines) > 1:
            with path.open("ab") as file:
                file.write(b"".join(map(encoded, lines[1:])))
            lines = []
        elif ("fires", "s1") in seen and not (tmp_path / "new").exists():
            write(tmp_path / "new" / "s2.jsonl", codex_lines(1), at=path.stat().st_mtime)
        elif ("begins", "c1") in seen:
            stop.set()
    assert seen[-1] == ("begins", "c1")


def test_json_facts_of_a_change_are_plain(tmp_path: Path) -> None:
    from boolab.live.follow.rows import data_of, environment_of

    write(tmp_path / "s1.jsonl", claude_lines(3))
    changes = fleet_of(tmp_path, bl.max_steps(3)).look()
    data = json.loads(json.dumps(data_of(changes[1])))
    assert data["kind"] == "fires"
    assert data["fired"]["stop_step"] == 3
    facts = environment_of(changes[1])
    assert facts["BOOLAB_STOP_REASON"] == "step_cap"
    assert facts["BOOLAB_PATH"] == str(tmp_path / "s1.jsonl")
    assert "Fix the test" not in " ".join(facts.values())  # no text of the log


class Failing:
    """A reader of the file `bad.jsonl` that raises; of all others that of Claude Code."""

    def __init__(self, error: Exception, *, follows: bool) -> None:
        self._error = error
        self._follows = follows
        self._real = readers()["claude_code"]

    def __getattr__(self, name: str) -> object:
        if name == "follow" and not self._follows:
            raise AttributeError(name)
        return self._follow if name == "follow" else getattr(self._real, name)

    def _follow(self, path: Path, damage: Damage) -> object:
        if path.name == "bad.jsonl":
            raise self._error
        return self._real.follow(path, damage)  # type: ignore[attr-defined]

    def sniff(self, head: Head) -> bool:
        return True

    def read(self, path: Path, damage: Damage) -> list[bl.Run]:
        if path.name == "bad.jsonl":
            raise self._error
        return self._real.read(path, damage)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (KeyError("boom"), "KeyError: 'boom'"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (MemoryError(), "MemoryError: "),
        (PermissionError(13, "Permission denied"), "Permission denied"),
    ],
)
@pytest.mark.parametrize("follows", [True, False])
def test_error_in_one_log_is_reported_and_others_are_followed(
    error: Exception, why: str, follows: bool, tmp_path: Path
) -> None:
    for name in ("a", "bad", "z"):
        write(tmp_path / f"{name}.jsonl", claude_lines(2, session=name))
    fleet = fleet_of(tmp_path, format=Failing(error, follows=follows))
    assert kinds(fleet.look()) == [("begins", "a"), ("begins", "z")]
    assert fleet.take_faults() == [f"{tmp_path}/bad.jsonl: {why}; it is read again when it changes"]
    for name in ("a", "bad", "z"):
        write(tmp_path / f"{name}.jsonl", claude_lines(3, session=name), at=NOW + 1)
    assert kinds(fleet.look()) == [("step", "a"), ("step", "z")]
    assert fleet.take_faults() == []  # the same one is said once


def test_error_in_one_rule_is_reported_and_others_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = RuleState.update

    def update(state: RuleState, run: bl.Run) -> None:
        if run.run_id == "bad" and len(run.steps) == 2:
            raise ZeroDivisionError("boom")
        real(state, run)

    monkeypatch.setattr(RuleState, "update", update)
    for name in ("a", "bad", "z"):
        write(tmp_path / f"{name}.jsonl", claude_lines(1, session=name))
    fleet = fleet_of(tmp_path, bl.max_steps(1))
    assert len(kinds(fleet.look())) == 6
    for steps in (2, 3):
        for name in ("a", "bad", "z"):
            write(tmp_path / f"{name}.jsonl", claude_lines(steps, session=name), at=NOW + steps)
        found = [run_id for kind, run_id in kinds(fleet.look()) if kind == "step"]
        assert found == (["a", "z"] if steps == 2 else ["a", "bad", "z"])  # and no alert comes twice
        said = fleet.take_faults()
        assert len(said) == (steps == 2)
        assert (
            not said or "bad.jsonl: claude_code bad: its rule cannot be evaluated (ZeroDivisionError: boom)" in said[0]
        )


def test_folder_that_goes_and_comes_back_is_followed(tmp_path: Path) -> None:
    top = tmp_path / "logs"
    write(top / "s1.jsonl", claude_lines(1))
    fleet = fleet_of(top)
    fleet.look()
    shutil.rmtree(top)
    assert kinds(fleet.look()) == [("gone", "s1")]
    assert fleet.take_faults() == [f"{top}: No such file or directory; it is looked for again"]
    write(top / "s2.jsonl", claude_lines(1, session="s2"))
    assert kinds(fleet.look()) == [("begins", "s2")]


def test_folder_that_cannot_be_searched_loses_no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "s1.jsonl", claude_lines(1))
    fleet = fleet_of(tmp_path)
    fleet.look()
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", lambda _path: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        write(path, claude_lines(2), at=NOW + 1)
        assert kinds(fleet.look()) == [("step", "s1")]
    assert fleet.take_faults() == [f"{tmp_path}: Permission denied; it is looked for again"]


def test_agents_whose_parents_form_a_circle_are_shown(tmp_path: Path) -> None:
    run = bl.run_sync(None, "x", model=bl.ScriptedModel(["Hi."]))
    parents = {"a": "b", "b": "a", "c": "c", "d": "a", "e": None}
    runs = [replace(run, run_id=name, parent_run_id=parent) for name, parent in parents.items()]
    bl.save_runs(runs, tmp_path / "runs.jsonl")
    fleet = fleet_of(tmp_path, since=0)
    fleet.look()
    assert sorted(row.run_id for row in fleet.rows(running=False)) == ["a", "b", "c", "d", "e"]


def followed(fleet: Fleet, write_more: Callable[[], object], *, wanted: tuple[str, str]) -> None:
    """Follow until something happened; the suite's timeout ends it if it does not."""
    stop, begun = Event(), False
    for changes in watch(fleet, stop):
        if wanted in kinds(changes):
            stop.set()
        elif not begun:
            begun = True
            write_more()


def test_name_that_is_not_utf8_ends_nothing(tmp_path: Path) -> None:
    top = os.fsencode(tmp_path)
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"".join(map(encoded, claude_lines(1))))

    def write_more() -> None:
        Path(os.fsdecode(top + b"/\xff.tmp")).write_bytes(b"x")
        odd = Path(os.fsdecode(top + b"/\xff\xfe.jsonl"))
        odd.write_bytes(b"".join(map(encoded, claude_lines(3, session="odd"))))

    fleet = Fleet(places_of([tmp_path]), bl.max_steps(3), prices=False)
    followed(fleet, write_more, wanted=("fires", "odd"))
    followed(fleet, lambda: path.write_bytes(b"".join(map(encoded, claude_lines(3)))), wanted=("fires", "s1"))
    assert any("changes of files: the system does not report them" in said for said in fleet.take_faults())


def test_logs_are_looked_at_where_the_system_reports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_paths: object, **_options: object) -> Iterator[object]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("watchfiles.watch", refuse)
    monkeypatch.setattr("boolab.live.follow.watch.LOOK_AT_RUNNING_S", 0.0)
    monkeypatch.setattr("boolab.live.follow.watch.TICK_MS", 10)
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"".join(map(encoded, claude_lines(1))))
    fleet = Fleet(places_of([tmp_path]), bl.max_steps(3), prices=False)
    followed(fleet, lambda: path.write_bytes(b"".join(map(encoded, claude_lines(3)))), wanted=("fires", "s1"))
    new = tmp_path / "new" / "s2.jsonl"
    followed(fleet, lambda: write(new, claude_lines(1, session="s2"), at=path.stat().st_mtime), wanted=("begins", "s2"))
    (said,) = fleet.take_faults()
    assert said == (
        "changes of files: the system does not report them (OSError: [Errno 24] Too many open files); the logs are "
        "looked at every second"
    )


def test_folder_that_is_made_again_is_watched_at_once(tmp_path: Path) -> None:
    top = tmp_path / "logs"
    (top / "s1.jsonl").parent.mkdir()
    fleet = Fleet(places_of([top]), bl.max_steps(3), prices=False)

    def write_more() -> None:
        shutil.rmtree(top)
        top.mkdir()
        (top / "s1.jsonl").write_bytes(b"".join(map(encoded, claude_lines(3))))

    followed(fleet, write_more, wanted=("fires", "s1"))


def test_a_log_that_is_renamed_or_read_again_has_one_alert(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", claude_lines(4))
    fleet = fleet_of(tmp_path, bl.max_steps(3))
    assert kinds(fleet.look()) == [("begins", "s1"), ("fires", "s1")]
    moved = path.rename(tmp_path / "s9.jsonl")
    assert sorted(kinds(fleet.look())) == [("begins", "s1"), ("gone", "s1")]
    copy = write(tmp_path / "s8.jsonl", claude_lines(4))
    assert kinds(fleet.look()) == [("begins", "s1"), ("fires", "s1")]
    copy.unlink()
    with moved.open("ab") as file:
        file.write(b"".join(map(encoded, claude_lines(3, minute=2))))
    assert ("fires", "s1") in kinds(fleet.look())


def test_a_linked_folder_that_is_not_followed_is_a_fault(tmp_path: Path) -> None:
    write(tmp_path / "other" / "s2.jsonl", claude_lines(2))
    path = write(tmp_path / "logs" / "s1.jsonl", claude_lines(2))
    (path.parent / "linked").symlink_to(tmp_path / "other")
    fleet = fleet_of(path.parent)
    assert kinds(fleet.look()) == [("begins", "s1")]
    assert [fault.partition(": ")[2] for fault in fleet.take_faults()] == [
        "a link to a folder, which is not followed: name that folder to read it"
    ]


def test_glob_that_cannot_search_a_folder_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "private").mkdir()
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("private"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    fleet = Fleet(places_of([tmp_path / "*" / "*.jsonl"]), now=lambda: NOW)
    monkeypatch.setattr(os, "scandir", scandir)
    assert fleet.look() == []
    assert fleet.take_faults() == [f"{tmp_path}/private: the folder cannot be searched: Permission denied"]
