"""Families of tasks: their worlds follow from the number of a task and the calls so far, and decide on success."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.runtime.tasks.families import CAP, FAMILIES, FIX, LOOKUP, MAZE, TaskFamily
from tests.support.cases import cases


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
    solving = {"fix": ["up"] * 4, "maze": ["east", "east", "south", "west", "west"], "lookup": ["a", "b"]}[family.name]
    cut = play(family, 1, *solving, answer=False, max_steps=len(solving))
    assert (cut.stop_reason, cut.success, family.is_solved(cut)) == ("step_cap", False, True)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_branch_goes_on_in_the_same_world(family: TaskFamily) -> None:
    values = {"fix": ["up"] * 5, "maze": ["east", "south", "west", "north", "east"], "lookup": [*"abcab"]}[family.name]
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


def choices(family: TaskFamily) -> list[str]:
    """The values that the tool's argument may have."""
    (argument,) = family.tool.parameters["required"]
    values: list[str] = family.tool.parameters["properties"][argument]["enum"]
    return values


def solution(family: TaskFamily, number: int) -> list[str]:
    """Calls that solve a task, from its text alone."""
    text = family.task_of(number)
    if family is FIX:
        value, target = (int(word) for word in text.split() if word.isdecimal())
        return ["up" if target > value else "down"] * abs(target - value)
    if family is MAZE:
        return ["west", "west", "north", "east", "east", "south", "west", "west"]
    return text.partition(" in ")[2].split()


families = st.sampled_from([*FAMILIES.values()])


@cases(30)
@given(families, st.integers(1, 10**6))
def test_each_task_is_solvable_and_its_calls_are_allowed(family: TaskFamily, number: int) -> None:
    calls = solution(family, number)
    assert len(calls) < CAP
    assert set(calls) <= set(choices(family))
    assert play(family, number, *calls).success is True


@cases(30)
@given(families, st.integers(1, 10**6), st.data())
def test_success_is_what_the_tool_found_by_then(family: TaskFamily, number: int, data: st.DataObject) -> None:
    calls = data.draw(st.lists(st.sampled_from(choices(family)), max_size=6))
    run = play(family, number, *calls)
    solved = [result.startswith(family.solved) for result in results_of(run)]
    assert run.success is any(solved)
    first = solved.index(True) if any(solved) else len(calls)
    assert play(family, number, *calls[:first]).success is False
    assert results_of(play(family, number, *calls)) == results_of(run)  # a task is a number, and nothing else


@cases(30)
@given(st.integers(1, 10**6))
def test_exactly_one_of_the_files_has_the_word(number: int) -> None:
    files = solution(LOOKUP, number)
    results = results_of(play(LOOKUP, number, *choices(LOOKUP)))
    assert [result.split()[0] for result in results].count("found") == 1
    assert [result.split()[0] for result in results].count("no") == 10 - len(files)


def test_tasks_differ_and_repeat_themselves() -> None:
    assert len(set(FIX.tasks(1, 100))) == 100
    assert FIX.tasks(3, 4) == [FIX.task_of(3), FIX.task_of(4)]
