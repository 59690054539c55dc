"""Run `boolab hook` in the released Claude Code with a scripted model, and compare with what boolab says of the log.

Each script runs once without the hook. `bl.counterfactual` says at which step of that log the rule stops. Then it runs
with the hook: as many steps have to run and be in the hook's log, and the model is asked once more, for a summary. The
scripts never obey, so the calls of that last response are denied and Claude Code ends. In shadow nothing may change.

Usage: python -m benchmarks.conformance.clis.hook
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import boolab as bl
from benchmarks.conformance.clis.claude_code import CLAUDE_CODE
from benchmarks.conformance.clis.run import Outcome, play
from benchmarks.conformance.clis.scripts import Loop
from benchmarks.environments import ROOT, Skipped
from boolab.display.text import align_columns
from boolab.live.hooks.counts import monitor_for
from boolab.live.hooks.options import Options
from boolab.live.hooks.settings import command_of, with_hook


class Scenario(NamedTuple):
    """A script, the options of the hook, and the loop that is limited."""

    script: str
    options: str
    loop: Loop = "main"


SCENARIOS: Final = (
    Scenario("same", "--max-steps 9 --doom-loop 4"),
    Scenario("same", "--max-steps 3 --doom-loop 4"),
    Scenario("different", "--max-steps 5 --doom-loop 4"),
    Scenario("batch", "--max-steps 3"),
    Scenario("batch", "--tool-budget 5"),
    Scenario("delegate", "--max-steps 3", "subagent"),
    Scenario("finish-4", "--max-steps 3"),
    Scenario("finish-4", "--max-steps 4"),
    Scenario("same", "--doom-loop 4 --shadow"),
    Scenario("same", "--doom-loop 4 --nudge"),
)


class Row(NamedTuple):
    """What a scenario gave.

    Attributes:
        says: The step at which boolab says that the rule stops; None for none.
        logged: The step that is in the hook's log; None for none.
        steps: How many steps the limited loop made, by the tools that really ran.
        asked: How often its model was asked.
        bare: The same without the hook.
        end: How Claude Code reports the end.
    """

    says: int | None
    logged: int | None
    steps: int
    asked: int
    bare: int
    end: str

    def agrees(self, scenario: Scenario) -> bool:
        """Whether the hook did what boolab says."""
        if self.says != self.logged:
            return False
        if self.says is None or "--shadow" in scenario.options or "--nudge" in scenario.options:
            return self.asked == self.bare
        return (self.steps, self.asked) == (self.says, self.says + 1)


def run(scenario: Scenario) -> Row:
    """Run one scenario without the hook and with it.

    Raises:
        Skipped: if Claude Code cannot be installed.
    """
    options = Options.parse(scenario.options.split())
    calls = 2 if scenario.script == "batch" else 1
    with tempfile.TemporaryDirectory() as folder:
        bare, held, files = (Path(folder, name) for name in ("bare", "held", "files"))
        before = play(CLAUDE_CODE, scenario.script, keep=bare).outcome
        settings = files / "home/.claude/settings.json"
        settings.parent.mkdir(parents=True)
        text = with_hook("", command_of(options))
        # This checkout, whichever one is installed.
        settings.write_text(json.dumps({**json.loads(text), "env": {"PYTHONPATH": str(ROOT)}}), encoding="utf-8")
        after = play(CLAUDE_CODE, scenario.script, keep=held, files=files).outcome
        log = held / "home/.local/state/boolab/hook/claude-code/log.jsonl"
        lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        stops = [line for line in lines if line["did"] in ("stop", "nudge", "would stop")]
        return Row(
            says=_step(bare, options, scenario.loop),
            logged=stops[0]["step"] if stops else None,
            steps=(after.ran if scenario.loop == "main" else after.subagent_ran) // calls,
            asked=_asked(after, scenario.loop),
            bare=_asked(before, scenario.loop),
            end=after.end,
        )


def _asked(outcome: Outcome, loop: Loop) -> int:
    return outcome.requests if loop == "main" else outcome.subagent_requests


def _step(place: Path, options: Options, loop: Loop) -> int | None:
    """The step of the limited loop at which the rule of the hook stops the run on record."""
    runs = bl.load_runs(place / "home/.claude/projects")
    found = [one for one in runs if (one.parent_run_id is None) == (loop == "main")]
    rule = monitor_for(options).rule
    assert rule is not None
    table = bl.counterfactual(found, rules=[rule])
    (outcome,), (step,) = table["outcome"].tolist(), table["stop_step"].tolist()
    return step if outcome == "truncated" else None


def main() -> int:
    """The command."""
    table = [["script", "options", "boolab says", "logged", "steps", "model asked", "without", "end", ""]]
    failed = 0
    for scenario in SCENARIOS:
        try:
            row = run(scenario)
        except Skipped as reason:
            print(f"skipped: {reason}", file=sys.stderr)
            return 1
        failed += not row.agrees(scenario)
        cells = ["-" if cell is None else str(cell) for cell in row]
        table.append([scenario.script, scenario.options, *cells, "" if row.agrees(scenario) else "DIFFERS"])
    print("\n".join(align_columns(table, left=(0, 1, 7, 8))))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
