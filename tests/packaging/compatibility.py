"""Run the tests on the wheel, with each Python that is here and with the oldest and the newest dependencies.

    python -m tests.packaging.compatibility [--python 3.12 ...] [--dependencies newest ...] [-- what pytest is given]

Nothing of the checkout takes part: the tests and what they read come from the source distribution, without the package,
and boolab is imported from the environment that the wheel was installed into. The last table is in docs/tables.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, get_args

from tests.packaging.distribution import build, unpacked
from tests.packaging.environments import PLACE, VERSIONS, Environment, Set, clean, interpreter

SHOWN: Final = ("numpy", "pandas", "pydantic", "matplotlib", "httpx", "jupyterlab")
"""Packages whose versions are in the table."""
_WHERE: Final = "import boolab; print(boolab.__file__)"
_VERSIONS: Final = f"from importlib.metadata import version as v; print(', '.join(f'{{n}} {{v(n)}}' for n in {SHOWN}))"
_ABOVE: Final = """
from importlib.metadata import requires, version
from packaging.requirements import Requirement
for need in map(Requirement, requires("boolab")):
    extras = ("test", "engine", "learn", "parquet", "prices", "zstd")
    wanted = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)
    if wanted and need.name != "boolab":
        lowest = Requirement(f"{need.name}{str(need.specifier).replace('>=', '==')}").specifier
        if version(need.name) not in lowest:
            print(f"{need.name}{need.specifier}, but {version(need.name)};", end=" ")
"""
_USUAL: Final = (
    "--numprocesses",
    "2",
    "--dist",
    "loadfile",
    "-m",
    "not pages and not slow and not alone",
    "tests",
    "--pyargs",
    "boolab",
)
"""The tests that `make test` runs, and the examples in docstrings."""
_OF_LIBRARIES: Final[dict[Set, tuple[str, ...]]] = {
    "oldest": ("--pythonwarnings=ignore::pyparsing.warnings.PyparsingDeprecationWarning",),
}
"""Warnings that no code of ours can help: an old matplotlib calls a new pyparsing by names that the latter gave up."""


class Case(NamedTuple):
    """What the tests are run with."""

    python: str
    dependencies: Set


class Outcome(NamedTuple):
    """How they ended."""

    case: Case
    versions: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    failures: list[str]


def cases(pythons: Sequence[str], sets: Sequence[Set]) -> list[Case]:
    """The oldest dependencies with the oldest of these Pythons, which they were made for; others with each."""
    return [Case(python, one) for one in sets for python in (pythons[:1] if one == "oldest" else pythons)]


def tried(case: Case, python: Path, wheel: Path, project: Path, options: Sequence[str]) -> Outcome:
    """Run the tests in an environment that is made for this case."""
    environment = Environment.make(PLACE / f"{case.python}-{case.dependencies}", python)
    environment.install(wheel, project, ["test"], case.dependencies)
    imported = environment.ask(_WHERE, project)
    if not Path(imported).is_relative_to(environment.folder):
        sys.exit(f"{case}: boolab is imported from {imported}, and not from {environment.folder}")
    if case.dependencies == "oldest" and (above := environment.ask(_ABOVE, project)):
        sys.exit(f"{case}: a bound that something else raises is not tried: raise it to what it is: {above}")
    report = PLACE / f"{case.python}-{case.dependencies}.xml"
    report.unlink(missing_ok=True)
    began = time.monotonic()
    usual = ("--quiet", f"--junitxml={report}", *_OF_LIBRARIES.get(case.dependencies, ()))
    command = [str(environment.python), "-m", "pytest", *usual, *(options or _USUAL)]
    subprocess.run(command, cwd=project, env=clean(), check=False)
    return outcome(case, environment.ask(_VERSIONS, project), report, time.monotonic() - began)


def outcome(case: Case, versions: str, report: Path, seconds: float) -> Outcome:
    """What pytest's report says; without one, nothing was run, and that is a failure."""
    if not report.is_file():
        return Outcome(case, versions, 0, 1, 0, seconds, ["pytest ended without a report"])
    found = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - pytest wrote it a moment ago
    skipped = sum(one.find("skipped") is not None for one in found)
    failures = [
        f"{one.get('classname')}::{one.get('name')}"
        for one in found
        if one.find("failure") is not None or one.find("error") is not None
    ]
    passed = len(found) - skipped - len(failures)
    return Outcome(case, versions, passed, len(failures), skipped, seconds, failures)


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as Markdown, and what failed below it."""
    lines = [
        "| Python | dependencies | passed | failed | skipped | seconds | among them |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.case.python} | {one.case.dependencies} | {one.passed:,} | {one.failed} | {one.skipped} "
        f"| {one.seconds:.0f} | {one.versions} |"
        for one in outcomes
    ]
    failed = [f"{one.case.python}, {one.case.dependencies}: {name}" for one in outcomes for name in one.failures]
    return "\n".join([*lines, "", *failed]).rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cases; 1 if any test failed, 2 if there is no interpreter to run them with."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.compatibility", description=__doc__)
    parser.add_argument("--python", nargs="+", default=[], help=f"versions, the oldest first (default: of {VERSIONS})")
    parser.add_argument("--dependencies", nargs="+", choices=get_args(Set), default=["oldest", "newest"])
    parser.add_argument("options", nargs="*", help="after --: what pytest is given in place of its usual arguments")
    args = parser.parse_args(arguments)
    here = {version: found for version in args.python or VERSIONS if (found := interpreter(version))}
    for missing in [version for version in args.python if version not in here]:
        print(f"no Python {missing} here, neither on the path nor of pyenv", file=sys.stderr)  # noqa: T201
    if not here or len(here) < len(args.python):
        return 2
    made, outcomes = build(), []
    for case in cases(list(here), args.dependencies):
        with tempfile.TemporaryDirectory() as folder:
            project = unpacked(made.sdist, Path(folder))
            shutil.rmtree(project / "boolab")
            outcomes.append(tried(case, here[case.python], made.wheel, project, args.options))
        print(table(outcomes), flush=True)  # noqa: T201
    return int(any(one.failed for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
