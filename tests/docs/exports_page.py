"""The tables of docs/howto/set_it_in_my_harness.md, made from the export targets.

`python -m tests.docs.exports_page` writes them into the page.
"""

from __future__ import annotations

from typing import Final

from boolab.harnesses.exports.export import target_of
from boolab.harnesses.registry import TARGETS
from boolab.limits.table import LIMITS
from tests.support.project import ROOT

PAGE: Final = ROOT / "docs" / "howto" / "set_it_in_my_harness.md"
BEGIN: Final = "<!-- targets: python -m tests.docs.exports_page -->\n"
END: Final = "<!-- end of targets -->\n"


def tables() -> str:
    """A section for each target: what is set where, what it means, how that was checked, and what is missing."""
    return "\n".join(_section(name) for name in TARGETS)


def _section(name: str) -> str:
    target = target_of(name)
    rows = [f"| {LIMITS[row.limit].label} | {row.where} | {row.meaning} | {row.verified} |" for row in target.sets]
    lacks = [f"- {LIMITS[limit].label}: {why}" for limit, why in target.lacks.items()]
    missing = ["", "Not there:", "", *lacks] if lacks else []
    head = [f"### {name}", "", "| limit | where | how it is counted | checked |", "|-|-|-|-|"]
    return "\n".join([*head, *rows, *missing, "", f"Source: {target.source}.", ""])


def written() -> str:
    """The tables as the page has them."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Write the tables into the page."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(head + BEGIN + tables() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
