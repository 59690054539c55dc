"""A chain of subagents, each started by the one before, may be longer than Python's stack is deep."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run_tree import descendants, rebuild
from boolab.core.types import Event
from boolab.live.follow.fleet import Fleet
from boolab.live.follow.places import places_of
from tests.support.helpers import call

LENGTH: Final = 1_200
"""More than the 1,000 frames of Python's stack."""


def chain(length: int) -> list[bl.Run]:
    look = {"tool_calls": [call("look", place="x")]}
    tool = bl.tool(name="look", read_only=True)(lambda place="": "a.py")
    one = replace(bl.run_sync(None, "t", model=bl.ScriptedModel([look, "Done."]), tools=[tool]), success=True)
    runs = []
    for number in range(length):
        started = Event(0, "subagent", {"run_id": f"r{number + 1}", "agent": "a", "after_step": 1})
        below = () if number + 1 == length else (started,)
        parent = f"r{number - 1}" if number else None
        runs.append(replace(one, run_id=f"r{number}", parent_run_id=parent, events=(*one.events, *below)))
    return runs


@pytest.fixture(scope="module")
def flat() -> list[bl.Run]:
    """The runs of the chain, each naming its parent, as logs have them."""
    return chain(LENGTH)


@pytest.fixture(scope="module")
def nested(flat: list[bl.Run]) -> bl.Run:
    """The first run of the chain, which holds all others, as live runs do."""
    held: tuple[bl.Run, ...] = ()
    for run in reversed(flat):
        held = (replace(run, subagents=held),)
    return held[0]


def saved(runs: Any, path: Path, **options: Any) -> list[bl.Run]:
    bl.save_runs(runs, path, **options)
    return bl.load_runs(path)


def stored(runs: Any, path: Path) -> list[bl.Run]:
    with bl.Store(path) as store:
        store.add(runs)
    return list(bl.stored_runs(path))


USES: Final[dict[str, Callable[[Any, Path], object]]] = {
    "jsonl": lambda runs, folder: saved(runs, folder / "a.jsonl"),
    "facts": lambda runs, folder: saved(runs, folder / "a.jsonl", contents="facts"),
    "parquet": lambda runs, folder: saved(runs, folder / "a.parquet"),
    "store": lambda runs, folder: stored(runs, folder / "a.db"),
    "with_subagents": lambda runs, _: list(bl.with_subagents(runs)),
}


@pytest.mark.parametrize("name", USES)
def test_chain_of_held_subagents_is_kept_whole(name: str, nested: bl.Run, tmp_path: Path) -> None:
    runs = USES[name]([nested], tmp_path)
    assert isinstance(runs, list)
    assert [run.run_id for run in runs] == [f"r{number}" for number in range(LENGTH)]


@pytest.mark.parametrize(
    "use",
    [
        bl.runs_df,
        bl.steps_df,
        bl.calls_df,
        bl.priced,
        bl.recommend,
        bl.CapLab,
        lambda runs: bl.counterfactual(runs, grid={"max_steps": [1, None]}),
        lambda runs: bl.Replay(runs[0]),
        lambda runs: bl.scorecard(runs, [bl.max_steps(1)]),
        lambda runs: bl.Compare(runs[0], runs[-1]),
        lambda runs: (repr(runs[0]), str(runs)),
    ],
)
def test_chain_goes_through_every_function(
    use: Callable[[list[bl.Run]], object], flat: list[bl.Run], nested: bl.Run
) -> None:
    use(flat)
    use([nested])


def test_chain_is_followed_and_shown(flat: list[bl.Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bl.save_runs(flat, tmp_path / "runs.jsonl")
    fleet = Fleet(places_of([tmp_path]), bl.max_steps(1), prices=False, since=0)
    fleet.look()
    assert [(row.run_id, row.depth) for row in fleet.rows(running=False)] == [(f"r{n}", n) for n in range(LENGTH)]
    assert fleet.take_faults() == []
    assert main(["watch", str(tmp_path), "--once"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == LENGTH + 1


@pytest.mark.slow
@pytest.mark.parametrize("command", ["whatif", "audit", "report", "import"])
def test_chain_goes_through_every_command(command: str, flat: list[bl.Run], tmp_path: Path) -> None:
    bl.save_runs(flat, tmp_path / "runs.jsonl")
    out = {"report": ["-o", str(tmp_path / "a.html")], "import": ["-o", str(tmp_path / "b.jsonl")]}.get(command, [])
    assert main([command, str(tmp_path / "runs.jsonl"), *out]) == 0


def test_rebuilt_run_keeps_the_order_of_its_subagents() -> None:
    one = chain(1)[0]
    names = {"a": ["b", "e", "f"], "b": ["c", "d"], "f": ["g"]}

    def tree(name: str) -> bl.Run:
        return replace(one, run_id=name, subagents=tuple(map(tree, names.get(name, ()))))

    run = tree("a")
    assert [child.run_id for child in descendants(run)] == [*"bcdefg"]
    assert rebuild(run, lambda run: replace(run, task="x")) == rebuild(replace(run), lambda run: replace(run, task="x"))
    assert [child.run_id for child in descendants(rebuild(run, replace))] == [*"bcdefg"]
    assert rebuild(run, lambda run: run) == run
