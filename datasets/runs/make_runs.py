"""Makes `coder.jsonl`: runs of a simulated agent that mends issues. See README.md beside this file.

The runs go through boolab's own loop with scripted models and scripted tools, on virtual time, so that each is a record
like any other. What the agent does comes from one random generator: the same seed gives the same file.

Usage: python datasets/runs/make_runs.py [FILE]
"""  # noqa: INP001 - a script beside its data

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from boolab import Agent, Run, ScriptedModel, max_cost, max_steps, run_sync, save_runs
from boolab.core.messages import Input, Message, Text
from boolab.core.types import Step

SEED = 7
MONDAY = datetime(2026, 11, 2, 8, tzinfo=UTC)
WEEK_OF_THE_CAP = MONDAY + timedelta(days=7)
CAP = 50
BRAKE = 5.0  # dollars; before the cap, the only limit
STUCK = 364

AREAS = ("cart", "login", "search", "export", "invoices", "avatars", "webhooks", "sitemap", "quotas", "imports", "mail",
         "themes")  # fmt: skip
ISSUES = (
    "Totals are off by one cent in {}",
    "Time zone is ignored in {}",
    "Empty input crashes {}",
    "Retry twice when {} times out",
    "Umlauts are lost in {}",
    "Cache of {} is never emptied",
    "Rename the option `fast` of {}",
    "Flaky test in {}",
)
NAMES = ("parse", "load", "render", "total", "retry", "flush", "encode", "check", "split", "merge", "bind", "close")

TOOLS = ("grep", "read_file", "edit_file", "run_tests", "wait_for_build")
AGENT = Agent(
    "coder",
    prompt="You mend one issue of this repository. Run the tests before you say that you are done.",
    tools=TOOLS,
    max_steps=None,
    tool_budget=None,
    doom_loop=None,
)


class Call(NamedTuple):
    """A tool call and what it gives."""

    tool: str
    arguments: dict[str, Any]
    result: str
    error: bool = False
    seconds: float = 0.2


class Act(NamedTuple):
    """What the agent does in one step."""

    calls: tuple[Call, ...]
    text: str = ""


class Plan(NamedTuple):
    """What the agent would do if nothing stopped it, and whether the issue is mended by then."""

    acts: list[Act]
    last_word: str
    success: bool


def main(path: Path) -> None:
    """Make the runs and write them."""
    random = Random(SEED)  # noqa: S311 - no secrets here
    save_runs(sorted(runs(random), key=lambda run: run.run_id), path)


def runs(random: Random) -> Iterator[Run]:
    """96 issues: all are worked on in the first week, a third of them again in the second, under a cap."""
    tasks = [issue.format(area) for issue, area in product(ISSUES, AREAS)]
    random.shuffle(tasks)
    hardness = [random.gauss(0, 1) for _ in tasks]
    again = sorted(random.sample(range(len(tasks)), 36))
    jobs = [*((place, False) for place in range(len(tasks))), *((place, True) for place in again)]
    late = {place: rank for rank, place in enumerate(again)}
    for number, (place, capped) in enumerate(jobs):
        week, nth = (WEEK_OF_THE_CAP, late[place]) if capped else (MONDAY, place)
        start = week + timedelta(minutes=47 * nth + random.randrange(40))
        plan = planned(random, tasks[place], hardness[place], number)
        run = played(random, tasks[place], plan, capped=capped)
        if run.stop_reason == "finished" and chance(random, 0.15):
            run = followed_up(random, run)
        success = plan.success and run.stop_reason == "finished"
        yield replace(run, run_id=f"coder-{number:03}", started_at=start, success=success, seed=SEED)


# --- What the agent means to do ---------------------------------------------------------------------------------------


def planned(random: Random, task: str, hardness: float, number: int) -> Plan:
    """The plan of one run. Three are what the sample is for; the others come as they come."""
    area = task.rsplit(maxsplit=1)[-1].strip("`")
    area = area if area in AREAS else next(name for name in AREAS if name in task)
    if number == 41:  # noqa: PLR2004 - any one
        return Plan([*work(random, area, 9), *[grep_again(area)] * STUCK], "", success=False)
    if number in (20, 57, 78):
        return Plan([*work(random, area, 51 + number % 9), tests(random, passed=True)], "The tests pass.", success=True)
    if number in (99, 108, 121):
        acts = work(random, area, 54 + number % 7)
        acts[CAP - 1] = Act(tests(random, passed=False, wrong=1).calls, "All but one test pass now; one fix is left.")
        return Plan([*acts, tests(random, passed=True)], "The tests pass.", success=True)
    if chance(random, 1 / (1 + 2.718 ** (hardness - 1.5))):
        return mended(random, area, hardness)
    return failed(random, area)


def mended(random: Random, area: str, hardness: float) -> Plan:
    """Work that ends in a success, some of it after polls or a flaky test."""
    length = round(min(38, max(3, random.lognormvariate(2.35 + 0.2 * hardness, 0.5))))
    acts = work(random, area, length - 2)
    if chance(random, 0.13):
        acts += polls(random, random.randint(4, 14))
    (flaky,) = random.choices((1, 2, 0), (6, 3, 91))
    acts += [tests(random, passed=False, wrong=1) for _ in range(flaky)]
    return Plan([*acts, tests(random, passed=True)], "The tests pass.", success=True)


def failed(random: Random, area: str) -> Plan:
    """Work that leads nowhere, some of it into a loop."""
    length = round(min(110, max(9, random.lognormvariate(3.4, 0.55))))
    acts = work(random, area, length)
    (end,) = random.choices(("same grep", "same edit", "polls", "no loop"), (20, 15, 10, 55))
    if end == "same grep":
        acts += [grep_again(area)] * random.randint(6, 40)
    elif end == "same edit":
        acts += [edit_again(area)] * random.randint(4, 18)
    elif end == "polls":
        acts += polls(random, random.randint(4, 14))
    return Plan(acts, random.choice(("I could not reproduce it.", "It should work now.")), success=False)


def work(random: Random, area: str, length: int) -> list[Act]:
    """So many steps of looking, editing and testing, no call twice in a row."""
    acts: list[Act] = []
    last: tuple[str, str] | None = None
    while len(acts) < length:
        looking = chance(random, 0.85 if len(acts) < length * 0.5 else 0.35)
        calls = looks(random, area) if looking else changes(random, area)
        if (calls[0].tool, json.dumps(calls[0].arguments)) == last:
            continue
        last = (calls[-1].tool, json.dumps(calls[-1].arguments))
        said = chance(random, 0.1)
        acts.append(Act(calls, f"Next, {random.choice(NAMES)} in {area}." if said else ""))
    return acts


def looks(random: Random, area: str) -> tuple[Call, ...]:
    """A look or several at once."""
    names = random.sample(NAMES, random.choice((1, 1, 1, 2, 3)))
    line = random.randrange(10, 400)
    if chance(random, 0.5):
        return tuple(
            Call("grep", {"pattern": name}, f"{area}.py:{line + n}: def {name}(", seconds=0.1)
            for n, name in enumerate(names)
        )
    return tuple(
        Call("read_file", {"path": f"{area}.py", "from": line + 40 * n}, "(40 lines)") for n, _ in enumerate(names)
    )


def changes(random: Random, area: str) -> tuple[Call, ...]:
    """An edit, which may fail, or the tests."""
    (kind,) = random.choices(("test", "stale edit", "edit"), (40, 10, 50))
    if kind == "test":
        return tests(random, passed=False).calls
    edit = {"path": f"{area}.py", "line": random.randrange(10, 400)}
    if kind == "stale edit":
        return (Call("edit_file", edit, "the line has changed since it was read", error=True),)
    return (Call("edit_file", edit, "edited"),)


def tests(random: Random, *, passed: bool, wrong: int | None = None) -> Act:  # noqa: PT028 - no test of ours
    """All tests of the repository; `wrong` of them fail, if they do not pass."""
    n = 31
    wrong = 0 if passed else wrong or random.randint(1, 5)
    result = f"{n} passed" if passed else f"{wrong} failed, {n - wrong} passed"
    return Act((Call("run_tests", {}, result, seconds=6),))


def polls(random: Random, times: int) -> list[Act]:
    """The same call, and each time another result: a build that goes on."""
    done = sorted(random.sample(range(1, 99), times - 1))
    results = ["queued", *(f"running, {share}%" for share in done[1:]), "passed"]
    return [Act((Call("wait_for_build", {}, result, seconds=20),)) for result in results]


def grep_again(area: str) -> Act:
    """What a stuck agent looks for."""
    return Act((Call("grep", {"pattern": f"legacy_{area}_handler"}, "no match", seconds=0.1),))


def edit_again(area: str) -> Act:
    """What a stuck agent tries to change."""
    edit = {"path": f"{area}.py", "line": 12}
    return Act((Call("edit_file", edit, "the line has changed since it was read", error=True),))


# --- What comes of it -------------------------------------------------------------------------------------------------


def played(random: Random, task: str, plan: Plan, *, capped: bool) -> Run:
    """The run under the cap, or under nothing but the brake."""
    stop = max_steps(CAP) | max_cost(BRAKE) if capped else max_cost(BRAKE)
    return run_sync(AGENT, task, model=script(random, plan), stop=stop)


def chance(random: Random, share: float) -> bool:
    """True so often."""
    return random.random() < share


def script(random: Random, plan: Plan) -> ScriptedModel:
    """The plan as a model that answers so, with the results of its calls."""
    items: list[Any] = []
    results: dict[str, list[dict[str, Any]]] = {}
    paid = 0.0
    for number, act in enumerate(plan.acts):
        usage = used(random, number)
        if not plan.last_word and number >= len(plan.acts) - STUCK:  # the brake is reached by the last of them
            usage["cost_usd"] = round((BRAKE - paid) / (len(plan.acts) - number) + 0.000001, 6)
        paid += usage["cost_usd"]
        calls = [{"name": call.tool, "arguments": call.arguments} for call in act.calls]
        items.append({"text": act.text, "tool_calls": calls, "usage": usage, "latency_ms": random.randrange(900, 4000)})
        for call in act.calls:
            result = {"error" if call.error else "text": call.result, "latency_ms": round(1000 * call.seconds)}
            results.setdefault(call.tool, []).append(result)
    items.append({"text": plan.last_word, "usage": used(random, len(plan.acts)), "latency_ms": 1500})
    return ScriptedModel(items, name="simulated", tools={name: results.get(name, []) or [{}] for name in TOOLS})


def used(random: Random, number: int) -> dict[str, Any]:
    """Tokens and cost of a step: the later, the more it reads."""
    tokens = 3000 + 260 * number + random.randrange(200)
    out = random.randrange(40, 260)
    return {"input_tokens": tokens, "output_tokens": out, "cost_usd": round(0.0000006 * tokens + 0.000012 * out, 6)}


def followed_up(random: Random, run: Run) -> Run:
    """A session of two turns: the user wants something else besides."""
    ask = random.choice(
        ("Add a line to the changelog.", "Mend the same thing in the tests.", "Now say it in the docs.")
    )
    plan = Plan(work(random, random.choice(AREAS), random.randint(1, 7)), "Done.", success=True)
    second = run_sync(AGENT, ask, model=script(random, plan), stop=max_cost(BRAKE))
    pause = (run.duration_ms or 0) + 60_000
    steps = tuple(later(step, len(run.steps), pause) for step in second.steps)
    message = Input(len(run.steps) + 1, Message("user", (Text(ask),)))
    return replace(
        run,
        steps=(*run.steps, *steps),
        inputs=(message,),
        stop=second.stop,
        duration_ms=pause + (second.duration_ms or 0),
    )


def later(step: Step, after: int, pause: int) -> Step:
    """A step of the second turn: its number, its time, and ids that no call of the first turn has."""
    calls = tuple(call._replace(id=f"again_{call.id}") for call in step.response.tool_calls)
    results = tuple(result and result._replace(call_id=f"again_{result.call_id}") for result in step.results)
    return step._replace(
        index=step.index + after,
        turn=2,
        start_ms=(step.start_ms or 0) + pause,
        response=step.response._replace(tool_calls=calls),
        results=results,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("coder.jsonl"))
