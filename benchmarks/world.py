"""What it costs to keep the files of a run: seconds a snapshot, as a ratio to a bare `git status` in the same folder.

The folder has 10,000 files of some kilobytes in 500 folders, all of them tracked. Each step changes one file; others
change a hundred, or nothing. One after the other, in pairs: `git status`, then a snapshot. The median of the ratios.

    python -m benchmarks.world [--write]
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import boolab as bl
from benchmarks.results import Row, argument_parser, publish, ratio

GIT = shutil.which("git") or "git"
FILES = 10_000
PER_FOLDER = 20
ROUNDS = 21


def git(root: Path, *arguments: str) -> None:
    """Run git as the user would."""
    identity = ("-c", "user.name=User", "-c", "user.email=user@localhost")
    subprocess.run([GIT, *identity, *arguments], cwd=root, check=True, stdout=subprocess.DEVNULL)


def folder(root: Path) -> list[Path]:
    """Fill the folder with files, and commit them."""
    chance = random.Random(5)  # noqa: S311 - it is no secret
    files = [root / f"part{number // PER_FOLDER:03}" / f"file{number:05}.py" for number in range(FILES)]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(chance.randbytes(1_000).hex().encode() + b"\n")
    git(root, "init", "--quiet")
    git(root, "config", "gc.auto", "0")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=all")
    git(root, "repack", "-adq")
    return files


def timed(action: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - began)


def measured() -> Iterator[Row]:
    """What a snapshot costs, and the files of a branch."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "repository"
        root.mkdir()
        files = folder(root)
        time.sleep(1.1)  # or git would compare the files that are as new as its index, byte for byte, each time

        def status() -> None:
            git(root, "status", "--short")

        status()
        world = bl.GitWorld(root)
        keeper = world.keep("benchmark", None)
        bare = timed(status)
        yield ratio("before step 1 / git status", [(timed(keeper.snapshot), bare)], "ms")
        time.sleep(1.1)
        for name, number in (("a step that changes one file", 1), ("a hundred files", 100), ("nothing", 0)):
            pairs = []
            for turn in range(ROUNDS):
                for file in files[:number]:
                    file.write_text(f"{name} {turn}\n")
                bare = timed(status)
                pairs.append((timed(keeper.snapshot), bare))
            yield ratio(f"after {name} / git status", pairs, "ms")
        kept = keeper.snapshot()
        keeper.close()
        restored: list[bl.GitWorld] = []
        pairs = []
        for turn in range(3):
            into = f"--prefix={place}/bare{turn}/"
            bare = timed(lambda into=into: git(root, "checkout-index", "--all", "--quiet", into))  # type: ignore[misc]
            pairs.append((timed(lambda: restored.append(world.restored(kept))), bare))
        yield ratio("the files of a branch, checked out / git checkout-index", pairs, "ms")
        for one in restored:
            one.discard()


def main() -> None:
    """Run the benchmark."""
    options = argument_parser(__doc__).parse_args()
    version = subprocess.run([GIT, "version"], capture_output=True, text=True, check=True).stdout.split()[2]
    publish(__doc__, {"Snapshots": measured()}, options, f"git {version}")


if __name__ == "__main__":
    main()
