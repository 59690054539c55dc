"""Run what boolab exports in the released packages, and compare where it stops with `bl.counterfactual`.

Each case is a limit and a script. The text that `boolab export` prints is executed in the package's own environment;
the same script without limits is a run here, and `bl.counterfactual` names the step at which the limit stops it. Both
have to execute the same number of steps, and the same calls. Writes what the packages did to `exported.json`, the
comparison to `docs/exports.md`, and every case to `docs/tables/exports.md`. Exits with 1 if they differ otherwise than
`known.py` has it.

Usage: python -m benchmarks.conformance.exported [TARGET ...] [--kept]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import boolab as bl
from benchmarks.conformance.known import EXPORTED
from benchmarks.conformance.presets import Counted, policy_of
from benchmarks.conformance.released import DRIVERS, PLAY_S
from benchmarks.conformance.scenarios import DONE, Turn, call, looks, turn
from benchmarks.environments import ROOT, Skipped, answer, environment
from boolab.harnesses.exports.export import export, target_of
from boolab.harnesses.exports.step_cap import step_cap
from boolab.harnesses.exports.values import Export, Limits
from boolab.limits.table import LIMITS

Verdict: TypeAlias = Literal["agrees", "differs", "known", "outdated"]

KEPT: Final = Path(__file__).with_name("exported.json")
DOCS: Final = Path(__file__).parents[2] / "docs"
LENGTH: Final = 30
"""How many turns an endless script has: more than any limit here lets through."""

PACKAGES: Final[Mapping[str, str]] = {
    "langgraph, create_agent": "langchain",
    "langgraph, create_react_agent": "langgraph",
    "langchain": "langchain",
    "pydantic-ai": "pydantic-ai-slim",
    "openai-agents": "openai-agents",
    "smolagents": "smolagents",
    "inspect": "inspect-ai",
    "mini-swe-agent": "mini-swe-agent",
}
"""The environment of each target; LangGraph has two agents with a number of their own."""

TARGET_LIMITS: Final[Mapping[str, tuple[str, ...]]] = {
    "langgraph, create_agent": ("max_steps",),
    "langgraph, create_react_agent": ("max_steps",),
    "langchain": ("max_steps", "tool_budget"),
    "pydantic-ai": ("max_steps", "tool_budget", "max_tokens", "max_cost"),
    "openai-agents": ("max_steps",),
    "smolagents": ("max_steps",),
    "inspect": ("max_steps", "max_tokens", "max_cost"),
    "mini-swe-agent": ("max_steps", "max_cost"),
}
"""The limits of each target that the package itself sets and that need no clock."""

MONITORED: Final[Mapping[str, tuple[str, ...]]] = {
    "langchain": ("doom_loop", "max_tokens"),
    "pydantic-ai": ("doom_loop",),
    "openai-agents": ("tool_budget", "doom_loop", "error_streak", "max_tokens"),
    "smolagents": ("tool_budget", "doom_loop", "error_streak", "max_tokens"),
}
"""Those that the exported text sets by boolab's monitor. LangChain and Pydantic AI end a run at the first errors."""

FINISH: Final[Mapping[str, Turn]] = {
    "smolagents": turn(call("final_answer", "done")),
    "inspect": turn(call("submit", "done")),
    "mini-swe-agent": turn(call("submit", "done")),
}
"""How a run of the target finishes, where that is not a text."""

HEAD: Final = """# Exports in the released packages

`boolab export TARGET` and `finding.export(TARGET)` give limits as the settings of a harness. This page shows where
these settings stop. A case is a limit and a script of a model. The exported text is executed in the released package,
with a model that plays the script. The same script is a run without limits here, and `bl.counterfactual` names the step
at which the limit stops it. They agree if both execute the same number of steps, and the same calls.
[All cases](tables/exports.md) are in a table.

A limit that a package lacks is set by boolab's monitor, which is then a part of the exported text. Under the preset of
the harness (`policy=`), `bl.counterfactual` names the package's own step in each case; the tests hold that too.

`make conformance` makes this page, and the tests compare it with boolab without the packages. The scripts are in
[exported.py](../benchmarks/conformance/exported.py), and known differences have their reasons in
[known.py](../benchmarks/conformance/known.py).
"""

TABLES_HEAD: Final = """# All cases of exports in the released packages

The cases of [exports](../exports.md), by target. A step is a response of the model with its calls; a final answer is a
step too. Responses are those that were paid for. More of them than steps means that the harness evaluates its limit at
the response: the one beyond the limit is paid for and dropped. smolagents asks for a summary after its cap. Where the
exported text has boolab's monitor, the row shows the rule. Where both sides differ, the reason is given.
"""


class Case(NamedTuple):
    """One limit and one script."""

    target: str
    limit: str
    value: float
    name: str
    script: tuple[Turn, ...]

    @property
    def key(self) -> str:
        """The case among those of its target."""
        return f"{self.limit}={self.value:g}, {self.name}"


class Seen(NamedTuple):
    """What a run did: steps that were executed, the arguments of the calls in order, responses that were paid for."""

    steps: int
    calls: list[str]
    responses: int


class Row(NamedTuple):
    """A case on both sides."""

    case: Case
    theirs: Seen
    ours: Seen
    by_preset: Seen

    @property
    def verdict(self) -> Verdict:
        """Whether both executed the same."""
        agrees = self.theirs[:2] == self.ours[:2]
        if self.theirs[:2] != self.by_preset[:2]:
            return "differs"
        if known(self.case):
            return "outdated" if agrees else "known"
        return "agrees" if agrees else "differs"


def known(case: Case) -> str:
    """The reason of a known difference; "" if there is none."""
    return EXPORTED.get((case.target.partition(",")[0], case.key), "")


def cases() -> Iterator[Case]:
    """All cases, target by target."""
    for target, limits in TARGET_LIMITS.items():
        finish = FINISH.get(target, DONE)
        for limit in (*limits, *MONITORED.get(target, ())):
            for value, name, script in _scripts(limit, finish):
                yield Case(target, limit, value, name, _priced(script, limit))


def _scripts(limit: str, finish: Turn) -> Iterator[tuple[float, str, tuple[Turn, ...]]]:
    single, double, triple = ((*looks(LENGTH, per_turn), finish) for per_turn in (1, 2, 3))
    if limit == "max_steps":
        for n in (1, 3, 10, 20):
            yield n, "one call a step", single
            yield n, "two calls a step", double
            yield n, f"finishes on step {n}", (*looks(n - 1), finish)
            yield n, f"finishes on step {n + 1}", (*looks(n), finish)
    elif limit == "tool_budget":
        for n in (3, 6, 9):
            yield n, "one call a step", single
            yield n, "two calls a step", double
            yield n, "three calls a step", triple
            yield n, f"finishes after {n - 1} calls", (*looks(n - 1), finish)
            yield n, f"finishes after {n} calls", (*looks(n), finish)
    elif limit in ("doom_loop", "error_streak"):
        true = call("look", "same") if limit == "doom_loop" else call("fail", "x")
        for n in (3, 5):
            yield n, "always", (*(turn(true) for _ in range(LENGTH)), finish)
            yield n, "always, two calls a step", (*(turn(true, true) for _ in range(LENGTH)), finish)
            yield n, "never: another call comes before", (*(turn(true) for _ in range(n - 1)), *looks(2), finish)
            yield n, "after another call", (*looks(2), *(turn(true) for _ in range(LENGTH)), finish)
    else:  # a step has 100 tokens, and costs a dollar
        for n in (1, 3, 10):
            value, less = (100 * n, 25) if limit == "max_tokens" else (float(n), 0.25)
            yield value, "one call a step", single
            yield value, "two calls a step", double
            yield value, f"finishes on step {n}", (*looks(n - 1), finish)
            yield value - less, "one call a step", single


def _priced(script: Iterable[Turn], limit: str) -> tuple[Turn, ...]:
    """Turns cost nothing, unless it is the cost that is limited: some packages have a limit on it by default."""
    return tuple({**said, "cost": said["cost"] if limit == "max_cost" else 0.0} for said in script)


def exported(case: Case) -> Export:
    """What is exported for a case."""
    return export(case.target.partition(",")[0], Limits(**{case.limit: case.value}))  # type: ignore[arg-type]


def code_of(case: Case) -> str:
    """The text that is executed: the first part, or the second where a target has a part for each of two agents."""
    return exported(case).parts[case.target.endswith("create_react_agent")].text


def setting_of(case: Case) -> str:
    """The settings in the text, without what is around them."""
    lines = "".join(line for line in code_of(case).splitlines(keepends=True) if not line.lstrip().startswith("#"))
    found = re.findall(r'"?(\w+_limit|max_turns|max_steps)"?[=:] ?(Decimal\("[\d.]+"\)|[\d.]+)', lines)
    rule = re.findall(r"^rule = (.*)$", lines, re.MULTILINE)
    return ", ".join([*(f"{name}={value}" for name, value in found), *rule])


def observe(target: str, python: Path, of_target: Sequence[Case]) -> tuple[str, list[Seen]]:
    """The version of a package, and what it did with the exported texts."""
    driver = DRIVERS / f"{PACKAGES[target].replace('-', '_')}_peer.py"
    asked = [
        {"name": one.key, "script": list(one.script), "code": code_of(one), "root": str(ROOT)} for one in of_target
    ]
    said = answer(python, driver, asked, PLAY_S)
    ends = {one["end"] for one in said["observations"]}
    if "script over" in ends:
        msg = f"{target}: a script ended before its limit"
        raise Skipped(msg)
    return said["version"], [Seen(one["steps"], one["calls"], one["responses"]) for one in said["observations"]]


def predicted(of_cases: Sequence[Case], *, by_preset: bool = False) -> list[Seen]:
    """What `bl.counterfactual` has for each case, from the run of its script without limits.

    Args:
        of_cases: The cases.
        by_preset: Whether the exported number is evaluated as the preset of the harness does it; otherwise the limit
            that was asked for is evaluated as a rule of boolab's.
    """
    runs: dict[tuple[str, str], Any] = {}
    for case in of_cases:
        place = (case.target, repr(case.script))
        if place not in runs:
            runs[place] = _unlimited(case)
    groups: dict[tuple[str, str | None], list[Case]] = {}
    for case in of_cases:
        groups.setdefault((case.limit, _preset(case) if by_preset else None), []).append(case)
    stops: dict[tuple[str, str, float], int | None] = {}
    for (limit, preset), mine in groups.items():
        recorded = {run.run_id: run for case in mine for run in [runs[case.target, repr(case.script)]]}
        values = sorted({_evaluated(case, preset) for case in mine})
        table = bl.counterfactual([*recorded.values()], grid={limit: values}, scope="turn", policy=preset)
        for row in table[["run_id", limit, "outcome", "stop_step"]].itertuples(index=False):
            stops[row[0], limit, float(row[1])] = None if row[2] == "unchanged" else int(row[3])
    found = []
    for case in of_cases:
        run = runs[case.target, repr(case.script)]
        value = _evaluated(case, _preset(case) if by_preset else None)
        stop = stops[run.run_id, case.limit, float(value)]
        steps = run.steps if stop is None else run.steps[:stop]
        calls = [json.loads(one.arguments) for step in steps for one in step.response.tool_calls]
        looked = sorted(given["what"] for given in calls if "what" in given)
        found.append(Seen(len(steps), looked, len(steps)))
    return found


def preset_of(target: str) -> str:
    """The preset of a target's harness."""
    return "langgraph_react" if target.endswith("create_react_agent") else target_of(target.partition(",")[0]).preset


def _preset(case: Case) -> str | None:
    """The preset that evaluates a case; None for a limit that boolab's monitor evaluates."""
    return preset_of(case.target) if case.limit in TARGET_LIMITS[case.target] else None


def _evaluated(case: Case, preset: str | None) -> float:
    """The number that is evaluated: a cap under a preset is in the harness's own unit."""
    return case.value if preset is None or case.limit != "max_steps" else step_cap(int(case.value), preset).value


def _unlimited(case: Case) -> Any:  # noqa: ANN401 - a run
    """The run of a script under the package's preset without limits."""

    def look(what: str) -> str:
        """Look."""
        return f"seen {what}"

    def finish(answer: str) -> str:
        """Hand in the answer."""
        return answer

    def fail(what: str) -> str:
        """Fail."""
        raise bl.ToolError(what)

    package = PACKAGES[case.target]
    policy = policy_of(package, {"cost_limit": 0.0} if package == "mini-swe-agent" else {})
    finishing = [bl.tool(name=name)(finish) for name in policy.finish.tools]
    run = bl.run_sync(None, "go", model=Counted(case.script), tools=[look, fail, *finishing], policy=policy)
    if run.stop_reason != "finished":
        msg = f"{case.target}, {case.key}: the run without limits ended with {run.stop_reason}"
        raise RuntimeError(msg)
    return run


def read_kept(path: Path = KEPT) -> dict[str, tuple[str, dict[str, Seen]]]:
    """The version and what was observed of each target, by case."""
    if not path.exists():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {
        target: (one["version"], {key: Seen(*seen) for key, seen in one["cases"].items()})
        for target, one in kept.items()
    }


def keep(observed: Mapping[str, tuple[str, Mapping[str, Seen]]], path: Path = KEPT) -> None:
    """Write what is kept, one case a line."""
    blocks = []
    for target, (version, seen) in sorted(observed.items()):
        lines = ",\n".join(f"   {json.dumps(key)}: {json.dumps(one)}" for key, one in seen.items())
        blocks.append(
            f' {json.dumps(target)}: {{\n  "version": {json.dumps(version)},\n  "cases": {{\n{lines}\n  }}\n }}'
        )
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def compare(observed: Mapping[str, tuple[str, Mapping[str, Seen]]]) -> list[Row]:
    """Every observed case on both sides."""
    mine = [case for case in cases() if case.target in observed and case.key in observed[case.target][1]]
    return [
        Row(case, observed[case.target][1][case.key], ours, preset)
        for case, ours, preset in zip(mine, predicted(mine), predicted(mine, by_preset=True), strict=True)
    ]


def pages(rows: Sequence[Row], observed: Mapping[str, tuple[str, Mapping[str, Seen]]]) -> dict[Path, str]:
    """The pages of documentation, by their files: the overview, and the table of all cases."""
    parts = [TABLES_HEAD]
    for target in PACKAGES:
        cases_of_target = [row for row in rows if row.case.target == target]
        if cases_of_target:
            package = f"{PACKAGES[target]} {observed[target][0]}"
            parts.append(
                f"## {target}\n\nRun with {package}.\n\n"
                "| limit | exported | script | stops after | responses | boolab | agrees |\n|-|-|-|-|-|-|-|\n"
                + "".join(_line(row) for row in cases_of_target)
            )
    overview = f"{HEAD}\n{_overview(rows, observed)}"
    return {DOCS / "exports.md": overview, DOCS / "tables" / "exports.md": "\n".join(parts)}


def _overview(rows: Sequence[Row], observed: Mapping[str, tuple[str, Mapping[str, Seen]]]) -> str:
    lines = ["| target | released package | limits | agree | known differences |", "|-|-|-|-|-|"]
    for target in PACKAGES:
        mine = [row for row in rows if row.case.target == target]
        if mine:
            limits = ", ".join(LIMITS[name].label for name in (*TARGET_LIMITS[target], *MONITORED.get(target, ())))
            agree, left = (sum(row.verdict == verdict for row in mine) for verdict in ("agrees", "known"))
            package = f"{PACKAGES[target]} {observed[target][0]}"
            lines.append(f"| {target} | {package} | {limits} | {agree} of {len(mine)} | {left} |")
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    case, reason = row.case, known(row.case)
    verdict = {"agrees": "yes", "known": f"no: {reason}"}.get(row.verdict, row.verdict)
    asked = LIMITS[case.limit].with_value(int(case.value) if case.value == int(case.value) else case.value)
    return (
        f"| {asked} | `{setting_of(case)}` | {case.name} | {_words(row.theirs)} | {row.theirs.responses} "
        f"| {_words(row.ours)} | {verdict} |\n"
    )


def _words(seen: Seen) -> str:
    steps, calls = seen.steps, len(seen.calls)
    return f"{steps} step{'s' * (steps != 1)}, {calls} call{'s' * (calls != 1)}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", help=f"one of {'; '.join(PACKAGES)}; all of them unless named")
    parser.add_argument("--kept", action="store_true", help="run no package: compare with what they did last time")
    asked = parser.parse_args()
    wanted = asked.target or list(PACKAGES)
    observed = {target: one for target, one in read_kept().items() if target in PACKAGES}
    everything = list(cases())
    failed = False
    for target in () if asked.kept else wanted:
        print(f"{target}: running what is exported in {PACKAGES[target]}", file=sys.stderr)
        mine = [case for case in everything if case.target == target]
        try:
            version, seen = observe(target, environment(PACKAGES[target]), mine)
        except Skipped as reason:
            failed = True
            print(f"skipped {target}: {reason}")
            continue
        observed[target] = (version, {case.key: one for case, one in zip(mine, seen, strict=True)})
    rows = compare(observed)
    keep(observed)
    for path, text in pages(rows, observed).items():
        path.write_text(text, encoding="utf-8")
    for row in rows:
        if row.verdict != "agrees":
            theirs, ours = _words(row.theirs), _words(row.ours)
            print(
                f"{row.verdict:9}{row.case.target:32}{row.case.key:42}{theirs:22}here: {ours}; "
                f"its preset: {_words(row.by_preset)}"
            )
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in ("agrees", "known", "differs")}
    print(", ".join(f"{verdict}: {n}" for verdict, n in counts.items()))
    return int(failed or any(row.verdict in ("differs", "outdated") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
