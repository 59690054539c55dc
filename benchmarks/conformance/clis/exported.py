"""Exports to harnesses of the command line, set in the released packages: do they stop where boolab says?

Each case is a limit and a script of the model. The exported flags are given, or the exported file is written, and the
same script is a run in boolab under the same limit. Prints the table of docs/howto/set_it_in_my_harness.md.

Usage: python -m benchmarks.conformance.clis.exported
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import boolab as bl
from benchmarks.conformance.clis.harness import Harness
from benchmarks.conformance.clis.harnesses import HARNESSES
from benchmarks.conformance.clis.packages import wanted
from benchmarks.conformance.clis.run import Outcome, play
from benchmarks.conformance.clis.scripts import Loop, script_named
from benchmarks.environments import Skipped
from boolab.core.text import count
from boolab.harnesses.exports.export import export, target_of
from boolab.harnesses.exports.values import Export, Limits

AGENT: Final = "appender"
"""The subagent of the harnesses."""
_LONG: Final = 20
SHOWN: Final = {"different": "one call a step", "batch": "two calls a step", "delegate": "a subagent, one call a step"}


class Stop(NamedTuple):
    """How far a loop came: the responses that were paid for, and the calls that ran."""

    responses: int
    calls: int

    def __str__(self) -> str:
        return f"{count(self.responses, 'response')}, {count(self.calls, 'call')}"


class Case(NamedTuple):
    """A limit, and what the model does."""

    target: str
    limits: Limits
    script: str


def cases() -> Iterator[Case]:
    """All cases of the harnesses that can be run."""
    for target in HARNESSES:
        if all(row.limit != "max_steps" for row in target_of(target).sets):
            continue
        for n in (1, 3, 10):
            for script in ("different", "batch", f"finish-{n}", f"finish-{n + 1}"):
                yield Case(target, Limits(max_steps=n), script)
            yield Case(target, Limits(max_steps=n, agent=AGENT), "delegate")


def expected(limits: Limits, script: str) -> Stop:
    """Where boolab stops the script: its live loop under the same cap."""
    loop: Loop = "main" if limits.agent is None else "subagent"
    replies = [script_named(script)(loop, n) for n in range(_LONG)]
    items = [
        {"tool_calls": [{"name": "shell", "arguments": {"n": f"{n}.{k}"}} for k in range(len(reply.calls))]}
        if reply.calls
        else reply.text
        for n, reply in enumerate(replies)
    ]
    rule = bl.max_steps(limits.max_steps or _LONG)
    run = bl.run_sync(None, "go", model=bl.ScriptedModel(items, tools={"shell": "done"}), stop=rule)
    return Stop(run.n_steps, run.n_tool_calls)


def found(case: Case, harness: Harness) -> tuple[Stop, Outcome]:
    """Where the released package stops it."""
    made = export(case.target, case.limits)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        work = files / "work"
        work.mkdir()
        for name, text in harness.base("http://127.0.0.1").files.items():
            (files / name).parent.mkdir(parents=True, exist_ok=True)
            (files / name).write_text(text, encoding="utf-8")
        if any(part.path for part in made.parts):
            made.write(root=_root(harness, files) if case.limits.agent else work)
        outcome = play(harness, case.script, files=files, arguments=flags_of(made)).outcome
        shutil.rmtree(work)
    if case.limits.agent is not None:
        return Stop(outcome.subagent_requests, outcome.subagent_ran), outcome
    return Stop(outcome.requests, outcome.ran), outcome


def _root(harness: Harness, files: Path) -> Path:
    """The folder whose agents have the subagent: that of the project or of the user."""
    homes = [name for name in harness.base("").files if name.endswith(f"agents/{AGENT}.md")]
    return files / homes[0].partition("/")[0] if homes else files / "work"


def flags_of(made: Export) -> list[str]:
    """The flags of an exported command, between `claude -p` and the prompt."""
    commands = [part.text.splitlines()[-1] for part in made.parts if part.language == "shell"]
    return [word for line in commands for word in shlex.split(line)[2:-1] if line.startswith("claude")]


def main() -> int:
    """Run all cases, and print the table."""
    print("| released package | limit | script | stops after | boolab | agrees |\n|-|-|-|-|-|-|")
    for case in cases():
        harness = HARNESSES[case.target]
        try:
            seen, outcome = found(case, harness)
        except Skipped as reason:
            print(f"skipped: {reason}", file=sys.stderr)
            continue
        ours = expected(case.limits, case.script)
        package, version = wanted(harness.name)
        who = " of the subagent" if case.limits.agent else ""
        script = SHOWN.get(case.script) or f"finishes at response {case.script.rpartition('-')[2]}"
        same = "yes" if seen == ours else "no"
        print(
            f"| {package} {version} | {case.limits.in_words()}{who} | {script} | {seen} | {ours} | {same} |",
            flush=True,
        )
        if outcome.code is None:
            print(f"{case}: no end in time", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
