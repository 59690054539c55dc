"""Logs of Inspect."""

import io
import json
import sys
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.types import Usage
from boolab.errors import RunFormatError
from boolab.io import packed as limits
from boolab.logs.load import load_runs
from boolab.logs.readers import _archives
from boolab.logs.readers._inspect_sample import Attachments
from tests.support.readers import reader_of
from tests.support.samples import own, shared

read = reader_of("inspect")

LOG = own("inspect/stocktake.json")
HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {"eval_id": "E", "task": "t", "model": "m", "config": {}},
}


def runs_of(path: Path) -> tuple[list[Run], list[str]]:
    told: list[str] = []
    return read(path, told.append), told


def write(folder: Path, *samples: object, **header: Any) -> Path:
    path = folder / "log.json"
    path.write_text(json.dumps({**HEADER, **header, "samples": samples}))
    return path


def pack(path: Path, members: Mapping[str, Any], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, value in members.items():
            archive.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return path


def asks(*calls: str, **more: Any) -> dict[str, Any]:
    asked = [{"id": name, "function": "look", "arguments": {"at": 1}} for name in calls]
    return {"role": "assistant", "content": "", "tool_calls": asked, **more}


def gives(name: str, content: str = "ok", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": content, **more}


def sample(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "epoch": 1,
        "messages": [{"role": "user", "content": "Hello", "source": "input"}, *messages],
        **more,
    }


def event(said: str, *, span: str = "agent", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": said, **more}
    output = {
        "choices": [{"message": message, "stop_reason": "stop"}],
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }
    return {"event": "model", "span_id": span, "output": output}


def test_sample_epoch_is_a_run_and_assistant_message_is_a_step() -> None:
    runs, told = runs_of(LOG)
    assert told == []
    names = ["shelf-1/1", "shelf-1/2", "shelf-2/1", "shelf-3/1", "5/1", "shelf-6/1"]
    assert [run.run_id for run in runs] == [f"EvalOfShelves/{name}" for name in names]
    assert [run.task for run in runs[:3]] == ["stocktake/shelf-1", "stocktake/shelf-1", "stocktake/shelf-2"]
    assert {(run.agent, run.model, run.source) for run in runs} == {("clerk", "lab/clerk-2", "inspect")}
    assert [run.n_steps for run in runs] == [4, 2, 2, 1, 1, 2]
    assert [run.n_tool_calls for run in runs] == [3, 1, 1, 0, 0, 1]
    assert [run.success for run in runs] == [True, False, False, None, None, None]
    assert [dict(run.scores) for run in runs] == [
        {"model_graded_qa": "C"}, {"includes": "I"}, {"includes": "I"}, {}, {"includes": 0.5},
        {"includes": "C", "style": "I"},
    ]  # fmt: skip
    assert [run.stop_reason for run in runs] == ["finished", "step_cap", "token_budget", "error", "aborted", "finished"]


def test_an_archive_gives_the_same_runs_as_the_document() -> None:
    assert read(own("inspect/stocktake.eval")) == read(LOG)


def test_usage_and_times_come_from_model_events_not_the_judge() -> None:
    run = read(LOG)[0]
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "tool_calls", "stop", "length"]
    assert [step.response.usage[:5] for step in run.steps] == [
        (110, 20, 70, 5, 1500),  # the total says that cached tokens are counted apart
        (200, 10, 150, None, None),
        (220, 12, None, None, None),
        (240, 8, None, None, None),
    ]
    assert [(step.start_ms, step.duration_ms, step.model_ms) for step in run.steps] == [
        (2000, 7000, 2000), (9000, 1000, 1000), (11000, 2000, 2000), (20000, 1000, 1000),
    ]  # fmt: skip
    assert (run.duration_ms, str(run.started_at)) == (21000, "2026-03-02 09:00:00+00:00")


def test_parallel_calls_get_their_results_whatever_their_order() -> None:
    first, second = read(LOG)[0].steps[:2]
    assert [(call.name, call.arguments) for call in first.response.tool_calls] == [
        ("count", '{"shelf":1}'),
        ("count", '{"shelf":2}'),
    ]
    one, two = first.results
    assert one is not None
    assert two is not None
    assert (one.content, one.is_error, one.duration_ms) == ("7 boxes", False, 2000)
    assert (two.content, two.is_error, two.duration_ms) == (
        "Command timed out after a long and patient wait.",
        True,
        5000,
    )
    (bad,) = second.results
    assert bad is not None
    assert (bad.is_error, bad.parse_error) == (True, True)
    assert second.response.tool_calls[0].arguments == '{"shelf": 3'


def test_attachments_and_reasoning_are_found() -> None:
    response = read(LOG)[0].steps[0].response
    assert (response.text, response.reasoning) == ("I count both.", "Two shelves, so two counts at once.")


def test_a_user_opens_a_turn_but_summaries_and_reminders_do_not() -> None:
    runs = read(LOG)
    assert [step.turn for step in runs[0].steps] == [1, 1, 1, 2]
    last = runs[-1]
    assert [step.turn for step in last.steps] == [1, 1]
    assert [message.role for message in last.prompt] == ["user", "assistant", "user"]
    assert [before for before, _ in last.inputs] == [2, 2]
    assert [happened.kind for happened in last.events] == ["compaction"]


def test_a_message_limit_is_a_step_cap_counted_in_messages() -> None:
    run = read(LOG)[1]
    assert run.stop == ("step_cap", 1, "message_limit(4)", 4, 4, ())
    assert run.limits == {"messages": 4, "tokens": 1000, "elapsed": 600_000, "cost": 2_500_000}
    assert run.steps[-1].results == (None,)


def test_response_beyond_a_limit_is_a_step_with_dropped_calls() -> None:
    run = read(LOG)[2]
    assert run.stop[:4] == ("token_budget", 1, "token_limit(1000)", 1000)
    assert run.steps[-1].response.usage == Usage(700, 90)
    assert [call.id for call in run.steps[-1].dropped] == ["e2"]


def test_an_error_and_an_operator_end_a_run() -> None:
    runs = read(LOG)
    assert (runs[3].stop_reason, runs[3].error) == ("error", "RuntimeError('the warehouse is closed')")
    assert (runs[4].stop_reason, runs[4].stop.rule) == ("aborted", "operator_limit")
    assert (runs[4].steps[0].response.finish_reason, runs[4].duration_ms) == ("stop", 30_000)


@pytest.mark.parametrize(
    ("limit", "stop", "counter", "threshold"),
    [
        ({"type": "time", "limit": 1.5}, "time_budget", "elapsed", 1500),
        ({"type": "working", "limit": 60}, "time_budget", "working", 60_000),
        ({"type": "cost", "limit": 0.25}, "cost_budget", "cost", 250_000),
        ({"type": "turn", "limit": 1}, "step_cap", "steps", 1),
        ({"type": "token", "limit": None}, "token_budget", "tokens", None),
        ({"type": "custom", "limit": 3}, "aborted", "custom", None),
        ({"type": "context", "limit": 3}, "aborted", "context", None),
    ],
)
def test_each_limit_has_its_reason(
    tmp_path: Path, limit: dict[str, Any], stop: str, counter: str, threshold: int | None
) -> None:
    (run,) = read(write(tmp_path, sample(asks("c"), limit=limit)))
    assert (run.stop_reason, run.stop.threshold, run.limits.get(counter)) == (stop, threshold, threshold)
    assert run.stop.rule is not None
    assert run.stop.rule.startswith(f"{limit['type']}_limit")


def test_old_logs_show_a_limit_by_event_or_message_count(tmp_path: Path) -> None:
    hit = {"event": "sample_limit", "type": "message", "limit": 2}
    (run,) = read(write(tmp_path, sample(asks("c"), events=[event("x"), hit])))
    assert run.stop_reason == "step_cap"
    (run,) = read(write(tmp_path, sample(asks("c"), events=[hit, event("x")])))
    assert run.stop_reason == "finished"
    config = {"eval": {**HEADER["eval"], "config": {"max_messages": 2}}}
    (cut, done) = read(write(tmp_path, sample(asks("c")), sample({"role": "assistant", "content": "Bye"}), **config))
    assert (cut.stop[:3], done.stop_reason) == (("step_cap", 0, "message_limit(2)"), "finished")


@pytest.mark.parametrize(
    ("scores", "success"),
    [
        ({"a": {"value": "C"}}, True),
        ({"a": {"value": "I"}}, False),
        ({"a": {"value": "N"}}, False),
        ({"a": {"value": "P"}}, None),
        ({"a": {"value": True}}, True),
        ({"a": {"value": 0.0}}, False),
        ({"a": {"value": 0.5}}, None),
        ({"a": {"value": {"x": 1}}}, None),
        ({"a": {"value": 1}, "b": {"value": "C"}}, True),
        ({"a": {"value": "C"}, "b": {"value": 0.3}}, None),
        ({}, None),
        (None, None),
        (["C"], None),
    ],
)
def test_success_is_what_all_scores_agree_on(tmp_path: Path, scores: object, success: bool | None) -> None:
    (run,) = read(write(tmp_path, sample(scores=scores)))
    assert run.success is success


def test_old_logs_hold_transcripts_with_times_of_the_end_only() -> None:
    (run,) = read(own("inspect/old.json"))
    assert (run.run_id, run.success, dict(run.limits)) == ("RunOf2024/old_stocktake/1/1", True, {"messages": 30})
    assert [(step.start_ms, step.model_ms, step.duration_ms) for step in run.steps] == [
        (1000, 2000, 3000),
        (4000, 2000, 2000),
    ]
    assert [step.response.usage[:2] for step in run.steps] == [(20, 4), (30, 6)]
    assert run.n_tool_calls == 1


def test_a_sample_in_pieces_is_the_same_sample() -> None:
    runs, told = runs_of(own("inspect/pieces.eval"))
    assert runs == read(LOG)[:1]
    assert len(told) == 1
    assert told[0].endswith("the evaluation did not finish; it holds the 1 samples that were done")


def test_an_unfinished_log_without_samples_says_so(tmp_path: Path) -> None:
    runs, told = runs_of(pack(tmp_path / "a.eval", {"_journal/start.json": HEADER | {"status": "started"}}))
    assert runs == []
    assert "did not finish; it holds the 0 samples" in told[0]


def test_reasoning_tokens_missing_from_output_are_added(tmp_path: Path) -> None:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 35, "reasoning_tokens": 20}
    said = {"choices": [{"message": {"role": "assistant", "content": "x"}}], "usage": usage}
    (run,) = read(write(tmp_path, sample({"role": "assistant", "content": "x"}, output=said)))
    assert run.steps[0].response.usage == Usage(10, 25, None, 20)
    usage |= {"total_tokens": 100, "input_tokens_cache_read": 40}  # more than cached and reasoning tokens explain
    (run,) = read(write(tmp_path, sample({"role": "assistant", "content": "x"}, output=said)))
    assert run.steps[0].response.usage == Usage(10, 5, 40, 20)
    del usage["input_tokens_cache_read"]
    usage["total_tokens"] = 15
    (run,) = read(write(tmp_path, sample({"role": "assistant", "content": "x"}, output=said)))
    assert run.steps[0].response.usage == Usage(10, 5, None, 20)


def test_events_and_messages_match_or_leave_usage_unknown(tmp_path: Path) -> None:
    said = [{"role": "assistant", "content": text} for text in ("one", "two", "one")]
    events = [event("one"), event("a critic", span="other"), event("one")]
    (run,) = read(write(tmp_path, sample(*said, events=events)))
    assert [step.response.usage.input_tokens for step in run.steps] == [7, None, 7]


def test_results_pair_by_id_and_position_or_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path, sample(asks("c"), gives("c", "one"), asks("c"), gives("c", "two"), gives("x")))
    runs, told = runs_of(path)
    assert [step.results[0] and step.results[0].content for step in runs[0].steps] == ["one", "two"]
    assert told == [f"{path}: 1 tool result answers no call that is in the file; left out"]


def test_duplicate_sample_gets_a_new_id_and_invalid_is_reported(tmp_path: Path) -> None:
    runs, told = runs_of(write(tmp_path, sample(), sample(), "what"))
    assert [run.run_id for run in runs] == ["E/1/1", "E/1/1#2"]
    assert told == [f"{tmp_path / 'log.json'}:1: sample 3 is no object with an id; skipped"]


def test_archives_that_are_none_or_hold_no_log_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    with pytest.raises(
        RunFormatError, match=r"a\.eval:1: an \.eval file is a ZIP archive, and this is none: .*Git LFS"
    ):
        load_runs(path)
    with pytest.raises(RunFormatError, match=r"without header\.json and _journal/start\.json"):
        read(pack(path, {"x": 1}))
    path.write_bytes(pack(path, {"header.json": HEADER}).read_bytes()[:-20])
    with pytest.raises(RunFormatError, match="no readable ZIP file"):
        read(path)


def test_damaged_member_is_reported_and_others_are_read(tmp_path: Path) -> None:
    path = pack(
        tmp_path / "a.eval",
        {"header.json": HEADER, "samples/1_epoch_1.json": b"{", "samples/a/b_epoch_1.json": sample()},
        zipfile.ZIP_STORED,
    )
    runs, told = runs_of(path)
    assert len(runs) == 1
    assert "samples/1_epoch_1.json: EOF" in told[0]
    path.write_bytes(path.read_bytes().replace(b"Hello", b"Jello"))
    with pytest.raises(RunFormatError, match="b_epoch_1.json cannot be unpacked|1_epoch_1.json"):
        read(path)


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_archives, "MAX_MEMBER", 50_000)
    bomb: dict[str, Any] = {"header.json": HEADER, "samples/1_epoch_1.json": b" " * 50_001}
    with pytest.raises(RunFormatError, match=r"samples/1_epoch_1\.json holds more than the 50,000 bytes"):
        read(pack(tmp_path / "member.eval", bomb))
    many: dict[str, Any] = {f"samples/{i}_epoch_1.json": b" " * 40_000 + b"{}" for i in range(5)}
    monkeypatch.setattr(limits, "MAX_TOTAL", 150_000)
    more = pack(tmp_path / "sum.eval", {"header.json": HEADER, "samples/x_epoch_1.json": sample(), **many})
    runs, told = runs_of(more)
    assert len(runs) == 1
    assert "it holds more than 150,000 bytes when it is unpacked" in "".join(told)
    monkeypatch.setattr(_archives, "MAX_MEMBERS", 5)
    with pytest.raises(RunFormatError, match="6 members, more than the 5"):
        read(pack(tmp_path / "members.eval", {"header.json": HEADER, **many}))
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "one_name.eval", "w") as packed:
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(6):
            packed.writestr("header.json", "{}")
    with pytest.raises(RunFormatError, match="6 members, more than the 5"):
        read(tmp_path / "one_name.eval")


def test_attachment_is_inserted_up_to_a_limit_then_referenced() -> None:
    attached = Attachments({"attachments": {"a": "x" * 2_000_000, "b": "y"}})
    said = [attached.resolve("attachment://a") for _ in range(20)]
    assert [len(one) for one in said] == [2_000_000] * 16 + [len("attachment://a")] * 4
    assert attached.resolve("attachment://b") == "y"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_nothing_bounds_is_not_unpacked(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("header.json", json.dumps(HEADER), zipfile.ZIP_DEFLATED)
        archive.writestr("samples/1_epoch_1.json", b" " * 60_000)
    with pytest.raises(RunFormatError, match=rf"1_epoch_1\.json is compressed by method {method}; accepted: 0, 8, 93"):
        read(path)


def test_declared_sizes_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_archives, "MAX_MEMBER", 50_000)
    path = pack(tmp_path / "a.eval", {"header.json": HEADER, "samples/1_epoch_1.json": b" " * 60_000})
    path.write_bytes(path.read_bytes().replace((60_000).to_bytes(4, "little"), (9).to_bytes(4, "little")))
    with pytest.raises(RunFormatError):
        read(path)


def zstd_log(path: Path) -> Path:
    zstd: Any = zipfile
    if sys.version_info < (3, 14):
        zstd = pytest.importorskip("backports.zstd.zipfile")
    packed = io.BytesIO()
    with zstd.ZipFile(packed, "w", 93) as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample(asks("c"), gives("c"))))
    path.write_bytes(packed.getvalue())
    return path


def test_archives_that_are_compressed_with_zstandard_are_read(tmp_path: Path) -> None:
    (run,) = load_runs(zstd_log(tmp_path / "a.eval"))
    assert (run.n_steps, run.n_tool_calls) == (1, 1)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="zipfile knows Zstandard itself")
def test_missing_zstd_package_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zstd_log(tmp_path / "a.eval")
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "backports.zstd.zipfile", None)
    with pytest.raises(RunFormatError, match=r"pip install 'boolab\[zstd\]'"):
        read(path)


def test_the_formats_of_one_log_agree() -> None:
    here = "inspect/tests/log/test_eval_log/log_formats"
    assert read(shared(f"{here}.eval")) == read(shared(f"{here}.json"))


def test_pooled_messages_of_newer_logs_are_read() -> None:
    (run,) = read(shared("inspect/tests/log/test_eval_log/log_message_deduplication.eval"))
    assert (run.n_steps, run.n_tool_calls, run.success) == (6, 5, False)
    assert [step.response.finish_reason for step in run.steps] == ["unknown"] * 5 + ["stop"]
    assert {step.response.usage for step in run.steps} == {Usage()}


def test_an_agent_that_browses_has_the_tokens_of_its_own_events() -> None:
    (run,) = read(shared("inspect/tests/analysis/test_logs/2025-05-12T20-27-36-04-00_browser.json"))
    assert (run.n_steps, run.n_tool_calls, run.success) == (5, 4, True)
    assert sum(step.response.usage.input_tokens or 0 for step in run.steps) == 15235
    assert sum(step.response.usage.output_tokens or 0 for step in run.steps) == 281
