"""Families of tasks: their worlds follow from the number of a task and the calls so far, and decide on success."""

import asyncio
import json

import pytest

import boolab as bl
from boolab.runtime.tasks.families import FAMILIES, FIX, MAZE, TaskFamily


def play(family: TaskFamily, number: int, *values: str, answer: bool = True, **settings: object) -> bl.Run:
    """A run that makes these calls, each with one argument, and then answers."""
    (argument,) = family.tool.parameters["required"]
    calls = [{"tool_calls": [{"name": family.tool.name, "arguments": {argument: value}}]} for value in values]
    model = bl.ScriptedModel([*calls, *([family.answer] if answer else [])], summary="cut off")
    agent = family.agent(**settings)
    return bl.run_sync(agent, family.task_of(number), model=model, tools=[family.tool], score=family.succeeded)


def results_of(run: bl.Run) -> list[str]:
    return [result.content for step in run.steps for result in step.results if result is not None]


def test_edits_move_the_constant_until_the_test_passes() -> None:
    assert FIX.task_of(1) == "task 1: failed 16 want 20"
    run = play(FIX, 1, "down", "up", "up", "up", "up", "up", "up")
    assert results_of(run)[:2] == ["failed 15 want 20", "failed 16 want 20"]
    assert results_of(run)[-2:] == ["passed 20", "passed 20"]  # it stays passed
    assert run.success is True


def test_ways_lead_to_the_door() -> None:
    assert MAZE.task_of(1).startswith("task 1: no door, exits ")
    run = play(MAZE, 1, *["east", "east", "south", "west", "west", "north", "east", "east"])
    assert results_of(run)[-1] == "here is the door"
    assert run.success is True


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_an_early_answer_and_a_cut_run_are_failures(family: TaskFamily) -> None:
    assert play(family, 1).success is False
    solving = {"fix": ["up"] * 4, "maze": ["east", "east", "south", "west", "west"]}[family.name]
    cut = play(family, 1, *solving, answer=False, max_steps=len(solving))
    assert (cut.stop_reason, cut.success, family.is_solved(cut)) == ("step_cap", False, True)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_branch_goes_on_in_the_same_world(family: TaskFamily) -> None:
    values = {"fix": ["up"] * 5, "maze": ["east", "south", "west", "north", "east"]}[family.name]
    run = play(family, 2, *values)
    (argument,) = family.tool.parameters["required"]
    rest = [{"tool_calls": [{"name": family.tool.name, "arguments": {argument: value}}]} for value in values[2:]]
    model = bl.ScriptedModel([{"text": "on record"}, {"text": "on record"}, *rest, family.answer])
    branched = bl.branch(run, 2, model=model, agent=family.agent(), tools=[family.tool])
    assert results_of(asyncio.run(branched)) == results_of(run)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_examples_of_the_prompt_use_the_tool_and_end_solved(family: TaskFamily) -> None:
    lines = family.prompt.splitlines()
    calls = [line for line in lines if line.startswith("> ") and not line.startswith("> answer")]
    allowed = json.dumps(family.tool.parameters)
    assert all(line.split()[1] == family.tool.name and f'"{line.split()[2]}"' in allowed for line in calls)
    before_answers = [lines[n - 1] for n, line in enumerate(lines) if line == f"> answer {family.answer}"]
    assert len(before_answers) >= 3
    assert all(line.startswith(family.solved) for line in before_answers)


def test_tasks_differ_and_repeat_themselves() -> None:
    assert len(set(FIX.tasks(1, 100))) == 100
    assert FIX.tasks(3, 4) == [FIX.task_of(3), FIX.task_of(4)]
