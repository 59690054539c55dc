"""The page: what each released harness did, what its preset does, and whether they agree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import boolab as bl
from benchmarks.conformance.clis.cases import CASES, Case
from benchmarks.conformance.clis.harness import Harness
from benchmarks.conformance.clis.harnesses import HARNESSES
from benchmarks.conformance.clis.known import KNOWN
from benchmarks.conformance.clis.packages import wanted
from benchmarks.conformance.clis.run import Outcome
from benchmarks.conformance.clis.scripts import ENOUGH, Loop, Reply, Shell, script_named

Verdict: TypeAlias = Literal["agrees", "differs", "known", "outdated", "not compared"]
"""`known`: it differs, for the reason that `known.py` gives. `outdated`: that reason is given, and it agrees."""

KEPT: Final = Path(__file__).with_name("observed.json")
"""What the programs did when they were last run: the tests hold the presets to it without them."""

PAGE: Final = Path(__file__).parents[3] / "docs" / "cli_conformance.md"
"""Where the page lies."""

COST: Final = 0.0008
"""What a response costs in Claude Code, in dollars: 100 tokens in and 20 out at the price of its default model."""

HEAD: Final = """# Limits of released command-line harnesses

What a limit does in the programs that people run. Each was installed from npm and ran whole, in an empty home, with a
model on the loopback interface that plays a script: a shell command in each response, without end unless the script has
one. After {enough} responses with calls the script ends with a text, so that a run that no limit stops has {whole}
requests. *Requests* are the model requests of the loop that is limited (titles and counts of tokens are not counted);
*tools run* are the commands that left their line in a file. `make conformance-clis` makes this page; the tests check
the presets against it without the programs.

What to take away:

- **Claude Code** keeps `--max-turns` and a subagent's `maxTurns` exactly: N requests, all their calls run, no summary.
  Its own report counts one turn more (`num_turns` 4 under a limit of 3). It ignores `maxTurns` in the file of an agent
  that runs as the main loop, and `CLAUDE_CODE_MAX_TURNS` in a project's settings. A run whose subagent was stopped is a
  success; only the result of the subagent's call names the limit.
- **opencode** enforces no limit: from request N on it asks the model to stop, and still offers and runs tools.
- **Gemini CLI** keeps `maxSessionTurns` exactly and exits with 53. Its loop detection ends a run with exit code 0 and
  an empty response, as if it had finished. A subagent gets one request more, and the calls in it are executed.
- **Codex** has no limit on steps. Its token budget stops before the next request; a run that reaches it with its final
  answer fails as well.
"""


class Seen(NamedTuple):
    """What is compared: of one loop, its model requests, the tools that ran, and the stop reason."""

    requests: int
    ran: int
    reason: str


class Row(NamedTuple):
    """One case on both sides; `ours` is None where there is no preset."""

    case: Case
    outcome: Outcome
    theirs: Seen
    ours: Seen | None

    @property
    def verdict(self) -> Verdict:
        """Whether both did the same."""
        if self.ours is None:
            return "not compared"
        agrees = self.ours == (self.theirs if _settled(self.case) else self.theirs._replace(ran=self.ours.ran))
        if (self.case.harness, self.case.name) in KNOWN:
            return "outdated" if agrees else "known"
        return "agrees" if agrees else "differs"


def _settled(case: Case) -> bool:
    return case.way is None or HARNESSES[case.harness].ways[case.way].settled


def loop_of(case: Case) -> Loop:
    """The loop that a case is about."""
    return "subagent" if case.script == "delegate" else "main"


def theirs(case: Case, outcome: Outcome) -> Seen:
    """What the program did in the loop that the case is about."""
    harness = HARNESSES[case.harness]
    if loop_of(case) == "subagent":
        return Seen(outcome.subagent_requests, outcome.subagent_ran, _reason(harness, outcome.told))
    reason = _reason(harness, outcome.end) if outcome.requests or "Fatal" in outcome.end else "rejected"
    return Seen(outcome.requests, outcome.ran, reason)


def _reason(harness: Harness, words: str) -> str:
    return next((reason for word, reason in harness.reasons if word in words), "finished")


def ours(case: Case) -> Seen | None:
    """What the preset does with the same script; None if boolab has no preset of the loop."""
    harness = HARNESSES[case.harness]
    loop = loop_of(case)
    if loop not in harness.presets:
        return None
    way = harness.ways[case.way] if case.way else None
    limit = case.limit if way is not None and way.holds else None
    changes: dict[str, Any] = {}
    steps: int | None = None
    if limit is not None and way is not None:
        if way.limits == "steps":
            steps = int(limit)
        else:
            changes = {"budgets": {way.limits: limit}}
    policy = bl.policies[harness.presets[loop]].vary(**changes)
    ran: list[str] = []

    def shell(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return ""

    def finishes(answer: str) -> str:
        """Hand in the answer."""
        return answer

    script = script_named(case.script)
    model = bl.ScriptedModel([_item(script(loop, n)) for n in range(ENOUGH + 4)])
    tools: list[Any] = [bl.tool(shell), *(bl.tool(name=name)(finishes) for name in policy.finish.tools)]
    try:
        run = bl.run_sync(bl.Agent("a", max_steps=steps), "go", model=model, tools=tools, policy=policy)
    except bl.SettingError:
        return Seen(0, 0, "rejected")
    return Seen(len(run.steps), len(ran), run.stop_reason)


def _item(reply: Reply) -> dict[str, Any]:
    calls = [{"name": "shell", "arguments": {"command": one.command}} for one in reply.calls if isinstance(one, Shell)]
    usage = {"input_tokens": 100, "output_tokens": 20, "cost_usd": COST}
    return {"text": reply.text, "tool_calls": calls, "usage": usage}


def compare(observed: Mapping[str, Mapping[str, Outcome]]) -> list[Row]:
    """Play each case that was run under its preset as well."""
    rows = []
    for case in CASES:
        outcome = observed.get(case.harness, {}).get(case.name)
        if outcome is not None:
            rows.append(Row(case, outcome, theirs(case, outcome), ours(case)))
    return rows


def read_kept(path: Path = KEPT) -> dict[str, dict[str, Outcome]]:
    """What was kept, by harness and case; nothing if there is no such file."""
    if not path.exists():
        return {}
    kept: dict[str, dict[str, list[Any]]] = json.loads(path.read_text(encoding="utf-8"))
    return {harness: {name: Outcome(*seen) for name, seen in rows.items()} for harness, rows in kept.items()}


def keep(observed: Mapping[str, Mapping[str, Outcome]], path: Path = KEPT) -> None:
    """Write what is to be kept, one case a line, so that a change shows."""
    blocks = []
    for harness, rows in observed.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(list(seen))}" for name, seen in rows.items())
        blocks.append(f" {json.dumps(harness)}: {{\n{lines}\n }}")
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def page(rows: Sequence[Row]) -> str:
    """The page of documentation."""
    parts = [HEAD.format(enough=ENOUGH, whole=ENOUGH + 1)]
    for name, harness in HARNESSES.items():
        package, version = wanted(name)
        of_harness = [row for row in rows if row.case.harness == name]
        if not of_harness:
            parts.append(f"## {package} {version}\n\nNever run: it could not be installed.\n")
            continue
        presets = " and ".join(f"`{preset}`" for preset in dict.fromkeys(harness.presets.values()))
        agreeing = sum(row.verdict == "agrees" for row in of_harness)
        compared = f"Presets {presets}: {agreeing} of {len(of_harness)} runs agree." if presets else "No preset."
        parts.append(
            f"## {package} {version}\n\n{compared}\n\n"
            "| script | how the limit is set | limit | requests | tools run | exit | end as reported | preset |\n"
            "|-|-|-|-|-|-|-|-|\n" + "".join(_line(row) for row in of_harness)
        )
    return "\n".join(parts)


def _line(row: Row) -> str:
    case, outcome = row.case, row.outcome
    way = HARNESSES[case.harness].ways[case.way].shown if case.way else "not set"
    script = "in a subagent: different" if case.script == "delegate" else case.script
    end = outcome.end + (f"; to the main loop: {outcome.told}" if outcome.told else "")
    limit = "" if case.limit is None else f"{case.limit:g}"
    return (
        f"| {script} | {way} | {limit} | {row.theirs.requests} | {row.theirs.ran} | {outcome.code} | {_cell(end)} "
        f"| {_said(row)} |\n"
    )


def _said(row: Row) -> str:
    if row.ours is None:
        return "no preset"
    held = row.case.way is None or HARNESSES[row.case.harness].ways[row.case.way].holds
    without = "" if held else ", without a limit"
    if row.verdict == "agrees":
        race = "" if _settled(row.case) else "; whether the calls of the last response run is a race"
        return f"agrees: {row.ours.reason}{without}{race}"
    reason = KNOWN.get((row.case.harness, row.case.name), "")
    here = f"{row.ours.requests} requests, {row.ours.ran} tools, {row.ours.reason}"
    return f"{row.verdict}: {here}{'; ' if reason else ''}{reason}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
