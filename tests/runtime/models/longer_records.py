"""Run, store and read records whose Usage, Response and Step have one field more, for `test_base`.

It is a process of its own: it puts another `boolab.core.types` in place before boolab is imported.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType


def lengthen_records() -> None:
    """Import `boolab.core.types` with a field `further` at the end of three of its tuples."""
    spec = importlib.util.find_spec("boolab.core.types")
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8")
    for name, last in (
        ("Usage", "cache_write_1h_tokens: int"),
        ("Response", "service_tier: str"),
        ("Step", "counted: bool"),
    ):
        text, times = re.subn(
            rf"(class {name}\(.*?\n    {last}[^\n]*\n)", r"\1    further: str | None = None\n", text, flags=re.DOTALL
        )
        assert times == 1, name
    module = ModuleType("boolab.core.types")
    sys.modules[module.__name__] = module
    exec(compile(text, spec.origin, "exec"), module.__dict__)  # noqa: S102 - the package's own source


def check_records() -> None:
    """Run, record, store, save and read such records."""
    import boolab as bl

    usage = bl.models.Usage(10, 5, cost=3)
    call = bl.models.ToolCall("1", "f", "{}")
    agent = bl.Agent("a", tools=(bl.tool(name="f")(lambda: "é"),))
    items = [bl.models.Response("", (call,), usage=usage), bl.models.Response("é", model="m", usage=usage)]
    run = bl.run_sync(agent, "go", model=bl.ScriptedModel(items), stop=bl.max_steps(9) | bl.max_tokens(900))
    assert "further" in run.steps[0]._fields
    assert "further" in run.steps[0].response.usage._fields
    assert run.stop_reason == "finished", run
    assert bl.run_sync(agent, "go", model=bl.RecordedModel(run)).stop_reason == "finished"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.db")
        with bl.Store(path) as store:
            store.add(run)
        (stored,) = bl.stored_runs(path)
        assert stored.steps == run.steps, stored.steps
        bl.save_runs([run], Path(folder, "runs.jsonl"))
        (loaded,) = bl.load_runs(Path(folder, "runs.jsonl"))
        assert loaded.steps == run.steps, loaded.steps
    assert len(bl.counterfactual([run], rules=[bl.max_steps(1)])) == 1
    assert len(bl.steps_df([run])) == run.n_steps


if __name__ == "__main__":
    lengthen_records()
    check_records()
