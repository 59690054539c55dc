"""`bl.watch`: the table follows the logs while the kernel is idle, and opens runs in Replay."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import boolab as bl
from boolab.errors import RunFormatError, SettingError
from boolab.widgets.watch_view.widget import WatchView
from tests.support.growing import claude_lines, encoded


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"".join(map(encoded, claude_lines(2, same=True))))
    return path


@pytest.fixture
def view(log: Path) -> Iterator[WatchView]:
    view = bl.watch(log.parent, bl.max_steps(3) | bl.doom_loop(5), prices=False)
    yield view
    view.close()


def grow(log: Path, steps: int) -> None:
    """Add lines until the log has so many steps."""
    content = b"".join(map(encoded, claude_lines(steps, same=True)))
    with log.open("ab") as file:
        file.write(content[log.stat().st_size :])


def threads() -> int:
    return sum(thread.name == "boolab watch" for thread in threading.enumerate())


def test_it_shows_the_agents_that_run(view: WatchView) -> None:
    (row,) = view.data["rows"]
    assert (row["name"], row["steps"], row["repeat_streak"]) == ("claude_code s1", 2, 2)
    assert row["limits"][0]["text"] == "2 of 3 steps"
    assert repr(view) == "WatchView(watch: 1 agent, 0 alerts)"
    assert "2 of 3 steps" in view._repr_mimebundle_()["text/plain"]
    assert '"watch_view"' in view.to_html()


def test_it_follows_without_a_loop(log: Path, view: WatchView) -> None:
    drawn = threading.Event()
    view._view.observe(lambda _: drawn.set() if view.alerts else None, "_data")
    grow(log, 4)
    assert drawn.wait(30)
    (alert,) = view.alerts
    assert (alert["run"], alert["step"], alert["reason"]) == ("s1", 3, "step_cap")
    assert view.data["n_alerts"] == 1


def test_notebook_kernel_loop_draws_the_watch_table(log: Path) -> None:
    async def kernel() -> list[str]:
        view = bl.watch(log, bl.max_steps(3), prices=False)
        drawn, names = asyncio.Event(), []

        def note(_: object) -> None:
            names.append(threading.current_thread().name)
            if view.alerts:
                drawn.set()

        view._view.observe(note, "_data")
        grow(log, 4)
        await asyncio.wait_for(drawn.wait(), 30)
        view.close()
        return names

    assert set(asyncio.run(kernel())) == {threading.main_thread().name}


def test_a_row_opens_its_run_in_replay(log: Path, view: WatchView) -> None:
    view.opened = {"run": "s1", "step": 2}
    assert view.replay is not None
    assert (view.replay.run.run_id, view.replay.step) == ("s1", 2)
    assert view.replay.run == bl.load_runs(log)[0]
    with pytest.raises(SettingError, match="the one run"):
        view.opened = {"run": "other", "step": 1}


def test_it_stops_with_the_widget(view: WatchView, log: Path) -> None:
    before = threads()
    view.stop()
    assert threads() == before - 1
    assert not view.data["following"]
    view.following = True
    assert threads() == before
    view.close()
    assert threads() == before - 1


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="no such file or folder"):
        bl.watch(tmp_path / "typo")
