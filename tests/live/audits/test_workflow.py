"""The workflow of docs/howto/audit_in_ci.md: its step fails where a limit was exceeded, and leaves a summary."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from boolab.cli.main import COMMANDS, parser_of
from boolab.live.audits.verdicts import VERDICTS
from tests.support.project import ROOT

PAGE: Final = (ROOT / "docs" / "howto" / "audit_in_ci.md").read_text(encoding="utf-8")
FILES: Final = dict(re.findall(r"<!-- file: (.*?) -->\n```\w+\n(.*?)\n```", PAGE, re.DOTALL))


def step() -> str:
    """The script of the workflow's last step."""
    workflow = yaml.safe_load(FILES[".github/workflows/audit.yml"])
    return str(workflow["jobs"]["audit"]["steps"][-1]["run"])


def test_the_commands_of_the_workflow_are_understood() -> None:
    commands = re.findall(r"^(boolab .*?)(?: >| \|\||$)", step(), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert parser_of(*COMMANDS).parse_args(shlex.split(command)[1:]).run is not None


def test_the_page_has_the_verdicts_and_their_meanings() -> None:
    shown = dict(re.findall(r"^\| `([a-z ]+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert shown == VERDICTS


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "code"), [(2, 3), (4, 0)])
def test_the_step_fails_where_a_limit_was_exceeded(tmp_path: Path, limit: int, code: int) -> None:
    for name in (".claude/agents/explore.md", "logs/s1.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(FILES[name].replace("maxTurns: 2", f"maxTurns: {limit}"))
    program = tmp_path / "bin" / "boolab"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m boolab "$@"\n')
    program.chmod(0o755)
    settings = {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    # GitHub runs steps with `bash -e`.
    shell = shutil.which("bash")
    assert shell is not None
    done = subprocess.run([shell, "-e", "-c", step()], cwd=tmp_path, env=settings, timeout=60, check=False)
    assert done.returncode == code
    assert json.loads((tmp_path / "audit.json").read_text())["exceeded"] == (code == 3)
    assert ("went beyond a limit" in (tmp_path / "summary.md").read_text()) == (code == 3)
