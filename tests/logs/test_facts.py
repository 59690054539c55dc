"""Facts instead of texts: runs without anybody's text, from which boolab answers the same."""

import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import boolab as bl
from boolab.core.messages import Message, Text
from boolab.core.redacted import is_redacted
from boolab.core.run import Run, Score
from boolab.core.types import REDACTED, Event, Response, Step, Stop, ToolCall, ToolResult
from boolab.errors import ReadWarning, SettingError
from boolab.io.resources import data_path
from boolab.logs.fact_places import stays
from boolab.logs.facts import facts_of
from tests.logs.test_save import runs as any_run
from tests.support.cases import cases
from tests.support.fact_cases import TEXT_RULES, answers, assert_same, further_answers, recordings
from tests.support.helpers import play, steps
from tests.support.samples import FOLDER, OWN

SUFFIXES = (".jsonl", ".jsonl.bz2", ".parquet")
ANY: dict[str, Any] = {"suppress_health_check": list(HealthCheck)}


@cases(50, **ANY)
@given(recordings(), st.sampled_from(SUFFIXES))
def test_facts_answer_as_runs_do(tmp_path_factory: pytest.TempPathFactory, runs: list[Run], suffix: str) -> None:
    path = tmp_path_factory.mktemp("facts") / f"facts{suffix}"
    bl.save_runs(runs, path, contents="facts")
    assert_same(answers(bl.load_runs(path)), answers(runs))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))  # in all 504 cases: parts, so that none comes near the longest time
@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=21, deadline=None, **ANY)
@given(runs=recordings())
def test_facts_answer_all_questions_as_runs_do(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Run], suffix: str, part: int
) -> None:
    path = tmp_path_factory.mktemp("facts") / f"facts{part}{suffix}"
    bl.save_runs(runs, path, contents="facts")
    facts = bl.load_runs(path)
    assert_same(answers(facts) | further_answers(facts), answers(runs) | further_answers(runs))


MARK = "somebody's\ntext"


def marked(value: Any) -> Any:
    """A record with the mark in every text."""
    if isinstance(value, str):
        return f"{MARK} {value}"
    if isinstance(value, dict):
        return {marked(name): marked(item) for name, item in value.items()}
    if isinstance(value, Message):
        return Message(value.role, marked(value.parts))
    if isinstance(value, tuple):
        return type(value)(*map(marked, value)) if hasattr(value, "_fields") else tuple(map(marked, value))
    return [*map(marked, value)] if isinstance(value, list) else value


@cases(100, **ANY)
@given(any_run())
def test_no_text_of_a_run_is_in_its_facts(tmp_path_factory: pytest.TempPathFactory, run: Run) -> None:
    whole = Run(**{field.name: marked(getattr(run, field.name)) for field in fields(Run)})
    stop = whole.stop._replace(reason=run.stop.reason)
    whole = replace(whole, run_id="r", parent_run_id="p", identity=run.identity, stop=stop)
    path = tmp_path_factory.mktemp("facts") / "facts.jsonl"
    bl.save_runs(whole, path)
    assert "somebody" in path.read_text(encoding="utf-8")
    bl.save_runs(whole, path, contents="facts")
    assert "somebody" not in path.read_text(encoding="utf-8")
    assert bl.load_runs(path) == list(facts_of(whole))


def bare(value: Any) -> Any:
    """A record with every text empty."""
    if isinstance(value, str):
        return ""
    if isinstance(value, Response):
        value = value._replace(native_finish_reason=None)
    if isinstance(value, Event):  # of its payload only what is listed stays
        value = value.t_ms
    if isinstance(value, Run):
        value = tuple(getattr(value, field.name) for field in fields(Run) if field.name != "prints")
    if isinstance(value, dict):
        return [(bare(name), bare(item)) for name, item in value.items()]
    return [*map(bare, value)] if isinstance(value, list | tuple) else value


@cases(100, **ANY)
@given(any_run())
def test_all_that_is_no_text_stays(run: Run) -> None:
    (facts,) = facts_of(run)
    assert bare(facts) == bare(run)


@given(recordings())
@cases(50, **ANY)
def test_facts_of_facts_are_the_same_facts(runs: list[Run]) -> None:
    facts = list(facts_of(runs))
    assert list(facts_of(facts)) == facts


@pytest.mark.parametrize("suffix", SUFFIXES[:2])
def test_facts_of_a_list_and_of_a_generator_are_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    runs = [replace(play(steps("A A B x A")), run_id=f"r{number}") for number in range(3)]
    one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    bl.save_runs(runs, one, contents="facts")
    bl.save_runs(iter(runs), two, contents="facts")
    assert one.read_bytes() == two.read_bytes()
    assert bl.load_runs(one) == bl.load_runs(two) == list(facts_of(runs))


def test_a_table_of_facts_has_the_columns_of_settings(tmp_path: Path) -> None:
    run = replace(play(steps("A B")), settings={"effort": "low", "hint": "Look again."})
    bl.save_runs([run], tmp_path / "facts.parquet", contents="facts")
    table = pd.read_parquet(tmp_path / "facts.parquet")
    assert set(table["effort"]) == {"low"}
    assert all(map(is_redacted, table["hint"]))


def test_scores_stay_and_their_texts_if_they_are_grades(tmp_path: Path) -> None:
    run = replace(
        play(steps("A B")), scores=(Score("reward", 0.6), Score("match", "C"), Score("judge", "acme"), Score("a b", 1))
    )
    (facts,) = facts_of(run)
    assert facts.scores[:2] == run.scores[:2]
    assert facts.scores[2].name == "judge"
    assert is_redacted(facts.scores[2].value)
    assert is_redacted(facts.scores[3].name)
    bl.save_runs([run], tmp_path / "facts.jsonl", contents="facts")
    (again,) = bl.load_runs(tmp_path / "facts.jsonl")
    assert again.scores == facts.scores


@pytest.mark.parametrize("rule", TEXT_RULES, ids=str)
def test_what_needs_a_text_is_not_known(rule: bl.StopRule) -> None:
    spoken, silent = (play([*steps("A A", end=None), text]) for text in ("done", ""))
    runs = [replace(run, run_id=name, success=True) for name, run in (("spoken", spoken), ("silent", silent))]
    talking = replace(runs[0], steps=tuple(s._replace(response=s.response._replace(text="So.")) for s in runs[0].steps))
    row = bl.scorecard(list(facts_of([talking, runs[1]])), rule).frame.iloc[0]
    assert (row["n_unknown"], row["n_runs"]) == (1, 1)
    row = bl.scorecard(list(facts_of([talking])), rule).frame.iloc[0]
    assert row["n_unknown"] == 1
    assert pd.isna(row["alarms"])


def test_whether_a_text_is_empty_and_how_long_it_is_stays_known() -> None:
    step = Step(1, 1, None, None, None, Response("So.", (ToolCall("a", "ls", ""),)), (ToolResult("a", ""),))
    run = Run(run_id="r", agent="", model="", policy="", task="", stop=Stop("aborted", 1), steps=(step,))
    (facts,) = facts_of(run)
    assert (facts.task, facts.steps[0].results[0].content, facts.error) == ("", "", None)  # type: ignore[union-attr]
    assert bl.steps_df(facts)["text_chars"].tolist() == [3]
    assert bl.calls_df(facts)["result_chars"].tolist() == [0]


def test_arguments_that_a_log_keeps_back_stay_unknown() -> None:
    calls = tuple(ToolCall(name, "ls", REDACTED) for name in "ab")
    step = Step(1, 1, None, None, None, Response("", calls), (ToolResult("a", "x"), ToolResult("b", "x")))
    run = Run(run_id="r", agent="", model="", policy="", task="t", stop=Stop("aborted", 1), steps=(step,))
    assert [call.arguments for call in next(facts_of(run)).steps[0].response.tool_calls] == [REDACTED] * 2


@pytest.mark.parametrize(
    ("task", "kept"),
    [
        ("django__django-11099", "django__django-11099"),
        ("intercode-sql/dev.3", "intercode-sql/dev.3"),
        ("Find the bug.", "task 1"),
        ("Hello", "task 1"),
        ("pin-4821", "task 1"),
        ("ada@corp.example", "task 1"),
        ("修复登录页面的错误", "task 1"),
        ("/home/ada/thesis", "task 1"),
        ("x" * 101, "task 1"),
        ("", ""),
    ],
)
def test_a_task_stays_if_it_is_an_identifier_and_no_message(task: str, kept: str) -> None:
    prompt = (Message("user", (Text("Hello"),)), Message("user", (Text("<task>\nPIN-4821\n</task>"),)))
    run = replace(play(steps("A")), task=task, prompt=prompt)
    assert next(facts_of(run)).task == kept
    assert not task or next(facts_of(replace(run, source="cline"))).task == "task 1"


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("max_steps(9)", True),
        ("doom_loop(3, ordered,poll=exempt)", True),
        ("max_tokens(5000, output_tokens, on_unknown=ignore)", True),
        ("max_turns", True),
        ("repeat_streak:ordered >= 3", True),
        ("doom_loop(3, canonical) & max_steps(5)", True),
        ("doom_loop(3, acme)", False),
        ("max_steps(9) acme", False),
        ("acme_limit(3)", False),
        ("text_contains('APPROVE')", False),
        ("the user said so", False),
    ],
)
def test_a_rule_stays_if_each_of_its_arguments_is_one_word(rule: str, kept: bool) -> None:
    run = replace(play(steps("A")), stop=Stop("stuck", 1, rule))
    assert (next(facts_of(run)).stop.rule == rule) is kept


@pytest.mark.parametrize("name", ["inspect_react", "mini_swe_agent", "smolagents", "swe_agent"])
def test_facts_still_identify_messages_sent_by_the_policy(name: str) -> None:
    run = play(steps("A A A"), policy=name)
    assert run.inputs
    asked: Any = {"grid": {"max_steps": [2, None]}, "policy": bl.policies[name].vary(compaction=None)}
    expected = bl.counterfactual(run, **asked)
    assert "not_identified" not in set(expected["outcome"])
    pd.testing.assert_frame_equal(bl.counterfactual(list(facts_of(run)), **asked), expected)


def test_other_contents_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="contents='text' is not known; accepted: everything, facts"):
        bl.save_runs([], tmp_path / "a.jsonl", contents="text")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def logs(place: Path) -> list[Run]:
    """The runs of all logs under a folder, each id once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        runs = bl.read_logs(place, progress=False).runs
    return list({run.run_id: run for run in runs}.values())


@pytest.mark.parametrize(
    "place", ["own", *[pytest.param(name, marks=pytest.mark.slow) for name in ("real", "families", "runs")]]
)
def test_facts_of_sample_logs_answer_as_the_logs_do(place: str, tmp_path: Path) -> None:
    folder = {"own": OWN, "real": FOLDER}.get(place, data_path("datasets") / place)
    if not folder.exists():
        pytest.skip(f"the sample logs are not here: {folder}")
    every = logs(folder)  # facts do not keep a text that a log has in place of an id or of an agent's name
    pairs = zip(every, facts_of(every), strict=True)
    runs = [run for run, fact in pairs if (fact.run_id, fact.agent) == (run.run_id, run.agent)]
    assert len(runs) > 0.9 * len(every)
    bl.save_runs(runs, tmp_path / "facts.jsonl.bz2", contents="facts")
    assert_same(answers(bl.load_runs(tmp_path / "facts.jsonl.bz2")), answers(runs))


@pytest.mark.slow
def test_a_profile_of_facts_is_that_of_the_runs() -> None:
    runs = bl.load_runs(data_path("datasets") / "runs" / "coder.jsonl")[:8]
    assert bl.fit_profile(list(facts_of(runs))).profile == bl.fit_profile(runs).profile


def test_runs_that_compress_too_much_to_read_are_not_packed(tmp_path: Path) -> None:
    run = replace(play(steps("A")), task="x" * 2**25)
    with pytest.raises(SettingError, match=r"repeat so much that 33,\d+,\d+ bytes become .* save them as \.jsonl or"):
        bl.save_runs(run, tmp_path / "runs.jsonl.bz2")
    assert list(tmp_path.iterdir()) == []


def test_fact_stays_if_it_has_the_form_of_its_rule() -> None:
    assert stays("tool", "read_file")
    assert not stays("tool", "merger_2026.xlsx")
    assert stays("version", "mixed")
    assert not stays("version", "mixed-up")
    assert stays("finish reason", "stop")
