"""The tables of all presets, computed from the policies themselves.

python -m tests.docs.harness_page          prints them
python -m tests.docs.harness_page --write  puts them into docs/harnesses.md
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

import boolab as bl
from boolab.harnesses.describe import HEAD, NOT_APPLICABLE, axes
from boolab.harnesses.policy import Policy
from tests.support.project import ROOT

PAGE: Final = ROOT / "docs" / "harnesses.md"
START, END = "<!-- made by tests/docs/harness_page.py -->\n", "\n<!-- until here -->"

_OF: Final = {axis.field: axis for axis in axes()}


def tables() -> str:
    """What the presets are, what stops them, and where that was read, in Markdown."""
    presets = list(bl.policies.values())
    return "\n\n".join(
        [
            "## How they are built",
            _table(
                ["harness", "loop style", "finish guard", "weakness"],
                ([p.name, *(_said(p, field) for field in HEAD)] for p in presets),
            ),
            "## What stops them",
            _table(
                ["harness", "cap", "last step under a cap", "budgets", "detectors"],
                ([p.name, _cap(p), _said(p, "last_step.action"), _budgets(p), _detectors(p)] for p in presets),
            ),
            "## Where that is from",
            _table(["harness", "source"], ([p.name, p.about.source] for p in presets)),
        ]
    )


def written() -> str:
    """The tables that stand in the page."""
    return PAGE.read_text().partition(START)[2].partition(END)[0]


def _said(policy: Policy, field: str) -> str:
    return _OF[field].describe(policy)


def _cap(policy: Policy) -> str:
    """The default cap, what it counts, and where it is asked, if that is not before a request."""
    if "max_steps" not in policy.order:
        return "no such setting"
    parts = [_said(policy, "cap.max_steps"), _said(policy, "cap.counts").partition(":")[0]]
    if policy.cap.kind == "soft":
        parts.append("soft: " + _said(policy, "cap.kind"))
    if policy.cap.check == "response":
        parts.append(_said(policy, "cap.check"))
    return f"{parts[0]}; counts {'; '.join(parts[1:])}"


def _budgets(policy: Policy) -> str:
    fields = [f"budgets.{name}" for name in ("read_only", "writing", "no_agent", "tokens", "cost", "seconds")]
    said = [(_OF[field].name, _said(policy, field)) for field in fields]
    return "; ".join(f"{name}: {value}" for name, value in said if value not in (NOT_APPLICABLE, "no limit")) or "none"


def _detectors(policy: Policy) -> str:
    threshold, others = _said(policy, "detectors.doom_loop"), _said(policy, "detectors.guards")
    own = f"identical calls in a row ({policy.detectors.identity}): stop at {threshold}"
    said = [*([] if threshold in (NOT_APPLICABLE, "off") else [own]), *([] if others == "none" else [others])]
    return "; ".join(said) or "none"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([f"`{name}`", *cells] for name, *cells in rows)]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _main() -> None:
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text().partition(START)
        PAGE.write_text(before + START + tables() + END + rest.partition(END)[2])
    else:
        sys.stdout.write(tables() + "\n")


if __name__ == "__main__":
    _main()
