"""The public names."""

import asyncio
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import boolab
from boolab.core.lazy_names import homes_of, public_names
from tests.support.project import ROOT

LAZY = ("boolab", "boolab.runtime.models", "boolab.plots", "boolab.limits.detectors", "boolab.stats")
PACKAGES = [found.name for found in pkgutil.walk_packages(boolab.__path__, "boolab.") if found.ispkg]


def every() -> Any:
    """What `from boolab import *` gives."""
    return importlib.import_module("boolab")


TOP: Final = """
    compare_units deadline deadline_margins Abort Agent AgentEditor AnthropicModel BoolabError CapLab Compaction
    Compare EditorModel GitWorld Guard Heatmap Inbox Labeler Live LocalModel Monitor OpenAIModel Policy Question
    RecordedModel Replay Run ScriptedModel SettingError SimulatedModel Step StopRule Store SweepView ToolContext
    ToolError audit bash_tool boundaries_df branch calls_df compare_policies counterfactual cycle detectors
    divergences doom_loop dynamic_turns error_streak errors events_df finish_reasons_df first_divergence fit_profile
    fixed_turns judge label learn_stop load_agents load_dataset load_runs max_cost max_steps max_time max_tokens
    models outcomes plot_caps plot_steps plot_survival plot_tools plots policies priced read_logs read_steps recommend
    record recording_df resume run run_sync runs_df runs_from_table save_runs scorecard start stats steps_df
    stored_runs survival sweep task_tool tool tool_budget trial watch with_subagents bills_df cache_misses_df
    context_df cost_by ContextPolicy context_costs tails_df compaction_threshold repriced worst_case max_context
"""
"""What `bl` has: what a first page of a tutorial needs. All else is in its subpackages."""


def test_the_top_has_these_names_and_no_other() -> None:
    assert sorted(TOP.split()) == sorted(every().__all__)


NAIVE: Any = boolab.policies["naive"]


@pytest.mark.parametrize("package", LAZY)
def test_public_names_are_sorted_and_match_their_stub(package: str) -> None:
    module: Any = importlib.import_module(package)
    homes = homes_of(package)
    assert dir(module) == module.__all__ == sorted(homes)
    for name, home in homes.items():
        value = getattr(module, name)
        assert getattr(value, "__name__", name).rpartition(".")[2] in (name, "dict")
        if not isinstance(value, ModuleType | dict):
            assert value.__module__ == home, f"{name} is defined in {value.__module__}"


def test_each_public_name_stands_in_one_place() -> None:
    last = [public.rpartition(".")[2] for public in public_names()]
    assert sorted(last) == sorted(set(last))


def test_importing_a_subpackage_hides_no_public_name() -> None:
    for found in pkgutil.iter_modules(boolab.__path__):
        assert found.name not in every().__all__ or isinstance(getattr(boolab, found.name), ModuleType)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_has_a_name_that_is_one_of_its_modules(package: str) -> None:
    module = importlib.import_module(package)
    inside = {found.name for found in pkgutil.iter_modules(module.__path__)}
    taken = [name for name, value in vars(module).items() if name in inside and not isinstance(value, ModuleType)]
    assert taken == []
    assert inside.isdisjoint(homes_of(package))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("run_sinc", "; did you mean 'run_sync'?"),
        ("run_sync_", "; did you mean 'run_sync'?"),
        ("Retry", "; did you mean 'models.Retry'?"),
        ("ModelError", "; did you mean 'errors.ModelError'?"),
        ("plot_fit", "; did you mean 'plots.plot_fit'?"),
        ("round_streak", "; did you mean 'detectors.round_streak'?"),
        ("nonsense", ""),
        ("__wrapped__", ""),
    ],
)
def test_unknown_name_raises_and_suggests_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(boolab, name)
    assert str(error.value) == f"module 'boolab' has no attribute {name!r}{hint}"


def test_importing_boolab_imports_nothing_heavy() -> None:
    code = "import sys, boolab; print([m for m in ('pandas', 'numpy', 'matplotlib', 'pydantic') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_run_alone_imports_neither_yaml_nor_what_makes_tools() -> None:
    heavy = ("yaml", "pydantic.main", "pydantic.json_schema", "pandas", "numpy", "httpx")
    code = f"import sys, boolab; boolab.run; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_running_and_saving_imports_no_pandas_or_matplotlib(tmp_path: Path) -> None:
    code = (
        "import sys, boolab as bl; bl.save_runs(bl.run_sync(None, 'x', model=bl.ScriptedModel(['y'])), 'run.jsonl');"
        "from boolab.cli.main import main; main(['run', '-', 'x', '--model', 'script.yaml', '--quiet']);"
        "print([m for m in ('pandas', 'numpy', 'matplotlib', 'scipy', 'httpx') if m in sys.modules])"
    )
    (tmp_path / "script.yaml").write_text("- Done.\n")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert out.stdout == "Done.\n[]\n"


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        (lambda: boolab.Agent("a", policy="boocde"), "did you mean 'boocode'?"),
        (lambda: NAIVE.vary(cpa={}), "did you mean 'cap'?"),
        (lambda: NAIVE.vary(cap={"maxsteps": 3}), "did you mean 'max_steps'?"),
        (lambda: NAIVE.vary(max_steps=3), "did you mean cap={'max_steps': ...}?"),
        (lambda: NAIVE.vary(cap={"kind": "sofd"}), "did you mean 'soft'?"),
        (lambda: every().run_sync(None, "go", modle=None), "did you mean 'model'?"),
        (lambda: boolab.counterfactual([], grid={"max_step": [3]}), "did you mean 'max_steps'?"),
        (lambda: boolab.load_dataset("swe_gym_openhand"), "did you mean 'swe_gym_openhands'?"),
        (lambda: boolab.load_runs(".", format="claude_cod"), "did you mean 'claude_code'?"),
        (lambda: boolab.doom_loop(3, "orderd"), "did you mean 'ordered'?"),
    ],
)
def test_what_is_misspelt_is_answered_with_the_nearest_name(use: Any, hint: str) -> None:
    with pytest.raises((boolab.SettingError, TypeError)) as error:
        use()
    assert hint in str(error.value)


def test_a_coroutine_in_place_of_a_run_is_answered_with_await() -> None:
    def coroutine() -> Any:
        return boolab.run(None, "go", model=boolab.ScriptedModel(["x"]))

    for use in (
        boolab.runs_df,
        lambda made: boolab.steps_df([made]),
        lambda made: boolab.save_runs(made, "runs.jsonl"),
    ):
        with pytest.raises(TypeError, match="did you forget await"):
            use(coroutine())
    with pytest.raises(boolab.SettingError, match="did you forget await"):
        asyncio.run(boolab.resume(coroutine(), "go"))
