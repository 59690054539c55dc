from __future__ import annotations

import boolab as bl
from boolab.core.types import ToolCall
from boolab.widgets.compare.data import (
    _command,
    _kind_of_command,
    _quote,
    end_words,
    first_divergent_step,
    reason_words,
    side_of,
    title_of,
)
from boolab.widgets.compare.widget import agents_differ, policies_differ


def test_title_names_the_limit_that_makes_the_difference() -> None:
    loop = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}], tools={"ls": "a.py"})
    two, five = (bl.run_sync(bl.Agent("a", max_steps=n), "Look", model=loop, policy="naive") for n in (2, 5))
    sides = side_of(two, "two"), side_of(five, "five")
    assert title_of(*sides, None) == "No difference between two and five"
    difference = first_divergent_step(two, five, ["two", "five"])
    assert title_of(*sides, difference) == "A limit stops two after step 2; five continues for 3 more steps"


def test_call_is_shown_as_a_command_line() -> None:
    assert _command(ToolCall("1", "bash", '{"command": "open a.py"}')) == "open a.py"
    assert _command(ToolCall("2", "open", '{"path": "a.py"}')) == "open a.py"


def test_text_not_on_record_is_quoted_by_its_length() -> None:
    assert _quote("a.py") == '"a.py"'
    assert _quote("<redacted text 5: 80 chars>") == "a text of 80 characters that is not on record"


def test_plain_shell_command_has_the_kind_of_its_tool() -> None:
    assert _kind_of_command("ls -F") == "read"
    assert _kind_of_command("python a.py") == "execute"
    assert _kind_of_command("ls | wc") == "execute"


def test_agents_differ_in_the_rows_of_their_limits() -> None:
    found = agents_differ(bl.Agent("a", max_steps=5), bl.Agent("b", max_steps=7))
    assert found["rows"] == [{"name": "step cap", "a": "at most 5", "b": "at most 7"}]


def test_policies_differ_in_settings_one_lacks() -> None:
    found = policies_differ("boocode", "crush")
    assert next(row for row in found["rows"] if row["name"] == "doom-loop threshold") == {
        "name": "doom-loop threshold",
        "a": "3",
        "b": "no such setting",
    }


def test_reason_in_words_names_the_limit() -> None:
    assert reason_words("doom_loop") == "doom-loop threshold"
    assert reason_words("error") == "error"


def test_end_in_words_has_steps_and_threshold() -> None:
    stuck = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}], tools={"ls": "a.py"})
    assert end_words(bl.run_sync(None, "Look", model=stuck)) == "stopped after 3 steps by its doom-loop threshold of 3"
