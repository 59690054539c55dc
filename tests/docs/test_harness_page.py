"""docs/harnesses.md says what the presets are."""

import boolab as bl
from tests.docs import harness_page


def test_documented_tables_are_those_of_the_presets() -> None:
    assert harness_page.written() == harness_page.tables(), "run: make harnesses"


def test_every_preset_has_a_row_in_each_table() -> None:
    page = harness_page.PAGE.read_text()
    assert {name: page.count(f"\n| `{name}` |") for name in bl.policies} == dict.fromkeys(bl.policies, 3)


def test_the_limits_of_known_presets_stand_in_their_rows() -> None:
    rows = [
        line for line in harness_page.written().splitlines() if line.startswith(("| `boocode`", "| `gemini_subagent`"))
    ]
    assert "tool calls of a writing agent: 10" in rows[2]
    assert "stop at 3" in rows[2]
    assert "30; counts steps" in rows[3]
    assert "time: 600 s" in rows[3]
