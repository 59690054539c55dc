"""Makes `families.jsonl`: a simulated lead that mends issues and sends scouts ahead. See README.md beside this file.

All runs go through boolab's own loop, with scripted models and its own `task` tool, on virtual time. What the agents do
comes from one random generator: the same seed gives the same file.

Usage: python datasets/families/make_families.py [FILE]
"""  # noqa: INP001 - a script beside its data

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from boolab import Agent, Run, ScriptedModel, run_sync, save_runs, task_tool, tool, with_subagents
from boolab.core.messages import Message
from boolab.harnesses.policy import Policy

SEED = 11
MONDAY = datetime(2026, 11, 2, 8, tzinfo=UTC)
ISSUES = 100
AREAS = ("cart", "login", "search", "export", "invoices", "avatars", "webhooks", "sitemap", "quotas", "imports")
NAMES = ("parse", "load", "render", "total", "retry", "flush", "encode", "check", "split", "merge", "bind", "close")
FREE = Policy(name="free")

Item = dict[str, Any]


@tool(read_only=True)
def grep(pattern: str) -> str:
    """Find the lines with a text."""
    return f"{len(pattern)} lines with {pattern}"


@tool(read_only=True)
def read_file(path: str, line: int) -> str:
    """Read forty lines of a file."""
    return f"{path}, 40 lines from {line}"


@tool
def edit_file(path: str, line: int) -> str:
    """Change a line of a file."""
    return f"{path}:{line} changed"


@tool
def run_tests(failing: int) -> str:
    """Run all tests. The argument stands for how the world is."""
    return "31 passed" if not failing else f"{failing} failed, {31 - failing} passed"


def main(path: Path) -> None:
    """Make the runs and write them."""
    save_runs(list(runs(Random(SEED))), path)  # noqa: S311 - no secrets here


def runs(random: Random) -> Iterator[Run]:
    """One family for each issue."""
    for number in range(ISSUES):
        task = f"Issue {number + 1}: {random.choice(NAMES)} of {random.choice(AREAS)} gives a wrong result"
        good = random.random() < 0.75  # noqa: PLR2004 - so many are mended
        scripts: dict[str, list[Item]] = {}
        scripts[task] = lead(random, task, scripts, good=good)
        yield from named(played(task, scripts), f"lead-{number:03}", random, success=good)


# --- What the agents do -----------------------------------------------------------------------------------------------


def lead(random: Random, task: str, scripts: dict[str, list[Item]], *, good: bool) -> list[Item]:
    """The script of a lead; those of its scouts are put into `scripts`."""
    area = next(area for area in AREAS if area in task)
    length = length_of(random, 9, 0.4, most=24) if good else length_of(random, 16, 0.6, most=60)
    steps = [change(random, area, number, good=False) for number in range(length)]
    lost = not good and random.random() < 0.6  # noqa: PLR2004 - so many fail because a scout got lost
    count = random.choice((1, 1, 2))
    for nth in range(count):
        prompts = []
        for one in range(random.choice((1, 1, 1, 2))):
            prompt = f"{task}: where is {random.choice(NAMES)} used in {area}? ({nth + 1}.{one + 1})"
            scripts[prompt] = scout(random, area, lost=lost and nth == count - 1)
            prompts.append(prompt)
        calls = [{"name": "task", "arguments": {"agent": "scout", "prompt": prompt}} for prompt in prompts]
        steps.insert(random.randrange(1 + len(steps) // 2), calls)
    if good:
        steps.append([{"name": "run_tests", "arguments": {"failing": 0}}])
    return script(random, steps, "The tests pass." if good else "I could not find the cause.", context=4000)


def scout(random: Random, area: str, *, lost: bool) -> list[Item]:
    """The script of a scout, which looks at one thing after another; a lost one for long."""
    length = length_of(random, 26, 0.3, most=60) if lost else length_of(random, 5, 0.45, most=12)
    steps = []
    for number in range(length):
        line = 40 * number + random.randrange(40)
        look = {"name": "read_file", "arguments": {"path": f"{area}.py", "line": line}}
        find = {"name": "grep", "arguments": {"pattern": f"{random.choice(NAMES)}_{number}"}}
        steps.append(random.choice(([look], [find], [find, look])))
    return script(random, steps, f"It is in {area}.py, line {random.randrange(900)}.", context=1500)


def change(random: Random, area: str, number: int, *, good: bool) -> list[Item]:
    """A look, an edit or the tests."""
    kind = random.choice(("read_file", "edit_file", "edit_file", "run_tests"))
    if kind == "run_tests":
        return [{"name": kind, "arguments": {"failing": 0 if good else 1 + number % 5}}]
    return [{"name": kind, "arguments": {"path": f"{area}.py", "line": 40 * number + random.randrange(40)}}]


def length_of(random: Random, middle: float, spread: float, *, most: int) -> int:
    """How many steps something takes: half of the times more than `middle`."""
    return max(1, min(most, round(middle * random.lognormvariate(0, spread))))


def script(random: Random, steps: Sequence[list[Item]], end: str, *, context: int) -> list[Item]:
    """Steps as a model answers them, with what they use."""
    items: list[Item] = [{"tool_calls": calls} for calls in steps]
    items.append({"text": end})
    for number, item in enumerate(items):
        tokens, out = context + 240 * number + random.randrange(200), random.randrange(30, 200)
        cost = round(0.0000006 * tokens + 0.000012 * out, 6)
        item["usage"] = {"input_tokens": tokens, "output_tokens": out, "cost_usd": cost}
        item["latency_ms"] = random.randrange(900, 4000)
    return items


# --- What comes of it -------------------------------------------------------------------------------------------------


def played(task: str, scripts: dict[str, list[Item]]) -> list[Run]:
    """A family: each agent answers by the script of what it was asked."""

    def answer(messages: Sequence[Message]) -> Item:
        asked = next(message.text for message in messages if message.role == "user")
        return scripts[asked][sum(message.role == "assistant" for message in messages)]

    model = ScriptedModel(answer, name="simulated")
    scouts = Agent("scout", description="finds things, changes nothing", tools=(grep, read_file), policy=FREE)
    tools = (read_file, edit_file, run_tests, task_tool(scouts))
    return with_subagents(run_sync(Agent("lead", tools=tools, policy=FREE), task, model=model))


def named(members: Sequence[Run], name: str, random: Random, *, success: bool) -> Iterator[Run]:
    """The runs with ids and times that are the same each time they are made."""
    start = MONDAY + timedelta(minutes=53 * int(name[-3:]) + random.randrange(40))
    ids = {run.run_id: name if not place else f"{name}/scout-{place}" for place, run in enumerate(members)}
    for run in members:
        events = tuple(
            event._replace(payload={**event.payload, "run_id": ids[event.payload["run_id"]]})
            if event.kind == "subagent"
            else event
            for event in run.events
        )
        root = run.parent_run_id is None
        yield replace(
            run, run_id=ids[run.run_id], parent_run_id=None if root else ids[str(run.parent_run_id)], events=events,
            started_at=start, success=success if root else None, seed=SEED, subagents=(), continuation=None,
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("families.jsonl"))
