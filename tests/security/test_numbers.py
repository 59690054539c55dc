"""Numbers that users pass: what is none is refused where it enters, in a sentence, and never counted."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.types import ToolCall, ToolResult, Usage
from boolab.errors import BoolabError, SettingError
from tests.support.helpers import play
from tests.support.project import PACKAGE

BAD: Final = [float("nan"), float("inf"), -5, True, "9", 10**5000, [1], b"1", object()]
HELLO = bl.ScriptedModel(["Hi."])
CALL: Final[list[Any]] = [("ls", {})]


def monitor(rule: bl.StopRule | None = None, **options: Any) -> bl.Monitor:
    return bl.Monitor(rule or bl.max_time(3), **options)


TAKES: Final[dict[str, Callable[[Any], object]]] = {
    "Monitor.after elapsed_ms": lambda value: monitor().after(CALL, ["x"], elapsed_ms=value),
    "Monitor.after usage": lambda value: monitor().after(CALL, ["x"], usage={"input_tokens": value}),
    "Monitor.after Usage": lambda value: monitor().after(CALL, ["x"], usage=Usage(cost=value)),
    "Monitor.before Usage": lambda value: monitor(at_response=bl.max_steps(2)).before(CALL, Usage(value)),
    "Monitor.compacted": lambda value: monitor().compacted(value),
    "run seed": lambda value: bl.run_sync(None, "x", model=HELLO, seed="-5" if value == -5 else value),  # type: ignore[arg-type]
    "Agent temperature": lambda value: bl.Agent("a", temperature=value),
    "tool timeout": lambda value: bl.tool(name="x", timeout=value)(lambda: "x"),
    "load_dataset limit": lambda value: bl.load_dataset("atlas/intercode-sql", limit=value),
    "read_logs limit": lambda value: bl.read_logs(Path(__file__).parent, limit=value),
    "Store wait_s": lambda value: bl.Store(Path(__file__).parent / "none" / "runs.db", wait_s=value),
    "sweep repeats": lambda value: asyncio.run(bl.sweep(bl.Agent("a"), "x", HELLO, repeats=value, progress=False)),
    "sweep concurrency": lambda value: asyncio.run(
        bl.sweep(bl.Agent("a"), "x", HELLO, concurrency=value, progress=False)
    ),
    "max_steps": bl.max_steps,
    "max_time": bl.max_time,
    "max_tokens": bl.max_tokens,
    "max_cost": bl.max_cost,
    "doom_loop": bl.doom_loop,
    "error_streak": bl.error_streak,
}


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:12] if value != 10**5000 else "digits")
@pytest.mark.parametrize("name", TAKES)
def test_option_that_is_no_number_is_refused(name: str, value: object) -> None:
    with pytest.raises(SettingError) as caught:
        TAKES[name](value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [3, np.int64(3)])
def test_whole_numbers_of_numpy_are_whole_numbers(value: Any) -> None:
    made = monitor()
    assert made.after(CALL, ["x"], usage={"input_tokens": value}, elapsed_ms=value).action == "continue"
    assert (made.counters["elapsed"], made.counters["input_tokens"]) == (3, 3)
    assert bl.run_sync(None, "x", model=HELLO, seed=value).seed == 3
    assert len(bl.read_logs(LOGS, limit=value).files) == 3


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((CALL, [ToolResult("1", None)]), "expected texts"),  # type: ignore[arg-type]
        ((CALL, [ToolResult(1, "x")]), "expected texts"),  # type: ignore[arg-type]
        ((CALL, [ToolResult("1", "x", is_error="no")]), "True, False or None"),  # type: ignore[arg-type]
        ((CALL, [b"x"]), "expected a text, an error"),
        ((CALL, [("x", 1)]), "expected a text, an error"),
        ((CALL, None), "expected a list with one result"),
        ((CALL, ToolResult("1", "x")), "expected a list with one result"),
        ((None, []), "expected a list of calls"),
        (("ls", ["x"]), "expected a list of calls"),
        (([ToolCall("1", None, "{}")], ["x"]), "expected three texts"),  # type: ignore[arg-type]
        (([ToolCall("1", "ls", {})], ["x"]), "expected three texts"),  # type: ignore[arg-type]
    ],
)
def test_monitor_refuses_what_is_no_step_and_counts_nothing(parts: tuple[Any, Any], message: str) -> None:
    made = monitor()
    with pytest.raises(SettingError, match=message):
        made.after(*parts)
    assert made.steps == 0


@pytest.mark.parametrize("option", [{"text": 5}, {"text": b"x"}, {"usage": 5}])
def test_monitor_refuses_a_text_or_usage_that_is_none(option: dict[str, Any]) -> None:
    made = monitor()
    with pytest.raises(SettingError, match="expected"):
        made.after(CALL, ["x"], **option)
    assert made.steps == 0


def test_monitor_refuses_a_nudge_that_is_no_text() -> None:
    with pytest.raises(SettingError, match="nudge=5: expected a text"):
        bl.Monitor(bl.max_steps(3), "nudge", nudge=5)  # type: ignore[arg-type]


def test_sweep_of_too_many_runs_is_refused_before_it_begins() -> None:
    with pytest.raises(SettingError, match="30,000,000 runs are too many for one sweep: at most 20,000,000"):
        asyncio.run(bl.sweep(bl.Agent("a"), ["x", "y"], HELLO, repeats=15_000_000, progress=False))


def test_negative_seeds_are_integers() -> None:
    assert play(["Hi."], seed=-5).seed == -5


LOGS: Final = PACKAGE.parent / "tests" / "data" / "anthropic_messages"
MANY: Final = "9" * 5000


@pytest.mark.parametrize(
    "command",
    [
        ["whatif", str(LOGS), "--max-steps", MANY],
        ["whatif", str(LOGS), "--max-steps", f"1:{MANY}"],
        ["whatif", str(LOGS), "--max-cost", MANY],
        ["whatif", str(LOGS), "--keep", MANY],
        ["whatif", str(LOGS), "--limit", MANY],
        ["whatif", str(LOGS), "--since", f"{MANY}d"],
        ["whatif", str(LOGS), "--labels", "labels.csv"],
        ["watch", str(LOGS), "--once", "--max-steps", MANY],
        ["watch", str(LOGS), "--once", "--idle", f"{MANY}s"],
        ["export", "codex", "--max-steps", MANY],
        ["bench", "stops.csv"],
        ["bench", "rule.yaml"],
        ["audit", str(LOGS), "--config", "config.toml"],
        ["run", "agent.md", "hi"],
        ["lab", MANY],
        ["whatif", MANY],
        ["watch", MANY],
        ["store", "ls", MANY],
    ],
    ids=lambda command: " ".join(word[:20] for word in command[:3] if word != str(LOGS)),
)
def test_command_refuses_a_number_of_any_length_in_a_sentence(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stops.csv").write_text(f"run_id,stop_step\nx,{MANY}\n")
    Path("labels.csv").write_text(f"run_id,success\nx,{MANY}\n")
    Path("rule.yaml").write_text(f"rule: max_steps\nn: {MANY}\n")
    Path("agent.md").write_text(f"---\nname: a\nmax_steps: {MANY}\n---\nhi\n")
    Path("config.toml").write_text(f"model_auto_compact_token_limit = {MANY}\n")
    try:
        code: object = main(command)
    except SystemExit as end:
        code = end.code
    told = capsys.readouterr().err
    assert code in (1, 2)
    assert "boolab" in told
    assert len(told) < 2000


NO_PATHS: Final = ["a" * 5000, "a\0b", "x/" * 3000, "\ud800.jsonl", "~nobody-of-that-name/x"]


@pytest.mark.parametrize("path", NO_PATHS, ids=lambda path: repr(path[:8]))
@pytest.mark.parametrize("use", [bl.load_runs, bl.watch, bl.Store, bl.stored_runs, bl.recommend, bl.runs_df])
def test_name_that_no_file_can_have_is_refused(use: Callable[[str], object], path: str) -> None:
    with pytest.raises(BoolabError) as caught:
        use(path)
    assert len(str(caught.value)) < 300
