"""Test runners: which simple commands are a run of tests, and what a runner prints about its result.

`find_runner` decides by words of a command, so that a path, a message or a pattern that names a runner is none.
`read_summary` reads the lines in which runners sum up, in any colours; those of several packages are added up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final, NamedTuple

MAX_LINES: Final = 200_000
MAX_LINE: Final = 2_000
"""The longest line that is read as one of a summary, in characters."""
MAX_NAMES: Final = 10_000


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*|py")
_PYTHON_VALUED: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_TEST_PROGRAMS: Final = _words(
    "pytest py.test tox nox nosetests nose2 rspec phpunit pest jest vitest mocha ctest gotestsum"
)
"""Programs that run tests whatever their arguments are."""
_MODULES: Final = frozenset({"pytest", "py.test", "unittest", "nose", "nose2", "tox", "nox", "doctest"})
_SUBCOMMANDS: Final = _words("dotnet swift mix deno flutter rails bazel bazelisk zig")
"""Programs whose subcommand `test` runs tests."""
_SCRIPTS: Final[Mapping[str, str]] = {"manage.py": "test", "setup.py": "test", "runtests.py": ""}
"""Scripts that run tests, with the argument that makes them do so."""
_PACKAGE_MANAGERS: Final = frozenset({"npm", "pnpm", "yarn", "bun"})
_MANAGER_VALUED: Final = _words("--prefix -w --workspace --filter -F -C --dir --cwd")
_SCRIPT: Final = re.compile(r"t|tst|tests?(?:[:_.-].*)?")
_TARGET: Final = re.compile(r"check|tests?|tests?[-_:./].*|.*[-_:./]tests?")
_GOAL: Final = re.compile(r"test|verify|integration-test|surefire:test|failsafe:integration-test")
_TASK: Final = re.compile(r"(?:.*:)?(?:test|check|test[A-Z]\w*|\w+Test|\w+Tests)")
_NO_RUN: Final = _words(
    "--collect-only --collectonly --co --version --help -h --no-run --list --listTests --list-tests --dry-run "
    "--fixtures --markers --show-only --just-print --notest --showconfig --setup-plan --setup-only -DskipTests "
    "-Dmaven.test.skip=true -DskipTests=true --noTests"
)
"""Arguments with which a runner runs no test."""
_NO_RUN_OF: Final[Mapping[str, frozenset[str]]] = {
    "go": frozenset({"-c", "-list"}),
    "make": frozenset({"-n", "-q"}),
    "gmake": frozenset({"-n", "-q"}),
    "ctest": frozenset({"-N"}),
    "tox": frozenset({"-l", "-a", "list", "config"}),
    "nox": frozenset({"-l"}),
    "gradle": frozenset({"-m"}),
    "gradlew": frozenset({"-m"}),
    "pytest": frozenset({"-V"}),
}


def find_runner(words: Sequence[str]) -> str:
    """The runner that a simple command starts, such as `pytest` or `go`; "" if it runs no tests."""
    if not words:
        return ""
    program = PurePosixPath(words[0]).name
    arguments = list(words[1:])
    if _PYTHON.fullmatch(program):
        program, arguments = _python_target(arguments)
    if program in _PACKAGE_MANAGERS:
        return _package_runner(program, arguments)
    refused = _NO_RUN | _NO_RUN_OF.get(program, frozenset())
    if any(argument in refused or argument.startswith("-list=") for argument in arguments):
        return ""
    return program if _runs_tests(program, arguments) else ""


def _python_target(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The module or the script that Python runs, and its arguments; "" for neither."""
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word == "-m":
            module = arguments[index + 1] if index + 1 < len(arguments) else ""
            return (module, list(arguments[index + 2 :])) if module in _MODULES else ("", [])
        if not word.startswith("-"):
            name = PurePosixPath(word).name
            return (name, list(arguments[index + 1 :])) if name in _SCRIPTS or name in _TEST_PROGRAMS else ("", [])
        index += 2 if word in _PYTHON_VALUED else 1
    return "", []


def _operands(arguments: Sequence[str], valued: frozenset[str] = frozenset()) -> list[str]:
    """The arguments without options and their values."""
    operands: list[str] = []
    is_value = False
    for word in arguments:
        if not is_value and not word.startswith("-"):
            operands.append(word)
        is_value = not is_value and word in valued
    return operands


def _runs_tests(program: str, arguments: Sequence[str]) -> bool:
    check = _CHECKS.get(program)
    return program in _TEST_PROGRAMS or program in _MODULES or (check is not None and check(arguments))


def _runs_cargo(arguments: Sequence[str]) -> bool:
    words = _operands([word for word in arguments if not word.startswith("+")], frozenset({"--manifest-path", "-C"}))
    return words[:1] in (["test"], ["t"]) or words[:2] in (["nextest", "run"], ["nextest", "r"])


def _runs_make(arguments: Sequence[str]) -> bool:
    targets = _operands(arguments, frozenset({"-C", "-f", "-I", "-o", "-W"}))
    return any(_TARGET.fullmatch(target) for target in targets if "=" not in target)


def _runs_ctest_build(arguments: Sequence[str]) -> bool:
    """`cmake --build build --target test`."""
    pairs = pairwise(arguments)
    return any(option in ("--target", "-t") and target in ("test", "check", "RUN_TESTS") for option, target in pairs)


def _matches(pattern: re.Pattern[str]) -> Callable[[Sequence[str]], bool]:
    return lambda arguments: any(pattern.fullmatch(word) for word in arguments if not word.startswith("-"))


def _has_subcommand(*valued: str) -> Callable[[Sequence[str]], bool]:
    return lambda arguments: _operands(arguments, frozenset(valued))[:1] == ["test"]


def _has_argument(argument: str) -> Callable[[Sequence[str]], bool]:
    return lambda arguments: not argument or argument in arguments


_CHECKS: Final[Mapping[str, Callable[[Sequence[str]], bool]]] = {
    "cargo": _runs_cargo,
    "cargo-nextest": lambda arguments: "run" in arguments,
    "go": _has_subcommand("-C"),
    "make": _runs_make,
    "gmake": _runs_make,
    "cmake": _runs_ctest_build,
    "mvn": _matches(_GOAL),
    "mvnw": _matches(_GOAL),
    "gradle": _matches(_TASK),
    "gradlew": _matches(_TASK),
    "playwright": _has_subcommand(),
    **{program: _has_subcommand() for program in _SUBCOMMANDS},
    **{script: _has_argument(argument) for script, argument in _SCRIPTS.items()},
}


def _package_runner(program: str, arguments: Sequence[str]) -> str:
    """The runner that `npm test`, `yarn run test:unit` or `pnpm vitest` starts."""
    words = _operands(arguments, _MANAGER_VALUED)
    if program == "yarn" and words[:1] == ["workspace"]:
        words = words[2:]
    if words[:1] in (["run"], ["run-script"], ["exec"], ["x"], ["dlx"]):
        words = words[1:]
    if not words or _NO_RUN & set(arguments):
        return ""
    if _SCRIPT.fullmatch(words[0]):
        return program
    return words[0] if words[0] in _TEST_PROGRAMS else ""


class SuiteSummary(NamedTuple):
    """What runners print about their results, added up."""

    failed: int
    passed: int
    names: frozenset[str] = frozenset()
    """The names of tests that failed, as far as they are printed."""


_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;?]{0,50}[ -/]{0,5}[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\-_])")
_COUNTS: Final = re.compile(r"(\d{1,9}) ([a-z]+)")
_PYTEST: Final = re.compile(
    r"=*[ \t]*((?:\d{1,9} (?:failed|passed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun|subtests passed)"
    r"(?:, )?){1,12}) in [\d.:]{1,20}"
)
_FAILING: Final = frozenset({"failed", "error", "errors", "failing", "failures", "failure"})
_PASSING: Final = frozenset({"passed", "xfailed", "xpassed", "passing"})
_NO_TESTS: Final = re.compile(
    r"=*[ \t]*no tests ran\b|collected 0 items|No tests? (?:found|files found)|No tests were found"
    r"|.{0,200}\bno tests to run\b|There are no tests to run|\?[ \t]+\S+[ \t]+\[no test files\]|No tests executed!"
)
_UNITTEST: Final = re.compile(r"Ran (\d{1,9}) tests? in ")
_UNITTEST_END: Final = re.compile(r"(OK|FAILED|NO TESTS RAN)\b(?: \((.{0,200})\))?")
_CARGO: Final = re.compile(r"test result: (?:ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed")
_NEXTEST: Final = re.compile(r"[ \t]*Summary \[.{0,40}\] (?:\d{1,9}/)?\d{1,9} tests? run: (.{1,200})")
_GO: Final = re.compile(r"(ok|FAIL)[ \t]+(\S{1,500})[ \t]+(\(cached\)|\d+\.\d+s|\[(?:build|setup) failed\])(.{0,100})")
_JEST: Final = re.compile(r"[ \t]*(?:Tests|Test Suites|Test Files):?[ \t]+(\d{1,9} [a-z].{0,300})")
_MOCHA: Final = re.compile(r"[ \t]*(\d{1,9}) (passing|failing)\b")
_BUN: Final = re.compile(r"[ \t]*(\d{1,9}) (pass|fail)")
_MAVEN: Final = re.compile(
    r"(?:\[\w+\][ \t]*)?Tests run: (\d{1,9}), Failures: (\d{1,9}), Errors: (\d{1,9})(?:, Skipped: (\d{1,9}))?(.{0,200})"
)
_RSPEC: Final = re.compile(r"(\d{1,9}) (?:examples?|tests?|doctests?), (?:.{0,60}, )?(\d{1,9}) failures?")
_PHPUNIT_OK: Final = re.compile(r"OK(?:, but .{0,80})? \((\d{1,9}) tests?\b")
_PHPUNIT: Final = re.compile(r"Tests: (\d{1,9}), Assertions: \d{1,9}(.{0,200})")
_CTEST: Final = re.compile(r"\d{1,3}% tests passed, (\d{1,9}) tests? failed out of (\d{1,9})")
_DOTNET: Final = re.compile(
    r"(?:Passed|Failed|Skipped)![ \t]+-[ \t]+Failed:[ \t]{1,20}(\d{1,9}), Passed:[ \t]{1,20}(\d{1,9})"
)
_DOTNET_BUILD: Final = re.compile(r"Test summary: total: \d{1,9}, failed: (\d{1,9}), succeeded: (\d{1,9})")
_SWIFT: Final = re.compile(r"[ \t]*Executed (\d{1,9}) tests?, with (?:\d{1,9} tests? skipped and )?(\d{1,9}) failures?")
_SWIFT_TESTING: Final = re.compile(r".{0,5}Test run with (\d{1,9}) tests? .{0,60}(passed|failed) after")
_GRADLE: Final = re.compile(r"(\d{1,9}) tests? completed(?:, (\d{1,9}) failed)?")
_TAP: Final = re.compile(r"# (pass|fail)[ \t]+(\d{1,9})")
_DENO: Final = re.compile(r"(?:ok|FAILED) \| (\d{1,9}) passed (?:\(.{0,40}\) )?\| (\d{1,9}) failed")
_TOX: Final = re.compile(r"[ \t]+(\S{1,100}): (OK|FAIL)\b.{0,80}\(\d+[.:]\d+.{0,100}")
_NOX: Final = re.compile(r"nox > \* (\S{1,200}): (success|failed)")
_BUILD_FAILURE: Final = re.compile(
    r"error(?:\[E\d+\])?: could not compile|error: could not compile|\[ERROR\] COMPILATION ERROR|\[INFO\] BUILD FAILURE"
    r"|BUILD FAILURE|FAILURE: Build failed|== Compilation error|error: fatalError|\[ERROR\] BUILD FAILURE"
    r"|make(?:\[\d+\])?: \*\*\* \[.{0,200}\] Error \d+"
)
_NAMES: Final = re.compile(
    r"(?:FAILED|ERROR)[ \t]+(\S+::\S+|\S+\.py\b)|test (\S+) \.\.\. FAILED|[ \t]*--- FAIL: (\S+)"
    r"|(?:FAIL|ERROR): (\S+ \(\S{1,300}\))|rspec (\S+:\d+) #|[ \t]*\d+ - (\S+) \((?:Failed|Timeout|Not Run)\)"
    r"|[ \t]+● (.{1,300})|[ \t]*FAIL[ \t]+(\S+\.[cm]?[jt]sx?\b.{0,300})"
    r"|[ \t]+(?:✕|✗|\u00d7) (.{1,300}?)(?: \(?\d+ ?m?s\)?)?$"
    r"|\[ERROR\][ \t]+(\w[\w.$]*[.:]\w+)\b|[ \t]*Failed (\S+) \[|(\S+ > .{1,200}) FAILED$"
    r"|\d+\) (\S+::\S+)$"
)
"""The lines in which runners name a test that failed."""


def read_summary(output: str) -> SuiteSummary | None:
    """What the runners in an output print about their results; None if they print nothing about it."""
    failed = passed = 0
    names: set[str] = set()
    is_seen = False
    is_unittest = False
    n_tests = 0
    for line in output.splitlines()[-MAX_LINES:]:
        text = _ANSI.sub("", line[:MAX_LINE]) if "\x1b" in line else line[:MAX_LINE]
        counts = _counts(text)
        if match := _UNITTEST.match(text):
            is_unittest, n_tests, is_seen = True, int(match[1]), True
            counts = None
        elif is_unittest and (match := _UNITTEST_END.match(text)):
            is_unittest = False
            counts = _unittest_counts(match, n_tests)
        if counts is not None:
            is_seen = True
            failed += counts[0]
            passed += counts[1]
        if len(names) < MAX_NAMES and (match := _NAMES.match(text)):
            names.add(next(name for name in match.groups() if name is not None).strip())
    return SuiteSummary(failed, passed, frozenset(names)) if is_seen else None


def _unittest_counts(match: re.Match[str], n_tests: int) -> tuple[int, int]:
    kinds = {name: int(number) for name, number in re.findall(r"\b(\w{1,40})=(\d{1,9})", match[2] or "")}
    failed = kinds.get("failures", 0) + kinds.get("errors", 0)
    if match[1] == "FAILED":
        failed = max(1, failed)
    return failed, max(0, n_tests - failed - kinds.get("skipped", 0))


def _counts(text: str) -> tuple[int, int] | None:
    """How many tests failed and passed by a line; None if it is none of a summary."""
    for pattern, read in _LINES:
        if match := pattern.match(text):
            return read(match)
    return None


def _by_words(match: re.Match[str]) -> tuple[int, int]:
    counts = [(int(number), word) for number, word in _COUNTS.findall(match[1])]
    return (
        sum(number for number, word in counts if word in _FAILING),
        sum(number for number, word in counts if word in _PASSING),
    )


def _maven_counts(match: re.Match[str]) -> tuple[int, int]:
    """Those of all classes: the line of each class, with its time, would count them twice."""
    if "Time elapsed" in match[5]:
        return 0, 0
    failed = int(match[2]) + int(match[3])
    return failed, int(match[1]) - failed - int(match[4] or 0)


def _phpunit_counts(match: re.Match[str]) -> tuple[int, int]:
    kinds = dict(re.findall(r"(Failures|Errors|Skipped|Incomplete): (\d{1,9})", match[2]))
    failed = int(kinds.get("Failures", 0)) + int(kinds.get("Errors", 0))
    return failed, max(0, int(match[1]) - failed - int(kinds.get("Skipped", 0)) - int(kinds.get("Incomplete", 0)))


def _of_total(total: int, failed: int) -> tuple[int, int]:
    return failed, max(0, total - failed)


def _word(failing: str, number: int, word: int) -> Callable[[re.Match[str]], tuple[int, int]]:
    """The counts of a line with one number, by its word."""
    return lambda match: (int(match[number]), 0) if match[word] == failing else (0, int(match[number]))


_LINES: Final[Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[int, int]]]]] = (
    (_PYTEST, _by_words),
    (_NO_TESTS, lambda _: (0, 0)),
    (_CARGO, lambda match: (int(match[2]), int(match[1]))),
    (_NEXTEST, _by_words),
    (_GO, lambda match: (int(match[1] == "FAIL"), int(match[1] == "ok" and "no tests to run" not in match[4]))),
    (_JEST, _by_words),
    (_MOCHA, _word("failing", 1, 2)),
    (_BUN, _word("fail", 1, 2)),
    (_MAVEN, _maven_counts),
    (_RSPEC, lambda match: _of_total(int(match[1]), int(match[2]))),
    (_PHPUNIT_OK, lambda match: (0, int(match[1]))),
    (_PHPUNIT, _phpunit_counts),
    (_CTEST, lambda match: _of_total(int(match[2]), int(match[1]))),
    (_DOTNET, lambda match: (int(match[1]), int(match[2]))),
    (_DOTNET_BUILD, lambda match: (int(match[1]), int(match[2]))),
    (_SWIFT, lambda match: _of_total(int(match[1]), int(match[2]))),
    (_SWIFT_TESTING, _word("failed", 1, 2)),
    (_GRADLE, lambda match: _of_total(int(match[1]), int(match[2] or 0))),
    (_TAP, _word("fail", 2, 1)),
    (_DENO, lambda match: (int(match[2]), int(match[1]))),
    (_TOX, lambda match: (int(match[2] == "FAIL"), int(match[2] == "OK"))),
    (_NOX, lambda match: (int(match[2] == "failed"), int(match[2] == "success"))),
    (_BUILD_FAILURE, lambda _: (1, 0)),
)
"""The lines of summaries, and how each is read. The first that matches counts."""

_MISSING: Final = re.compile(
    r"command not found|: not found$|No module named '?(?:pytest|unittest|nose2?|tox|nox|coverage)\b"
    r"|is not recognized as an internal|[Mm]issing script: \"?t|No rule to make target [`'\"]?(?:test|check)"
    r"|no such (?:sub)?command|could not determine executable to run|[Cc]ommand \"\S{1,50}\" not found"
    r"|could not find `Cargo\.toml`"
    r"|go\.mod file not found|cannot find main module|No such file or directory: '?\S*test\b"
    r"|Could not read package\.json|No makefile found|there is no POM in this directory|executable file not found"
    r"|does not contain a Gradle build|No test suite found|ERR_PNPM_NO_SCRIPT|Script not found \"test"
    r"|Could not find an option named|ImportError while loading conftest|file or directory not found:"
)


_UNPREPARED: Final = re.compile(r"settings are not configured")
_NO_MODULE: Final = re.compile(r"No module named|Cannot find module|Cannot find package|cannot load such file")


def is_missing_runner(output: str) -> bool:
    """Whether an output shows that the runner, its script, its target or its files are not there."""
    return _has_line(_MISSING, output)


def is_unprepared(output: str, summary: SuiteSummary) -> bool:
    """Whether tests failed for want of settings, or, where none passed, of a module."""
    return _has_line(_UNPREPARED, output) or (not summary.passed and _has_line(_NO_MODULE, output))


def _has_line(pattern: re.Pattern[str], output: str) -> bool:
    return any(pattern.search(line[:MAX_LINE]) for line in output.splitlines()[:MAX_LINES])
