"""What the package and the tests import is what pyproject.toml says they need."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest

import boolab
from tests.support.project import ROOT

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN: Final = {"boolab", "tests", "docs", "_typeshed"}  # the last is of type checkers, and never imported
PINNED_BY: Final = {"pydantic-core": "pydantic"}
"""What another dependency requires in one exact version, so that a bound of ours would be for naught."""
HOMES: Final = packages_distributions()
LATER: Final = {"atheris": "fuzz"}
"""What is installed by a target of its own, and imported by what that target runs."""


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare them."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: list[str]) -> set[str]:
    """The distributions that are required, those of the extras of boolab's own that are named included."""
    found: set[str] = set()
    for one in requirements:
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", one).groups()  # type: ignore[union-attr]
        if name == "boolab":
            found |= {dep for extra in extras.split(",") for dep in named(PROJECT["optional-dependencies"][extra])}
        else:
            found.add(canonical(name))
    return found


def imported(folder: Path, declared: set[str]) -> tuple[int, dict[str, Path]]:
    """How many packages the modules of a folder import, and of those not declared, one module that imports each.

    Several distributions may share a package, as backports.zstd and backports.tarfile do: one of them is enough.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.py")):
        for name in roots(ast.parse(path.read_text(encoding="utf-8"))):
            if name not in sys.stdlib_module_names and name not in OWN:
                found[name] = path
    named_by = {name: {canonical(home) for home in HOMES.get(name, [name])} for name in found}
    needed = {name: {PINNED_BY.get(home, home) for home in ways} for name, ways in named_by.items()}
    return len(found), {name: path for name, path in found.items() if not needed[name] & declared}


def roots(tree: ast.Module) -> Iterator[str]:
    """The top-level packages that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.slow
def test_the_package_declares_what_it_imports() -> None:
    extras = PROJECT["optional-dependencies"]
    declared = named(PROJECT["dependencies"])
    offered = {
        name
        for extra in ("datasets", "engine", "learn", "local", "parquet", "prices", "zstd")
        for name in named(extras[extra])
    }
    number, undeclared = imported(Path(boolab.__file__).parent, declared | offered)
    assert number > 10
    assert undeclared == {"benchmarks": Path(boolab.__file__).parent / "cli/bench.py"}  # where a checkout has it


@pytest.mark.slow
def test_the_tests_declare_what_they_import() -> None:
    declared = (
        named(PROJECT["dependencies"]) | named(PROJECT["optional-dependencies"]["test"]) | LATER.keys() | {"benchmarks"}
    )
    number, undeclared = imported(ROOT / "tests", declared)
    assert number > 10
    assert undeclared == {}


def test_every_bound_is_a_lower_one() -> None:
    """An upper bound on what does not exist yet keeps others from using it; `make compatibility` tries the newest."""
    every = [*PROJECT["dependencies"], *(one for extra in PROJECT["optional-dependencies"].values() for one in extra)]
    outside = [one for one in every if not one.startswith("boolab[")]
    assert [one for one in outside if not re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+( *;.*)?", one)] == []


def test_the_tests_find_the_projects_files_beside_themselves() -> None:
    """Boolab may be installed elsewhere; only what it takes for a workspace itself is for it to say."""
    asks = re.compile(r"^from boolab\.io\.resources import .*\bcheckout\b", re.MULTILINE)
    found = {path.name for path in (ROOT / "tests").rglob("*.py") if asks.search(path.read_text(encoding="utf-8"))}
    assert found == {"test_datasets.py", "alone.py"}
