"""docs/howto/set_it_in_my_harness.md has what the export targets have."""

from boolab.core.text import count
from boolab.harnesses.registry import TARGETS
from tests.docs import exports_page


def test_documented_tables_are_those_of_the_export_targets() -> None:
    assert exports_page.written() == exports_page.tables(), "run: python -m tests.docs.exports_page"


def test_each_target_has_a_section() -> None:
    page = exports_page.PAGE.read_text()
    assert [name for name in TARGETS if f"\n### {name}\n" not in page] == []


def test_the_table_of_released_packages_has_what_boolab_does() -> None:
    lines = exports_page.PAGE.read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith(("| @", "| opencode-ai"))]
    assert len(rows) >= 30
    for _, limit, script, seen, ours, same in rows:
        cap = int(limit.partition("cap of ")[2].split()[0])
        at = int(script.rpartition(" ")[2]) if script.startswith("finishes") else cap + 1
        calls = min(cap, at - 1) * (2 if script.startswith("two") else 1)
        assert ours == f"{count(min(cap, at), 'response')}, {count(calls, 'call')}"
        assert same == ("yes" if seen == ours else "no")
