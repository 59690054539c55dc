"""Every function that takes runs takes them from wherever they are."""

import inspect
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.text import Text

import boolab as bl
from boolab.errors import SettingError

CELLS = bl.counterfactual(
    bl.load_dataset("atlas/tau-airline", limit=12), grid={"max_steps": [5, 9], "tool_budget": [3, None]}, aggregate=True
)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "recommend": lambda runs: bl.recommend(runs, grid={"max_steps": [5, 20]}).frame,
    "scorecard": lambda runs: bl.scorecard(runs, [bl.max_steps(10)]).frame,
    "counterfactual": lambda runs: bl.counterfactual(runs, grid={"max_steps": [5]}),
    "stats.frontier": lambda runs: bl.stats.frontier(runs, [bl.max_steps(n) for n in (5, 9)]).frame,
    "survival": lambda runs: bl.survival(runs).frame,
    "tails_df": lambda runs: bl.tails_df(runs, grid={"max_steps": [5, None]}),
    "learn_stop": lambda runs: learned(runs),  # noqa: PLW0108 - it is defined below
    "stats.crossval": lambda runs: bl.stats.crossval(runs, bl.stats.smallest_cap(0.9), progress=False).frame,
    "stats.precision_recall_df": lambda runs: bl.stats.precision_recall_df(runs, [bl.max_steps(5)]),
    "trial": lambda runs: repr(bl.trial(runs, {"max_steps": 20})),
    "fit_profile": lambda runs: bl.fit_profile(runs, name="a").profile,
    "outcomes": lambda runs: bl.outcomes(runs),  # noqa: PLW0108 - it has a default of its own
    "label": lambda runs: bl.runs_df(bl.label(runs, lambda run: run.n_steps > 5)),
    "priced": lambda runs: bl.runs_df(bl.priced(runs)),
    "with_subagents": lambda runs: bl.runs_df(bl.with_subagents(runs)),
    "save_runs": lambda runs: saved(runs),  # noqa: PLW0108
    "bills_df": bl.bills_df,
    "repriced": bl.repriced,
    "context_df": bl.context_df,
    "compare_units": bl.compare_units,
    "cost_by": bl.cost_by,
    "deadline_margins": lambda runs: margins(runs),  # noqa: PLW0108
    "cache_misses_df": bl.cache_misses_df,
    "compaction_threshold": lambda runs: refused_or(bl.compaction_threshold, runs),
    "context_costs": lambda runs: bl.context_costs(runs, "anthropic_clear"),
    "runs_df": bl.runs_df,
    "steps_df": bl.steps_df,
    "calls_df": bl.calls_df,
    "recording_df": bl.recording_df,
    "events_df": bl.events_df,
    "boundaries_df": bl.boundaries_df,
    "finish_reasons_df": bl.finish_reasons_df,
    "CapLab": lambda runs: bl.CapLab(runs).answer["kept"],
    "Heatmap": lambda runs: sorted(bl.Heatmap(CELLS, runs)._by_id),
    "plot_steps": lambda runs: texts(bl.plot_steps(runs)),
    "plot_survival": lambda runs: texts(bl.plot_survival(runs)),
    "plot_tools": lambda runs: texts(bl.plot_tools(runs)),
    "plots.plot_context_policy": lambda runs: texts(bl.plots.plot_context_policy(runs)),
    "plots.plot_stop_reasons": lambda runs: texts(bl.plots.plot_stop_reasons(runs)),
}
ONE_RUN = {
    "Replay": lambda runs: bl.Replay(runs).run.run_id,
    "Compare": lambda runs: repr(bl.Compare(runs, runs)),
}
"""Those that take one run, from wherever it is."""
OTHERS = {
    "audit": "it takes several paths too: test_audit_takes_runs_and_logs",
    "judge": "it asks a model, and needs a limit of its cost",
    "Labeler": "it asks a person about runs that are read already, and writes a file",
    "branch": "it continues one run, which is chosen already",
    "resume": "it continues one run, which is chosen already",
    "RecordedModel": "it replays one run, or a recording of requests",
    "plots.plot_timeline": "it draws one run, which is chosen already",
    "plots.plot_bill": "it draws one run, which is chosen already",
}
"""Why others with runs take no more than they do."""
BY_STEP = ("recommend", "scorecard", "counterfactual", "tails_df", "stats.frontier", "stats.crossval",
           "stats.precision_recall_df")  # fmt: skip
"""Those that take tables of steps."""
FROM_STEPS = ("survival", "plot_steps", "plot_survival", "plots.plot_stop_reasons")
"""Those of the others that take frames with a row for each step too."""
SLOW = ("fit_profile", "stats.crossval", "stats.frontier", "trial", "Heatmap", "plot_steps", "plot_tools",
        "plots.plot_stop_reasons")  # fmt: skip
"""Those for which `make test` leaves all inputs to `make slow`: others take them by the same functions."""
INPUTS = ("runs.parquet", "logs/*.jsonl", "runs.db")


def learned(runs: Any) -> str:
    """What is lacking to learn a rule, from which the number of tasks that were read can be seen."""
    try:
        return str(bl.learn_stop(runs, progress=False))
    except bl.SettingError as error:
        if "tasks with a success" not in str(error):
            raise
        return str(error)


def margins(runs: Any) -> str:
    """What is lacking for a margin, from which the number of steps that were read can be seen."""
    try:
        return str(bl.deadline_margins(runs))
    except SettingError as error:
        if "the durations of steps" not in str(error):
            raise
        return str(error)


def refused_or(function: Callable[[Any], Any], runs: Any) -> str:
    """The finding, or why there is none: these runs have no usage."""
    try:
        return str(function(runs))
    except bl.SettingError as error:
        if "can be computed" not in str(error):
            raise
        return str(error)


def saved(runs: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        bl.save_runs(runs, Path(folder) / "runs.jsonl")
        return bl.runs_df(Path(folder) / "runs.jsonl").to_csv()


def texts(ax: Any) -> list[str]:
    """All that is written into a plot."""
    return [text.get_text() for text in ax.figure.findobj(Text)]


def with_runs() -> Iterator[str]:
    """The public functions and classes that take runs, by what their arguments are annotated with."""
    for prefix, space in (("", bl), ("stats.", bl.stats), ("plots.", bl.plots)):
        for name in space.__all__:
            made: Any = getattr(space, name)
            if not callable(made) or (prefix and hasattr(bl, name)):
                continue
            try:
                parameters = [*inspect.signature(made).parameters.values()]
            except (TypeError, ValueError):
                continue
            named = " ".join(f"{parameter.annotation} " for parameter in parameters[:2])
            if re.search(r"\b(Runs?|Data|Recorded|Logs)\b", named):
                yield prefix + name


def test_each_public_function_of_runs_is_tried() -> None:
    tried = {*FUNCTIONS, *ONE_RUN, *OTHERS}
    assert {*with_runs()} - tried == set()
    assert tried - {*with_runs()} == set()


@pytest.fixture(scope="module")
def runs() -> list[bl.Run]:
    return bl.load_dataset("atlas/tau-airline", limit=12)


@pytest.fixture(scope="module")
def folder(runs: list[bl.Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inputs")
    (path / "logs").mkdir()
    for name, some in (("runs.parquet", runs), ("runs.jsonl", runs), ("logs/a.jsonl", runs[:5]),
                       ("logs/b.jsonl", runs[5:])):  # fmt: skip
        bl.save_runs(some, path / name)
    bl.recording_df(runs).to_parquet(path / "steps.parquet")
    with bl.Store(path / "runs.db") as store:
        for run in runs:
            store.add(run)
    return path


def result(function: str, value: Any) -> str:
    try:
        made = FUNCTIONS[function](value)
        return made.to_csv() if hasattr(made, "to_csv") else str(made)
    finally:
        plt.close("all")


@pytest.mark.parametrize(
    "function", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in FUNCTIONS]
)
def test_inputs_give_the_same_result(function: str, runs: list[bl.Run], folder: Path) -> None:
    expected = result(function, runs)
    for name in INPUTS:
        assert result(function, str(folder / name)) == expected, name
    assert result(function, folder / "logs") == expected
    assert result(function, iter(runs)) == expected
    assert result(function, bl.stored_runs(folder / "runs.db")) == expected
    if function in BY_STEP:
        assert result(function, folder / "steps.parquet") == expected
        assert result(function, bl.recording_df(runs)) == expected


@pytest.mark.parametrize("function", FUNCTIONS)
def test_inputs_that_are_none_are_named(function: str, folder: Path) -> None:
    for value, words in (
        (3, "expected a Run or runs, not int"),
        (None, "expected a Run or runs, not NoneType"),
        ([str(folder)], "bl.load_runs reads paths"),
        ({"messages": []}, "bl.load_runs reads paths, and messages in memory"),
        (folder / "none.jsonl", "no such file or folder"),
        ("atlas/tau-airlin", "did you mean 'atlas/tau-airline'?"),
    ):
        if function == "Heatmap" and value is None:  # then it has no runs
            continue
        with pytest.raises((TypeError, bl.BoolabError)) as error:
            FUNCTIONS[function](value)
        assert words in str(error.value)


def test_atlas_set_and_home_are_inputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(bl.runs_df("atlas/tau-airline")) == 200
    monkeypatch.setitem(os.environ, "HOME", str(folder))
    assert len(bl.runs_df("~/logs")) == 12


def test_audit_takes_runs_and_logs(folder: Path, runs: list[bl.Run]) -> None:
    def verdicts(logs: Any) -> list[str]:
        return sorted(bl.audit(logs, {"max_steps": 5})["verdict"])

    for logs in (folder / "runs.parquet", str(folder / "logs"), [folder / "logs"], iter(runs), folder / "runs.db"):
        assert verdicts(logs) == verdicts(runs)
    others: tuple[Any, ...] = (3, bl.recording_df(runs), {"messages": []})
    for wrong in others:
        with pytest.raises(TypeError, match="expected a Run or runs, not"):
            verdicts(wrong)


@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name not in BY_STEP])
def test_tables_of_steps_are_runs_or_told_how(function: str, runs: list[bl.Run]) -> None:
    frame = bl.recording_df(runs)
    if function in FROM_STEPS:
        assert result(function, frame) == result(function, runs)
    else:
        with pytest.raises((TypeError, bl.SettingError), match=r"bl.runs_from_table\(|has no column .*bl.runs_df"):
            FUNCTIONS[function](frame)


def test_compare_takes_runs_from_wherever_they_are(
    folder: Path, runs: list[bl.Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = runs[:2]
    for name, some in (("two", [a, b]), ("one", [a])):
        bl.save_runs(some, folder / f"{name}.jsonl")
        with bl.Store(folder / f"{name}.db") as store:
            for run in some:
                store.add(run)
    monkeypatch.chdir(folder)
    expected = repr(bl.Compare(a, b))
    for both in ([a, b], iter([a, b]), "two.jsonl", folder / "two.db", bl.stored_runs("two.db")):
        assert repr(bl.Compare(both)) == expected
    for one in ([a], "one.jsonl", folder / "one.db"):
        assert repr(bl.Compare(one, b)) == expected
    assert repr(bl.Compare("one.jsonl", "boocode")) == repr(bl.Compare(a, "boocode"))
    for sides, words in (
        ((runs,), "Compare takes two runs, not 12: 'gpt-4o-airline/0/0'.*choose two"),
        (("atlas/tau-airline",), "Compare takes two runs, not 200"),
        (("two.jsonl", b), "Compare takes one run, not 2"),
        (("none.jsonl", b), "no such file"),
        (("boocode", "claudecode"), "did you mean 'claude_code'"),
        (("boocode",), "expected two runs"),
        ((bl.recording_df(a), b), r"bl.runs_from_table\("),
    ):
        with pytest.raises((TypeError, bl.BoolabError), match=words):
            bl.Compare(*sides)


def test_replay_names_the_runs_of_several(folder: Path, runs: list[bl.Run]) -> None:
    with pytest.raises(bl.SettingError, match=r"Replay takes one run, not 12: 'gpt-4o-airline/0/0'.*choose one"):
        bl.Replay(folder / "runs.jsonl")
    bl.save_runs(runs[0], folder / "one.json.jsonl")
    assert bl.Replay(folder / "one.json.jsonl").run.run_id == runs[0].run_id


BY: dict[str, Callable[..., Any]] = {
    "recommend": bl.recommend,
    "scorecard": lambda runs, **by: bl.scorecard(runs, bl.max_steps(10), **by),
    "counterfactual": lambda runs, **by: bl.counterfactual(runs, grid={"max_steps": [5]}, **by),
    "survival": bl.survival,
    "stats.frontier": lambda runs, **by: bl.stats.frontier(runs, [bl.max_steps(5)], **by),
    "plot_steps": bl.plot_steps,
}


@pytest.mark.parametrize("name", BY)
def test_by_all_names_what_takes_all_runs_together(name: str, runs: list[bl.Run]) -> None:
    with pytest.raises(SettingError, match=r"by='all': there is no such column; by=\[\] takes all runs together"):
        BY[name](runs, by="all")
    with pytest.raises(SettingError, match="did you mean 'agent'"):
        BY[name](runs, by="agnet")
