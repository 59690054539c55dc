"""What an agent has unasked, and what boolab does on its own: it reads, and it asks nobody but the model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.io.resources import data_path
from boolab.runtime.tools.bash import bash_tool
from boolab.runtime.tools.workspace import BUILT_IN, pause_tools, workspace_tools
from tests.support.project import ROOT

HARMLESS = {"list_files", "read_file", "search_text", "ask_user_input", "request_read_access"}


def test_the_tools_that_names_stand_for_only_read_or_ask() -> None:
    specs = {**workspace_tools("."), **pause_tools()}
    assert set(specs) == set(BUILT_IN) == HARMLESS
    assert all(spec.read_only for spec in specs.values())


def test_no_agent_that_comes_with_boolab_names_any_other() -> None:
    agents = [agent for path in sorted(data_path("agents").rglob("*.md")) for agent in bl.load_agents(path).values()]
    assert len(agents) >= 9
    assert {tool for agent in agents for tool in agent.tools} <= HARMLESS


@pytest.mark.parametrize("name", ["bash", "bash_tool", "write_file", "edit", "python", "fetch"])
def test_agent_file_gets_no_tool_that_writes_or_runs(name: str, tmp_path: Path) -> None:
    (tmp_path / "agent.md").write_text(f"---\nname: a\ntools: [read_file, {name}]\n---\nHi\n")
    agent = bl.load_agents(tmp_path / "agent.md")["a"]
    with pytest.raises(bl.SettingError, match=f"lists the tool '{name}', which nothing provides"):
        bl.run_sync(agent, "Go.", model=bl.ScriptedModel(["Done."]), root=tmp_path)


@pytest.mark.parametrize("name", sorted(bl.policies))
def test_no_policy_brings_a_tool(name: str) -> None:
    asked: list[tuple[str, ...]] = []

    class Asked(bl.ScriptedModel):
        async def respond(self, request: object, emit: object = None) -> bl.models.Response:
            asked.append(tuple(tool.name for tool in request.tools))  # type: ignore[attr-defined] # a Request
            return await super().respond(request, emit)  # type: ignore[arg-type] # as above

    bl.run_sync(bl.Agent("a", policy=name), "Go.", model=Asked(["Done.", "Done."]))
    assert asked
    assert {tool for each in asked for tool in each} == set()


def test_run_command_offers_only_tools_that_read_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    calls = [
        {"name": "bash", "arguments": {"command": f"touch {tmp_path}/made"}},
        {"name": "read_file", "arguments": {"path": "../secret.txt"}},
        {"name": "read_file", "arguments": {"path": str(tmp_path / "secret.txt")}},
    ]
    (tmp_path / "script.yaml").write_text(json.dumps({"items": [{"tool_calls": calls}, "Done."]}))
    out = tmp_path / "run.jsonl"
    asked = ["--model", str(tmp_path / "script.yaml"), "--root", str(tmp_path / "work"), "-o", str(out), "--quiet"]
    assert main(["run", "-", "Go.", *asked]) == 0
    (run,) = bl.load_runs(out)
    results = [result for result in run.steps[0].results if result is not None]
    assert [result.is_error for result in results] == [True, True, True]
    assert "There is no tool 'bash'" in results[0].content
    for name in ("list_files", "read_file", "search_text"):
        assert name in results[0].content
    assert "secret" not in "".join(result.content for result in results[1:]).replace("secret.txt", "")
    assert not (tmp_path / "made").exists()


def test_bash_is_not_a_built_in_tool_name(tmp_path: Path) -> None:
    assert bash_tool(tmp_path).name == "bash"
    assert not bash_tool(tmp_path).read_only
    assert "bash" not in BUILT_IN


WATCHED = """
import sys
sys.path.insert(0, {root!r})
seen = []
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind"):
        seen.append((event, str(args)))
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"):
        seen.append((event, str(args)))
sys.addaudithook(watch)
import boolab as bl
for space in (bl, bl.detectors, bl.models, bl.plots, bl.stats):
    for name in dir(space):
        getattr(space, name)
from boolab.cli.main import main
for command in {commands!r}:
    assert main(command) == 0, command
bl.Replay(bl.run_sync(None, "x", model=bl.ScriptedModel(["Done."]))).to_html("page.html")
print([one for one in seen if not one[1].startswith("(['uname'")])
"""


@pytest.mark.slow
def test_commands_open_no_connection_and_start_no_program(tmp_path: Path) -> None:
    logs = str(ROOT / "datasets" / "runs")
    commands = [
        ["doctor"],
        ["demo", "-o", "demo"],
        ["report", logs, "--limit", "1", "--max-steps", "5,none", "-o", "r.html"],
    ]
    code = WATCHED.format(root=str(ROOT), commands=commands)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
