"""Agents and their files."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.harnesses.policy import DEFAULT
from boolab.io.resources import data_path
from boolab.runtime.agents.agent import MAX_FILE_BYTES, AgentFileWarning, policy_of
from tests.support.helpers import TOOLS, call, look, play, steps

TWO = """\
# Our agents

Words that belong to nobody.

---
name: refactorer
description: Changes structure.
tools: [look, write]
model: small
steps: 5
tool_budget: none
doom_loop: 4
identity: canonical
exempt: [poll, wait]
policy: naive
temperature: 0.5
---
You refactor.

---

A rule above this line, and YAML in a fence:

```yaml
---
name: not-an-agent
---
```
---
name: explorer
tools: look, write
---
You explore.
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_agent_file_holds_several_agents_with_rules_in_prompts(tmp_path: Path) -> None:
    agents = bl.load_agents(write(tmp_path / "AGENTS.md", TWO))
    assert list(agents) == ["refactorer", "explorer"]
    first = agents["refactorer"]
    assert (first.description, first.tools, first.model) == ("Changes structure.", ("look", "write"), "small")
    assert (first.max_steps, first.tool_budget, first.doom_loop) == (5, None, 4)
    assert (first.identity, first.exempt) == ("canonical", ("poll", "wait"))
    assert (first.policy, first.temperature) == ("naive", 0.5)
    assert first.prompt.startswith("You refactor.\n\n---\n\nA rule")
    assert first.prompt.endswith("---\n```")
    second = agents["explorer"]
    assert (second.max_steps, second.tool_budget, second.doom_loop) == (DEFAULT, DEFAULT, DEFAULT)
    assert (second.tools, second.prompt, second.policy) == (("look", "write"), "You explore.", "boocode")


def test_folder_holds_an_agent_per_file_named_by_file_or_field(tmp_path: Path) -> None:
    write(tmp_path / "b.md", "---\nsteps: 1\n---\nB")
    write(tmp_path / "a.md", "---\nname: other\nsteps: 2\n---\nA")
    write(tmp_path / "no.txt", "x")
    assert {name: a.max_steps for name, a in bl.load_agents(tmp_path).items()} == {"other": 2, "b": 1}


@pytest.mark.parametrize("key", ["steps", "maxSteps", "max_steps", "max_turns", "maxTurns"])
def test_other_harnesses_names_for_the_cap_are_read_as_max_steps(tmp_path: Path, key: str) -> None:
    assert bl.load_agents(write(tmp_path / "a.md", f"---\nname: a\n{key}: 7\n---\n"))["a"].max_steps == 7


@pytest.mark.parametrize(("text", "value"), [("none", None), ("null", None), ("~", None), ("0", 0), ("00", 0)])
def test_none_is_no_limit_and_zero_is_zero(tmp_path: Path, text: str, value: int | None) -> None:
    assert bl.load_agents(write(tmp_path / "a.md", f"---\nname: a\nsteps: {text}\n---\n"))["a"].max_steps == value


@pytest.mark.parametrize(
    ("front", "line", "message"),
    [
        (f"name: a\nsteps: {10**30}", 3, "agent 'a': max_steps: the number is too large"),
        ("name: a\nsteps: -1", 3, "agent 'a': max_steps: -1 is not accepted; expected an integer >= 0, or none"),
        ("name: a\nsteps: 010", 3, "YAML would read 010 as octal: write 10 if that is meant, or '010' in quotes if"),
        ("name: a\n\nsteps: 1:30", 4, "YAML would read 1:30 as a number in base 60: write the number in digits alone"),
        ("name: a\ntemperature: 1:30.5", 3, "YAML would read 1:30.5 as a number in base 60"),
        ("name: a\nwhen: [9, 12:30]", 3, "YAML would read 12:30 as a number in base 60"),
        ("name: a\nsteps: true", 3, "max_steps: True is not accepted"),
        ("name: a\nsteps: 2.5", 3, "steps: 2.5 is not accepted"),
        ("name: a\nsteps: '5'", 3, "steps: '5' is not accepted"),
        ("name: a\n\nmaxTurns: five", 4, "steps: 'five' is not accepted"),
        ("name: a\ndoom_loop: 1", 3, "doom_loop: 1 is not accepted; expected an integer >= 2"),
        ("name: a\ntool_budget: [1]", 3, "tool_budget: [1] is not accepted"),
        ("name: a\nsteps: 1\nmax_steps: 2", 4, "'max_steps' repeats another key"),
        ("name: a\npolicy: booode", 3, "there is no policy 'booode'; did you mean 'boocode'?"),
        ("name: a\nsteps: 0\npolicy: opencode_3631", 3, "max_steps=0 is not valid under opencode_3631"),
        ("name: a\ntools: {look: true}", 3, "tools: {'look': True} is not accepted; expected a list of tool names"),
        ("name: a\nexempt: [1]", 3, "exempt: [1] is not accepted; expected a list of tool names"),
        ("name: a\nidentity: same", 3, "identity: 'same' is not accepted; expected one of raw, ordered, canonical"),
        ("name: a\nidentity: {poll: none}", 3, "identity: {'poll': 'none'} is not accepted; expected a text"),
        ("name: a\ntemperature: hot", 3, "temperature: 'hot' is not accepted; expected a number"),
        ("name: a\nmodel: 3", 3, "model: 3 is not accepted; expected a text"),
        ("name: [a]", 2, "has no name; expected a key 'name' with a text"),
        ("steps: 3\ndescription: x", 2, "has no name"),
        ("name: a\nname: b", 3, "the key 'name' is here twice"),
        ("name: a\nsteps: [", 3, "not valid YAML"),
        ("name: a\nx: &x [*x]", 3, "contains itself"),
    ],
)
def test_bad_value_of_an_agent_file_names_file_agent_and_line(
    tmp_path: Path, front: str, line: int, message: str
) -> None:
    path = write(tmp_path / "AGENTS.md", f"---\n{front}\n---\nPrompt.\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AgentFileWarning)
        with pytest.raises(bl.errors.AgentFileError) as caught:
            bl.load_agents(path)
    assert (caught.value.path, caught.value.line) == (str(path), line), str(caught.value)
    assert message in str(caught.value)


def test_rule_in_a_prompt_starts_no_agent_despite_yaml_after_it(tmp_path: Path) -> None:
    text = "---\nname: a\n---\nFirst.\n\n---\nfoo: bar\n---\nStill the prompt.\n---\n# a comment\nname: b\n---\nB"
    agents = bl.load_agents(write(tmp_path / "AGENTS.md", text))
    assert list(agents) == ["a", "b"]
    assert agents["a"].prompt == "First.\n\n---\nfoo: bar\n---\nStill the prompt."


def test_lines_are_counted_through_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "AGENTS.md", TWO + "---\nname: third\nsteps: x\n---\n")
    with pytest.raises(bl.errors.AgentFileError) as caught:
        bl.load_agents(path)
    assert path.read_text().splitlines()[(caught.value.line or 0) - 1] == "steps: x"


def test_unknown_keys_are_kept_and_warned_about_with_a_guess(tmp_path: Path) -> None:
    path = write(tmp_path / "a.md", "---\nname: a\ncolour: red\nstep: 3\n---\n")
    with pytest.warns(AgentFileWarning) as warned:
        agent = bl.load_agents(path)["a"]
    assert agent.extra == {"colour": "red", "step": 3}
    assert [str(w.message) for w in warned] == [
        f"{path}:3: agent 'a': the key 'colour' is not known and was kept as it is",
        f"{path}:4: agent 'a': the key 'step' is not known and was kept as it is; did you mean 'max_steps'?",
    ]
    assert all(w.filename == __file__ for w in warned)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no agent: expected a line '---'"),
        (b"Just words.\n", "holds no agent"),
        (b"---\nname: a\n", "has no closing '---'"),
        (b"---\nname: a\xff\n---\n", "is not UTF-8 text (byte 11)"),
        (b"x" * (MAX_FILE_BYTES + 1), "more than the 1,000,000 bytes that are read"),
    ],
)
def test_a_file_that_is_no_agent_file_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_bytes(content)
    with pytest.raises(bl.errors.AgentFileError) as caught:
        bl.load_agents(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_empty_and_double_are_errors(tmp_path: Path) -> None:
    with pytest.raises(bl.errors.AgentFileError, match="cannot be read: No such file"):
        bl.load_agents(tmp_path / "none.md")
    with pytest.raises(bl.errors.AgentFileError, match="holds no .md file"):
        bl.load_agents(tmp_path)
    first = write(tmp_path / "a.md", "---\nname: x\n---\n")
    write(tmp_path / "b.md", "---\nname: x\n---\n")
    with pytest.raises(bl.errors.AgentFileError, match="agent 'x' is defined twice") as caught:
        bl.load_agents(tmp_path)
    assert f"{first}:1" in str(caught.value)


def test_agent_file_with_crlf_and_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes("\ufeff---\r\nname: a\r\nsteps: 3\r\n---\r\nHi.\r\n".encode())
    assert bl.load_agents(path)["a"] == bl.Agent("a", prompt="Hi.", max_steps=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_steps": -1}, "max_steps: -1 is not accepted; expected an integer >= 0"),
        ({"max_steps": True}, "max_steps: True is not accepted"),
        ({"doom_loop": 0}, "expected an integer >= 2"),
        ({"policy": "x"}, "there is no policy 'x'"),
        ({"tools": "look"}, "expected a list of tools"),
        ({"tools": (3,)}, "3 is no tool"),
    ],
)
def test_a_bad_setting_is_an_error_when_the_agent_is_made(settings: Any, message: str) -> None:
    with pytest.raises(bl.SettingError, match=message):
        bl.Agent("a", **settings)


def test_plain_functions_become_tools_when_the_agent_is_made() -> None:
    def f(a: int) -> int:
        """F."""
        return a

    agent = bl.Agent("a", tools=(f, look, "name"))
    assert [getattr(t, "name", t) for t in agent.tools] == ["f", "look", "name"]
    assert agent.tools[1] is look


def test_the_shipped_agents_have_the_limits_of_their_origin() -> None:
    agents = bl.load_agents(data_path("agents") / "AGENTS.md")
    limits = {name: agents[name].max_steps for name in ("refactorer", "architect", "explorer", "answerer")}
    assert limits == {"refactorer": 5, "architect": 20, "explorer": DEFAULT, "answerer": 0}


def exempting(tmp_path: Path, front: str) -> bl.Agent:
    return bl.load_agents(write(tmp_path / "a.md", f"---\nname: a\ndoom_loop: 3\n{front}\n---\nWait.\n"))["a"]


@pytest.mark.parametrize(
    ("front", "stops_at"),
    [
        ("", 6),
        ("exempt: [look]", None),
        ("exempt: look, write", None),
        ("exempt: [write]", 6),
        ("identity: tool", 3),
        ("identity: tool\nexempt: [look]", None),
        ("identity: tool\nexempt: [write]", 3),
    ],
)
@pytest.mark.parametrize(
    "policy", [None, "naive", bl.policies["boocode"].vary(name="own", detectors={"identity": {"*": "raw"}})]
)
def test_agent_file_exempts_tools_live_as_in_counterfactual(
    tmp_path: Path, front: str, stops_at: int | None, policy: bl.Policy | str | None
) -> None:
    agent = replace(exempting(tmp_path, front), tools=TOOLS)
    under, script = policy_of(agent, policy), [*steps("A A B A A A B C", None), {"tool_calls": [call("write")]}, "done"]
    run = bl.run_sync(agent, "go", model=bl.ScriptedModel(script), policy=policy)
    free = play(script, policy="naive")
    (row,) = bl.counterfactual(free, grid={"doom_loop": [3]}, identity=under.detectors.identity).to_dict("records")
    if "doom_loop" not in under.order:
        assert run.stop_reason == "finished"
        return
    assert (run.stop_step if run.stop_reason == "doom_loop" else None) == stops_at
    assert (None if row["outcome"] == "unchanged" else row["stop_step"]) == stops_at


def test_agent_without_identity_uses_the_one_of_its_policy() -> None:
    assert policy_of(bl.Agent("a")) is bl.policies["boocode"]
    assert policy_of(bl.Agent("a", identity="raw")).detectors.identity == "raw"
    assert policy_of(bl.Agent("a", exempt=("poll",)), "naive").detectors.identity == {"*": "ordered", "poll": None}
    with pytest.raises(bl.SettingError, match="exempt: 'poll' is not accepted; expected a list of names of tools"):
        bl.Agent("a", exempt="poll")  # type: ignore[arg-type]


def test_exempt_tools_are_among_the_words_of_a_policy() -> None:
    waiting = bl.policies["boocode"].vary(name="waiting", detectors={"identity": {"*": "canonical", "poll": None}})
    assert list(bl.compare_policies("boocode", waiting).frame.T["detectors.identity"]) == [
        "ordered",
        "canonical, poll=exempt",
    ]


def test_error_of_a_policy_is_at_its_line_whatever_it_says(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("---\nname: a\nmax_steps: 5\npolicy: max_steps=7\n---\n")
    with pytest.raises(bl.errors.AgentFileError) as caught:
        bl.load_agents(path)
    assert caught.value.line == 4
    path.write_text("---\nname: a\npolicy: autogen\nmaxSteps: 0\n---\n")
    with pytest.raises(bl.errors.AgentFileError) as caught:
        bl.load_agents(path)
    assert caught.value.line == 4
