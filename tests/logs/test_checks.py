"""What a log states about itself is compared with what was read; a difference is a warning with both numbers."""

import json
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.types import Usage
from boolab.errors import ReadWarning
from boolab.io.json_input import Damage
from boolab.logs.builder import RunBuilder
from boolab.logs.checks import Totals, newer_version
from boolab.logs.load import FileRow, read_logs
from boolab.logs.log_files import readers
from tests.support.samples import FOLDER, OWN, own

MORE: Final = 987_654
"""A stated total is made larger by this, or by it in millionths: no sample has so many of anything."""

QWEN, COPILOT = "66660000-0000-4000-8000-000000000001", "44440000-0000-4000-8000-000000000001"
EXACT: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "atif": (
        "atif/others.json",
        ("final_metrics.total_steps",),
    ),
    "gemini": ("gemini/chats/session-2026-05-06T07-01-22220000.jsonl", ("tokens.total",)),
    "inspect": ("inspect/stocktake.json", ("results.completed_samples",)),
    "intercode": ("intercode/ic_sql_multiturn_tiny-1_3_turns_handicap.json", ("summary.turns_taken",)),
    "mini_swe_agent": ("mini_swe_agent/responses.traj.json", ("model_stats.api_calls", "model_stats.instance_cost")),
    "opencode": ("opencode/export.json", ("info.cost",)),
    "pi": ("pi/branches.jsonl", ("usage.totalTokens",)),
    "qwen": (f"qwen/chats/{QWEN}.jsonl", ("usageMetadata.totalTokenCount",)),
    "swe_agent": ("swe_agent/text-mode.traj", ("model_stats.api_calls",)),
    "tau2_bench": ("tau2_bench/results.json", ("agent_cost",)),
}
"""Formats that state exact totals: a sample, and the last two keys of each total."""

AT_MOST: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "codex": ("codex/rollout-commands.jsonl", ("total_token_usage.input_tokens", "total_token_usage.output_tokens")),
    "copilot": (f"copilot/session-state/{COPILOT}/events.jsonl", ("usage.outputTokens",)),
    "openhands": ("openhands/output.jsonl", ("metrics.accumulated_cost",)),
    "openhands_sdk": ("openhands_sdk/clerk.jsonl", ("accumulated_token_usage.prompt_tokens",)),
}
"""Formats whose totals also count what is no response of the agent, such as a compaction: that was read at most."""

BY_HAND: Final = {"anthropic_messages", "claude_code", "openai_chat", "otel"}
"""Formats whose samples have no totals: tests below write them."""

NONE: Final[Mapping[str, str]] = {
    "agentdojo": "only the verdicts, which are read as they are",
    "crush": "the tokens of a session are those of its last request, and its cost is that of no response",
    "droid": "the tokens of a session are those of no response",
    "kimi": "each usage is that of one response, and the record of it says the same",
    "cline": "neither the messages nor the manifest beside them have totals",
    "parquet": "boolab's own: a damaged file is refused, and steps are numbered",
    "store": "boolab's own: read whole or not at all",
    "sts": "a header and messages, without any figure",
    "tau_bench": "only a reward, which is read as it is",
}


def test_every_format_states_totals_or_says_why_not() -> None:
    assert sorted(readers()) == sorted([*EXACT, *AT_MOST, *BY_HAND, *NONE])


def test_a_format_without_totals_states_none(monkeypatch: pytest.MonkeyPatch) -> None:
    stated: set[str] = set()
    check = Totals.check

    def noted(totals: Totals, run_id: str, steps: Any, of_steps: Any) -> Any:
        stated.update((run_id,) if not totals.is_empty or any(of_steps) else ())
        return check(totals, run_id, steps, of_steps)

    monkeypatch.setattr(Totals, "check", noted)
    for name in NONE.keys() & {path.name for path in OWN.iterdir()}:
        read(OWN / name)
        assert not stated, name
    read(own("atif/others.json"))
    assert stated


def read(path: Path) -> tuple[FileRow, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        return read_logs(path, prices=False).files


KNOWN: Final[Mapping[str, str]] = {
    "no-samples.json": "results states 3 samples; 0 were read",  # the header of a log that has 3
    "log_tool_call_error.json": "results states 4 samples; 1 was read",  # its authors removed the others
}
"""Real files whose figures differ, and why that is right."""


@pytest.mark.parametrize("folder", [OWN, FOLDER])
def test_no_sample_is_inconsistent(folder: Path) -> None:
    if not folder.exists():
        pytest.skip(f"the sample logs are not here: {folder}")
    rows = [row for place in sorted(folder.iterdir()) if place.is_dir() and place.name != "wild" for row in read(place)]
    found = {Path(row.path).name: [str(one) for one in row.inconsistencies] for row in rows if row.inconsistencies}
    assert {re.sub(r"^.*_", "", name) if "no-samples" in name else name: one for name, (one,) in found.items()} == (
        {} if folder == OWN else KNOWN
    )


def changed(value: Any, places: tuple[str, ...], change: Callable[[Any], Any], key: str = "", above: str = "") -> Any:
    """A JSON value with other figures at these places."""
    if isinstance(value, dict):
        return {name: changed(item, places, change, name, key) for name, item in value.items()}
    if isinstance(value, list):
        return [changed(item, places, change, key, above) for item in value]
    is_figure = isinstance(value, int | float) and not isinstance(value, bool)
    return change(value) if is_figure and (f"{above}.{key}" in places or key in places) else value


def rewritten(source: Path, target: Path, change: Callable[[Any], Any]) -> Path:
    text = source.read_text()
    if source.suffix == ".jsonl":
        target.write_text("".join(json.dumps(change(json.loads(line))) + "\n" for line in text.splitlines()))
    else:
        target.write_text(json.dumps(change(json.loads(text))))
    return target


@pytest.mark.parametrize(("name", "place"), [(name, place) for name, (_, places) in EXACT.items() for place in places])
def test_another_stated_total_is_named_with_both_numbers(tmp_path: Path, name: str, place: str) -> None:
    source = own(EXACT[name][0])

    def larger(figure: float) -> float:
        return figure + (MORE if isinstance(figure, int) else MORE / 1e6)

    path = rewritten(source, tmp_path / source.name, lambda value: changed(value, (place,), larger))
    (row,) = read(path)
    assert row.inconsistencies
    for one in row.inconsistencies:
        assert one.stated is not None
        assert one.read is not None
        assert one.stated >= MORE
        assert one.stated > one.read
        numbers = [f"{one.stated:,}", f"{one.read:,}"]
        numbers = [f"${one.stated / 1e6:,.4f}", f"${one.read / 1e6:,.4f}"] if "cost" in one.what else numbers
        assert all(number in one.what for number in numbers), one
        assert f"{path}: {one}" in row.warnings


@pytest.mark.parametrize("name", [*AT_MOST])
def test_a_total_below_what_was_read_is_named(tmp_path: Path, name: str) -> None:
    sample, places = AT_MOST[name]
    source = own(sample)
    path = rewritten(source, tmp_path / source.name, lambda value: changed(value, places, lambda figure: figure / 1e4))
    (row,) = read(path)
    if name == "openhands_sdk":  # its responses are the differences of its totals: they cannot be more
        assert not row.inconsistencies
        return
    assert row.inconsistencies
    assert all(one.stated is not None and one.read is not None and one.stated < one.read for one in row.inconsistencies)


def test_a_dropped_response_is_named(tmp_path: Path) -> None:
    source = own("mini_swe_agent/text.traj.json")
    document = json.loads(source.read_text())
    last = max(n for n, message in enumerate(document["messages"]) if message["role"] == "assistant")
    del document["messages"][last]
    (tmp_path / source.name).write_text(json.dumps(document))
    with pytest.warns(ReadWarning, match=r"model_stats\.api_calls states 3 responses; 2 were read"):
        read_logs(tmp_path)


def test_samples_that_an_archive_lacks_are_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(own("inspect/stocktake.eval")) as full, zipfile.ZipFile(tmp_path / "a.eval", "w") as part:
        samples = [name for name in full.namelist() if name.startswith("samples/")]
        for name in full.namelist():
            if name not in samples[2:]:
                part.writestr(name, full.read(name))
    with pytest.warns(ReadWarning, match="results states 5 samples; 2 were read"):
        read_logs(tmp_path)


STREAM: Final = (
    {"type": "system", "subtype": "init", "session_id": "s", "claude_code_version": "2.1.9"},
    {
        "type": "assistant", "session_id": "s", "parent_tool_use_id": None,
        "message": {
            "id": "m1", "role": "assistant", "model": "m",
            "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}],
            "usage": {
                "input_tokens": 3, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 500, "output_tokens": 7
            },
        },
    },
    {
        "type": "user", "session_id": "s", "parent_tool_use_id": None,
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}]},
    },
    {
        "type": "assistant", "session_id": "s", "parent_tool_use_id": None,
        "message": {
            "id": "m2", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Done."}],
            "usage": {
                "input_tokens": 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 540, "output_tokens": 9
            },
        },
    },
)  # fmt: skip


def stream(path: Path, turns: int, output: int) -> Path:
    usage = {
        "input_tokens": 7,
        "cache_creation_input_tokens": 40,
        "cache_read_input_tokens": 1040,
        "output_tokens": output,
    }
    result = {"type": "result", "subtype": "success", "session_id": "s", "num_turns": turns, "usage": usage}
    path.write_text("".join(json.dumps(line) + "\n" for line in (*STREAM, result)))
    return path


def inconsistencies(path: Path) -> list[str]:
    return [one.what for row in read(path) for one in row.inconsistencies]


def test_the_result_of_claude_p_is_compared(tmp_path: Path) -> None:
    assert inconsistencies(stream(tmp_path / "a.jsonl", 2, 16)) == []
    assert inconsistencies(stream(tmp_path / "b.jsonl", 5, 21)) == [
        "num_turns of the result states 4 responses; 2 were read",
        "usage of the result states 21 output tokens; 16 were read",
    ]


@pytest.mark.parametrize("name", ["message_count", "num_messages"])
def test_the_number_of_messages_beside_them_is_compared(tmp_path: Path, name: str) -> None:
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "Done."}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"messages": messages, name: 2}))
    assert inconsistencies(path) == []
    path.write_text(json.dumps({"messages": messages, name: 5}))
    assert inconsistencies(path) == [f"{name} states 5 messages; 2 were read"]
    path.write_text(json.dumps({"system": "s", "messages": messages, name: 1}))
    assert inconsistencies(path) == [f"{name} states 1 message; 2 were read"]


def span(number: int, parent: int | None, operation: str, tokens: int) -> dict[str, Any]:
    about = {"gen_ai.operation.name": {"stringValue": operation}, "gen_ai.usage.input_tokens": {"intValue": tokens}}
    times = {"startTimeUnixNano": f"{number}000000", "endTimeUnixNano": f"{number}500000"}
    keys = {"traceId": "t", "spanId": f"s{number}", "parentSpanId": "" if parent is None else f"s{parent}"}
    return {**keys, **times, "name": "x", "attributes": [{"key": key, "value": value} for key, value in about.items()]}


def test_the_usage_of_an_agents_span_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for total, found in ((300, []), (350, ["usage of its agent states 350 input tokens; 300 were read"])):
        spans = [span(1, None, "invoke_agent", total), span(2, 1, "chat", 100), span(3, 1, "chat", 200)]
        path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
        assert inconsistencies(path) == found


def test_an_unknown_figure_makes_a_total_a_lower_bound() -> None:
    damage = Damage("a.jsonl")
    builder = RunBuilder("some_format", checked=damage)
    builder.state("usage", input_tokens=100, cost=50_000)
    for tokens in (60, None):
        builder.add_response().usage = Usage(tokens)
    builder.build("r")
    assert damage.inconsistencies == []
    builder.steps[0].usage = Usage(160)
    builder.build("r")
    assert [str(one) for one in damage.inconsistencies] == ["run r: usage states 100 input tokens; 160 were read"]


@pytest.mark.parametrize(("stated", "known"), [(100_000, True), (100_400, True), (101_000, False), (99_000, False)])
def test_costs_that_differ_by_rounding_are_equal(stated: int, *, known: bool) -> None:
    totals = Totals()
    totals.compare("info", "cost", stated, 100_000)
    assert (totals.check("r", ()) == []) is known


def atif(steps: list[dict[str, Any]], version: str = "1.7") -> dict[str, Any]:
    user = {"step_id": 1, "source": "user", "message": "go"}
    return {"schema_version": f"ATIF-v{version}", "session_id": "s", "agent": {"name": "x"}, "steps": [user, *steps]}


def blocks(metrics: list[int]) -> Iterator[dict[str, Any]]:
    for number, tokens in enumerate(metrics, 2):
        usage = {"prompt_tokens": tokens, "completion_tokens": 10}
        call = {"tool_call_id": f"c{number}", "function_name": "ls", "arguments": {"number": number}}
        answer = {"results": [{"source_call_id": f"c{number}", "content": "a.py"}]}
        step = {"step_id": number, "source": "agent", "message": f"block {number}", "metrics": usage}
        yield {**step, "tool_calls": [call], "observation": answer}


def test_a_step_for_each_block_of_a_response_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(atif([*blocks([600, 600, 600, 700, 700, 800])])))
    (found,) = inconsistencies(path)
    assert found.startswith("3 of 6 steps have exactly the tokens of the step before")
    assert found.endswith("a step for each block of a response, which would be 3 responses")
    path.write_text(json.dumps(atif([*blocks([600, 600, 610, 700, 750, 800])])))
    assert inconsistencies(path) == []


@pytest.mark.parametrize(("version", "warned"), [("1.7", False), ("1.2", False), ("1.8", True), ("1.10", True)])
def test_a_format_newer_than_the_tested_one_is_named_once(tmp_path: Path, version: str, *, warned: bool) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({**atif([*blocks([5])], version), "session_id": name}))
    found = inconsistencies(tmp_path)
    tested = f"version ATIF-v{version} wrote it, and the newest that the reader of atif was tested with is ATIF-v1.7"
    assert [one.partition(":")[0] for one in found] == ([tested] if warned else [])


def test_totals_of_a_trajectory_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    totals = {"total_prompt_tokens": 1300, "total_completion_tokens": 20, "total_steps": 3}
    path.write_text(json.dumps({**atif([*blocks([600, 700])]), "final_metrics": totals}))
    assert inconsistencies(path) == []
    path.write_text(
        json.dumps({**atif([*blocks([600, 700])]), "final_metrics": {**totals, "total_prompt_tokens": 1900}})
    )
    assert inconsistencies(path) == ["final_metrics states 1,900 input tokens; 1,300 were read"]


def test_lines_of_unknown_types_are_counted(tmp_path: Path) -> None:
    lines = own("pi/version1.jsonl").read_text().splitlines()
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([*lines, *['{"type": "thought"}', '{"type": "guess"}', '{"type": "thought"}']]))
    assert inconsistencies(path) == [
        f"3 of {len(lines) + 3} lines are of a type that this reader does not know (thought, guess)"
    ]
    path.write_text("\n".join([*lines, '{"type": "thought"}']))
    assert inconsistencies(path) == []


def test_calls_and_results_that_never_match_are_reported(tmp_path: Path) -> None:
    call = {"type": "function", "function": {"name": "ls", "arguments": "{}"}}
    messages = [{"role": "user", "content": "go"}]
    for number in range(2):
        messages.append({"role": "assistant", "content": "", "tool_calls": [{"id": f"c{number}", **call}]})  # type: ignore[dict-item]
        messages.append({"role": "tool", "tool_call_id": f"other {number}", "content": "x"})
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"messages": messages}))
    assert inconsistencies(path) == [
        "none of 2 calls has a result, while 2 results answer no call: they may be paired in another way"
    ]


def test_calls_that_stand_in_texts_are_named(tmp_path: Path) -> None:
    said = '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>'
    messages = [{"role": role, "content": text} for role, text in (("user", "go"), ("assistant", said)) * 3]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"messages": messages}))
    assert inconsistencies(path) == ["none of 3 responses has a call, but 3 of their texts hold what looks like one"]


def test_audit_import_and_report_show_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = own("mini_swe_agent/text.traj.json")
    rewritten(source, tmp_path / source.name, lambda value: changed(value, ("api_calls",), lambda figure: figure + 9))
    what = "info.model_stats.api_calls states 12 responses; 3 were read"
    with pytest.warns(ReadWarning, match=what):
        (row,) = bl.audit(tmp_path).checks.to_dict("records")
    assert (row["what"], row["stated"], row["read"]) == (what, 12, 3)
    assert row["path"] == str(tmp_path / source.name)
    for words in (["audit"], ["whatif"], ["import", "-o", str(tmp_path / "runs.jsonl")]):
        main([words[0], str(tmp_path / source.name), *words[1:], "--json"])
        assert what in capsys.readouterr().out, words
    assert bl.audit(bl.load_runs(own("gemini/chats"))).checks.empty


def test_responses_without_a_time_of_their_own_are_no_copies(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    refused = {"role": "user", "content": "No tool calls found.", "extra": {"interrupt_type": "FormatError"}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call], "extra": {"timestamp": 1_773_665_121.123}},
        {"role": "tool", "tool_call_id": "c", "content": "a.py", "extra": {"timestamp": 1_773_665_122.456}},
        *[refused] * 5,
    ]
    stats = {"model_stats": {"api_calls": 6}, "exit_status": "LimitsExceeded"}
    path = tmp_path / "a.traj.json"
    path.write_text(json.dumps({"info": stats, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}))
    assert inconsistencies(path) == []


def test_newer_version_is_compared_by_tested_numbers() -> None:
    assert newer_version(["0.99.0", "0.146.2"], "0.145") == "0.146.2"
    assert not newer_version(["2.1.999", "dev"], "2.1")
    assert newer_version(["ATIF-v1.8"], "ATIF-v1.7") == "ATIF-v1.8"
