"""The files that the commands of a shell name."""

import json

import pytest

from boolab.core.types import ToolCall
from boolab.stats.cost.files import named_files


@pytest.mark.parametrize(
    ("command", "reads", "uses"),
    [
        ("cat src/app.py", ("src/app.py",), ()),
        ("cat page.test.ts", ("page.test.ts",), ()),
        ("head -n 5 README.md; git diff docs/", ("README.md",), ()),
        ("grep -n x ./src/app.py.", (), ("src/app.py",)),
        ("cat /repo/src/app.py && rm build.log", ("src/app.py",), ("build.log",)),
        ("pip install flask==2.3.1", (), ()),
        ("cat a.b", (), ()),
    ],
)
def test_command_names_files_by_folder_or_suffix(command: str, reads: tuple[str, ...], uses: tuple[str, ...]) -> None:
    call = ToolCall("c1", "Bash", json.dumps({"command": command}))
    assert named_files(call, "/repo") == (reads, uses)
