"""The fingerprint of a unit: one for a session and its copies, another for anything else that was said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.messages import Input, Message, Role, Text, response_message, results_message
from boolab.core.run import Run
from boolab.core.types import Response, Step, Stop, ToolCall, ToolResult, Usage
from boolab.logs.fingerprint import fingerprint, prints_of

WORDS = st.text(st.sampled_from('ab"\\\x1f é'), max_size=3)
Turns = list[tuple[str, str, str]]
TURNS = st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4)


def message(content: str, role: Role = "user") -> Message:
    return Message(role, (Text(content),))


def conversation(turns: Turns) -> Run:
    """A run with a question, an answer and the argument of a call for each turn."""
    steps = tuple(
        Step(n, n, 10 * n, 5, 5, Response(text, (ToolCall(f"c{n}", "look", f'{{"at":"{n}{len(asked)}"}}'),)), (None,))
        for n, (_, text, asked) in enumerate(turns, 1)
    )
    inputs = tuple(Input(n, message(question)) for n, (question, _, _) in enumerate(turns, 1) if n > 1)
    prompt, stop = (message(turns[0][0]),), Stop("finished", 0)
    return Run(run_id="r", agent="", model="", policy="", task="", stop=stop, steps=steps, inputs=inputs, prompt=prompt)


def as_history(run: Run, kept: int) -> Run:
    """The run with its first steps in its prompt, as a fork has them."""
    prompt = list(run.prompt)
    for step in run.steps[:kept]:
        prompt += [message for before, message in run.inputs if before == step.index > 1]
        prompt.append(response_message(step.index, None, step.response))
        results = results_message((ToolResult(step.response.tool_calls[0].id, "found"),))
        prompt += [results] if results else []
    steps = tuple(step._replace(index=step.index - kept) for step in run.steps[kept:])
    inputs = tuple(Input(before - kept, message) for before, message in run.inputs if before > kept)
    return replace(run, run_id="fork", prompt=tuple(prompt), steps=steps, inputs=inputs)


@given(TURNS, st.data())
def test_fingerprint_is_the_same_for_history_in_the_prompt(
    turns: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    run = conversation(turns)
    kept = data.draw(st.integers(0, len(turns) - 1))
    fork = as_history(run, kept)
    for step in range(kept + 1, len(turns) + 1):
        assert fingerprint(fork, step - kept) == fingerprint(run, step)


@given(TURNS, TURNS)
def test_fingerprint_differs_where_something_else_was_said(one: Turns, other: Turns) -> None:
    def essence(turns: Turns) -> list[tuple[str, str, int]]:
        return [(question.strip(), text.strip(), len(asked)) for question, text, asked in turns]

    same = essence(one) == essence(other)
    assert (fingerprint(conversation(one)) == fingerprint(conversation(other))) is same


def test_fingerprint_ignores_ids_times_usage_results_key_order() -> None:
    call, other = ToolCall("c1", "look", '{"a": 1, "b": 2}'), ToolCall("x", "look", '{"b":2,"a":1}')
    run = conversation([("Go", "So.", "")])
    first = Step(1, 1, 0, 5, 5, Response("So.", (call,)), (ToolResult("c1", "x"),))
    second = Step(1, 1, 9, 1, 1, Response(" So.\n", (other,), "stop", Usage(5, 5), id="r9"), (None,))
    moved = replace(run, run_id="q", started_at=datetime(2026, 1, 1, tzinfo=UTC), steps=(second,), model="m")
    moved = replace(moved, prompt=(message("Version 2", "system"), *run.prompt))
    assert fingerprint(replace(run, steps=(first,))) == fingerprint(moved)


def test_fingerprint_joins_the_messages_of_a_question() -> None:
    run = conversation([("Look at a\nand b", "So.", "")])
    parts = replace(run, prompt=(message("Look at a"), message("and b")))
    assert fingerprint(parts) == fingerprint(run)


def test_facts_keep_the_fingerprints_of_the_texts(tmp_path: Path) -> None:
    runs = [conversation([("Go", "So.", ""), ("On", "Done.", "")])]
    prints = prints_of(runs[0])
    assert len(prints) == 3
    for name in ("facts.jsonl", "facts.parquet"):
        bl.save_runs(runs, tmp_path / name, contents="facts")
        (facts,) = bl.load_runs(tmp_path / name)
        assert prints_of(facts) == prints
        bl.save_runs(facts, tmp_path / name, contents="facts")  # facts of facts
        assert prints_of(bl.load_runs(tmp_path / name)[0]) == prints
    with bl.Store(tmp_path / "runs.db") as store:
        store.add(facts)
    assert prints_of(next(iter(bl.load_runs(tmp_path / "runs.db")))) == prints
