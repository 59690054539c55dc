"""Inputs led by the coverage that they reach: `python -m tests.fuzz.guided TARGET --runs 20000 --seed 1`.

Atheris keeps inputs that reach new branches of boolab, and makes the next ones from these, half of them by the target's
own grammar. What it found is in out/fuzz, and its own words go to standard error.
"""

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.log import Log, memory

MOST_SECONDS: Final = 60
"""After so long, by the clock, an input is given up that not even Python can interrupt."""
MOST_MEGABYTES: Final = 3_000
_LONGEST_WORD: Final = 64
_SAVED_EVERY: Final = 1_000
_COVERED: Final = re.compile(r"(cov: \d+) (ft: \d+)")


def main() -> None:
    """Try one target, in a process of its own: libFuzzer ends it without a word to Python."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if why := missing():
        parser.error(why)
    if given.inside is not None:
        _fuzz(given.target, given.runs, given.seed, given.inside)
    else:
        print(guide(given.target, given.runs, given.seed))  # noqa: T201 - a command


def guide(name: str, runs: int, number: int) -> Log:
    """Try so many inputs on a target, in a process of its own, and give the account."""
    log = Log(name, "guided")
    log.path.unlink(missing_ok=True)
    asked = (name, "--runs", str(runs), "--seed", str(number))
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory()) as folder:
        command = [sys.executable, "-m", "tests.fuzz.guided", *asked, "--inside", folder]
        done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
    said = done.stderr.decode("utf-8", "replace")
    if log.path.exists():
        log = Log.load(log.path)
    covered = _COVERED.findall(said)
    log.covered = " ".join(covered[-1]) if covered else "-"
    log.ended(done.returncode, said)
    return log


def missing() -> str:
    """Why this engine cannot run here, and what to do about it; "" if it can."""
    if find_spec("atheris") is not None:
        return ""
    wanted = "fuzzing led by coverage needs atheris 3 or newer"
    if sys.platform != "linux" or sys.version_info >= (3, 14):
        return f"{wanted}, which is made for Linux and CPython 3.11 to 3.13: use one of these"
    return f"{wanted}: pip install 'boolab[fuzz]'"


def _fuzz(name: str, runs: int, number: int, folder: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["boolab"]):
        from tests.fuzz.targets import TARGETS

        target = TARGETS[name]
        place = folder / "place"
        place.mkdir()
        opened = target.open(place)
        act = opened.__enter__()  # there is no way out of `Fuzz`
        for data in target.seeds:  # so that what is imported late is instrumented too
            with contextlib.suppress(Exception):
                act(data)
    log = Log(name, "guided")

    def attempt(data: bytes) -> None:
        log.tried(act, data)
        if log.inputs == runs or not log.inputs % _SAVED_EVERY:
            log.save()

    def mutated(data: bytes, most: int, chance: int) -> bytes:
        if chance % 2 or not data:
            changed: bytes = atheris.Mutate(data or b"\0", most)
            return changed
        return target.mutated(data, Random(chance))[:most]

    options = [
        *(f"-runs={runs}", f"-seed={number}", f"-timeout={MOST_SECONDS}", f"-rss_limit_mb={MOST_MEGABYTES}"),
        *("-max_len=65536", "-reload=0", f"-dict={_dictionary(target.tokens, folder)}"),
        f"-artifact_prefix={log.path.parent}/{name}.guided.",
    ]
    atheris.Setup([sys.argv[0], *options, str(_corpus(target.seeds, folder))], attempt, custom_mutator=mutated)
    atheris.Fuzz()


def _corpus(seeds: list[bytes], folder: Path) -> Path:
    """A folder with the seeds, as libFuzzer wants them."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(seeds):
        (corpus / f"{number:03}").write_bytes(data)
    return corpus


def _dictionary(tokens: tuple[bytes, ...], folder: Path) -> Path:
    """A file with the words of the language, as libFuzzer wants them."""
    words = folder / "words"
    lines = ('"' + "".join(f"\\x{byte:02x}" for byte in token) + '"' for token in tokens if len(token) <= _LONGEST_WORD)
    words.write_text("\n".join(lines), encoding="ascii")
    return words


if __name__ == "__main__":
    main()
