"""Audit logs that released packages made under limits of 1, 3 and 10, with a model that never finishes.

Each package runs in its own environment, as in `make conformance`. Prints a row for each package and limit: what the
package did, and what the audit of its log found.

Usage: python -m benchmarks.conformance.audits [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import boolab as bl
from benchmarks.conformance.released import DRIVERS
from benchmarks.conformance.scenarios import looks
from benchmarks.environments import Skipped, answer, environment
from boolab.frames.dtypes import is_missing

LIMITS: Final = (1, 3, 10)
TURNS: Final = 30
"""More turns than any limit here lets through."""


class Case(NamedTuple):
    """A package, its name of the limit, and the preset for logs that do not show the harness."""

    package: str
    limit: str
    policy: str | None = None


CASES: Final = (
    Case("inspect-ai", "turn_limit"),
    Case("inspect-ai", "message_limit"),
    Case("inspect-ai", "token_limit"),
    Case("mini-swe-agent", "step_limit"),
    Case("mini-swe-agent", "cost_limit"),
    Case("langgraph", "recursion_limit"),
    Case("openai-agents", "max_turns", "openai_agents"),
    Case("pydantic-ai-slim", "request_limit"),
    Case("pydantic-ai-slim", "tool_calls_limit"),
    Case("smolagents", "max_steps", "smolagents"),
)


def log_of(case: Case, limit: int, folder: Path) -> tuple[int, int]:
    """Write the log of one run, and return how often the model was asked and tools were run."""
    folder.mkdir(parents=True)
    asked = {
        "package": case.package,
        "settings": {case.limit: limit * 100 if case.limit == "token_limit" else limit},
        "script": list(looks(TURNS)),
        "folder": str(folder),
    }
    done = answer(environment(case.package), DRIVERS / "log_peer.py", asked, 120)
    return done["model_calls"], done["tools_run"]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to leave the logs")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as temporary:
        for case in CASES:
            for limit in LIMITS:
                folder = (keep or Path(temporary)) / case.package / f"{case.limit}-{limit}"
                try:
                    model_calls, tools_run = log_of(case, limit, folder)
                except Skipped as reason:
                    print(f"skipped: {reason}", file=sys.stderr)
                    break
                value = limit * 100 if case.limit == "token_limit" else limit
                for limits in ({case.limit: value}, "auto"):
                    found = bl.audit(folder, limits, policy=case.policy)
                    for row in found.frame[found.frame["limit"] == case.limit].to_dict("records"):
                        did = f"{model_calls} model calls, {tools_run} tools run"
                        declared = "in the log" if limits == "auto" else "by hand"
                        counted = "not counted" if is_missing(row["counted"]) else f"{row['counted']:g} {row['unit']}"
                        print(f"{case.package}, {case.limit} {value} {declared}: {did}; {row['verdict']}, {counted}")
                        print(f"    {row['note']}" if row["note"] else "", end="\n" if row["note"] else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
