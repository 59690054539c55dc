"""Run the adapters of `bl.Monitor` in the released packages, and compare where they stop with `bl.counterfactual`.

Each case is a script of calls, made up or from a recorded run of the atlas, and a rule. boolab runs the script without
a limit, and `bl.counterfactual` evaluates the rule over that record (or over the recorded run). Each package runs the
same script under its adapter. Writes what the packages did to `monitors.json` and the comparison to `docs/monitors.md`.
Exits with 1 if an adapter stops elsewhere or for another reason.

Usage: python -m benchmarks.conformance.monitors [--kept]
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import boolab as bl
from benchmarks.conformance.scenarios import FAIL, Turn, call, each, looks, turn
from benchmarks.environments import ROOT, Skipped, answer, environment

KEPT: Final = Path(__file__).with_name("monitors.json")
GUIDE: Final = ROOT / "docs" / "howto" / "guard_my_own_loop.md"
PAGE: Final = ROOT / "docs" / "monitors.md"
DRIVERS: Final = Path(__file__).parent / "peers"
PLAY_S: Final = 600
Spec = tuple[tuple[tuple[Any, ...], ...], ...]
"""A rule as plain data: alternatives, each of thresholds that are all true."""


class Adapter(NamedTuple):
    """An adapter: the environment it runs in, its driver, and how it ends a run."""

    environment: str
    driver: str
    ends: str
    """The word of the driver for the end at a stop."""
    end_in_words: str
    skips: Mapping[str, str] = {}
    """Cases for which the package has no place, with the reason."""


_NO_PLACE: Final = "no place before the calls"
ADAPTERS: Final = {
    "langchain": Adapter(
        "langgraph", "langchain", "boolab_stop", "jumps to the end; reason in the last message and in `boolab_stop`"
    ),
    "pydantic-ai-slim": Adapter(
        "pydantic-ai-slim",
        "pydantic_ai",
        "boolab_stop",
        "the reason is the output, and the stop in the last response's `metadata`",
    ),
    "openai-agents": Adapter(
        "openai-agents",
        "openai_agents",
        "MaxTurnsExceeded",
        "`MaxTurnsExceeded` with the reason; what was done is in its `run_data`",
    ),
    "smolagents": Adapter(
        "smolagents",
        "smolagents",
        "AgentError: Agent interrupted.",
        "`agent.interrupt()`; reason in the last step's observations",
        {"2 tool steps, at the response": _NO_PLACE, "no steps at all": "it begins with a step"},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A script and a rule.

    Attributes:
        name: What is tried.
        script: What the model does, in order.
        rule: The rule.
        action: What the monitor does when it is true.
        recorded: The recorded run that the script is from, if it is from one.
    """

    name: str
    script: tuple[Turn, ...]
    rule: Spec
    action: str = "stop"
    recorded: bl.Run | None = None


class Expected(NamedTuple):
    """What `bl.counterfactual` gives, and the cost of that."""

    stop: tuple[str, int] | None
    model_calls: int
    tools_run: int


@functools.cache
def cases() -> tuple[Case, ...]:
    """All cases."""
    return (*made_cases(), *_recorded())


def made_cases() -> tuple[Case, ...]:
    """The cases whose scripts are made up."""
    same, mixed = each(turn(call("look", "1"))), each(turn(call("look", "1"), call("look", "2")))
    alternating = tuple(turn(call("look", str(n % 2))) for n in range(12))
    steps3 = ((("max_steps", 3),),)
    return (
        Case(name="3 steps", script=looks(), rule=steps3),
        Case(name="3 steps, finishes on step 3", script=looks(2), rule=steps3),
        Case(name="no steps at all", script=looks(), rule=((("max_steps", 0),),)),
        Case(name="5 calls, two a step", script=looks(per_turn=2), rule=((("tool_budget", 5),),)),
        Case(name="the same call 4 times", script=same, rule=((("max_steps", 9),), (("doom_loop", 4),))),
        Case(name="two calls in turn", script=alternating, rule=((("cycle", 2, 3),),)),
        Case(name="the same round of calls 3 times", script=mixed, rule=((("round_streak", 3),),)),
        Case(name="250 tokens, 100 a step", script=looks(), rule=((("max_tokens", 250),),)),
        Case(name="3 errors in a row", script=each(FAIL), rule=((("error_streak", 3),),)),
        Case(name="2 steps and the same call twice", script=same, rule=((("max_steps", 2), ("doom_loop", 2)),)),
        Case(name="nested", script=same, rule=((("max_steps", 5), ("tool_budget", 3)), (("max_tokens", 9_000),))),
        Case(name="2 tool steps, at the response", script=looks(), rule=((("max_tool_steps", 2),),)),
        Case(name="3 steps, in shadow", script=looks(5), rule=steps3, action="shadow"),
        Case(name="3 steps, nudged", script=looks(5), rule=steps3, action="nudge"),
    )


def _recorded() -> Iterator[Case]:
    """Runs of the atlas that have one turn and calls in each step."""
    sets = (("swebench-verified", (("doom_loop", 3),)), ("intercode-ctf", (("doom_loop", 4),)))
    for name, both in (*sets, ("intercode-bash", (("max_steps", 4),)), ("swebench-verified", (("tool_budget", 25),))):
        runs = (run for run in bl.load_dataset(f"atlas/{name}", progress=False) if _is_plain(run))
        run = next(run for run in runs if _first_stop(run, (both,)) is not None)
        script = tuple(
            turn(*(call("look", f"{one.name} {one.arguments}") for one in step.response.tool_calls))
            for step in run.steps
        )
        yield Case(name=f"recorded: {name}, {rule_of((both,))}", script=script, rule=(both,), recorded=run)


def _is_plain(run: bl.Run) -> bool:
    calls = all(step.response.tool_calls and None not in step.results for step in run.steps)
    return calls and len({step.turn for step in run.steps}) == 1 and len(run.steps) > 1


def rule_of(spec: Spec) -> bl.StopRule:
    """The rule that plain data name."""

    def leaf(name: str, *arguments: Any) -> bl.StopRule:  # noqa: ANN401 - plain data
        make: Callable[..., bl.StopRule] = getattr(bl, name, None) or getattr(bl.detectors, name)
        return make(*arguments)

    parts = (functools.reduce(lambda a, b: a & b, itertools.starmap(leaf, both)) for both in spec)
    return functools.reduce(lambda a, b: a | b, parts)


def _first_stop(run: bl.Run, spec: Spec) -> tuple[str, int] | None:
    """Where and why `bl.counterfactual` stops a run, its own limits apart; None if it does not."""
    if spec[0][0][0] == "max_tool_steps":
        policy = bl.Policy(name="rounds").vary(cap={"counts": "tool_steps", "check": "response"})
        how: dict[str, Any] = {"policy": policy, "grid": {"max_steps": [spec[0][0][1]]}}
    else:
        how = {"rules": rule_of(spec)}
    (row,) = bl.counterfactual(run, scope="turn", own_limits="lifted", **how).to_dict("records")
    return (row["stop_reason"], int(row["stop_step"])) if row["outcome"] == "truncated" else None


def record_of(case: Case) -> bl.Run:
    """The record over which the rule of a case is evaluated: boolab runs the script without a limit."""
    if case.recorded is not None:
        return case.recorded

    @bl.tool
    def look(what: str) -> str:
        """Look."""
        return f"seen {what}"

    @bl.tool
    def fail(what: str) -> str:
        """Fail."""
        raise bl.ToolError(what)

    items = [
        {
            "tool_calls": list(one["calls"]),
            "usage": {"input_tokens": one["tokens"][0], "output_tokens": one["tokens"][1]},
        }
        for one in case.script
    ]
    model = bl.ScriptedModel([*items, "done"])
    return bl.run_sync(None, "go", model=model, tools=[look, fail], policy="naive", stop=bl.max_steps(1_000))


def expected_of(case: Case) -> Expected:
    """What a run under the adapter has to do."""
    stop = _first_stop(record_of(case), case.rule)
    if stop is None or case.action != "stop":
        return Expected(stop, len(case.script) + 1, sum(len(one["calls"]) for one in case.script))
    steps = stop[1]
    further = case.rule[0][0][0] == "max_tool_steps"  # the response whose calls are dropped
    return Expected(stop, steps + further, sum(len(one["calls"]) for one in case.script[:steps]))


def play(name: str) -> dict[str, Any]:
    """Run all cases of an adapter in its package.

    Args:
        name: One of `ADAPTERS`.

    Raises:
        Skipped: if the package cannot be run.
    """
    adapter = ADAPTERS[name]
    finish = turn(call("final_answer", "done")) if name == "smolagents" else turn(text="done")
    tried = [case for case in cases() if case.name not in adapter.skips]
    asked = [{"script": [*one.script, finish], "rule": one.rule, "action": one.action} for one in tried]
    driver = DRIVERS / f"{adapter.driver}_monitor.py"
    snippet = snippets()[name][0]
    said = answer(
        environment(adapter.environment), driver, {"root": str(ROOT), "cases": asked, "snippet": snippet}, PLAY_S
    )
    found = {one.name: got for one, got in zip(tried, said["found"], strict=True)}
    return {"version": said["version"], "found": found, "snippet": snippet, "printed": said["printed"]}


def snippets() -> dict[str, tuple[str, str]]:
    """By adapter: its example in the guide, and what the guide says that it prints."""
    blocks = re.findall(
        r"<!-- not run: runs where (\S+) is installed -->\n```python\n(.*?)```\n\n```\n(.*?)```",
        GUIDE.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    return {name: (code, shown) for name, code, shown in blocks}


def differences(kept: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """What differs from `bl.counterfactual`, by adapter and case.

    Args:
        kept: What the packages did.
    """
    found = {}
    for name, (code, shown) in snippets().items():
        if name in kept and (kept[name]["snippet"], kept[name]["printed"]) != (code, shown):
            found[name, "the example of the guide"] = f"{kept[name]['printed']!r} instead of {shown!r}, or it is new"
    for case in cases():
        expected = expected_of(case)
        for name, one in kept.items():
            if case.name not in one["found"]:
                continue
            got = one["found"][case.name]
            stop = None if got["stop"] is None else tuple(got["stop"][:2])
            ends = ADAPTERS[name].ends if stop is not None and case.action == "stop" else "finished"
            reason = f"by {got['stop'][2]}." if ends != "finished" else ""
            facts = (stop, got["model_calls"], got["tools_run"])
            if facts != tuple(expected) or got["end"] != ends or not got["reason"].endswith(reason):
                found[name, case.name] = f"{got} instead of {expected}, {ends}"
            elif not case.rule[0][0][0].startswith("error") and got["kept"] != got["tools_run"]:
                found[name, case.name] = f"{got['kept']} results kept of {got['tools_run']}"
            elif got["nudged"] != (case.action == "nudge"):
                found[name, case.name] = f"the message of a nudge was {'' if got['nudged'] else 'not '}sent"
    return found


def page(kept: Mapping[str, Any]) -> str:
    """The text of docs/monitors.md."""
    wrong = differences(kept)
    names = list(kept)
    lines = [
        "# Monitors in other packages",
        "",
        "`bl.Monitor` in the loops of released packages, by the adapters of `boolab.integrations`: see",
        "[Guard my own loop](howto/guard_my_own_loop.md). Each case is a script of calls and a rule.",
        "`bl.counterfactual` evaluates the rule over boolab's record of the script, or over the recorded run of the",
        "atlas that it is from. The package runs the same script under its adapter. It *agrees* if it stops after the",
        "same step, for the same reason, with as many requests and executed calls, ends in its own regular way, and",
        "keeps all results. A nudge has to be in a request that follows.",
        "`make conformance` makes this page from [monitors.py](../benchmarks/conformance/monitors.py).",
        "",
        "| package | at a stop |",
        "|-|-|",
        *(f"| {name} {kept[name]['version']} | {ADAPTERS[name].end_in_words} |" for name in names),
        "",
        f"| case | rule | counterfactual | {' | '.join(names)} |",
        f"|-|-|-|{'-|' * len(names)}",
    ]
    for case in cases():
        expected, cells = expected_of(case), []
        for name in names:
            skipped = ADAPTERS[name].skips.get(case.name)
            cells.append(skipped or ("differs" if (name, case.name) in wrong else "agrees"))
        rule = "max_tool_steps(2)" if "response" in case.name else str(rule_of(case.rule)).replace("|", "\\|")
        stop = "no stop" if expected.stop is None else f"{expected.stop[0]} after step {expected.stop[1]}"
        title = case.name.partition(",")[0] if case.recorded else case.name
        lines.append(f"| {title} | `{rule}` | {stop} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def read_kept() -> dict[str, Any]:
    """What the packages did when they were last run."""
    return dict(json.loads(KEPT.read_text(encoding="utf-8"))) if KEPT.exists() else {}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", action="store_true", help="run no package: compare with what they did last time")
    asked = parser.parse_args()
    kept = {name: one for name, one in read_kept().items() if name in ADAPTERS}
    for name in () if asked.kept else ADAPTERS:
        print(f"{name}: running its adapter", file=sys.stderr)
        try:
            kept[name] = play(name)
        except Skipped as reason:
            print(f"skipped      {name}: {reason}")
    kept = {name: kept[name] for name in ADAPTERS if name in kept}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")
    wrong = differences(kept)
    for (name, case), why in wrong.items():
        print(f"differs      {name}, {case}: {why}")
    print(f"agrees: {sum(len(one['found']) + 1 for one in kept.values()) - len(wrong)}, differs: {len(wrong)}")
    return 1 if wrong or not kept else 0


if __name__ == "__main__":
    sys.exit(main())
