"""Build the source distribution and, from it, the wheel; check both; try the wheel alone. `make wheel` runs this.

    python -m tests.packaging.distribution

What it holds: the wheel from the source distribution has the files of the one from the checkout, byte for byte, and
these are the files that git knows, no more and no fewer; the metadata is what package indexes accept; no link of the
page that they will show leads nowhere; and `alone.py` passes in an environment that holds the wheel and what it
requires, without extras and without the checkout.
"""

import email
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from tests.packaging.environments import Environment, run
from tests.support.project import ROOT

DIST: Final = ROOT / "dist"
DATA: Final = ("agents", "datasets", "notebooks")
"""Folders of the checkout that the wheel holds in `boolab/_data`."""
NOT_IN_SDIST: Final = (".ci/", "Makefile", "constraints.txt")


class Distribution(NamedTuple):
    """The two files that are released."""

    sdist: Path
    wheel: Path


def build(folder: Path = DIST) -> Distribution:
    """Build the source distribution, and the wheel from it, as `pip install` of a source distribution does."""
    for old in [*folder.glob("boolab-*.whl"), *folder.glob("boolab-*.tar.gz")]:
        old.unlink()
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (sdist,), (wheel,) = folder.glob("boolab-*.tar.gz"), folder.glob("boolab-*.whl")
    return Distribution(sdist, wheel)


def unpacked(sdist: Path, into: Path) -> Path:
    """The folder of a source distribution, unpacked."""
    with tarfile.open(sdist) as archive:
        # Python 3.11.2, Debian 12's, has no filters. The archive is our own.
        options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(into, **options)  # noqa: S202
    (folder,) = into.iterdir()
    return folder


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel, but for RECORD and what else tells of the wheel itself."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def known_to_git() -> set[str]:
    """The files of the checkout, those included that were not committed yet."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    told = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {name for name in told.splitlines() if (ROOT / name).is_file()}


def in_wheel(names: set[str]) -> set[str]:
    """Where the wheel should have the files of the checkout that belong into it."""
    package = {name for name in names if name.startswith("boolab/")}
    return package | {f"boolab/_data/{name}" for name in names if PurePosixPath(name).parts[0] in DATA}


def check_files(made: Distribution) -> None:
    """Hold the files of both against git, and the wheel from the source distribution against one from the checkout."""
    known, found = known_to_git(), contents(made.wheel)
    same(found.keys(), in_wheel(known), "the wheel")
    with tempfile.TemporaryDirectory() as folder, left_by_jupyterlab():
        run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, ROOT)
        (direct,) = Path(folder).glob("*.whl")
        others = contents(direct)
        changed = sorted(name for name in found.keys() & others.keys() if found[name] != others[name])
        same(others.keys(), found.keys(), "the wheel that is built from the checkout")
        same(changed, (), "files that differ between the two wheels")
        source = unpacked(made.sdist, Path(folder) / "sdist")
        names = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    expected = {name for name in known if not name.startswith(NOT_IN_SDIST)} | {"PKG-INFO"}
    same(names, expected, "the source distribution")


@contextmanager
def left_by_jupyterlab() -> Iterator[None]:
    """Leave a checkpoint beside the notebooks, as `make lab` does: no part of a wheel."""
    folder = ROOT / "notebooks/.ipynb_checkpoints"
    folder.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix="-checkpoint.ipynb"):
        yield


def same(found: object, expected: object, what: str) -> None:
    """Stop where two sets of names differ."""
    extra, missing = set(found) - set(expected), set(expected) - set(found)  # type: ignore[call-overload]
    if extra or missing:
        sys.exit(f"{what}: too much: {sorted(extra)}; missing: {sorted(missing)}")


def check_metadata(made: Distribution) -> None:
    """Ask the checkers of package indexes, and look for links in the page that lead into the checkout."""
    run(sys.executable, "-m", "twine", "check", "--strict", *made)
    run(sys.executable, "-m", "check_wheel_contents", made.wheel)
    run(sys.executable, "-m", "validate_pyproject", ROOT / "pyproject.toml")
    with zipfile.ZipFile(made.wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        page = email.message_from_bytes(archive.read(name)).get_payload()
    same(re.findall(r"\]\((?!https?:|#)[^)]*\)", str(page)), (), "links of the page into the checkout")


def try_alone(wheel: Path) -> None:
    """Use the wheel in an environment of its own, from an empty folder, without anything of the checkout."""
    with tempfile.TemporaryDirectory() as place:
        environment = Environment.make(Path(place) / "env", Path(sys.executable))
        environment.install(wheel, ROOT)
        empty = Path(place) / "empty"
        empty.mkdir()
        code = (Path(__file__).with_name("alone.py")).read_text(encoding="utf-8")
        run(environment.python, "-I", "-", cwd=empty, given=code)


def main() -> None:
    """Build, check, try."""
    made = build()
    check_files(made)
    check_metadata(made)
    try_alone(made.wheel)
    for path in made:
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.2f} MB")  # noqa: T201


if __name__ == "__main__":
    main()
