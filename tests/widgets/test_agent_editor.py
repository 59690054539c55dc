"""The form of an agent's file."""

import os
import shutil
from pathlib import Path

import pytest

from boolab.errors import AgentFileError, SettingError
from boolab.io.resources import data_path
from boolab.runtime.agents.agent import Agent, limits_of, load_agents, policy_of
from boolab.widgets.agent_editor.fields import changes_of, label_of, menus_of, names_in, verdict_of
from boolab.widgets.agent_editor.widget import AgentEditor, typed_value

TEXT = b"\xef\xbb\xbf---\r\nname: a  # who\r\nmaxSteps: 5\r\nmode: primary\r\n---\r\nYou look.\r\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.md").write_bytes(TEXT)
    return tmp_path / "a.md"


def test_what_is_saved_is_the_file_with_that_field_changed(path: Path) -> None:
    editor = AgentEditor(path)
    editor.fields["max_steps"].value = "7"
    assert path.read_bytes() == TEXT
    editor.save()
    assert path.read_bytes() == TEXT.replace(b"5", b"7")
    assert not editor.changed
    assert [file.name for file in path.parent.iterdir()] == ["a.md"]


@pytest.mark.parametrize(
    ("field", "said"),
    [("max_steps", "many"), ("max_steps", "-1"), ("policy", "no_such"), ("doom_loop", "1"), ("name", " ")],
)
def test_what_does_not_load_is_said_at_its_field_and_not_saved(path: Path, field: str, said: str) -> None:
    editor = AgentEditor(path)
    editor.fields[field].value = said
    assert list(editor.messages) == [field]
    assert editor.save_button.disabled
    with pytest.raises(AgentFileError):
        editor.save()
    assert path.read_bytes() == TEXT


def test_a_fault_in_one_field_hides_none_in_another(path: Path) -> None:
    editor = AgentEditor(path)
    editor.fields["max_steps"].value = "many"
    editor.fields["policy"].value = "no_such"
    assert sorted(editor.messages) == ["max_steps", "policy"]


def test_a_file_that_somebody_else_changed_is_not_overwritten(path: Path) -> None:
    editor = AgentEditor(path)
    editor.fields["max_steps"].value = "7"
    path.write_bytes(TEXT + b"More.\r\n")
    with pytest.raises(AgentFileError, match="has changed since it was read"):
        editor.save()
    editor.reload()
    assert editor.fields["prompt"].value == "You look.\nMore."


def test_unknown_keys_are_shown_and_kept(path: Path) -> None:
    editor = AgentEditor(path)
    assert editor.extra == {"mode": "primary"}
    assert editor._results()["extra"] == [{"name": "mode", "value": "'primary'"}]


def test_all_agents_of_a_file_can_be_chosen_and_edited(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    shutil.copy(data_path("agents") / "AGENTS.md", path)
    before = load_agents(path)
    editor = AgentEditor(path)
    for place, name in enumerate(before):
        editor.agent_choice.value = place
        assert editor.fields["name"].value == name
        assert not editor.changed
    editor.fields["temperature"].value = "0.5"
    editor.save()
    assert load_agents(path)[name].temperature == 0.5
    others = {key: agent for key, agent in load_agents(path).items() if key != name}
    assert others == {key: agent for key, agent in before.items() if key != name}


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (Agent("a", max_steps=0), "step cap: one response without tools"),
        (Agent("a", max_steps=None), "step cap: no limit, but at most 200 steps"),
        (Agent("a"), "tool budget: at most 10, the policy's default"),
        (Agent("a", tools=("read_file",)), "tool budget: at most 50, the policy's default"),
        (
            Agent("a", max_steps=5, policy="opencode_3631"),
            "last step under the cap: the model gets a message; no tools are sent",
        ),
        (
            Agent("a", policy="naive"),
            "doom-loop threshold: naive has no such setting; the file's value changes nothing",
        ),
    ],
)
def test_limits_are_those_of_the_policy(agent: Agent, said: str) -> None:
    assert said in limits_of(agent, policy_of(agent))


def test_hostile_text_in_a_file_is_no_markup(path: Path) -> None:
    path.write_bytes(b"---\nname: a\n<img src=x onerror=alert(1)>: <script>\n---\n")
    editor = AgentEditor(path)
    editor.fields["max_steps"].value = "<img src=x onerror=alert(1)>"
    shown = editor.verdict.value + "".join(one.value for one in editor._message_of.values())
    assert "is not accepted" in shown
    assert "<img" not in shown
    assert "<script" not in shown
    assert "<script>" not in editor.to_html().split("<main")[1].split("<script type")[0]


def test_a_file_that_is_read_only_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_text("---\nname: a\nsteps: 5\n---\nYou look.\n", "utf-8")
    path.chmod(0o444)
    editor = AgentEditor(path)
    editor.fields["max_steps"].value = "7"
    with pytest.raises(AgentFileError, match="is read-only: make it writable"):
        editor.save()
    assert "steps: 5" in path.read_text("utf-8")
    assert editor.changed
    path.chmod(0o644)
    editor.save()
    assert "steps: 7" in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("pipe", "a pipe or a device, not a file"),
        ("folder", "a folder, not a file"),
        ("loop", "leads back to itself"),
        ("dangling", "where there is nothing"),
        ("outside", "outside of"),
        ("none", "there is no such file"),
    ],
)
def test_a_path_that_is_no_agent_file_is_a_sentence(kind: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "project" / "a.md"
    path.parent.mkdir()
    (tmp_path / "b.md").write_bytes(TEXT)
    targets = {"loop": "a.md", "dangling": "nowhere", "outside": "../b.md"}
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind in targets:
        path.symlink_to(targets[kind])
    with pytest.raises(AgentFileError, match=said):
        AgentEditor(path)


def test_saving_follows_no_link_that_came_later(path: Path, tmp_path: Path) -> None:
    (tmp_path / "b.md").write_bytes(TEXT)
    editor = AgentEditor(path)
    editor.fields["max_steps"].value = "7"
    path.unlink()
    path.symlink_to("b.md")
    with pytest.raises(AgentFileError, match="has changed since it was read, and nothing was written: reload it"):
        editor.save()
    assert (tmp_path / "b.md").read_bytes() == TEXT


def test_agent_editor_diff_is_what_is_saved_and_undo_reverts(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("---\nname: a\nsteps: 5\n---\nLook.\n")
    editor = AgentEditor(path)
    assert editor._results()["diff"] == []
    editor.fields["max_steps"].value = "7"
    changed = [line for line in editor._results()["diff"] if line["old"] is None or line["new"] is None]
    assert changed == [
        {"old": 3, "new": None, "parts": ("steps: ", "5")},
        {"old": None, "new": 3, "parts": ("steps: ", "7")},
    ]
    editor.fields["max_steps"].value = "8"
    editor.undo()
    assert editor.fields["max_steps"].value == "7"
    editor.undo()
    assert not editor.changed
    assert editor.undo_button.disabled


def test_menus_have_the_names_that_are_known_and_add_to_a_field(tmp_path: Path) -> None:
    path = Path(shutil.copy(data_path("agents") / "AGENTS.md", tmp_path))
    editor = AgentEditor(path, models=["small", "large"], tools=["bash"])
    assert editor.fields["model"].options == ("small", "large")
    assert {"boocode", "opencode_3631"} <= {*editor.fields["policy"].options}
    assert editor.fields["identity"].options[0] == "raw"
    assert editor.menus["tools"].options == ("", "bash", "ask_user_input", "request_read_access")
    editor.menus["tools"].value = "bash"
    assert editor.fields["tools"].value == "list_files, read_file, search_text, bash"
    assert (editor.menus["tools"].value, "bash" in editor.menus["tools"].options) == ("", False)
    editor.fields["tools"].value = "list_files, my_own"
    editor.fields["model"].value = "another"
    editor.save()
    agent = load_agents(path)["refactorer"]
    assert (agent.tools, agent.model) == (("list_files", "my_own"), "another")
    assert editor.fields["model"].options == ("small", "large", "another")
    assert "my_own" in editor.menus["exempt"].options


def test_agent_editor_status_says_valid_changed_and_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("---\nname: coder\nmax_steps: 5\n---\nGo.\n")
    editor = AgentEditor(path)
    shown = '<span role="status">{}</span>'.format
    assert editor.verdict.value == shown("coder is valid and saved.")
    editor.fields["max_steps"].value = "7"
    editor.fields["prompt"].value = "Go on."
    assert editor.verdict.value == shown("coder is valid. Not saved yet: step cap 5 → 7, prompt.")
    editor.fields["doom_loop"].value = "many"
    assert editor.verdict.value == shown("✕ coder cannot be saved: doom-loop threshold is not valid.")
    editor.fields["doom_loop"].value = ""
    editor.save()
    assert editor.verdict.value == shown("coder is valid and saved.")
    assert "coder is valid and saved." in editor.to_html()
    path.write_text("changed by another program")
    editor.fields["max_steps"].value = "9"
    editor.save_button.click()
    assert editor.verdict.value.startswith('<span role="status">✕ Not saved: ')


def test_what_is_no_path_is_named() -> None:
    with pytest.raises(SettingError, match=r"path=Agent: expected the path of an agent file"):
        AgentEditor(Agent("a"))  # type: ignore[arg-type]


def test_verdict_says_what_is_valid_and_saved() -> None:
    assert verdict_of("coder", {}, []) == "coder is valid and saved."
    assert verdict_of("coder", {}, ["step cap 5 → 57"]) == "coder is valid. Not saved yet: step cap 5 → 57."
    assert (
        verdict_of("coder", {"max_steps": "'many' is not accepted"}, [])
        == "✕ coder cannot be saved: step cap is not valid."
    )


def test_changes_are_named_field_by_field() -> None:
    assert changes_of("---\nname: a\nmax_steps: 5\n---\nGo.", "---\nname: a\nmax_steps: 7\n---\nGo!", 0) == [
        "step cap 5 → 7",
        "prompt",
    ]


def test_field_has_the_label_of_its_limit() -> None:
    assert label_of("max_steps") == "step cap"
    assert label_of("name") == "name"
    assert label_of("exempt") == "exempt tools"


def test_menus_have_given_and_known_values() -> None:
    menus = menus_of([], ["small"], ["grep"])
    assert menus["model"] == ["small"]
    assert menus["tools"][:2] == ["grep", "list_files"]
    assert menus["identity"][:2] == ["raw", "ordered"]


def test_names_are_split_at_commas() -> None:
    assert names_in(" ls, grep,") == ["ls", "grep"]


def test_typed_value_has_the_type_of_its_field() -> None:
    assert typed_value("max_steps", " 7 ") == 7
    assert typed_value("max_steps", "None") == "none"
    assert typed_value("tools", "ls, grep") == ["ls", "grep"]
