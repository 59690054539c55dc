"""Evidence from test commands: the truth table of the specification, and cases of ours."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from boolab.core.types import Event
from boolab.io.safe_regex import compile_pattern
from boolab.logs.outcomes.evidence import Evidence
from boolab.logs.outcomes.tests import evidence_of_tests
from tests.support.evidence_runs import EDIT, Shell, Tool, make_run

PASSED = "===== 12 passed in 0.31s ====="
FAILED = "FAILED tests/t.py::test_a - x\n=== 1 failed, 11 passed in 0.31s ==="
FAILED_OTHER = FAILED.replace("test_a", "test_b")


def evidence(*calls: Shell | Tool, patterns: Sequence[str] = (), source: str = "mini_swe_agent") -> Evidence:
    compiled = [compile_pattern(pattern) for pattern in patterns]
    return evidence_of_tests(make_run(*calls, source=source), compiled, by_turn=False)[None]


SPECIFICATION: list[tuple[str, list[Shell | Tool], str]] = [
    ("passes", [EDIT, Shell("pytest -q", "12 passed in 0.31s", 0)], "success"),
    ("fails", [EDIT, Shell("pytest", FAILED, 1)], "failure"),
    ("piped into tail, exit 0, fails", [EDIT, Shell("pytest 2>&1 | tail -5", FAILED, 0)], "failure"),
    ("piped, summary cut off, exit 0", [EDIT, Shell("just build; pytest | head -3", "....\n", 0)], "unknown"),
    ("or true", [EDIT, Shell("pytest || true", "", 0)], "unknown"),
    ("then echo", [EDIT, Shell("pytest; echo done", "done", 0)], "unknown"),
    ("pipefail", [EDIT, Shell("set -o pipefail && pytest | tee log", "..", 1)], "failure"),
    ("cd and uv run", [EDIT, Shell("cd pkg && uv run pytest -x", PASSED, 0)], "success"),
    ("environment and timeout", [EDIT, Shell("CI=1 timeout 60 python -m pytest", PASSED)], "success"),
    ("words of a list", [EDIT, Shell(["bash", "-lc", "pytest -q"], PASSED, 0)], "success"),
    ("no tests ran", [EDIT, Shell("pytest -k x", "collected 0 items\n\nno tests ran in 0.01s", 5)], "unknown"),
    ("all deselected", [EDIT, Shell("pytest -k x", "=== 5 deselected in 0.1s ===", 5)], "unknown"),
    ("all skipped", [EDIT, Shell("pytest", "=== 5 skipped in 0.1s ===", 0)], "unknown"),
    ("collection error", [EDIT, Shell("pytest", "ERROR tests/a.py\n=== 1 error in 0.12s ===", 2)], "failure"),
    ("collect only", [EDIT, Shell("pytest --collect-only", "12 tests collected in 0.1s", 0)], "unknown"),
    ("grep for pytest", [EDIT, Shell("grep -rn pytest . | head", "a: pytest 12 passed in 0.3s", 0)], "unknown"),
    ("message of a commit", [EDIT, Shell("git commit -m 'fix; pytest passes'", "[main 1a2b3c4] fix", 0)], "unknown"),
    ("echo of a summary", [EDIT, Shell("echo '=== 12 passed in 0.3s ==='", PASSED, 0)], "unknown"),
    ("here-document with a script", [EDIT, Shell("cat > run.sh <<'EOF'\npytest\nEOF", "", 0)], "unknown"),
    ("edit after the last test", [EDIT, Shell("pytest", PASSED, 0), EDIT], "unknown"),
    ("red, edit, green", [EDIT, Shell("pytest", FAILED, 1), EDIT, Shell("pytest", PASSED, 0)], "success"),
    ("green, edit, red", [EDIT, Shell("pytest", PASSED, 0), EDIT, Shell("pytest", FAILED, 1)], "failure"),
    ("failed before, the same", [Shell("pytest", FAILED, 1), EDIT, Shell("pytest", FAILED, 1)], "unknown"),
    ("failed before, now another", [Shell("pytest", FAILED, 1), EDIT, Shell("pytest", FAILED_OTHER, 1)], "failure"),
    ("killed", [EDIT, Shell("pytest", "....", 137)], "unknown"),
    ("in the background", [EDIT, Shell("pytest &", "[1] 4242", 0)], "unknown"),
    (
        "cargo, several crates",
        [EDIT, Shell("cargo test", "test result: ok. 3 passed; 0 failed; 0 ignored\n" * 2, 0)],
        "success",
    ),
    (
        "cargo, first crate fails",
        [
            EDIT,
            Shell(
                "cargo test --no-fail-fast 2>&1 | tail -40",
                "test result: FAILED. 3 passed; 1 failed\ntest result: ok. 5 passed; 0 failed",
                0,
            ),
        ],
        "failure",
    ),
    ("cargo does not compile", [EDIT, Shell("cargo test", "error: could not compile `x` (lib test)", 101)], "failure"),
    ("cargo --no-run", [EDIT, Shell("cargo test --no-run", "Finished", 0)], "unknown"),
    ("go, one package", [EDIT, Shell("go test ./...", "ok  \tm/a\t0.01s\nFAIL\tm/b\t0.02s\nFAIL", 1)], "failure"),
    ("go, no test files", [EDIT, Shell("go test ./...", "?   \tm/a\t[no test files]", 0)], "unknown"),
    ("go, cached", [EDIT, Shell("go test ./...", "ok  \tm/a\t(cached)", 0)], "success"),
    (
        "jest in colours",
        [EDIT, Shell("npm test", "\x1b[1mTests:\x1b[0m       \x1b[31m1 failed\x1b[0m, 4 passed, 5 total", 1)],
        "failure",
    ),
    ("npm test, exit code alone", [EDIT, Shell("npm test", "> node run.js", 0)], "success"),
    ("npm run build", [EDIT, Shell("npm run build", "ok", 0)], "unknown"),
    ("make test", [EDIT, Shell("make test", "make: *** [test] Error 1", 2)], "failure"),
    ("unittest", [EDIT, Shell("python -m unittest", "Ran 4 tests in 0.1s\n\nOK", 0)], "success"),
    (
        "unittest fails, piped",
        [EDIT, Shell("python3 -m unittest 2>&1 | tail", "Ran 4 tests in 0.1s\n\nFAILED (failures=1)", 0)],
        "failure",
    ),
    ("maven", [EDIT, Shell("mvn -q test", "Tests run: 3, Failures: 1, Errors: 0\nBUILD FAILURE", 1)], "failure"),
    (
        "two runners, first fails",
        [EDIT, Shell("pytest a; npm test", FAILED + "\nTests:  4 passed, 4 total", 0)],
        "failure",
    ),
    ("expected failures", [EDIT, Shell("pytest", "=== 3 passed, 1 xfailed in 0.2s ===", 0)], "success"),
    ("no runner", [EDIT, Shell("pytest -q tests/a.py", "bash: line 1: pytest: command not found", 127)], "unknown"),
    (
        "no module",
        [EDIT, Shell("python -m pytest tests", "/opt/env/bin/python: No module named pytest", 1)],
        "unknown",
    ),
    ("no script", [EDIT, Shell("npm test", 'npm error missing script: "test"', 1)], "unknown"),
    ("no target", [EDIT, Shell("make test", "make: *** No rule to make target 'test'.  Stop.", 2)], "unknown"),
    ("dots only", [EDIT, Shell("pytest -q a.py -q", "....  [100%]", 0)], "success"),
    ("no command", [EDIT], "unknown"),
]
"""The 48 cases of the specification's table: name, calls, outcome."""


@pytest.mark.parametrize(("calls", "outcome"), [case[1:] for case in SPECIFICATION], ids=[c[0] for c in SPECIFICATION])
def test_table_of_the_specification(calls: list[Shell | Tool], outcome: str) -> None:
    assert evidence(*calls).outcome == outcome


def test_table_has_48_cases() -> None:
    assert len({case[0] for case in SPECIFICATION}) == 48


OWN: list[tuple[str, list[Shell | Tool], str]] = [
    ("docker exec", [EDIT, Shell("docker exec -it -w /app web bash -c 'pytest -q'", PASSED, 0)], "success"),
    ("compose run", [EDIT, Shell("docker compose run --rm -e A=1 web pytest", FAILED, 1)], "failure"),
    ("path in a virtual environment", [EDIT, Shell(".venv/bin/python -W error -m pytest", PASSED, 0)], "success"),
    ("coverage run", [EDIT, Shell("python -m coverage run -m pytest", PASSED, 0)], "success"),
    ("sudo and nice", [EDIT, Shell("sudo -u app nice -n 5 ./node_modules/.bin/jest", "Tests: 2 passed", 0)], "success"),
    ("set -e", [EDIT, Shell("set -e\ncd a\nnpm test\necho done", "done", 0)], "success"),
    ("or exit 1", [EDIT, Shell("npm test || exit 1", "", 1)], "failure"),
    ("build before, exit 1", [EDIT, Shell("npm run build && npm test", "", 1)], "unknown"),
    ("build before, exit 0", [EDIT, Shell("npm run build && npm test", "", 0)], "success"),
    ("in a condition", [EDIT, Shell("if npm test; then echo good; fi", "good", 0)], "unknown"),
    ("in a loop", [EDIT, Shell("for d in a b; do (cd $d && npm test); done", "", 0)], "unknown"),
    ("after or", [EDIT, Shell("true || npm test", "", 0)], "unknown"),
    ("negated", [EDIT, Shell("! npm test", "", 0)], "unknown"),
    ("commented out", [EDIT, Shell("ls # && pytest", PASSED, 0)], "unknown"),
    ("in a substitution", [EDIT, Shell("echo $(npm test)", "x", 0)], "unknown"),
    ("output to a file", [EDIT, Shell("npm test > out/log.txt 2>&1", "", 0)], "success"),
    ("tee is no change", [EDIT, Shell("pytest | tee log.txt | tail -3", PASSED, 0)], "success"),
    ("sed before the test", [Shell("sed -i s/a/b/ a.py && pytest", PASSED, 0)], "success"),
    ("sed after the test", [EDIT, Shell("pytest && sed -i s/a/b/ a.py", PASSED, 0)], "unknown"),
    (
        "git checkout of a file after it",
        [EDIT, Shell("pytest", PASSED, 0), Shell("git checkout a.py", "", 0)],
        "unknown",
    ),
    ("commit after it", [EDIT, Shell("pytest", PASSED, 0), Shell("git add -A && git commit -m x", "", 0)], "success"),
    ("branch after it", [EDIT, Shell("pytest", PASSED, 0), Shell("git checkout -b topic", "", 0)], "success"),
    ("file in /tmp after it", [EDIT, Shell("pytest", PASSED, 0), Shell("echo a > /tmp/x", "", 0)], "success"),
    (
        "own file removed after it",
        [EDIT, Shell("echo 1 > try.py", "", 0), Shell("pytest", PASSED, 0), Shell("rm -f try.py", "", 0)],
        "success",
    ),
    ("file removed after it", [EDIT, Shell("pytest", PASSED, 0), Shell("rm -f src/b.py", "", 0)], "unknown"),
    ("list of tasks after it", [EDIT, Shell("pytest", PASSED, 0), Tool("TodoWrite", {"todos": []})], "success"),
    ("failed edit after it", [EDIT, Shell("pytest", PASSED, 0), EDIT._replace(is_error=True)], "success"),
    (
        "script that writes after it",
        [EDIT, Shell("pytest", PASSED, 0), Shell("python - <<'E'\nopen('a.py', 'w').write(s)\nE", "", 0)],
        "unknown",
    ),
    (
        "own script in /tmp that writes, after it",
        [
            EDIT,
            Shell("cat > /tmp/w.py <<'E'\nPath('a.py').write_text(s)\nE", "", 0),
            Shell("pytest", PASSED, 0),
            Shell("python /tmp/w.py", "", 0),
        ],
        "unknown",
    ),
    (
        "module that tests need is missing",
        [EDIT, Shell("pytest", "E   ModuleNotFoundError: No module named 'pygments'\n1 error in 0.6s", 2)],
        "unknown",
    ),
    (
        "Django without settings",
        [
            EDIT,
            Shell(
                "python -m unittest t",
                "ImproperlyConfigured: settings are not configured.\nRan 5 tests in 0.2s\n\nFAILED (errors=2)",
                1,
            ),
        ],
        "unknown",
    ),
    (
        "patch after it",
        [EDIT, Shell("pytest", PASSED, 0), Tool("apply_patch", {"input": "*** Update File: a\n+b"})],
        "unknown",
    ),
    ("no change, green", [Shell("pytest", PASSED, 0)], "success"),
    ("no change, red", [Shell("npm test", "", 1)], "unknown"),
    (
        "other number of failures than before",
        [Shell("npm test", "Tests: 1 failed", 1), EDIT, Shell("npm test", "Tests: 3 failed", 1)],
        "failure",
    ),
    (
        "as many failures as before",
        [Shell("npm test", "Tests: 3 failed", 1), EDIT, Shell("npm test", "Tests: 3 failed", 1)],
        "unknown",
    ),
    (
        "coverage too low after all passed",
        [EDIT, Shell("pytest --cov", PASSED + "\nFAIL Required coverage", 1)],
        "success",
    ),
    (
        "timed out after some crates",
        [EDIT, Shell("timeout 9 cargo test", "test result: ok. 3 passed; 0 failed", 124)],
        "unknown",
    ),
    ("called wrongly", [EDIT, Shell("pytest --nope", "error: unrecognized arguments: --nope", 4)], "unknown"),
    ("no such file of tests", [EDIT, Shell("pytest t.py", "ERROR: file or directory not found: t.py", 4)], "unknown"),
    (
        "nextest",
        [EDIT, Shell("cargo nextest run", "     Summary [   0.01s] 5 tests run: 4 passed, 1 failed, 0 skipped", 100)],
        "failure",
    ),
    ("vitest", [EDIT, Shell("pnpm vitest run", " Test Files  1 passed (1)\n      Tests  4 passed (4)", 0)], "success"),
    ("mocha", [EDIT, Shell("npx mocha", "  3 passing (8ms)\n  1 failing", 1)], "failure"),
    ("bun", [EDIT, Shell("bun test", " 3 pass\n 0 fail", 0)], "success"),
    ("ctest", [EDIT, Shell("ctest --test-dir build", "67% tests passed, 1 tests failed out of 3", 8)], "failure"),
    (
        "gradle",
        [EDIT, Shell("./gradlew :core:test", "12 tests completed, 1 failed\nFAILURE: Build failed", 1)],
        "failure",
    ),
    ("dotnet", [EDIT, Shell("dotnet test", "Passed!  - Failed:     0, Passed:    12, Skipped:     0", 0)], "success"),
    ("swift", [EDIT, Shell("swift test", "\t Executed 3 tests, with 0 failures (0 unexpected) in 0.1", 0)], "success"),
    ("mix", [EDIT, Shell("mix test", "1 doctest, 3 tests, 1 failure", 2)], "failure"),
    ("rspec", [EDIT, Shell("bundle exec rspec", "5 examples, 0 failures", 0)], "success"),
    ("phpunit", [EDIT, Shell("vendor/bin/phpunit", "OK (3 tests, 9 assertions)", 0)], "success"),
    ("phpunit fails", [EDIT, Shell("vendor/bin/phpunit", "Tests: 3, Assertions: 9, Failures: 1.", 1)], "failure"),
    ("tox", [EDIT, Shell("tox -e py311", "  py311: OK (3.02=setup[1.0]+cmd[2.0] seconds)", 0)], "success"),
    ("nox", [EDIT, Shell("nox -s tests", "nox > * tests-3.11: failed", 1)], "failure"),
    ("make check-format", [EDIT, Shell("make check-format", "ok", 0)], "unknown"),
    ("mvn -DskipTests", [EDIT, Shell("mvn -DskipTests verify", "BUILD SUCCESS", 0)], "unknown"),
    ("go test -c", [EDIT, Shell("go test -c ./a", "", 0)], "unknown"),
    ("yarn workspace", [EDIT, Shell("yarn workspace web test:unit", "Tests: 3 passed, 3 total", 0)], "success"),
    ("which pytest", [EDIT, Shell("which pytest", "/usr/bin/pytest", 0)], "unknown"),
    ("pip install pytest", [EDIT, Shell("pip install pytest", "ok", 0)], "unknown"),
    ("cat of a log", [EDIT, Shell("cat pytest.log", PASSED, 0)], "unknown"),
]


@pytest.mark.parametrize(("calls", "outcome"), [case[1:] for case in OWN], ids=[case[0] for case in OWN])
def test_cases_of_ours(calls: list[Shell | Tool], outcome: str) -> None:
    assert evidence(*calls).outcome == outcome


def test_pattern_makes_a_command_a_test() -> None:
    calls = (EDIT, Shell("cd a && ./run-suite --all", "", 0))
    assert evidence(*calls).outcome == "unknown"
    assert evidence(*calls, patterns=[r"^\./run-suite\b"]).outcome == "success"


def test_format_without_exit_codes_needs_a_summary() -> None:
    call = Tool("run_shell_command", {"command": "npm test"}, "ran", is_error=False)
    assert evidence(EDIT, call, source="gemini").outcome == "unknown"
    assert evidence(EDIT, call._replace(content=PASSED), source="gemini").outcome == "success"


def test_background_call_of_claude_code_is_unknown() -> None:
    call = Tool("Bash", {"command": "npm test", "run_in_background": True}, "Command running in background with ID: b1")
    assert evidence(EDIT, call, source="claude_code").outcome == "unknown"


def test_rejected_test_command_was_never_run() -> None:
    call = Tool("Bash", {"command": "npm test"}, "The user doesn't want to proceed with this tool use.", is_error=True)
    assert evidence(EDIT, call, source="claude_code").why == "no test command was run"


def test_each_turn_has_its_own_evidence() -> None:
    run = make_run(EDIT, Shell("pytest", FAILED, 1), EDIT, Shell("pytest", PASSED, 0), EDIT, turns=(1, 1, 2, 2, 3))
    outcomes = {turn: found.outcome for turn, found in evidence_of_tests(run, by_turn=True).items()}
    assert outcomes == {1: "failure", 2: "success", 3: "unknown"}


def test_failure_of_the_turn_before_is_known_to_the_next() -> None:
    run = make_run(EDIT, Shell("pytest", FAILED, 1), EDIT, Shell("pytest", FAILED, 1), turns=(1, 1, 2, 2))
    assert evidence_of_tests(run, by_turn=True)[2].why.endswith("the same tests failed before the first change")


def test_subagents_edit_after_the_last_test_counts() -> None:
    parent = make_run(EDIT, Shell("pytest", PASSED, 0), Tool("Task", {"prompt": "x"}))
    child = make_run(EDIT)
    child = replace(child, run_id="child", parent_run_id="r")
    event = Event(None, "subagent", {"run_id": "child", "after_step": 3})
    parent = replace(parent, subagents=(child,), events=(event,))
    assert evidence_of_tests(parent, by_turn=False)[None].outcome == "unknown"


def test_evidence_names_command_step_counts_and_time() -> None:
    found = evidence(EDIT, Shell("cd a && pytest -q | tail", FAILED, 0))
    assert found.source == "tests"
    assert found.why == "1 test failed, 11 passed in the last test command, after the last change of a file"
    assert found.detail == {"command": "pytest -q", "step": 2, "failed": 1, "passed": 11}
    assert found.at == datetime(2026, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 50_000,
        "`" * 100_001,
        "'" * 99_999,
        "a=1 " * 50_000,
        "do " * 60_000,
        "<<A\n" * 40_000,
        " > open(" * 20_000,
    ],
)
def test_long_hostile_command_is_read_in_time(text: str) -> None:
    assert evidence(EDIT, Shell(text + "pytest", "x" * 100_000, 0)).outcome in ("success", "unknown")
