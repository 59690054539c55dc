"""The public names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import boolab
from tests.project import ROOT


def test_the_public_names_are_sorted_and_all_can_be_had() -> None:
    names = [*boolab.__all__]
    assert names == sorted(names)
    for name in names:
        value = getattr(boolab, name)
        assert getattr(value, "__name__", name) in (name, "dict")
    assert dir(boolab) == names


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(boolab.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    homes = {name: f"boolab.{home}" for home, names in boolab._HOMES.items() for name in names}
    assert seen == homes
    assert sorted(homes) == boolab.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        boolab.nonsense  # noqa: B018 - on purpose


def test_importing_boolab_imports_nothing_heavy() -> None:
    code = "import sys, boolab; print([m for m in ('pandas', 'numpy', 'matplotlib', 'pydantic') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_running_an_agent_and_keeping_its_record_imports_neither_pandas_nor_matplotlib(tmp_path: Path) -> None:
    code = (
        "import sys, boolab as bl; bl.save_runs(bl.run_sync(None, 'x', model=bl.ScriptedModel(['y'])), 'run.jsonl');"
        "print([m for m in ('pandas', 'numpy', 'matplotlib', 'scipy', 'httpx') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert out.stdout.strip() == "[]"
