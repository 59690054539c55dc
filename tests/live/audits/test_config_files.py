"""The limits in configuration files: each harness's own, found from the logs; hostile files stop nothing."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.errors import ConfigFileError
from boolab.io.json_edit import with_json
from boolab.live.audits.declared import limits_near, read_limits
from boolab.live.hooks.settings import with_hook
from tests.support.report_cases import write_sessions

AGENT = "---\nname: {}\ndescription: Use it when: a task (any: task) is long\n{}\n---\nYou look.\n"


def written(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def hook(options: str) -> str:
    """The settings that `boolab hook --install` makes."""
    return with_hook("", f"/usr/bin/python3 -P -m boolab hook claude-code {options}")


def limits(path: Path) -> list[tuple[str, float, str | None, str]]:
    return [(one.name, one.value, one.agent, one.source) for one in read_limits(path)]


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        (".claude/agents/a.md", AGENT.format("x", "maxTurns: 10  # few"), [("maxTurns", 10, "x", "claude_code")]),
        (".claude/agents/plan.md", "---\nmaxTurns: '7'\n---\n", [("maxTurns", 7, "plan", "claude_code")]),
        (".claude/agents/a.md", AGENT.format("x", "maxTurns: many"), []),
        (".claude/settings.local.json", '{"env": {"CLAUDE_CODE_MAX_TURNS": "3"}}',
         [("CLAUDE_CODE_MAX_TURNS", 3, None, "claude_code")]),
        (".claude/settings.json", hook("--max-steps 9 --doom-loop 5 --exempt Wait --scope run"),
         [("max_steps", 9, "*", "claude_code"), ("doom_loop", 5, "*", "claude_code")]),
        (".claude/settings.json", hook("--max-steps 9 --shadow"), []),
        (".claude/settings.json", hook("--max-steps 9 --nudge"), []),
        (".claude/settings.json", hook("--max-steps 9").replace("{", '{"disableAllHooks": true, ', 1), []),
        (".claude/settings.json", hook("--max-steps nine"), []),
        (".claude/settings.json", '{"hooks": 3, "env": {"CLAUDE_CODE_MAX_TURNS": "3"}}',
         [("CLAUDE_CODE_MAX_TURNS", 3, None, "claude_code")]),
        (".opencode/agent/a.md", AGENT.format("build", "steps: 5"), [("steps", 5, "build", "opencode")]),
        (".gemini/agents/a.md", AGENT.format("aud", "max_turns: 9\ntimeout_mins: 3"),
         [("max_turns", 9, "aud", "gemini"), ("timeout_mins", 3, "aud", "gemini")]),
        ("opencode.jsonc", '{ // ours\n "agent": {"build": {"steps": 5, /* old */ "maxSteps": 6,},},\n}',
         [("steps", 5, "build", "opencode"), ("maxSteps", 6, "build", "opencode")]),
        ("opencode.json", '\ufeff{"agent": {"\\ud83d": {"steps": 5}}}', [("steps", 5, "?", "opencode")]),
        ("opencode.json", '{"mode": {"plan": {"maxSteps": 6, "prompt": "see // here, }"}}}',
         [("maxSteps", 6, "plan", "opencode")]),
        (".gemini/settings.json",
         '{"agents": {"overrides": {"x": {"runConfig": {"maxTurns": 9, "maxTimeMinutes": 5}}}}}',
         [("maxTurns", 9, "x", "gemini"), ("maxTimeMinutes", 5, "x", "gemini")]),
        (".gemini/settings.json", '{"model": {"maxSessionTurns": 40}}', [("maxSessionTurns", 40, None, "gemini")]),
        (".gemini/settings.json", '{"model": {"maxSessionTurns": -1}}', []),
        (".codex/config.toml", "[features.rollout_budget]\nenabled = true\nlimit_tokens = 5000\n",
         [("features.rollout_budget.limit_tokens", 5000, None, "codex")]),
        (".codex/config.toml", "[features.rollout_budget]\nenabled = false\nlimit_tokens = 5000\n", []),
        ("config.toml", "[core]\nmax_iterations = 30\nmax_budget_per_task = 0.5\n",
         [("max_iterations", 30, None, "openhands"), ("max_budget_per_task", 0.5, None, "openhands")]),
        ("mini.yaml", "agent:\n  step_limit: 50\n  cost_limit: 3.0\n",
         [("step_limit", 50, None, "mini_swe_agent"), ("cost_limit", 3.0, None, "mini_swe_agent")]),
        ("swe.yaml", "agent:\n  model:\n    per_instance_cost_limit: 2\n    per_instance_call_limit: 0\n",
         [("per_instance_cost_limit", 2, None, "swe_agent")]),
    ],
)  # fmt: skip
def test_the_limits_of_a_file(tmp_path: Path, name: str, content: str, found: list[Any]) -> None:
    assert limits(written(tmp_path / name, content)) == found


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("opencode.json", "{oops", "opencode.json:1: expected a key in double quotes"),
        ("opencode.json", "", "expected a JSON value here"),
        ("opencode.json", '{"agent": {"build": {"steps": 5}},\n"share": NaN}', "opencode.json:2: .* not 'N'"),
        ("x.yaml", "a: [", "not valid YAML"),
        ("config.toml", "= 1", "config.toml"),
        ("x.txt", "", "no configuration of a harness"),
        ("deep.toml", "a = " + "[" * 5000, "nested too deeply"),
    ],
)
def test_a_file_that_was_named_and_cannot_be_read_is_an_error(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    with pytest.raises(bl.SettingError, match=said):
        read_limits(written(tmp_path / name, content))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "01", "'x'", "1_000", "9" * 5000])
def test_config_files_are_read_as_strictly_as_they_are_written(value: str, tmp_path: Path) -> None:
    path = written(tmp_path / "opencode.json", f'{{"agent": {{"build": {{"steps": 5}}}}, "share": {value}}}')
    with pytest.raises(ConfigFileError):
        with_json(path.read_text(), ["agent", "build", "steps"], 9)
    with pytest.raises(bl.SettingError, match=r"opencode\.json:1: "):
        read_limits(path)
    assert limits_near([tmp_path], {}) == []


def test_named_file_outside_harness_folders_is_read_as_each_kind(tmp_path: Path) -> None:
    content = '{"env": {"CLAUDE_CODE_MAX_TURNS": "3"}, "model": {"maxSessionTurns": 4}, "mode": {"x": {"steps": 5}}}'
    assert sorted(limits(written(tmp_path / "settings.json", content))) == [
        ("CLAUDE_CODE_MAX_TURNS", 3, None, "claude_code"),
        ("maxSessionTurns", 4, None, "gemini"),
        ("steps", 5, "x", "opencode"),
    ]
    assert limits(written(tmp_path / ".gemini/settings.json", content)) == [("maxSessionTurns", 4, None, "gemini")]


def test_folder_without_limits_and_missing_path_are_errors(tmp_path: Path) -> None:
    with pytest.raises(bl.SettingError, match=r"no limit is declared there; looked for \.claude/agents"):
        read_limits(tmp_path)
    with pytest.raises(bl.SettingError, match="No such file"):
        read_limits(tmp_path / "gone.json")


def test_a_file_is_recognized_from_inside_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / ".claude/settings.json", '{"env": {"CLAUDE_CODE_MAX_TURNS": "3"}}')
    written(tmp_path / ".claude/agents/e.md", AGENT.format("explore", "maxTurns: 10"))
    monkeypatch.chdir(tmp_path / ".claude")
    settings, agent = limits(Path("settings.json")), limits(Path("agents/e.md"))
    assert settings == [("CLAUDE_CODE_MAX_TURNS", 3, None, "claude_code")]
    assert agent == [("maxTurns", 10, "explore", "claude_code")]
    assert sorted(limits(Path())) == sorted([*settings, *agent])
    monkeypatch.chdir("agents")
    assert limits(Path("e.md")) == agent


def test_named_file_without_a_limit_is_in_the_notes(tmp_path: Path) -> None:
    config = written(tmp_path / "opencode.json", "{}")
    logs = session(tmp_path / "logs", tmp_path / "gone", agent_calls=2)
    assert bl.audit(logs, config=config).notes[0] == f"{config}: no limit is declared in it."


def test_comments_that_do_not_end_take_no_time(tmp_path: Path) -> None:
    path = written(tmp_path / "opencode.json", "{" + "/*/" * 200_000 + "," * 200_000)
    start = time.process_time()
    with pytest.raises(bl.SettingError):
        read_limits(path)
    assert time.process_time() - start < 2


def session(folder: Path, cwd: Path, *, agent_calls: int) -> Path:
    """A session of Claude Code in a project, and a subagent `explore` with so many calls."""
    base = {"sessionId": "s", "version": "2.1.0", "cwd": str(cwd), "userType": "external"}
    lines: list[dict[str, Any]] = [
        {**base, "type": "user", "uuid": "u", "isSidechain": False, "timestamp": "2026-11-01T10:00:00Z",
         "message": {"role": "user", "content": "go"}},
        {**base, "type": "assistant", "uuid": "a", "parentUuid": "u", "isSidechain": False,
         "timestamp": "2026-11-01T10:00:01Z", "message": {"id": "m", "role": "assistant", "model": "claude-x",
         "content": [{"type": "text", "text": "Done."}], "usage": {"input_tokens": 9, "output_tokens": 1}}},
    ]  # fmt: skip
    written(folder / "s.jsonl", "\n".join(map(json.dumps, lines)))
    inner = [{**lines[0], "isSidechain": True, "agentId": "x", "uuid": "su"}]
    for n in range(agent_calls):
        use = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"n": n}}
        message = {**lines[1]["message"], "id": f"m{n}", "content": [use]}
        stamp = f"2026-11-01T10:{1 + n // 60:02d}:{n % 60:02d}Z"
        inner.append({**lines[1], "isSidechain": True, "agentId": "x", "uuid": f"sa{n}", "timestamp": stamp,
                      "message": message, "attributionAgent": "explore"})  # fmt: skip
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "text"}
        inner.append({**lines[0], "isSidechain": True, "agentId": "x", "uuid": f"sb{n}", "timestamp": stamp,
                      "message": {"role": "user", "content": [result]}})  # fmt: skip
    written(folder / "s" / "subagents" / "agent-x.jsonl", "\n".join(map(json.dumps, inner)))
    return folder


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("cd x && boolab hook claude-code --max-steps 9", "holds boolab's hook and is not the hook alone"),
        ("timeout 5 boolab  hook claude-code --max-steps 9", "holds boolab's hook and is not the hook alone"),
        ("boolab hook claude-code --max-steps nine", "a hook of boolab that holds no limit"),
        ("boolab hook claude-code --exempt Bash --max-steps 9", "it needs --doom-loop"),
        ("boolab hook claude-code --max-steps 9", ""),
        ("echo hook", ""),
    ],
)
def test_a_command_that_is_not_the_hook_alone_is_named(command: str, note: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    entry = {"hooks": [{"type": "command", "command": command}]}
    settings = written(
        project / ".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [entry], "PostToolUse": [entry]}})
    )
    log = written(
        project / "log.jsonl", '{"role": "user", "content": "go"}\n{"role": "assistant", "content": "Done."}\n'
    )
    for found in (bl.audit(log), bl.audit(log, config=settings)):
        notes = [one for one in found.notes if one.startswith(f"{settings}: a ")]
        assert len(notes) == bool(note)
        assert all(note in one for one in notes)


def test_hook_limits_hold_per_agent_with_one_more_response(tmp_path: Path) -> None:
    project = tmp_path / "project"
    settings = written(project / ".claude/settings.json", hook("--tool-budget 4 --error-streak 3"))
    written(project / ".claude/settings.local.json", hook("--tool-budget 9"))
    logs = session(tmp_path / "logs", project, agent_calls=6)
    found = bl.audit(logs)
    (row,) = found.exceeded.to_dict("records")
    assert (row["limit"], row["declared"], row["counted"], row["first_step_beyond"]) == ("tool_budget", 4, 6, 5)
    assert (row["agent"], row["where"]) == ("explore", str(settings))
    assert sorted(found.frame["limit"]) == ["error_streak"] * 2 + ["tool_budget"] * 4  # of two files, and two agents

    log = logs / "s" / "subagents" / "agent-x.jsonl"
    lines = log.read_text().splitlines()
    refused = json.loads(lines[10])  # the fifth call is denied, and the hook ends the agent
    refused["message"]["content"][0] |= {"content": "boolab: Stopped after step 4 by tool_budget(4).", "is_error": True}
    log.write_text("\n".join([*lines[:10], json.dumps(refused)]))
    stopped = bl.audit(logs).frame.query("agent == 'explore' and limit == 'tool_budget' and declared == 4")
    assert stopped["verdict"].tolist() == ["hit"]


def test_agent_files_are_found_from_the_folder_of_the_session(tmp_path: Path) -> None:
    project = tmp_path / "project"
    agents = written(project / ".claude" / "agents" / "e.md", AGENT.format("explore", "maxTurns: 10"))
    logs = session(tmp_path / "logs", project / "src", agent_calls=72)
    (project / "src").mkdir()
    found = bl.audit(logs)
    (row,) = found.exceeded.to_dict("records")
    assert (row["agent"], row["declared"], row["counted"], row["first_step_beyond"]) == ("explore", 10, 72, 11)
    assert row["where"] == f"{agents}:4"
    assert "changed after the run" in row["note"]
    assert found.sentences[0].endswith("72 model responses under maxTurns 10, by the agent explore.")


def test_agent_files_are_found_above_the_logs_and_by_name(tmp_path: Path) -> None:
    logs = session(tmp_path / ".claude" / "projects" / "p", tmp_path / "gone", agent_calls=5)
    written(tmp_path / ".claude" / "agents" / "e.md", AGENT.format("explore", "maxTurns: 4"))
    assert bl.audit(logs).exceeded["declared"].tolist() == [4]
    named = written(tmp_path / "mine.md", AGENT.format("explore", "maxTurns: 20"))
    assert bl.audit(logs, config=named)["verdict"].tolist() == ["never near"]
    assert bl.audit(logs, {"explore": {"max_turns": 3}})["declared"].tolist() == [3]


def test_unreadable_files_that_were_not_named_are_left_out(tmp_path: Path) -> None:
    written(tmp_path / "opencode.json", "{oops")
    written(tmp_path / ".claude" / "agents" / "broken.md", "---\nname: \x00\n")
    (tmp_path / ".claude" / "agents" / "loop.md").symlink_to("loop.md")
    write_sessions(tmp_path)
    assert bl.audit(tmp_path).sentences[0] == "No limit was declared for these 3 runs."
