from __future__ import annotations

from boolab.harnesses.front_matter import agent_name, yaml_text


def test_agent_name_leaves_out_parts_of_paths() -> None:
    assert agent_name("../code reviewer") == "code-reviewer"
    assert agent_name("") == "agent"


def test_yaml_text_quotes_what_yaml_reads_otherwise() -> None:
    assert yaml_text("coder") == "coder"
    assert yaml_text("no") == '"no"'
    assert yaml_text("7") == '"7"'
