"""`bl.Live`: a run that is shown while it happens, its controls, and how it ends."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import pytest

import boolab as bl
from boolab.errors import BoolabError, SettingError
from boolab.widgets.live import notebook
from boolab.widgets.live.data import MAX_CHARS, WINDOW, cut
from boolab.widgets.live.widget import Live
from tests.support.model_protocols import CHAT, Said
from tests.support.model_server import Gate, ModelServer, stream
from tests.support.packed import unpacked

SAME: Final[Any] = [{"tool_calls": [{"name": "ls"}], "repeat": "forever"}]
PATIENCE_S: Final = 30


def stuck(**limits: Any) -> bl.Agent:
    return bl.Agent("walker", **({"max_steps": 20, "tool_budget": None, "doom_loop": None} | limits))


def ls() -> str:
    """List."""
    return "a.py"


def live_of(agent: bl.Agent | None = None, items: Any = SAME, **options: Any) -> Live:
    return bl.Live(agent or stuck(), "go", model=bl.ScriptedModel(items), **({"tools": [ls]} | options))


async def until(true: Callable[[], object]) -> None:
    """Wait until something is true, with the event loop free."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


def played(drive: Callable[[Live], Awaitable[object]], live: Callable[[], Live] = live_of) -> tuple[Live, bl.Run]:
    """A live run in an event loop, as a kernel has one, while `drive` does something to it."""

    async def kernel() -> tuple[Live, bl.Run]:
        shown = live()
        await drive(shown)
        run = await asyncio.wait_for(shown.wait(), PATIENCE_S)
        return shown, run

    return asyncio.run(kernel())


async def nothing(_: Live) -> None:
    """Leave it alone."""


async def stepped(live: Live, number: int) -> None:
    """Wait until it is paused after so many steps."""
    await until(lambda: live.state == "paused" and live.progress["steps"] == number)


def pressed(live: Live, action: str, value: Any = None) -> None:
    """What a button of the page sends."""
    live._on_message(None, {"do": action, "value": value}, None)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("boolab live")]


def test_live_gives_the_record_of_run() -> None:
    _, run = played(nothing)
    expected = asyncio.run(bl.run(stuck(), "go", model=bl.ScriptedModel(SAME), tools=[ls]))
    assert replace(run, run_id="") == replace(expected, run_id="")


def test_record_is_an_error_before_the_end() -> None:
    async def drive(live: Live) -> None:
        with pytest.raises(BoolabError, match="has not ended: it is paused before its first step; await live.wait"):
            _ = live.run
        live.play()

    live, run = played(drive, lambda: live_of(paused=True))
    assert live.run is run


def test_pause_step_and_play() -> None:
    async def drive(live: Live) -> None:
        assert (live.state, live.progress["steps"]) == ("paused", 0)
        for number in (1, 2):
            live.step()
            await stepped(live, number)
        pressed(live, "play")

    _, run = played(drive, lambda: live_of(paused=True))
    assert run.n_steps == 20


def test_pause_while_it_runs_waits_at_the_next_boundary() -> None:
    async def drive(live: Live) -> None:
        await until(lambda: live.progress["steps"])
        pressed(live, "pause")
        await until(lambda: live.state == "paused")
        steps = live.progress["steps"]
        await asyncio.sleep(0)
        assert live.progress["steps"] == steps
        assert live.data["now"]["what"] == ""
        live.stop()

    _, run = played(drive, lambda: live_of(stuck(max_steps=None)))
    assert run.stop_reason == "aborted"


def test_limits_move_at_the_next_boundary_and_are_on_record() -> None:
    async def drive(live: Live) -> None:
        live.step()
        await stepped(live, 1)
        pressed(live, "limits", {"max_steps": 3, "doom_loop": 9})
        cap, _, doom = live.data["limits"]
        assert [(one["value"], one["wanted"], one["count"]) for one in (cap, doom)] == [(20, 3, 1), (None, 9, 1)]
        live.play()

    live, run = played(drive, lambda: live_of(paused=True))
    assert (run.stop.rule, run.limits["steps"], live.limits["steps"]) == ("max_steps(3)", 3, 3)
    assert [event.payload["max_steps"] for event in run.events if event.kind == "limits"] == [3]
    assert [(one["value"], one["wanted"]) for one in live.data["limits"]] == [(3, 3), (None, None), (9, 9)]


def test_raised_cap_lets_a_paused_run_continue() -> None:
    async def drive(live: Live) -> None:
        live.step()
        await stepped(live, 1)
        live.set_limits(max_steps=4)
        live.play()

    _, run = played(drive, lambda: live_of(stuck(max_steps=1), paused=True))
    assert run.n_steps == 4


def test_value_that_is_not_accepted_is_said_and_changes_nothing() -> None:
    async def drive(live: Live) -> None:
        pressed(live, "limits", {"doom_loop": 1})
        assert live.data["fault"] == "doom_loop(1): expected an integer >= 2"
        assert [one["wanted"] for one in live.data["limits"]] == [20, None, None]
        pressed(live, "play")
        assert live.data["fault"] == ""

    played(drive, lambda: live_of(paused=True))


def test_message_reaches_the_agent_before_the_next_step() -> None:
    async def drive(live: Live) -> None:
        pressed(live, "send", "Stop at the first one.")
        assert live.data["waiting"] == 1
        live.play()

    live, run = played(drive, lambda: live_of(paused=True))
    assert [(before, message.text) for before, message in run.inputs] == [(1, "Stop at the first one.")]
    assert live.data["waiting"] == 0


def test_data_show_the_latest_steps_with_their_cards() -> None:
    live, run = played(nothing, lambda: live_of(stuck(max_steps=WINDOW + 7)))
    data = live.data
    assert (data["first"], len(data["rows"]), data["n_steps"]) == (8, WINDOW, run.n_steps)
    (call,) = data["rows"][-1]["calls"]
    assert (call["tool"], call["result"], call["streak"], call["same_call_as"]) == ("ls", "a.py", 27, 26)
    assert data["end"] == {"reason": "step_cap", "text": "step cap after 27 steps, by max_steps(27)", "error": ""}
    sent: Any = unpacked(live._view._data)
    assert sent["state"] == "ended"


def test_long_results_and_many_calls_are_cut() -> None:
    result, calls = cut(["x" * (MAX_CHARS + 1_000), list(range(500))])
    assert result.endswith("\n[1,000 more characters: open the run in Replay]")
    assert (len(result) < MAX_CHARS + 60, len(calls)) == (True, 100)


def test_counts_are_those_of_detectors_and_guards() -> None:
    live, _ = played(nothing, lambda: live_of(bl.Agent("a", policy="openhands")))
    assert [one["name"] for one in live.data["limits"]] == ["max_steps"]
    counts = {one["name"]: (one["count"], one["threshold"]) for one in live.data["counts"]}
    assert counts
    assert max(count / threshold for count, threshold in counts.values()) == 1  # the one that stopped it


def test_rule_of_the_user_cannot_be_moved_and_is_counted() -> None:
    live, run = played(nothing, lambda: live_of(stop=bl.max_steps(3) | bl.max_cost(0.5, on_unknown="ignore")))
    data = live.data
    assert (run.n_steps, data["limits"]) == (3, [])
    assert data["fixed"] == "The limits of this run cannot be changed on the way: stop= takes their place."
    assert [(one["label"], one["count"], one["threshold"], one["unit"]) for one in data["counts"]] == [
        ("step cap", 3, 3, ""),
        ("cost budget", None, 0.5, "usd"),
    ]
    with pytest.raises(SettingError, match="stop= takes their place"):
        live.set_limits(max_steps=2)


@pytest.mark.parametrize("tool", ["async", "paused", "model"])
def test_stop_ends_a_run_at_each_moment(tool: str) -> None:
    entered = threading.Event()

    async def waits() -> str:
        """Wait."""
        entered.set()
        await asyncio.sleep(PATIENCE_S)
        return "late"

    slow = [{"tool_calls": [{"name": "waits"}], "latency_ms": 60_000 if tool == "model" else 0}]

    def live() -> Live:
        model = bl.ScriptedModel(slow, realtime=True)
        return bl.Live(stuck(), "go", model=model, tools=[waits], paused=tool == "paused")

    async def drive(live: Live) -> None:
        await until(lambda: {"async": entered.is_set(), "paused": True, "model": live._live_run.awaits_answer}[tool])
        pressed(live, "stop")

    live_run, run = played(drive, live)
    assert (run.stop_reason, run.n_steps) == ("aborted", 0 if tool == "paused" else 1)
    asyncio.run(until(lambda: threads() == []))
    assert live_run.data["end"]["text"].startswith("aborted")


def test_blocking_tool_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boolab.widgets.live.widget.BLOCKED_S", 0.05)
    released, entered = threading.Event(), threading.Event()

    def blocks() -> str:
        """Block."""
        entered.set()
        released.wait(PATIENCE_S)
        return "late"

    async def drive(live: Live) -> None:
        await until(entered.is_set)  # the loop that waits here is the kernel's
        assert live.data["now"] == {"step": 1, "what": "tool", "text": "blocks"}
        live.stop()

    live, run = played(drive, lambda: live_of(items=[{"tool_calls": [{"name": "blocks"}]}], tools=[blocks]))
    (result,) = run.steps[0].results
    assert result is not None
    assert (run.stop_reason, result.content) == ("aborted", "aborted")
    assert live.data["end"]["error"] == "the tool 'blocks' did not return, and cannot be stopped: it was left to itself"
    released.set()
    asyncio.run(until(lambda: threads() == []))
    assert live.run is run


@pytest.mark.parametrize(
    ("raised", "reason"),
    [(ValueError("no"), "finished"), (KeyboardInterrupt(), "aborted"), (SystemExit(2), "aborted")],
)
def test_exception_in_a_tool_is_a_card_or_an_end(raised: BaseException, reason: str) -> None:
    def fails() -> str:
        """Fail."""
        raise raised

    live, run = played(nothing, lambda: live_of(items=[{"tool_calls": [{"name": "fails"}]}, "Done."], tools=[fails]))
    assert run.stop_reason == reason
    if reason == "finished":
        assert live.data["rows"][0]["calls"][0]["error"] is True


def test_failing_model_is_an_end_with_its_error() -> None:
    live, run = played(nothing, lambda: live_of(items=[{"text": "a", "error": {"status": 500, "after": 0}}]))
    assert run.stop_reason == "error"
    assert live.data["end"]["error"] == run.error
    assert "✕" not in live.data["title"]


def test_card_that_cannot_be_made_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boolab.widgets.live.data.flag_steps", lambda *_: 1 / 0)
    live, run = played(nothing, lambda: live_of(stuck(max_steps=2)))
    assert run.stop_reason == "step_cap"
    assert live.data["fault"].startswith("step 2 cannot be shown (ZeroDivisionError")


def test_simulated_model_gives_the_record_of_run() -> None:
    options: Any = {"model": bl.SimulatedModel.load("coder"), "seed": 7}
    agent = stuck(max_steps=9)
    _, run = played(nothing, lambda: bl.Live(agent, "Fix it.", **options))
    assert replace(run, run_id="") == replace(asyncio.run(bl.run(agent, "Fix it.", **options)), run_id="")


def test_remote_model_is_left_in_mid_request_with_no_connection() -> None:
    with ModelServer(stream(*CHAT.events(Said("I look.", [("c1", "ls", "{}")]))), [Gate()]) as server:

        async def drive(live: Live) -> None:
            await until(lambda: len(server.asked) == 2 and live.data["now"]["what"] == "model")
            live.stop()

        live, run = played(drive, lambda: bl.Live(stuck(), "go", model=CHAT.model(server.url), tools=[ls]))
        server.wait_until_left()
    assert (run.stop_reason, run.n_steps, live.data["rows"][0]["text"]) == ("aborted", 2, "I look.")


def test_two_live_runs_at_once() -> None:
    async def kernel() -> list[bl.Run]:
        lives = [live_of(stuck(max_steps=n), paused=True) for n in (3, 5)]
        for live in lives:
            live.play()
        return [await live.wait() for live in lives]

    assert [run.n_steps for run in asyncio.run(kernel())] == [3, 5]


def test_waiting_that_is_cancelled_ends_the_run() -> None:
    async def kernel() -> Live:
        live = live_of(paused=True)
        waiting = asyncio.ensure_future(live.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: live.state == "ended")
        return live

    assert asyncio.run(kernel()).run.stop_reason == "aborted"


def test_closing_the_widget_ends_the_run() -> None:
    async def drive(live: Live) -> None:
        live.close()

    assert played(drive, lambda: live_of(paused=True))[1].stop_reason == "aborted"


def test_interrupt_of_an_idle_kernel_stops_all_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as an idle kernel has it
    try:

        async def kernel() -> list[bl.Run]:
            lives = [live_of(paused=True), live_of(paused=True)]
            await until(lambda: signal.getsignal(signal.SIGINT) is notebook._stop_all)
            signal.raise_signal(signal.SIGINT)
            runs = [await live.wait() for live in lives]
            await until(lambda: signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
            return runs

        assert [run.stop_reason for run in asyncio.run(kernel())] == ["aborted", "aborted"]
    finally:
        signal.signal(signal.SIGINT, before)


class Shell:
    """An IPython with a cell."""

    def __init__(self) -> None:
        self.events = self
        self.callbacks: list[Callable[[Any], None]] = []

    def get_parent(self) -> dict[str, Any]:
        return {"metadata": {"cellId": "cell-1"}}

    def register(self, _: str, callback: Callable[[Any], None]) -> None:
        self.callbacks.append(callback)

    def unregister(self, _: str, callback: Callable[[Any], None]) -> None:
        self.callbacks.remove(callback)

    def run(self, cell_id: str) -> None:
        for callback in [*self.callbacks]:
            callback(type("Info", (), {"cell_id": cell_id}))


def test_running_its_cell_again_ends_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell()
    monkeypatch.setattr(notebook, "_shell", lambda: shell)

    async def drive(live: Live) -> None:
        shell.run("cell-2")
        assert live.state == "paused"
        shell.run("cell-1")
        await until(lambda: live.state == "ended" and not shell.callbacks)

    assert played(drive, lambda: live_of(paused=True))[1].stop_reason == "aborted"


def test_replay_opens_the_run_so_far_and_later_the_whole() -> None:
    async def drive(live: Live) -> None:
        live.step()
        await stepped(live, 1)
        live.opened = {"run": live.data["run_id"], "step": 1}
        assert live.replay is not None
        assert live.replay.run.n_steps == 1
        live.play()

    live, run = played(drive, lambda: live_of(paused=True))
    live.opened = {"run": run.run_id, "step": 20}
    assert live.replay is not None
    assert (live.replay.run, live.replay.step) == (run, 20)


def test_page_says_what_it_knows_of_the_run() -> None:
    async def drive(live: Live) -> None:
        assert [unpacked_part(live)[name] for name in ("state", "still")] == ["paused", True]
        live.play()

    live, run = played(drive, lambda: live_of(paused=True))
    assert [unpacked_part(live)[name] for name in ("state", "still")] == ["ended", True]
    assert repr(live) == "Live(step cap after 20 steps, by max_steps(20))"
    assert run.run_id in live.to_html()
    assert "20. ls" in live._repr_mimebundle_()["text/plain"]


def unpacked_part(live: Live) -> dict[str, Any]:
    (part,) = live._parts()
    assert isinstance(part.data, dict)
    return part.data


def test_wrong_options_are_an_error_before_anything_runs() -> None:
    with pytest.raises(SettingError, match="has no model and"):
        bl.Live(bl.Agent("a"), "go")
    with pytest.raises(SettingError, match="unknown option 'modl'"):
        bl.Live(None, "go", model=bl.ScriptedModel(["a"]), modl=1)  # type: ignore[call-arg]
    assert threads() == []
