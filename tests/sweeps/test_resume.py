"""Sweeps that are run again: what is finished stays, what was changed is replaced, what is new is added.

Who was run is seen from the runs' own tools and models, which write it down: see `tests.support.sweeping`.
"""

import asyncio
import importlib.util
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import boolab as bl
from boolab.store.stored_runs import StoredRuns
from boolab.sweeps.driver import sweep
from tests.support.cases import first
from tests.support.helpers import QUIET, call
from tests.support.project import ROOT
from tests.support.sweeping import PROFILE, Instant, assert_equal, entries, forks, frames, note, said_done, swept

GRID = {"max_steps": [1, 2], "doom_loop": [2, None]}


class Lab:
    """A store, a book, and a small sweep of which each part can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "runs.db"
        self.book = folder / "book"
        self.parts: dict[str, Any] = {
            "agents": [bl.Agent("a", prompt="You look.", tools=(note,), policy=QUIET)],
            "tasks": ["x", "y"],
            "model": self.model("done"),
            "grid": GRID,
            "repeats": 2,
        }

    def model(self, end: str, name: str = "noting") -> bl.ScriptedModel:
        noting = {"tool_calls": [call("note", book=str(self.book), what="a")], "repeat": 2}
        return bl.ScriptedModel([noting, end], name=name)

    def sweep(self, store: Path | None = None, **changes: Any) -> tuple[Any, set[str]]:
        """The runs, and the ids of those that were made for it."""
        start = self.book.stat().st_size if self.book.exists() else 0
        runs = swept(**{**self.parts, "store": store or self.store, **changes})
        return runs, {run_id for run_id, _ in entries(self.book, start)}

    def states(self) -> dict[str, int]:
        connection = sqlite3.connect(self.store)
        try:
            return dict(connection.execute("SELECT state, count(*) FROM runs GROUP BY state"))
        finally:
            connection.close()

    def module(self, text: str, version: int) -> ModuleType:
        """A user's own file in its n-th version, as a fresh kernel imports it."""
        path = self.folder / f"v{version}" / "mine.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("mine", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def ids(runs: Any) -> set[str]:
    return {run.run_id for run in runs}


def test_finished_cells_are_not_run_again(lab: Lab) -> None:
    runs, made = lab.sweep()
    assert isinstance(runs, StoredRuns)
    assert made == ids(runs)
    assert len(made) == 2 * 2 * 2 * 2
    once = frames(runs)
    again, made = lab.sweep()
    assert made == set()
    assert_equal(frames(again), once)
    assert lab.states() == {"finished": 16}


@pytest.mark.slow
def test_sweep_resumes_in_a_process_with_other_hashes(lab: Lab) -> None:
    """Fingerprints that hung on the order of a set, on addresses, or on where a file lies, would differ there."""
    runs, _ = lab.sweep()
    code = (
        "import sys; from pathlib import Path; from tests.sweeps.test_resume import Lab\n"
        "runs, made = Lab(Path(sys.argv[1])).sweep()\n"
        "assert made == set(), made\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    root = ROOT
    subprocess.run([sys.executable, "-c", code, str(lab.folder)], check=True, cwd=root, env=environment, timeout=60)
    assert_equal(frames(lab.store), frames(runs))
    assert lab.states() == {"finished": 16}


TOOL = '''
from boolab.runtime.tools.tool import ToolContext, tool
from tests.support.sweeping import write_down

LIMIT = 3

def cut(text: str) -> str:
    return text[:LIMIT]

@tool(read_only=True)
def note(book: str, what: str, context: ToolContext) -> str:
    """Write it down."""
    write_down(book, context.run_id, context.step)
    return cut("noted " + what)

def score(run):
    return run.text == "done"

def model(cell):
    from boolab.runtime.models.scripted import ScriptedModel
    return ScriptedModel([{"tool_calls": [{"name": "note", "arguments": {"book": BOOK, "what": "a"}}]}, "done"])
'''


def from_module(lab: Lab, module: ModuleType) -> dict[str, Any]:
    module.__dict__["BOOK"] = str(lab.book)
    agents = [bl.Agent("a", prompt="You look.", tools=(module.note,), policy=QUIET)]
    return {"agents": agents, "model": module.model, "score": module.score, "grid": {"max_steps": [1, 2]}, "repeats": 1}


@pytest.mark.parametrize(
    ("old", "new"),
    first(
        4,
        [
            ["LIMIT = 3", "LIMIT = 4"],
            ["Write it down.", "Write it all down."],
            ['run.text == "done"', 'run.text != "done"'],
            ['"what": "a"', '"what": "b"'],
            ['"noted "', '"Noted "'],
            ["what: str,", "what: str | int,"],
            ["read_only=True", "read_only=False"],
            ["text[:LIMIT]", "text[-LIMIT:]"],
            ['"done"])', '"Done"])'],
        ],
    ),
)
def test_a_change_of_a_tools_a_scores_or_a_models_source_is_seen(lab: Lab, old: str, new: str) -> None:
    """And what it changed is replaced: the frames are those of a sweep that never knew the old version."""
    assert TOOL.count(old) == 1
    before, _ = lab.sweep(**from_module(lab, lab.module(TOOL, 1)))
    before = ids(before)
    changed = from_module(lab, lab.module(TOOL.replace(old, new), 2))
    runs, made = lab.sweep(**changed)
    assert made == ids(runs)
    assert not made & before
    assert lab.states() == {"finished": 4, "replaced": 4}
    fresh, _ = lab.sweep(lab.folder / "fresh.db", **changed)
    assert_equal(frames(runs), frames(fresh))
    assert_equal(frames(lab.store), frames(fresh))


def with_agent(**changes: Any) -> Callable[[Lab], dict[str, Any]]:
    return lambda lab: {"agents": [replace(lab.parts["agents"][0], **changes)]}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(with_agent(prompt="You look twice."), id="prompt"),
        pytest.param(with_agent(policy=QUIET.vary(detectors={"doom_loop": 7})), id="policy"),
        pytest.param(with_agent(policy=QUIET.vary(wrap_up={"summary": "model"})), id="summary", marks=pytest.mark.slow),
        pytest.param(with_agent(tool_budget=1), id="budget", marks=pytest.mark.slow),
        pytest.param(with_agent(temperature=0.5), id="temperature", marks=pytest.mark.slow),
        pytest.param(lambda lab: {"model": lab.model("Done.")}, id="script"),
        pytest.param(lambda lab: {"score": said_done}, id="score"),
    ],
)
def test_what_can_change_a_run_is_seen_and_replaces_it(lab: Lab, change: Callable[[Lab], dict[str, Any]]) -> None:
    before, _ = lab.sweep()
    before = ids(before)
    runs, made = lab.sweep(**change(lab))
    assert made == ids(runs)
    assert not made & before
    assert lab.states() == {"finished": 16, "replaced": 16}
    fresh, _ = lab.sweep(lab.folder / "fresh.db", **change(lab))
    assert_equal(frames(lab.store), frames(fresh))
    assert lab.sweep(**change(lab))[1] == set()


def test_going_back_to_what_was_replaced_gives_its_runs_again(lab: Lab) -> None:
    first, _ = lab.sweep()
    once = frames(first)
    lab.sweep(model=lab.model("Done."))
    again, _ = lab.sweep()
    assert_equal(frames(again), once)
    assert_equal(frames(lab.store), once)


def test_a_profile_or_a_seed_that_was_changed_is_seen(lab: Lab) -> None:
    agents = [bl.Agent("a", policy=QUIET)]
    changed = PROFILE.model_dump(mode="json", exclude_defaults=True) | {"revisit": {"rate": 0.21}}
    described = PROFILE.model_dump(mode="json", exclude_defaults=True) | {"description": "In other words."}
    one, _ = lab.sweep(agents=agents, model=bl.SimulatedModel(PROFILE))
    one = ids(one)
    same, _ = lab.sweep(agents=agents, model=bl.SimulatedModel(bl.models.Profile.of(described)))
    assert ids(same) == one
    for n, model in enumerate(
        [bl.SimulatedModel(PROFILE, seed=1), bl.SimulatedModel(bl.models.Profile.of(changed))], 1
    ):
        other, _ = lab.sweep(agents=agents, model=model)
        assert not ids(other) & one
        assert lab.states() == {"finished": 16, "replaced": 16 * n}


def test_sweep_runs_only_a_changed_agent_again(lab: Lab) -> None:
    (a,) = lab.parts["agents"]
    b = replace(a, name="b")
    lab.sweep(agents=[a, b])
    runs, made = lab.sweep(agents=[a, replace(b, prompt="You see.")])
    assert made == {run.run_id for run in runs if run.agent == "b"}
    assert len(made) == 16
    assert len(runs) == 32


@pytest.mark.parametrize(
    "options",
    [{"concurrency": 1}, {"executor": "threads"}, {"reuse_prefixes": True}, {"root": None}, {"progress": True}],
    ids=lambda options: next(iter(options)),
)
def test_how_a_sweep_is_run_is_no_change(lab: Lab, options: dict[str, Any]) -> None:
    once = frames(lab.sweep()[0])
    if options.get("executor") == "threads":
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(2) as executor:
            again, made = lab.sweep(executor=executor)
    else:
        again, made = lab.sweep(**options)
    assert made == set()
    assert_equal(frames(again), once)


def test_a_grid_that_grew_runs_only_what_is_new(lab: Lab) -> None:
    lab.sweep()
    longer = {"max_steps": [1, 2, 3], "doom_loop": [2, None]}
    runs, made = lab.sweep(grid=longer, tasks=["x", "y", "z"], repeats=3)
    assert len(runs) == 3 * 3 * 2 * 3
    assert len(made) == len(runs) - 16
    fresh, _ = lab.sweep(lab.folder / "fresh.db", grid=longer, tasks=["x", "y", "z"], repeats=3)
    assert_equal(frames(runs), frames(fresh))


def test_sweep_with_a_smaller_grid_keeps_other_cells(lab: Lab) -> None:
    once = frames(lab.sweep()[0])
    runs, made = lab.sweep(grid={"max_steps": [2], "doom_loop": [2]}, tasks="y")
    assert made == set()
    assert len(runs) == 2
    assert lab.states() == {"finished": 16}
    assert_equal(frames(lab.sweep()[0]), once)


def broken(run: bl.Run) -> bool:
    raise ValueError(run.run_id)


def test_sweep_keeps_a_failed_run_until_it_is_repeated(lab: Lab) -> None:
    models = {"bad": bl.ScriptedModel([{"error": {"status": 500}}], name="bad"), "good": lab.model("done")}
    runs, made = lab.sweep(model=models)
    frame = bl.runs_df(runs)
    assert len(frame) == 32
    assert (frame["stop_reason"] == "error").sum() == 16
    assert frame.loc[frame["model"] == "bad", "error"].str.contains("500").all()
    good = {run.run_id for run in runs if run.model == "good"}
    assert made == good
    once = frames(runs)
    again, made = lab.sweep(model=models)
    assert made == set()
    assert_equal(frames(again), once)


def test_runs_that_ended_in_an_error_are_run_again_on_demand(lab: Lab) -> None:
    """The server is up again: the same cells, the same ids, other ends; the others are not run again."""
    down = lab.folder / "down"
    down.touch()
    flaky = Flaky(str(lab.book), str(down))
    models = {"flaky": flaky, "good": lab.model("done")}
    runs, _ = lab.sweep(model=models)
    failed = {run.run_id for run in runs if run.stop_reason == "error"}
    assert len(failed) == 16
    down.unlink()
    same, made = lab.sweep(model=models)
    assert made == set()
    assert {run.run_id for run in same if run.stop_reason == "error"} == failed
    runs, made = lab.sweep(model=models, again=("error",))
    assert made == failed
    assert len(runs) == 32
    assert "error" not in set(bl.runs_df(runs)["stop_reason"])
    assert "error" not in set(bl.runs_df(lab.store)["stop_reason"])
    assert lab.states()["finished"] == 32


class Flaky(Instant):
    """Instant, but down as long as a file is there."""

    name = "flaky"

    def __init__(self, book: str, down: str) -> None:
        super().__init__(book)
        self.down = down

    async def respond(self, request: Any, emit: Any = None) -> Any:
        response = await super().respond(request, emit)
        if os.access(self.down, os.F_OK):
            msg = "the server is down"
            raise ConnectionError(msg)
        return response


def test_a_score_that_fails_costs_the_score_and_not_the_run(lab: Lab) -> None:
    runs, _ = lab.sweep(score=broken)
    assert bl.runs_df(runs)["success"].isna().all()
    assert len(runs) == 16


def test_two_that_share_a_name_are_told_apart_or_refused(lab: Lab) -> None:
    """Their cells must not be taken for one another: one of them would be lost from the store."""
    (a,) = lab.parts["agents"]
    for parts in (
        {"agents": [a, replace(a, prompt="Another one.")]},
        {"grid": {"policy": [QUIET, QUIET.vary(detectors={"doom_loop": 4})]}},
    ):
        try:
            without = swept(**{**lab.parts, **parts})
        except bl.SettingError:
            with pytest.raises(bl.SettingError):
                lab.sweep(**parts)
            continue
        assert_equal(frames(lab.sweep(**parts)[0]), frames(without))
        assert len(ids(without)) == len(without)


@pytest.mark.parametrize("real", [False, True])
def test_cancelling_keeps_what_is_done_and_the_rest_is_run_later(lab: Lab, real: bool) -> None:
    parts = {**lab.parts, "repeats": 8, **({"model": Instant(str(lab.book))} if real else {})}

    async def cancelled() -> None:
        work = asyncio.create_task(sweep(**parts, store=lab.store, progress=False, concurrency=2))
        while len(entries(lab.book)) < 40:
            await asyncio.sleep(0)
            assert not work.done()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancelled())
    kept = {run.run_id for run in bl.stored_runs(lab.store) if run.stop_reason != "aborted"}
    begun = {run_id for run_id, _ in entries(lab.book)}
    assert len(begun) - len(kept) <= 2
    assert len(kept) > 5
    runs, made = lab.sweep(**parts)
    assert not made & kept
    assert len(runs) == 64
    assert "aborted" not in set(bl.runs_df(runs)["stop_reason"])
    assert bl.runs_df(runs)["run_id"].is_unique


CELLS = 800
"""So many that they are not all finished before the event loop looks for an interrupt."""


def sweep_and_interrupt(folder: Path, interrupts: int) -> None:
    """Run a sweep in a child process that sends itself Ctrl-C when some runs are finished.

    The first interrupt cancels the sweep, the second ends the event loop, the third the clean-up of its tasks.
    """
    lab = Lab(folder)
    left = iter(range(interrupts))

    def interrupt() -> None:
        if next(left, None) is not None:
            os.kill(os.getpid(), signal.SIGINT)

    def score(run: bl.Run) -> bool:
        if len(entries(lab.book)) >= 40:
            interrupt()
        return True

    async def interrupt_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            interrupt()

    async def work() -> None:
        impatient = asyncio.create_task(interrupt_when_cancelled())
        parts = {**lab.parts, "repeats": CELLS // 8, "progress": True}
        await sweep(**parts, store=lab.store, score=score, concurrency=2)
        impatient.cancel()

    sys.stderr = (folder / "said").open("w", buffering=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asyncio.run(work())
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def runs_after_interrupts(lab: Lab, interrupts: int) -> int:
    """Interrupt a sweep that often, and return how many finished runs its store has."""
    process = forks.Process(target=sweep_and_interrupt, args=(lab.folder, interrupts))
    process.start()
    process.join(60)
    assert process.exitcode == 130
    return len(bl.stored_runs(lab.store))


def test_ctrl_c_keeps_finished_runs_and_says_how_many(lab: Lab) -> None:
    n_runs = runs_after_interrupts(lab, 1)
    assert 18 <= n_runs < CELLS
    said = (lab.folder / "said").read_text()
    assert f"{n_runs} of {CELLS} runs are kept in {lab.store}" in said


@pytest.mark.parametrize("interrupts", [2, 3])
def test_repeated_ctrl_c_keeps_finished_runs(lab: Lab, interrupts: int) -> None:
    assert 18 <= runs_after_interrupts(lab, interrupts) < CELLS


async def beside(held: bl.Store, work: asyncio.Task[Any]) -> None:
    """Let go of a store once the event loop has got to a sweep that waits for it, if it gives the loop back."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not work.done()
    held.close()


def test_sweep_waits_for_a_store_without_blocking(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    held = bl.Store(path)

    async def both() -> Any:
        work = asyncio.create_task(sweep(bl.Agent("a"), "go", bl.ScriptedModel(["x"]), store=path, progress=False))
        await beside(held, work)
        return await work

    assert [run.stop_reason for run in asyncio.run(both())] == ["finished"]


def test_sweep_cancelled_while_waiting_releases_the_store(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    held = bl.Store(path)

    async def both() -> None:
        work = asyncio.create_task(sweep(bl.Agent("a"), "go", bl.ScriptedModel(["x"]), store=path, progress=False))
        await asyncio.sleep(0)
        work.cancel()
        await beside(held, asyncio.create_task(asyncio.Event().wait()))
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(both())
    bl.Store(path).close()
