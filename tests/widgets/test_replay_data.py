"""What Replay draws: held against the frames, counterfactuals and the loop, on live runs, logs and random records."""

import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.messages import Input, Message, Text
from boolab.core.types import MICRO, REDACTED, Event, Stop, ToolResult
from boolab.display.colours import TOOL_COLOURS
from boolab.display.tool_kinds import KINDS, kind_of
from boolab.limits.table import COUNTERS
from boolab.logs.facts import facts_of
from boolab.widgets._base.run_texts import _parse_arguments, label_of
from boolab.widgets._base.standalone_html import pack
from boolab.widgets.replay.data import replay_data
from boolab.widgets.replay.events import children_of
from boolab.widgets.replay.what_if_marks import DEFAULT_POLICIES, marks_of_each, stop_boundary
from tests.logs.readers.given import samples
from tests.logs.test_save import runs as any_runs
from tests.support.cases import cases
from tests.support.helpers import TOOLS, call, distinct, play, steps
from tests.support.packed import unpacked
from tests.whatif.test_presets import scripts


def gauge(data: dict[str, Any], key: str) -> dict[str, Any]:
    return next(one for one in data["gauges"] if one["key"] == key)


def made(*parts: Any, turns: list[int] | None = None, **facts: Any) -> bl.Run:
    """A record of steps, each given by its calls (name and arguments) or its text."""
    rows = []
    for number, part in enumerate(parts, 1):
        calls = () if isinstance(part, str) else tuple(bl.models.ToolCall(f"c{number}", *one) for one in part)
        results = tuple(ToolResult(one.id, "given") for one in calls)
        said = part if isinstance(part, str) else ""
        turn = 1 if turns is None else turns[number - 1]
        rows.append(bl.Step(number, turn, None, None, None, bl.models.Response(said, calls), results))
    given_: dict[str, Any] = {
        "run_id": "r", "agent": "a", "model": "m", "policy": "boocode", "task": "t", "stop": Stop("finished", 0),
        "steps": tuple(rows),
    }  # fmt: skip
    return bl.Run(**given_ | facts)


# --- Counters and marks -----------------------------------------------------------------------------------------------


@given(items=scripts(), identity=st.sampled_from(["ordered", "canonical", "tool", "call+result"]), twice=st.booleans())
@cases(25)
def test_gauges_and_streaks_are_the_counters_that_rules_read(items: list[Any], identity: Any, *, twice: bool) -> None:
    run = replace(play(items, policy="opencode_3631"), identity=identity)
    if twice and run.n_steps > 1:  # a log of two turns
        half = run.n_steps // 2
        run = replace(run, steps=tuple(one._replace(turn=1 + (one.index > half)) for one in run.steps))
    data = replay_data(run, policies=[])
    repeats = f"repeat_streak:{identity}"
    rows = bl.boundaries_df(run, bl.doom_loop(2, identity) | bl.error_streak(1))
    first = {turn: min(one.index for one in run.steps if one.turn == turn) for turn in {one.turn for one in run.steps}}
    for row in rows[rows["boundary"] > 0].to_dict("records"):
        at = first[row["turn"]] + row["boundary"] - 1
        for one in data["gauges"]:
            if one["key"] in ("context", "model_time"):  # which no rule reads
                continue
            name = repeats if one["key"] == "repeat_streak" else one["key"]
            assert name in (*COUNTERS, repeats, "error_streak")
            count = None if pd.isna(row[name]) else row[name]
            scale = MICRO if one["unit"] == "usd" else 1
            assert one["values"][at] == (count if count is None else count / scale)
    for row, step in zip(bl.steps_df(run).to_dict("records"), data["steps"], strict=True):
        if row["step"] != first[row["turn"]]:
            assert row["tool_calls_so_far"] == gauge(data, "tool_calls")["values"][row["step"] - 1]
        streaks = [one["streak"] for one in step["calls"] if not one["dropped"]]
        reached = None if None in streaks else max(streaks, default=None)
        assert not streaks or reached == gauge(data, "repeat_streak")["values"][row["step"]]


@given(items=scripts())
@cases(12)
def test_marks_are_what_counterfactual_says(items: list[Any]) -> None:
    run = play(items, policy="opencode_3631")
    rules = [bl.max_steps(2), bl.doom_loop(2) | bl.error_streak(2)]
    names = ["boocode", "claude_code", "openhands", "roo", "openai_agents"]
    own, *marks = marks_of_each([run], names, rules)[0]
    assert own["own"]
    assert (own["step"], own["reason"]) == (stop_boundary(run), run.stop_reason)
    tables = [bl.counterfactual(run, policy=name) for name in names] + [bl.counterfactual(run, rules=rules)]
    rows = [row for table in tables for row in table.to_dict("records")]
    for mark, row in zip(marks, rows, strict=True):
        stops = row["outcome"] in ("truncated", "not_identified", "unknown")
        assert mark["step"] == (row["stop_step"] if stops else None)
        assert mark["reason"] == (row["stop_reason"] if stops and isinstance(row["stop_reason"], str) else None)


@pytest.mark.parametrize("name", ["boocode", "openai_agents", "smolagents"])
@pytest.mark.parametrize("pattern", ["a " * 60, "a b c " * 20])
def test_the_own_policys_counterfactual_is_the_real_stop(name: str, pattern: str) -> None:
    run = bl.run_sync(None, "go", model=bl.ScriptedModel(steps(pattern)), tools=TOOLS, policy=name)
    real, asked = marks_of_each([run], [name])[0]
    assert run.stop.rule is not None
    assert (asked["step"], asked["reason"]) == (real["step"], real["reason"])


def test_mark_in_a_later_turn_has_its_step_in_the_whole_run() -> None:
    look = [("look", '{"what": "x"}')]
    run = made(look, "One.", look, look, look, look, "Two.", turns=[1, 1, 2, 2, 2, 2, 2])
    (mark,) = [one for one in marks_of_each([run], ["boocode"])[0] if not one["own"]]
    assert mark["label"] == "boocode: doom loop 3"
    assert mark["step"] == 5


def test_stop_in_a_later_turn_has_its_step_in_the_whole_run() -> None:
    look = [("look", "{}")]
    run = made(look, "One.", look, look, look, turns=[1, 1, 2, 2, 2], stop=Stop("doom_loop", 2, "doom_loop(2)"))
    data = replay_data(run, policies=[])
    assert stop_boundary(run) == data["stop"]["step"] == data["marks"][0]["step"] == 4
    assert [number for number, step in enumerate(data["steps"], 1) if "limit" in step["flags"]] == [4]


def test_benchmark_counters_continue_across_user_messages() -> None:
    look = [("look", '{"what": "x"}')]
    limits = {"steps": 9}
    run = made(
        look, "One.", look, look, "Two.", turns=[1, 1, 2, 2, 3], source="tau_bench", success=False, limits=limits
    )
    for source, step in (("tau_bench", 4), ("claude_code", None)):
        data = replay_data(replace(run, source=source), policies=[], rules=[bl.max_steps(4)])
        assert data["marks"][1]["step"] == step
        assert data["counts_by_turn"] == (step is None)
    data = replay_data(run, policies=[], rules=[bl.max_steps(4)])
    assert gauge(data, "steps")["values"] == [0, 1, 2, 3, 4, 5]
    assert [call["streak"] for step in data["steps"] for call in step["calls"]] == [1, 2, 3]
    assert data["header"]["verdict"]["loss"] == "and saved 1 step."
    assert "Limits hold for the whole run." in data["notes"]


def test_replay_marks_all_policies_and_notes_missing_compaction() -> None:
    data = replay_data(play(distinct(2), policy="opencode_3631"))
    assert [mark["policy"] for mark in data["marks"]] == ["opencode_3631", *DEFAULT_POLICIES]
    assert "Evaluated without compaction of the history: opencode_v1, opencode_v2." in data["notes"]
    with pytest.raises(bl.SettingError, match="presets: "):
        replay_data(play(["x"]), policies=["nowhere"])


def test_limits_that_were_in_force_stand_at_their_gauges() -> None:
    data = replay_data(play(distinct(2), policy="boocode", max_steps=7, tool_budget=9, doom_loop=4), policies=[])
    limits = {one["key"]: one["limit"] for one in data["gauges"]}
    assert (limits["steps"], limits["tool_calls"], limits["repeat_streak"]) == (7, 9, 4)


def test_policy_that_stops_where_the_run_did_is_not_earlier() -> None:
    run = play(steps("a a a a a"), policy="boocode")
    assert replay_data(run, policies=["boocode"])["finding"] == "3 identical calls in a row"


@pytest.mark.parametrize("script", [steps("a a a a a a"), steps("a a b b a b a b a b c d e f"), distinct(60), ["x"]])
def test_finding_counts_policies_that_stop_and_that_step_in(script: Any) -> None:
    run = play(script, policy="naive")
    data = replay_data(run)
    others = [mark for mark in data["marks"] if not mark["own"]]
    stops, steps_in = (
        [mark for mark in others if mark["acts"] == what and mark["step"] < run.n_steps]
        for what in ("stops", "steps in")
    )
    parts = [f"{len(stops)} of {len(others)} policies would have stopped it earlier"] if stops else []
    if steps_in:
        of = "" if stops else f" of {len(others)} policies"
        parts.append(f"{len(steps_in)}{of} would have stepped in")
    assert data["acting"] == (", ".join(parts) or None)
    assert (data["acting"] or "") in (data["finding"] or "")
    assert {mark["label"].endswith(": sends a message") for mark in steps_in} <= {True}
    assert all(mark["reason"] for mark in stops)


def test_a_limit_of_cost_is_in_dollars_as_its_values_are() -> None:
    said = bl.models.Response("Done.", usage=bl.models.Usage(10, 1, 0, None, 20_000))
    run = made(steps=(bl.Step(1, 1, None, None, None, said, ()),), limits={"cost": 50_000})
    cost = gauge(replay_data(run, policies=[]), "cost")
    assert (cost["limit"], cost["values"]) == (0.05, [0, 0.02])


def test_one_step_whose_cost_is_unknown_is_told() -> None:
    said = bl.models.Response("Done.", usage=bl.models.Usage(10, 1))
    data = replay_data(made(steps=(bl.Step(1, 1, None, None, None, said, ()),)), policies=[])
    assert all(one["key"] != "cost" for one in data["gauges"])
    assert "Not on record: times, costs, limits." in data["notes"]
    priced = bl.models.Response("Look.", usage=bl.models.Usage(10, 1, 0, None, 20_000))
    both = tuple(bl.Step(n, 1, None, None, None, one, ()) for n, one in enumerate((priced, said), 1))
    data = replay_data(made(steps=both), policies=[])
    assert gauge(data, "cost")["values"] == [0, 0.02, None]
    assert [note for note in data["notes"] if "of 1 step" in note] == ["Costs of 1 step are not on record."]


# --- Steps, turns, outline --------------------------------------------------------------------------------------------


@given(run=any_runs())
@cases(25)
def test_every_record_is_drawn_and_outlined_once_per_step(run: bl.Run) -> None:
    data = replay_data(run, policies=["boocode"])
    assert unpacked(pack(data)) == data
    inside = [n for turn in data["outline"] for item in turn["items"] for n in range(item["first"], item["last"] + 1)]
    assert inside == list(range(1, run.n_steps + 1))
    assert [step["turn"] for step in data["steps"]] == sorted(step["turn"] for step in data["steps"])
    assert all(len(one["values"]) == run.n_steps + 1 for one in data["gauges"])
    for step in data["steps"]:
        for one in step["calls"]:
            assert one["kind"] in KINDS
            assert len(one["label"]) <= 60
            assert one["label"].isprintable()


def test_the_samples_of_every_format_can_be_drawn() -> None:
    for name, runs in samples().items():
        for run in runs[:3]:
            data = replay_data(run, policies=["boocode"], runs=runs)
            assert unpacked(pack(data)) == data, name
            kinds = [one["kind"] for step in data["steps"] for one in step["calls"]]
            assert len(kinds) == len(bl.calls_df(run))


def test_neighbours_that_do_the_same_are_one_item() -> None:
    grep = ("grep", '{"pattern": "old_name"}')
    reads = [("read_file", f'{{"path": "{name}.py"}}') for name in "abc"]
    data = replay_data(made([grep], [grep], reads, [("bash", '{"command": "pytest"}')], "Done."), policies=[])
    (turn,) = data["outline"]
    facts = ("label", "kind", "first", "last", "repeats")
    assert [tuple(item[fact] for fact in facts) for item in turn["items"]] == [
        ('grep "old_name"', "search", 1, 2, 1),
        ("read_file \N{MULTIPLICATION SIGN}3", "read", 3, 3, 0),
        ("pytest", "execute", 4, 4, 0),
        ("final answer", "text", 5, 5, 0),
    ]


def test_turn_is_named_by_its_message_and_others_are_events() -> None:
    look = [("look", "{}")]
    nudge = Event(None, "nudge", {"what": "Hurry.", "after_step": 1})
    told = [
        Input(2, said("user", "Hurry.")),
        Input(3, said("user", "\nNow this.\nPlease.")),
        Input(9, said("user", "?")),
    ]
    run = made(look, look, look, turns=[1, 1, 2], prompt=(said("system", "Be good."), said("user", "Look.")),
               inputs=tuple(told), events=(nudge,))  # fmt: skip
    data = replay_data(run, policies=[])
    assert [(turn["title"], turn["first"], turn["last"]) for turn in data["turns"]] == [
        ("Look.", 1, 2),
        ("Now this.", 3, 3),
    ]
    events = [[(event["kind"], event["text"]) for event in step["events"]] for step in data["steps"]]
    assert events == [[], [("nudge", "Hurry.")], [("input", "?")]]


def said(role: Any, text: str) -> Message:
    return Message(role, (Text(text),))


def test_flags_are_where_there_is_an_error_a_repeat_or_a_limit() -> None:
    run = play([{"tool_calls": [call("fail")]}, *steps("a a a", end=None)], policy="boocode", doom_loop=3)
    data = replay_data(run, policies=[])
    assert [step["flags"] for step in data["steps"]] == [["error"], [], ["repeat"], ["repeat", "limit"]]
    assert data["stop"]["reason"] == "doom_loop"
    assert data["stop"]["step"] == 4
    assert data["finding"] == "3 identical calls in a row"


def test_the_same_result_of_the_same_call_is_told_by_its_step() -> None:
    data = replay_data(play(steps("a b a a"), policy="opencode_3631"), policies=[])
    assert [step["calls"][0]["same_result_as"] for step in data["steps"][:4]] == [None, None, 1, 1]


def test_call_starts_after_its_response_or_the_call_before() -> None:
    calls = tuple(bl.models.ToolCall(name, "look", "{}") for name in "ab")
    results = tuple(ToolResult(name, "", duration_ms=30) for name in "ab")
    for took, starts in ((90, [1030, 1060]), (60, [1030, 1030])):
        one = bl.Step(1, 1, 1000, took, 30, bl.models.Response("", calls), results)
        (step,) = replay_data(made(steps=(one,)), policies=[])["steps"]
        assert [one["start_ms"] for one in step["calls"]] == starts


def test_runs_without_steps_and_broken_runs_are_drawn() -> None:
    none = replay_data(play(distinct(1), abort=aborted()))
    assert (none["steps"], none["timed"], none["stop"]["step"]) == ([], False, 0)
    broken = replay_data(play([*distinct(1, end=None), {"error": {"status": 400}}]))
    assert broken["steps"][-1]["error"]
    assert "error" in broken["steps"][-1]["flags"]
    assert broken["outline"][0]["items"][-1]["label"] == "failed"


def aborted() -> bl.Abort:
    switch = bl.Abort()
    switch.abort()
    return switch


def test_that_a_recording_has_facts_instead_of_texts_is_noted() -> None:
    run = made([("look", "{}")])
    note = "The texts are not on record: their sizes are shown, and which of them are equal is known."
    assert note in replay_data(next(facts_of(run)), policies=[])["notes"]
    assert note not in replay_data(run, policies=[])["notes"]


def test_what_a_record_lacks_is_said() -> None:
    run = made([("look", REDACTED)], [("look", "{}")])
    notes = replay_data(run, policies=[])["notes"]
    assert notes[:2] == [
        "Not on record: times, tokens, costs, limits.",
        "The log leaves out the arguments of 1 call.",
    ]
    assert not {"tokens", "cost"} & {one["key"] for one in replay_data(run, policies=[])["gauges"]}


def test_refused_calls_are_errors_in_card_steps_and_outline() -> None:
    run = made([("edit", "{}")], [("edit", "{}")])
    refused = ToolResult("c1", "Your proposed edit has introduced new syntax error(s).", None)
    run = replace(run, steps=(run.steps[0]._replace(results=(refused,)), run.steps[1]))
    data = replay_data(run, policies=[])
    assert [step["calls"][0]["error"] for step in data["steps"]] == [True, False]
    assert [step["flags"] for step in data["steps"]] == [["error"], ["repeat"]]
    assert [(item["first"], item["last"], item["errors"]) for item in data["outline"][0]["items"]] == [
        (1, 1, 1),
        (2, 2, 0),
    ]


def test_texts_that_are_not_on_record_are_their_sizes() -> None:
    run = made([("edit", '{"path": "a.py"}')], [("edit", '{"path": "b.py"}')], "Done.")
    run = replace(run, task="Fix it", prompt=(Message("user", (Text("Fix the file"),)),))
    data = replay_data(next(facts_of(run)), policies=[])
    assert "<redacted" not in json.dumps(data)
    assert data["steps"][0]["calls"][0]["missing"] == {"arguments": 16, "result": 5}
    assert data["steps"][2]["missing"] == {"text": 5}
    assert data["turns"][0]["missing"] == {"text": 12}
    labels = [item["label"] for item in data["outline"][0]["items"]]
    assert labels == ["edit \N{MULTIPLICATION SIGN}2", "final answer"]
    assert "texts not on record" in data["header"]["facts"]


def test_what_a_log_gives_for_the_whole_run_is_in_the_head() -> None:
    used = {"cost": 4_026_444, "input_tokens": 1_304_218, "output_tokens": 7_586}
    whole = Event(None, "totals", {"after_step": 1, **used})
    data = replay_data(made([("look", "{}")], events=(whole,)), policies=[])
    shown = {one["name"]: one["value"] for one in data["header"]["kpis"]}
    assert shown == {"steps": "1", "tokens": "1.3M", "cost": "$4.03"}
    assert data["steps"][0]["events"][0]["text"] == "cost $4.03, input tokens 1.3M, output tokens 7,586"
    assert data["notes"][:2] == [
        "Not on record: times, limits.",
        "On record for the whole run, not for each step: tokens and costs.",
    ]


def test_a_limit_of_cost_is_named_by_its_amount() -> None:
    stop = Stop("cost_budget", 1, "exit_cost")
    data = replay_data(made([("look", "{}")], stop=stop, limits={"cost": 4_000_000}), policies=[])
    assert data["marks"][0]["limit"] == data["between"][-1]["name"] == "cost $4.00"


# --- Subagents --------------------------------------------------------------------------------------------------------


def test_subagents_stand_at_their_calls_three_deep() -> None:
    def asks(name: str) -> dict[str, Any]:
        return {"tool_calls": [{"name": "task", "arguments": {"agent": name, "prompt": "look"}}], "latency_ms": 5}

    task = bl.task_tool(
        [
            bl.Agent("one", model=bl.ScriptedModel([asks("two"), "1"])),
            bl.Agent("two", model=bl.ScriptedModel([asks("three"), asks("three"), "2"])),
            bl.Agent("three", model=bl.ScriptedModel([{"text": "3", "latency_ms": 9}])),
        ],
        max_depth=3,
    )
    run = bl.run_sync(bl.Agent("lead"), "go", model=bl.ScriptedModel([asks("one"), "0"]), tools=[task])
    data, names = replay_data(run, policies=[]), []
    while data["children"]:
        names.append([(one["run"]["title"], one["step"], one["call"], one["start_ms"]) for one in data["children"]])
        assert not any(step["events"] for step in data["steps"])  # the runs themselves tell it
        for place, one in enumerate(data["children"]):
            assert data["steps"][one["step"] - 1]["calls"][one["call"]]["child"] == place
        data = data["children"][0]["run"]
    assert names == [[("one", 1, 0, 5)], [("two", 1, 0, 5)], [("three", 1, 0, 5), ("three", 2, 0, 19)]]


def test_children_are_matched_to_calls_by_parent_id_and_task() -> None:
    calls = [("Task", '{"prompt": "Find b"}'), ("Task", '{"prompt": "Find a"}'), ("Read", "{}")]
    run = made(calls)
    found = [made(run_id=name, parent_run_id="r", task=f"Find {name}") for name in "ab"]
    stranger = made(run_id="x", parent_run_id="elsewhere")
    assert [(one.run.run_id, one.step, one.call) for one in children_of(run, [run, *found, stranger])] == [
        ("b", 1, 0),
        ("a", 1, 1),
    ]
    nameless = [replace(one, task="?") for one in found]
    assert [(one.run.run_id, one.call) for one in children_of(run, nameless)] == [("a", 0), ("b", 1)]
    (lost,) = children_of(run, nameless[:1])
    assert (lost.step, lost.call) == (None, None)
    data = replay_data(run, [], runs=nameless[:1])
    assert "Which calls started 1 subagent is not on record." in data["notes"]
    (row,) = [row for row in data["between"] if row["kind"] == "subagent"]
    assert (row["after"], row["child"]) == (run.n_steps, 0)


def test_events_that_somebody_else_wrote_may_say_anything() -> None:
    child = made(run_id="x", parent_run_id="r")
    odd = [Event(None, kind, {"after_step": [], "run_id": {}, "call_id": [], "what": 1, "wait_ms": "", "agent": 3})
           for kind in ("subagent", "nudge", "retry", "ask", "input", "hum")]  # fmt: skip
    data = replay_data(made([("look", "{}")], events=tuple(odd), subagents=(child,)), policies=[])
    assert [event["text"] for event in data["steps"][0]["events"]] == [
        "3 begins", "1, run_id {}, agent 3", "1, run_id {}, agent 3", "1, run_id {}, agent 3",
    ]  # fmt: skip


def test_runs_that_are_each_others_parents_end() -> None:
    one, other = made(run_id="1", parent_run_id="2"), made(run_id="2", parent_run_id="1")
    data = replay_data(one, policies=[], runs=[one, other])
    assert data["children"][0]["run"]["children"] == []


# --- Tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("read", "Read read_file read_files view open ls LS list_dir cat WebFetch get_user_details mcp__fs__read_text"),
        ("search", "Grep Glob search_text find_file WebSearch google_web_search codebase_search tool_search ripgrep"),
        ("write", "Edit Write edit_file apply_patch create str_replace_editor TodoWrite MultiEdit write_file insert"),
        ("execute", "Bash bash shell_command run_shell_command execute_bash run_commands terminal python pytest"),
        ("subagent", "Task task spawn_agent Agent new_task delegate_to_agent"),
        ("other", "think submit finish hum [trimmed] ask_user_question transfer_to_human_agents"),
    ],
)
def test_tools_of_known_harnesses_have_their_kind(kind: str, names: str) -> None:
    assert [(name, kind_of(name)) for name in names.split()] == [(name, kind) for name in names.split()]


def test_each_kind_has_its_colour() -> None:
    assert set(KINDS) == {*TOOL_COLOURS, "other"}


def test_an_editor_that_is_asked_to_view_reads() -> None:
    assert kind_of("str_replace_based_edit_tool", {"command": "view"}) == "read"
    assert kind_of("str_replace_based_edit_tool", {"command": "create"}) == "write"


@pytest.mark.parametrize(
    ("tool", "arguments", "label"),
    [
        ("grep", '{"path": "src", "pattern": "old"}', 'grep "old"'),
        ("Read", '{"file_path": "/a/very/long/path/that/goes/on/src/core.py"}', "Read src/core.py"),
        ("Bash", '{"command": "pytest -q\\nls"}', "pytest -q ls"),
        ("task", '{"agent": "scout", "prompt": "Look there"}', "task: Look there"),
        ("bash", "ls -F", "bash ls -F"),
        ("create", "create a.py", "create a.py"),
        ("look", REDACTED, "look"),
        ("look", "[1, 2, 3]", "look 1 and 2 more"),
        ("look", "[" * 100_000, None),
        ("look", "1" * 5_000, None),
        ("\u202egrep\x00", '{"pattern": "\\u001b[31m"}', 'grep "[31m"'),
        ("", "", "no name"),
    ],
)
def test_a_call_is_one_short_line_about_what_it_is_about(tool: str, arguments: str, label: str | None) -> None:
    value = _parse_arguments(arguments)
    made_ = label_of(tool, kind_of(tool, value), arguments, value)
    assert len(made_) <= 60
    assert label is None or made_ == label
