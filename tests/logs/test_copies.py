"""Every sample of every format, written again: no count of all logs together changes, and real repeats stay."""

from __future__ import annotations

import functools
import json
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.messages import Message, Text
from boolab.errors import ReadWarning
from boolab.frames.runs import own_cost
from boolab.logs import copies
from boolab.logs.copies import SESSIONS, FileRun
from boolab.logs.fingerprint import fingerprint
from boolab.logs.identity import Shared, digests_of, is_unique, shared_steps
from boolab.logs.log_files import readers
from tests.support.cases import first
from tests.support.samples import OWN, own

FORMATS: Final = sorted(readers().keys() - {"parquet", "store"})
"""Those of other programs: each has samples in the folder of its name."""

Json = Any
Counts = tuple[Any, ...]


def runs_in(*paths: Path) -> list[bl.Run]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        return bl.load_runs(list(paths), prices=False)


def counts(*paths: Path, n_runs: bool = True) -> Counts:
    """The sums of all runs."""
    runs = runs_in(*paths)
    frame, steps, calls = bl.runs_df(runs), bl.steps_df(runs), bl.calls_df(runs)
    known = [int(frame[name].sum()) for name in ("n_steps", "n_tool_calls", "n_errors", "n_dropped")]
    tokens = [int(steps[name].sum()) for name in ("input_tokens", "output_tokens", "cached_tokens")]
    labels = (int((frame["success"] == True).sum()), int((frame["success"] == False).sum()))  # noqa: E712
    rest = (len(runs), int(frame["n_turns"].sum()), *labels) if n_runs else ()
    return (*known, *tokens, len(steps), len(calls), *rest)


@pytest.fixture(params=FORMATS)
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the samples of a format."""
    return Path(shutil.copytree(OWN / request.param, tmp_path / "logs"))


def test_a_second_copy_of_a_folder_changes_no_count(sample: Path) -> None:
    once = counts(sample)
    shutil.copytree(sample, sample.parent / "backup" / "deep" / "er")
    assert counts(sample.parent) == once
    assert counts(sample.parent / "backup", sample) == once


@pytest.mark.parametrize("contents", first(1, ["everything", "facts"]))
def test_an_export_beside_the_logs_changes_no_count(sample: Path, contents: Any) -> None:
    once, runs = counts(sample), runs_in(sample)
    for name in ("a.jsonl", "b.jsonl.bz2", "c.parquet"):
        bl.save_runs(runs, sample / name, contents=contents)
    assert counts(sample) == once
    with bl.Store(sample / "runs.db") as store:
        for run in runs:
            store.add(run)
    assert counts(sample) == once


# --- Within a file, under new ids -------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def written(path: Path, lines: list[Json]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def renamed(value: Json, names: frozenset[str], suffix: str = "-copy") -> Json:
    """A value with other ids under these keys."""
    if isinstance(value, dict):
        return {
            name: f"{item}{suffix}" if name in names and isinstance(item, str) else renamed(item, names, suffix)
            for name, item in value.items()
        }
    return [renamed(item, names, suffix) for item in value] if isinstance(value, list) else value


def twice_as_lines(*names: str, header: int = 0) -> Callable[[Path], None]:
    """What appends all lines of a file once more, but for its header, under new ids."""

    def write(path: Path) -> None:
        lines = lines_of(path)
        written(path, [*lines, *(shallow(line, names) for line in lines[header:])])

    return write


def shallow(line: Json, names: tuple[str, ...]) -> Json:
    """A line with new ids of its own: those in its message are the provider's."""
    return {name: f"{item}-copy" if name in names and isinstance(item, str) else item for name, item in line.items()}


def twice_in_messages(*names: str) -> Callable[[Path], None]:
    """What appends all messages of a document once more, under new ids."""

    def write(path: Path) -> None:
        document = json.loads(path.read_text())
        copied = [shallow(message, names) for message in document["messages"]]
        document["messages"] += [
            {**one, "info": shallow(one["info"], names)} if "info" in one else one for one in copied
        ]
        path.write_text(json.dumps(document))

    return write


WRITTEN_AGAIN: Final[dict[str, tuple[str, Callable[[Path], None]] | None]] = {
    "agentdojo": None,  # its messages have no ids of their own and no times: equal ones are repeats
    "anthropic_messages": None,  # as above
    "atif": None,  # steps have numbers, and a file is written at once
    "claude_code": ("3a3a3a3a-1111-4222-8333-555555555555.jsonl", twice_as_lines("uuid", "parentUuid")),
    "cline": ("1767225600000_abcde.messages.json", twice_in_messages("id")),
    "codex": ("rollout-commands.jsonl", twice_as_lines()),
    "copilot": None,  # a resumed session is written on
    "crush": None,  # a message is a row with an id
    "droid": None,  # a branch is one of the same file
    "gemini": ("chats/session-2026-05-06T07-00-22220000.json", twice_in_messages("id")),
    "inspect": None,  # a file is written at once
    "intercode": None,
    "kimi": None,  # a resumed session is written on
    "mini_swe_agent": None,
    "openai_chat": None,
    "opencode": ("export.json", twice_in_messages("id", "messageID")),
    "openhands": None,  # events have numbers
    "openhands_sdk": ("clerk.jsonl", twice_as_lines("id")),
    "otel": ("agents.jsonl", twice_as_lines()),
    "pi": ("version1.jsonl", twice_as_lines(header=1)),
    "qwen": None,  # as droid
    "sts": None,  # a file is written at once
    "swe_agent": None,
    "tau2_bench": None,
    "tau_bench": None,
}
"""For each format a sample and what writes it again into the same file; None where its harness cannot have done so."""


def test_each_format_is_written_again_or_cannot_be() -> None:
    assert sorted(WRITTEN_AGAIN) == FORMATS


@pytest.mark.parametrize("name", [name for name, how in WRITTEN_AGAIN.items() if how])
def test_a_file_that_holds_its_records_again_changes_no_count(name: str, tmp_path: Path) -> None:
    how = WRITTEN_AGAIN[name]
    assert how is not None
    path = tmp_path / Path(how[0]).name
    shutil.copyfile(OWN / name / how[0], path)
    once = counts(path)
    how[1](path)
    assert counts(path) == once


# --- Forks ------------------------------------------------------------------------------------------------------------

DAY: Final = "2027-01-01T00:00:{:02}.500Z"


def claude_fork(text: str, fork: str) -> tuple[str, str]:
    """The fork of a session of Claude Code, and what it is called."""
    lines = [json.loads(line) for line in text.replace("3a3a3a3a-1111-4222-8333-555555555555", fork).splitlines()]
    copied = [shallow(line, ("uuid", "parentUuid")) for line in lines]
    last = next(line["uuid"] for line in reversed(copied) if "uuid" in line)
    about = {"sessionId": fork, "isSidechain": False}
    prompt = {"type": "user", "uuid": "own1", "parentUuid": last, "timestamp": DAY.format(1), **about}
    reply = {"type": "assistant", "uuid": "own2", "parentUuid": "own1", "timestamp": DAY.format(2), **about}
    content = [{"type": "text", "text": "My own"}]
    message = {"id": "own", "role": "assistant", "content": content, "usage": {"input_tokens": 7, "output_tokens": 3}}
    own_part = [{**prompt, "message": {"role": "user", "content": "Go on"}}, {**reply, "message": message}]
    return "".join(json.dumps(line) + "\n" for line in [*copied, *own_part]), f"{fork}.jsonl"


def codex_fork(text: str, fork: str) -> tuple[str, str]:
    """The fork of a rollout of Codex, which has the times of the fork."""
    lines = [json.loads(line) for line in text.splitlines()]
    head = {**lines[0], "timestamp": DAY.format(1), "payload": {**lines[0]["payload"], "id": fork}}
    head["payload"]["forked_from_id"] = lines[0]["payload"]["id"]
    copied = [{**line, "timestamp": DAY.format(1)} for line in lines]
    usage = {"input_tokens": 7, "output_tokens": 3, "cached_input_tokens": 0}
    total = {"input_tokens": 99_999, "output_tokens": 999}
    content = [{"type": "output_text", "text": "My own"}]
    own_part = [
        ("event_msg", {"type": "user_message", "message": "Go on"}),
        ("response_item", {"type": "message", "role": "assistant", "content": content}),
        ("event_msg", {"type": "token_count", "info": {"last_token_usage": usage, "total_token_usage": total}}),
    ]
    rest = [{"timestamp": DAY.format(n), "type": kind, "payload": one} for n, (kind, one) in enumerate(own_part, 2)]
    return "".join(json.dumps(line) + "\n" for line in [head, *copied, *rest]), f"rollout-{fork}.jsonl"


def gemini_fork(text: str, fork: str) -> tuple[str, str]:
    document = json.loads(text) | {"sessionId": fork}
    document["messages"] = [shallow(message, ("id",)) for message in document["messages"]]
    tokens = {"input": 7, "output": 3, "total": 10}
    document["messages"] += [
        {"id": "own1", "type": "user", "content": "Go on", "timestamp": DAY.format(1)},
        {"id": "own2", "type": "gemini", "content": "My own", "timestamp": DAY.format(2), "tokens": tokens},
    ]
    return json.dumps(document), f"session-{fork}.json"


def pi_fork(text: str, fork: str) -> tuple[str, str]:
    lines = [json.loads(line) for line in text.splitlines()]
    head = {**lines[0], "id": fork, "parentSession": f"/home/me/2026_{lines[0]['id']}.jsonl"}
    usage = {"input": 7, "output": 3, "cacheRead": 0, "cacheWrite": 0}
    content = [{"type": "text", "text": "My own"}]
    messages = [
        {"role": "user", "content": "Go on"},
        {"role": "assistant", "content": content, "stopReason": "stop", "usage": usage, "model": "acme-large"},
    ]
    own_part = [{"type": "message", "timestamp": DAY.format(n), "message": one} for n, one in enumerate(messages, 1)]
    return "".join(json.dumps(line) + "\n" for line in [head, *lines[1:], *own_part]), f"2027_{fork}.jsonl"


def opencode_fork(text: str, fork: str) -> tuple[str, str]:
    document = json.loads(text.replace("ses_main", fork))
    document["messages"] = [{**one, "info": shallow(one["info"], ("id",))} for one in document["messages"]]
    time = {"created": 1_798_761_600_500}
    finish = {"type": "step-finish", "tokens": {"input": 7, "output": 3}, "reason": "stop"}
    for role, parts in (("user", []), ("assistant", [{"type": "step-start"}, finish])):
        info = {"id": f"own_{role}", "role": role, "sessionID": fork, "time": time}
        words = {"type": "text", "text": "Go on" if role == "user" else "My own"}
        document["messages"].append({"info": info, "parts": [*parts[:1], words, *parts[1:]]})
    return json.dumps(document), f"{fork}.json"


def cline_fork(text: str, fork: str) -> tuple[str, str]:
    document = json.loads(text) | {"sessionId": fork}
    document["messages"] = [shallow(message, ("id",)) for message in document["messages"]]
    metrics = {"inputTokens": 7, "outputTokens": 3}
    words = ({"type": "text", "text": "Go on"}, {"type": "text", "text": "My own"})
    document["messages"] += [
        {"role": "user", "id": "own1", "ts": 1_798_761_600_500, "content": [words[0]]},
        {"role": "assistant", "id": "own2", "ts": 1_798_761_601_500, "content": [words[1]], "metrics": metrics},
    ]
    return json.dumps(document), f"{fork}.messages.json"


FORKS: Final[dict[str, tuple[str, Callable[[str, str], tuple[str, str]]]]] = {
    "claude_code": ("3a3a3a3a-1111-4222-8333-555555555555.jsonl", claude_fork),
    "cline": ("1767225600000_abcde.messages.json", cline_fork),
    "codex": ("rollout-commands.jsonl", codex_fork),
    "gemini": ("chats/session-2026-05-06T07-00-22220000.json", gemini_fork),
    "opencode": ("export.json", opencode_fork),
    "pi": ("version1.jsonl", pi_fork),
}


def test_each_format_of_sessions_has_a_fork() -> None:
    assert FORKS.keys() == SESSIONS


@pytest.mark.parametrize("fork", ["00000000-fork", "zzzzzzzz-fork"])  # it is read before its origin, or after it
@pytest.mark.parametrize("name", sorted(FORKS))
def test_a_fork_adds_only_its_own_part(name: str, fork: str, tmp_path: Path) -> None:
    file, make = FORKS[name]
    path = tmp_path / Path(file).name
    shutil.copyfile(OWN / name / file, path)
    (origin,) = (run for run in runs_in(path) if run.parent_run_id is None)
    once = counts(path)
    text, file = make(path.read_text(), fork)
    (tmp_path / file).write_text(text)
    alone = next(run for run in runs_in(tmp_path / file) if run.parent_run_id is None)
    runs = {run.run_id: run for run in runs_in(tmp_path)}
    assert runs[origin.run_id] == origin
    own_part = runs[alone.run_id]
    frame = bl.runs_df(own_part)
    assert frame[["n_steps", "branched_from", "branched_at"]].values.tolist() == [[1, origin.run_id, origin.n_steps]]
    assert (own_part.steps[0].response.text, own_part.steps[0].turn) == ("My own", alone.steps[-1].turn)
    assert own_part.messages == alone.messages or [m.text for m in own_part.messages] == [
        message.text for message in alone.messages
    ]
    assert fingerprint(own_part) == fingerprint(alone)
    assert (fingerprint(own_part).steps, own_cost(own_part)) == (origin.n_steps + 1, None)
    added = [after - before for before, after in zip(once, counts(tmp_path), strict=True)]
    steps, tokens = [1, 0, 0, 0], [7, 3]
    assert (added[:4], added[4:6], added[7:11]) == (steps, tokens, [1, 0, 1, 1])
    bl.save_runs(list(runs.values()), tmp_path / "export.jsonl")
    assert counts(tmp_path) == tuple(before + more for before, more in zip(once, added, strict=True))


def test_an_older_state_of_a_session_is_left_out(tmp_path: Path) -> None:
    path = own("claude_code/3a3a3a3a-1111-4222-8333-555555555555.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    for name in ("a", "z"):
        for folder, text in ((name, "".join(lines[: len(lines) // 2])), ("m", "".join(lines))):
            (tmp_path / name / folder).mkdir(parents=True)
            (tmp_path / name / folder / path.name).write_text(text)
        assert counts(tmp_path / name) == counts(tmp_path / name / "m")


# --- Real repeats -----------------------------------------------------------------------------------------------------

IDS: Final = frozenset((
    "id", "uuid", "parentUuid", "sessionId", "session_id", "sessionID", "messageID", "message_id", "callID", "call_id",
    "tool_call_id", "tool_use_id", "toolCallId", "llm_response_id", "response_id", "requestId", "spanId",
    "parentSpanId", "traceId", "$rewindTo", "trajectory_id", "source_call_id", "parentId", "eval_id", "run_id",
    "conversation_id", "tool_id", "apiCallId", "messageId", "parentToolCallId", "stepUuid",
    "trace_id", "span_id", "parent_id", "group_id", "session.id",
))  # fmt: skip
ISO: Final = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")


def later(text: str) -> str:
    """A log with all of its times a day later."""

    def shifted(found: re.Match[str]) -> str:
        time = datetime.fromisoformat(found[0]) + timedelta(days=1)
        return time.isoformat().replace("+00:00", "Z")

    text = ISO.sub(shifted, text)
    for digits, unit in ((19, 10**9), (13, 10**3), (10, 1)):
        text = re.sub(rf"(?<!\d)1[67]\d{{{digits - 2}}}(?!\d)", lambda found: str(int(found[0]) + 86_400 * unit), text)  # noqa: B023
    return text


def jsons(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".jsonl", ".traj") and path.is_file():
            yield path


@pytest.mark.parametrize("name", sorted(readers().keys() - {"parquet", "store", "opencode", "crush"}))
def test_runs_with_other_ids_and_times_are_others(name: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(OWN / name, first, ignore=shutil.ignore_patterns("*.eval", "report.json"))
    shutil.copytree(first, second)
    for path in jsons(second):
        values = [json.loads(line) for line in later(path.read_text()).splitlines()] if path.suffix == ".jsonl" else []
        if values:
            written(path, [renamed(value, IDS, "-x") for value in values])
        else:
            text = json.dumps(renamed(json.loads(later(path.read_text())), IDS, "-x"), indent=2)
            path.write_text(f"{text}\n")  # other bytes: the same ones are one run
    assert counts(tmp_path) == tuple(2 * one for one in counts(first))


def test_equal_runs_without_ids_and_times_stay_with_a_note(tmp_path: Path) -> None:
    path = own("tau_bench/tau-bench-tiny-airline.json")
    shutil.copyfile(path, tmp_path / "airline-a.json")
    (tmp_path / "airline-b.json").write_text(json.dumps(json.loads(path.read_text())))
    with pytest.warns(ReadWarning, match=r"b\.json: 3 runs have the texts of a run in .*a\.json, and no ids or times"):
        assert len(bl.load_runs(tmp_path)) == 6


@pytest.mark.parametrize("days", [0, 1])
def test_many_equal_sessions_are_each_compared_with_few(
    days: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = own("claude_code/3a3a3a3a-1111-4222-8333-555555555555.jsonl").read_text()
    n_files = 24
    for number in range(1, n_files + 1):
        day = f"2026-03-{1 + days * number:02d}T"
        session = text.replace("3a3a3a3a", f"{number:08x}").replace("2026-02-01T", day)
        (tmp_path / f"{number}.jsonl").write_text(session)
    compared: list[int] = []

    def counting(*args: Any, **options: Any) -> Shared:
        compared.append(1)
        return shared_steps(*args, **options)

    monkeypatch.setattr(copies, "shared_steps", counting)
    assert len(runs_in(tmp_path)) == (n_files if days else 1)
    assert len(compared) < 2 * n_files


TIMED: Final = (
    "claude_code/3a3a3a3a-1111-4222-8333-555555555555.jsonl",
    "qwen/chats",
    "copilot",
    "gemini",
    "tau2_bench",
)
CHANGES: Final[dict[str, Callable[[bl.Run, bl.Step], dict[str, Any]]]] = {
    "none": lambda run, step: {},
    "task": lambda run, step: {"task": ""},
    "text": lambda run, step: {"steps": changed(run, step, response=step.response._replace(text="other"))},
    "time": lambda run, step: {"steps": changed(run, step, start_ms=(step.start_ms or 0) + 1)},
    "no time": lambda run, step: {"steps": changed(run, step, start_ms=None)},
    "no beginning": lambda run, step: {"started_at": None},
    "prompt": lambda run, step: {"prompt": (Message("user", (Text("other"),)),)},
    "model": lambda run, step: {"model": "other"},
    "label": lambda run, step: {"success": not run.success},
}
"""What makes another run of a copy under a new id; of the first two, nothing."""


def changed(run: bl.Run, step: bl.Step, **values: Any) -> tuple[bl.Step, ...]:
    return tuple(one._replace(**values) if one is step else one for one in run.steps)


@functools.cache
def timed_runs() -> list[bl.Run]:
    """Runs of several formats with ids of their log and times, but without unique ids of responses."""
    runs = [run for name in TIMED for run in runs_in(OWN / name)]
    return [run for run in runs if len({step.start_ms for step in run.steps}) > 1 and not any(digests_of(run).ids)]


@given(st.data(), st.sampled_from(sorted(CHANGES)), st.booleans())
def test_copy_under_a_new_id_is_one_run_if_all_times_are_equal(data: st.DataObject, change: str, apart: bool) -> None:
    run = replace(data.draw(st.sampled_from(timed_runs()), label="run"), success=True, log_id="one", parent_run_id=None)
    step = data.draw(st.sampled_from([step for step in run.steps if step.start_ms is not None]))
    copy = replace(run, run_id="other", log_id="other", **CHANGES[change](run, step))
    found = copies.Copies(lambda path: path, holds_runs=True)
    files = [FileRun(run, "a.jsonl", written=False), FileRun(copy, "b.jsonl", written=False)]
    batches = [[file] for file in files] if apart else [files]
    settled = [found.settle(batch) for batch in batches]
    kept = [one for runs, _ in settled for of_file in runs for one in of_file]
    notes = [note.text for _, texts in settled for note in texts]
    is_copy = change in ("none", "task")
    assert (len(kept) == 1) is is_copy
    assert any("1 run is a copy of a run in" in note for note in notes) is is_copy


def test_a_retried_evaluation_counts_its_samples_once(tmp_path: Path) -> None:
    path = own("inspect/stocktake.json")
    log = json.loads(path.read_text())
    for place, sample in enumerate(log["samples"]):
        sample["uuid"] = f"sample-{place}"
        for message in sample["messages"]:
            message.pop("id", None)
        sample["events"] = []
    (tmp_path / "1.json").write_text(json.dumps({**log, "samples": log["samples"][:2], "status": "error"}))
    (tmp_path / "2.json").write_text(json.dumps({**log, "eval": {**log["eval"], "eval_id": "other", "run_id": "x"}}))
    assert len(runs_in(tmp_path)) == len(log["samples"])


def test_a_conversion_beside_the_session_gives_what_only_it_has(tmp_path: Path) -> None:
    session = own("claude_code/3a3a3a3a-1111-4222-8333-555555555555.jsonl")
    home = tmp_path / "trial" / "agent" / "sessions" / "projects" / "x"
    home.mkdir(parents=True)
    shutil.copyfile(session, home / session.name)
    once = runs_in(tmp_path)
    step = {"step_id": 1, "source": "agent", "message": "other text", "metrics": {"prompt_tokens": 1}}
    agent = {"name": "claude-code", "version": "2"}
    extra = {"agentpile": {"outcome": {"success": True}}}
    head = {"schema_version": "ATIF-v1.5", "session_id": session.stem, "agent": agent, "extra": extra}
    (tmp_path / "trial" / "agent" / "trajectory.json").write_text(json.dumps({**head, "steps": [step]}))
    runs = runs_in(tmp_path)
    assert [run.run_id for run in runs] == [run.run_id for run in once]
    assert [run.success for run in runs if run.parent_run_id is None] == [True]


def test_growing_lines_of_a_gateway_are_one_run(tmp_path: Path) -> None:
    ask, call = {"role": "user", "content": "Go"}, {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    usage = [{"prompt_tokens": n, "completion_tokens": n} for n in (1, 2)]
    first = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = [{"role": "tool", "tool_call_id": "1", "content": "x"}, {"role": "assistant", "content": "Done"}]
    lines: list[Json] = [
        {"messages": [ask, {**first, "usage": usage[0]}]},
        {"messages": [ask, first, answer[0], {**answer[1], "usage": usage[1]}]},
    ]
    path = tmp_path / "log.jsonl"
    written(path, lines)
    with pytest.warns(ReadWarning, match="1 conversation of it are earlier states"):
        (run,) = bl.load_runs(path)
    assert [step.response.usage.input_tokens for step in run.steps] == [1, 2]
    written(path, [{**line, "reward": 0.0} for line in lines])  # attempts, each with its own label
    assert len(runs_in(path)) == 2
    written(path, [lines[0], lines[0]])
    assert len(runs_in(path)) == 2


def test_counter_is_no_unique_id() -> None:
    assert [is_unique(name) for name in ("toolu_01A09q90qw90", "chatcmpl-1a2b3c4d", "call_1", "functions.bash:12")] == [
        True,
        True,
        False,
        False,
    ]
