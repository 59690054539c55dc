"""Exports written into files: the limits are set, the format stays, and what is not understood is refused."""

import os
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from boolab.cli.main import main
from boolab.errors import ConfigFileError, FileError, SettingError
from boolab.harnesses.agent_edit import read_agents
from boolab.harnesses.exports.export import export
from boolab.harnesses.exports.values import Limits
from boolab.harnesses.exports.write import plan_files, replace_files
from boolab.harnesses.registry import TARGETS
from boolab.io.json_edit import read_json

STEPS = Limits(max_steps=20, doom_loop=3)


def setting(text: str, *at: str) -> Any:
    value = read_json(text)
    for key in at:
        value = value[key]
    return value


@pytest.mark.parametrize(
    ("target", "path", "at"),
    [
        ("opencode", "opencode.json", ("agent", "build", "steps")),
        ("gemini-cli", ".gemini/settings.json", ("model", "maxSessionTurns")),
    ],
)
def test_a_settings_file_keeps_its_format(target: str, path: str, at: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    before = '\ufeff{\r\n\t// mine\r\n\t"theme": "dark", /* yes */\r\n}\r\n'
    file.write_bytes(before.encode())
    made = export(target, STEPS)
    diff = made.write(root=tmp_path)
    after = file.read_bytes().decode()
    assert setting(after, *at) == 20
    assert after.startswith('\ufeff{\r\n\t// mine\r\n\t"theme": "dark", /* yes */\r\n')
    assert "\n" not in after.replace("\r\n", "")
    assert '+\t"' in diff
    assert made.write(root=tmp_path) == ""
    assert file.read_bytes().decode() == after


def test_a_new_file_is_the_text_that_was_printed(tmp_path: Path) -> None:
    for target in ("opencode", "gemini-cli", "claude-code", "boolab"):
        made = export(target, Limits(max_steps=20, agent="coder"))
        made.write(root=tmp_path)
        for part in made.parts:
            assert part.path is not None
            assert (tmp_path / part.path).read_text() == part.text
            if part.language == "jsonc":
                read_json(part.text)
        assert made.write(root=tmp_path) == "", target  # what was written has what is to be set


def test_a_subagents_file_keeps_all_but_its_limit(tmp_path: Path) -> None:
    file = tmp_path / ".claude" / "agents" / "coder.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: coder\nmax_steps: 9 # not Claude's\ncolor: red\n---\nYou write.\n")
    export("claude-code", Limits(max_steps=20, agent="coder")).write(root=tmp_path)
    assert file.read_text() == (
        "---\nname: coder\nmaxTurns: 20\nmax_steps: 9 # not Claude's\ncolor: red\n---\nYou write.\n"
    )
    export("claude-code", Limits(max_steps=7, agent="coder")).write(root=tmp_path)
    assert read_agents(file.read_text())[0].data["maxTurns"] == 7


def test_toml_keeps_its_comments_and_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b'# mine\r\nmodel = "x"  # one\r\n\r\n[features]\r\nweb = true\r\n')
    made = export("codex", Limits(max_tokens=200_000))
    made.write(file)
    after = file.read_bytes().decode()
    assert after.startswith('# mine\r\nmodel = "x"  # one\r\n\r\n[features]\r\nweb = true\r\n')
    assert tomllib.loads(after)["features"]["rollout_budget"]["limit_tokens"] == 200_000
    assert made.write(file) == ""


@pytest.mark.parametrize(
    ("target", "name", "text", "line", "problem"),
    [
        ("opencode", "opencode.json", '{\n  "agent": []\n}\n', 2, "agent is a list; expected an object"),
        ("opencode", "opencode.json", "{\n  agent: 1\n}\n", 2, "expected a key in double quotes"),
        ("gemini-cli", "settings.json", '{\n  "model": "pro"\n}\n', 2, 'model is "pro"; expected an object'),
        ("codex", "config.toml", "a = 1\n[features\n", 2, "is not TOML"),
        ("codex", "config.toml", 'features = "all"\n', 1, "expected a table"),
        ("boolab", "agents.md", "---\nname: [\n---\n", 2, "YAML"),
        ("boolab", "agents.md", "You look.\n", 1, "holds no agent"),
    ],
)
def test_what_is_not_understood_is_refused_and_stays(
    target: str, name: str, text: str, line: int, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(FileError, match=problem) as refused:
        export(target, Limits(max_steps=20, max_tokens=9)).write(file)
    assert (refused.value.path, refused.value.line) == (str(file), line)
    assert file.read_text() == text


def test_a_file_of_code_or_a_part_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no file has these settings"):
        export("claude-code", Limits(max_steps=20)).write(root=tmp_path)
    with pytest.raises(SettingError, match="with the same ending"):
        export("opencode", STEPS).write(tmp_path / "x.toml")
    (tmp_path / "opencode.json").mkdir()
    with pytest.raises(ConfigFileError, match="cannot be read"):
        export("opencode", STEPS).write(root=tmp_path)


def test_an_agent_is_found_by_the_name_in_its_file(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "broken.md").write_text("---\nname: [\n---\n")
    (folder / "one.md").write_text("---\nname: Deep Explorer\n---\nYou look.\n")
    (folder / "coder.md").write_text("---\nname: writer\n---\nYou write.\n")
    export("claude-code", Limits(max_steps=7, agent="Deep Explorer")).write(root=tmp_path)
    assert read_agents((folder / "one.md").read_text())[0].data["maxTurns"] == 7
    assert sorted(path.name for path in folder.iterdir()) == ["broken.md", "coder.md", "one.md"]
    with pytest.raises(ConfigFileError, match="holds the agent writer, and none is named 'coder'"):
        export("claude-code", Limits(max_steps=7, agent="coder")).write(root=tmp_path)


def test_opencode_jsonc_is_written_where_the_project_has_it(tmp_path: Path) -> None:
    file = tmp_path / "opencode.jsonc"
    file.write_text('{\n  "theme": "dark" // mine\n}\n')
    export("opencode", STEPS).write(root=tmp_path)
    assert setting(file.read_text(), "agent", "build", "steps") == 20
    assert export("opencode", STEPS).diff(file) == ""
    assert not (tmp_path / "opencode.json").exists()


def test_opencode_json_is_written_where_the_project_has_both(tmp_path: Path) -> None:
    for name in ("opencode.json", "opencode.jsonc"):
        (tmp_path / name).write_text("{}\n")
    export("opencode", STEPS).write(root=tmp_path)
    assert setting((tmp_path / "opencode.json").read_text(), "agent", "build", "steps") == 20
    assert (tmp_path / "opencode.jsonc").read_text() == "{}\n"


def test_what_is_not_written_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["--max-steps", "20", "--doom-loop", "3", "--write", str(tmp_path)]
    assert main(["export", "claude-code", "--agent", "coder", *both]) == 0
    shown = capsys.readouterr().out
    assert "+maxTurns: 20" in shown
    assert "boolab hook claude-code --install --doom-loop 3\n" in shown
    assert main(["export", "claude-code", *both]) == 1
    shown, error = capsys.readouterr()
    assert "claude -p --max-turns 20 PROMPT\n" in shown
    assert "no file has these settings" in error


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "options", ["--max-steps 20", "--doom-loop 4 --exempt 'a b'", "--max-tokens 9", "--max-steps 20 --max-cost 2"]
)
def test_where_no_file_has_the_limits_what_is_to_be_typed_runs(
    target: str, options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["export", target, *shlex.split(options), "--write"])
    error = capsys.readouterr().err
    assert code == (0 if list(tmp_path.rglob("*.*")) else 1)
    if code == 0 or "it has --" in error:
        return
    commands = [part.split("type: ")[1].strip() for part in error.split("; ") if "type: " in part]
    assert commands
    for command in commands:
        name, *words = shlex.split(command)
        if name == "claude":
            assert words[0] == "-p"
            continue
        if words[0] == "hook":
            words += ["--yes", "--settings", str(tmp_path / "settings.json")]
        assert main(words) == 0, command
    if "--write" in error:
        assert (tmp_path / ".claude" / "agents" / "coder.md").exists()


def test_a_link_stays_a_link_and_the_diff_names_its_target(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}\n")
    (tmp_path / "opencode.json").symlink_to("real.json")
    diff = export("opencode", STEPS).write(root=tmp_path)
    assert f"+++ {tmp_path / 'opencode.json'} -> {tmp_path / 'real.json'}\n" in diff
    assert (tmp_path / "opencode.json").is_symlink()
    assert setting((tmp_path / "real.json").read_text(), "agent", "build", "steps") == 20


@pytest.mark.parametrize(
    ("link", "target", "said"),
    [
        (".claude/agents/coder.md", "../../../outside/x.md", "outside of"),
        (".claude/agents/coder.md", "../../../outside/none.md", "where there is nothing"),
        (".claude/agents/coder.md", "coder.md", "leads back to itself"),
        (".claude/agents", "../../outside", "outside of"),
        (".claude", ".claude", "leads back to itself"),
        (".claude", "/dev/zero", "outside of|cannot be read"),
    ],
)
def test_a_link_that_leads_out_of_the_project_is_refused(link: str, target: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.md").write_text("---\nname: coder\n---\nYou write.\n")
    project = tmp_path / "project"
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(target)
    with pytest.raises(ConfigFileError, match=said):
        export("claude-code", Limits(max_steps=20, agent="coder")).write(root=project)
    assert (tmp_path / "outside/x.md").read_text() == "---\nname: coder\n---\nYou write.\n"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["x.md"]


def test_a_file_that_changes_before_it_is_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "opencode.json"
    made = export("opencode", STEPS)
    for before in (None, '{\n  "theme": "dark"\n}\n'):
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_text(before)
        files = plan_files(made, root=tmp_path)
        path.write_text("{}")
        with pytest.raises(ConfigFileError, match="has changed since it was read, and nothing was written"):
            replace_files(files)
        assert path.read_text() == "{}"


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "opencode.json"
    path.write_text("{}")
    path.chmod(0o444)
    with pytest.raises(ConfigFileError, match="is read-only: make it writable"):
        export("opencode", STEPS).write(path)
    assert path.read_text() == "{}"


def test_a_table_goes_into_an_inline_table(tmp_path: Path) -> None:
    path = tmp_path / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("features = { web_search = true } # mine\n")
    made = export("codex", Limits(max_tokens=1000))
    made.write(root=tmp_path)
    text = path.read_text()
    assert tomllib.loads(text)["features"]["rollout_budget"]["limit_tokens"] == 1000
    assert text.startswith("features = { web_search = true, ")
    assert text.endswith(" } # mine\n")
    assert made.write(root=tmp_path) == ""


@pytest.mark.parametrize("kind", ["pipe", "folder", "below a file"])
def test_a_path_that_is_no_file_is_a_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "opencode.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "below a file":
        path.write_text("{}")
        path /= "x.json"
    for write in (export("opencode", STEPS).write, export("opencode", STEPS).diff):
        with pytest.raises(ConfigFileError, match="cannot be read"):
            write(tmp_path if kind == "folder" else path)


def test_the_command_shows_the_diff_that_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "opencode.json").write_text("{\n}\n")
    assert main(["export", "opencode", "--max-steps", "20", "--write", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert '+      "steps": 20' in shown.out
    assert "does not stop opencode" in shown.err
    (tmp_path / "opencode.json").write_text("{\n")
    assert main(["export", "opencode", "--max-steps", "20", "--write", str(tmp_path)]) == 1
    assert f"{tmp_path / 'opencode.json'}:2: " in capsys.readouterr().err
