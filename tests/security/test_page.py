"""docs/security.md promises nothing that no test holds."""

import ast
import re
from functools import cache

import pytest

from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = [re.split(r" \| ", line.strip("| "))[:3] for line in PAGE.splitlines() if line.startswith("| ")][2:]
NAMED = sorted({name for row in ROWS for name in re.findall(r"`(tests/[\w/]+\.py::\w+)`", row[-1])})


@cache
def functions_of(file: str) -> frozenset[str]:
    """The tests of a file: functions of their own, as all here are."""
    body = ast.parse((ROOT / file).read_text()).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


@pytest.mark.parametrize("name", NAMED)
def test_every_test_that_the_table_names_is_there(name: str) -> None:
    file, _, test = name.partition("::")
    assert test in functions_of(file)


def test_every_threat_has_what_is_done_and_a_test() -> None:
    assert len(ROWS) > 30
    for row in ROWS:
        threat, done, held = row
        assert threat
        assert done
        assert re.fullmatch(r"`tests/[\w/]+\.py::\w+`(, `tests/[\w/]+\.py::\w+`)*", held), row


def test_every_file_of_tests_of_security_is_in_the_table() -> None:
    files = {f"tests/security/{path.name}" for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert files <= {name.partition("::")[0] for name in NAMED}


def test_the_page_says_that_the_bash_tool_is_no_sandbox() -> None:
    """What somebody must know before she gives it to an agent stands where she looks for it, and in its own words."""
    from boolab.runtime.tools.bash import bash_tool

    for text in (PAGE, bash_tool.__doc__ or ""):
        assert "It is no sandbox" in text
        assert "container" in text
