"""What is observed of a run, on either side, and the file that keeps what the released packages did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

KEPT: Final = Path(__file__).with_name("observed.json")
"""What the released packages did when they were last run: the tests hold the presets to it without installing them."""


class Observation(NamedTuple):
    """One scenario, played.

    Attributes:
        model_calls: How often the model was asked, wrap-ups included.
        tools_run: How often a tool's own code was entered; finish tools do not count.
        summary_calls: How often the model was asked without being offered a tool.
        end: The harness's own word for the end.
    """

    model_calls: int
    tools_run: int
    summary_calls: int
    end: str


class Released(NamedTuple):
    """What one released package did, scenario by scenario."""

    version: str
    observations: Mapping[str, Observation]


def read_kept(path: Path = KEPT) -> dict[str, Released]:
    """What was kept, by package; nothing if there is no such file."""
    if not path.exists():
        return {}
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {
        package: Released(one["version"], {name: Observation(*seen) for name, seen in one["observations"].items()})
        for package, one in kept.items()
    }


def keep(released: Mapping[str, Released], path: Path = KEPT) -> None:
    """Write what is to be kept, one scenario a line, so that a change shows."""
    blocks = []
    for package, one in sorted(released.items()):
        lines = ",\n".join(f"   {json.dumps(name)}: {json.dumps(seen)}" for name, seen in one.observations.items())
        head = f' {json.dumps(package)}: {{\n  "version": {json.dumps(one.version)},\n  "observations": {{\n'
        blocks.append(f"{head}{lines}\n  }}\n }}")
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")
