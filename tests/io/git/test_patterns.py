"""The patterns of `.gitignore` files mean what git takes them for."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.io.git.patterns import MAX_LINES, Patterns
from tests.support.cases import cases
from tests.support.git_worlds import GIT, git

PARTS = [
    "a",
    "b",
    "*",
    "**",
    "***",
    "?",
    "/",
    "[ab]",
    "[!a]",
    "[^b-]",
    "[a-b]",
    "[]a]",
    "[[:alpha:]]",
    "[[:x:]]",
    "[[:a]",
]
PARTS += [
    "[",
    "]",
    "\\",
    "\\*",
    "\\a",
    "!",
    "#",
    "-",
    " ",
    "\\ ",
    "é",
    "\xff",
    "\r",
    "**/",
    "/**",
    ".",
    "[\\]a]",
    "[b-a]",
]
LINE = st.lists(st.sampled_from(PARTS), min_size=1, max_size=6).map("".join)
NAMES = [
    "a",
    "b",
    "aa",
    "ab",
    "ba",
    "abb",
    "*",
    "-",
    "]",
    "[",
    "!a",
    "#a",
    "a ",
    " ",
    "é",
    "\xff",
    "a.b",
    "\\",
    "A",
    "1",
]
PATHS = [*NAMES, *(f"{name}/{other}" for name in ("a", "b", "ab", "*") for other in NAMES), "a/b/a", "a/a/b", "b/a/b/a"]


@cases(40)
@given(st.lists(LINE, min_size=1, max_size=4), st.booleans())
def test_patterns_match_what_git_ignores(lines: list[str], windows: bool) -> None:
    text = "\n".join(lines).encode("latin-1") + (b"\r\n" if windows else b"\n")
    with tempfile.TemporaryDirectory() as folder:
        git(Path(folder), "init", "--quiet")
        (Path(folder) / ".gitignore").write_bytes(text)
        expected = ignored_by_git(Path(folder))
    patterns = Patterns(text)
    assert {path for path in PATHS if is_ignored(patterns, path)} == expected, text


def ignored_by_git(root: Path) -> set[str]:
    """The paths that git ignores, none of which is there, so that they are files."""
    asked = b"".join(b"./" + path.encode("latin-1") + b"\0" for path in PATHS)
    command = [GIT, "-c", "core.ignoreCase=false", "check-ignore", "--no-index", "--stdin", "-z"]
    done = subprocess.run(command, cwd=root, input=asked, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {path.decode("latin-1").removeprefix("./") for path in done.stdout.split(b"\0")[:-1]}


def is_ignored(patterns: Patterns, path: str) -> bool:
    """Whether the file, or a folder that leads to it, is ignored."""
    parts = path.split("/")
    above = ["/".join(parts[:number]) + "/" for number in range(1, len(parts))]
    return any(patterns.verdict(name) for name in [*above, path])


def test_patterns_that_take_git_for_ever_take_no_time() -> None:
    patterns = Patterns(b"/" + b"*a" * 40 + b"b/x\n" + b"**/a/" * 200 + b"x\n")
    assert patterns.verdict("a" * 255 + "/x") is None
    assert patterns.verdict("a/" * 2000 + "y") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"x\n" * (MAX_LINES + 1), "more than the 10,000 patterns"), (b"\n" + b"x" * 100_000, "line 2 is too large")],
)
def test_patterns_beyond_a_limit_are_refused(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Patterns(text)
