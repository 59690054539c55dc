"""run, run_sync, start, resume: the ways to drive a turn."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.messages import Message, Text
from boolab.core.run import Run
from boolab.errors import BoolabError, SettingError
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.runner import resume, run, run_sync, start
from boolab.runtime.models.scripted import ScriptedModel
from boolab.runtime.tools.workspace import pause_tools
from tests.support.helpers import QUIET, TOOLS, Listening, call, distinct, look, play, steps

AGENT = Agent("a", tools=TOOLS, policy=QUIET)


def test_given_model_and_policy_override_those_of_the_agent() -> None:
    agent = Agent("a", model=ScriptedModel(["own"]), policy="naive")
    assert run_sync(agent, "go").text == "own"
    given = run_sync(agent, "go", model=ScriptedModel(["given"]), policy="boocode")
    assert (given.text, given.policy) == ("given", "boocode")


def test_a_missing_model_is_an_error_that_says_what_to_pass() -> None:
    with pytest.raises(SettingError, match=r"agent 'a' has no model and none was given: pass model="):
        run_sync(Agent("a"), "go")
    with pytest.raises(SettingError, match="names the model 'big', but none was given"):
        run_sync(Agent("a", model="big"), "go")
    with pytest.raises(SettingError, match="is no model: expected a `name` and `async def respond"):
        run_sync(Agent("a"), "go", model=3)  # type: ignore[arg-type]


def test_tool_names_are_resolved_among_given_and_built_in_tools() -> None:
    model = ScriptedModel([{"tool_calls": [call("look"), call("list_files", pattern="pyproject.toml")]}, "end"])
    agent = Agent("a", tools=("look", "list_files"))
    done = run_sync(agent, "go", model=model, tools=[look], root=".")
    assert [r and r.is_error for r in done.steps[0].results] == [False, False]
    with pytest.raises(SettingError, match=r"lists the tool 'list_files' \(which needs root=\.\.\. or world=\.\.\.\)"):
        run_sync(agent, "go", model=model, tools=[look])
    with pytest.raises(SettingError, match="lists the tool 'fly', which nothing provides; given: look"):
        run_sync(Agent("a", tools=("fly",)), "go", model=model, tools=[look])
    with pytest.raises(SettingError, match="two tools are called 'look'"):
        run_sync(agent, "go", model=model, tools=[look, bl.tool(name="look")(lambda: None)])
    with pytest.raises(SettingError, match="lists the tool 'look' twice"):
        run_sync(Agent("a", tools=(look, "look")), "go", model=model, tools=[look])


def test_agent_without_a_tool_list_gets_all_given_tools() -> None:
    assert run_sync(Agent("a"), "go", model=ScriptedModel(steps("A")), tools=[look]).steps[0].results[0] is not None


def test_the_task_may_be_messages() -> None:
    seen: list[Any] = []

    def script(messages: Any) -> str:
        seen.extend((m.role, m.text) for m in messages)
        return "ok"

    task: list[Any] = [
        {"role": "user", "content": "Hi"},
        Message("assistant", (Text("Yes?"),)),
        {"role": "user", "content": "Go"},
    ]
    done = run_sync(Agent("a", prompt="Be brief."), task, model=ScriptedModel(script))
    assert seen == [("system", "Be brief."), ("user", "Hi"), ("assistant", "Yes?"), ("user", "Go")]
    assert done.task == "Go"
    with pytest.raises(SettingError, match="is no message"):
        run_sync(None, [{"role": "nobody", "content": "x"}], model=ScriptedModel(["x"]))


def test_settings_reach_the_model_and_the_record() -> None:
    model = Listening(["x"])
    done = run_sync(Agent("a", temperature=0.5), "go", model=model, seed=7)
    assert [(request.temperature, request.run_seed) for request in model.requests] == [(0.5, 7)]
    assert done.seed == 7


def test_run_sync_works_inside_a_running_event_loop() -> None:
    before = (asyncio.run, asyncio.get_event_loop, asyncio.new_event_loop)

    async def cell() -> Run:
        return run_sync(AGENT, "go", model=ScriptedModel(steps("A B")))

    assert asyncio.run(cell()).n_steps == 3
    assert before == (asyncio.run, asyncio.get_event_loop, asyncio.new_event_loop)


def test_run_sync_uses_one_thread_however_often_it_is_called() -> None:
    threads: set[int] = set()

    def where() -> str:
        """Tell the thread."""
        threads.add(threading.get_ident())
        return ""

    agent = Agent("a", tools=(where,))
    for _ in range(3):
        run_sync(agent, "go", model=ScriptedModel([{"tool_calls": [call("where")]}, "end"]))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_run_sync_inside_a_tool_of_a_run_sync_does_not_deadlock() -> None:
    def inner(depth: int) -> str:
        """Run an agent."""
        if depth == 0:
            return "bottom"
        items = [{"tool_calls": [call("inner", depth=depth - 1)]}, "up"]
        return run_sync(Agent("in", tools=(inner,)), "go", model=ScriptedModel(items)).text

    assert inner(3) == "up"


def test_keyboard_interrupt_stops_the_run_and_keeps_the_record() -> None:
    code = """
import asyncio, os, signal, threading
import boolab as bl
async def wait() -> str:
    "Wait."
    threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT)).start()
    await asyncio.Event().wait()
    return ""
model = bl.ScriptedModel([{"text": "Waiting.", "tool_calls": [{"name": "wait"}]}])
run = bl.run_sync(bl.Agent("a", tools=(wait,)), "go", model=model)
print(run.stop_reason, run.n_steps, run.steps[0].response.text, run.steps[0].results[0].content)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "aborted 1 Waiting. aborted", done.stderr


@pytest.mark.parametrize("exit_", [SystemExit, KeyboardInterrupt])
def test_background_thread_survives_a_model_that_exits(exit_: Any) -> None:
    class Leaving:
        name = "leaving"

        async def respond(self, request: Any, emit: Any = None) -> Any:
            raise exit_

    with pytest.raises(exit_):
        run_sync(None, "go", model=Leaving())
    assert play(["still there"]).text == "still there"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_run_sync_works_in_a_forked_process() -> None:
    play(["warm"])
    child = os.fork()
    if child == 0:
        os._exit(play(steps("A")).n_steps)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        threading.Event().wait(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the forked process hangs")
    assert os.waitstatus_to_exitcode(status) == 2


def test_start_yields_each_step_and_nothing_happens_between_them() -> None:
    executed: list[str] = []

    def note(what: str) -> str:
        """Note."""
        executed.append(what)
        return what

    async def scenario() -> Run:
        items = [{"tool_calls": [call("note", what=w)]} for w in "abc"]
        async with start(Agent("a", tools=(note,)), "go", model=ScriptedModel([*items, "end"])) as live:
            counts = [(step.index, len(executed), live.progress["steps"]) async for step in live]
        assert counts == [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 3, 3)]
        return live.run

    assert asyncio.run(scenario()).stop_reason == "finished"


def test_a_live_run_that_is_left_early_has_its_record() -> None:
    async def scenario(after: int) -> Run:
        async with start(AGENT, "go", model=ScriptedModel(distinct(9))) as live:
            with pytest.raises(BoolabError, match="the run has not ended"):
                _ = live.run
            if after:
                async for step in live:
                    if step.index == after:
                        break
        return live.run

    for after in (0, 1, 3):
        record = asyncio.run(scenario(after))
        assert (record.stop_reason, record.n_steps, record.stop_step) == ("aborted", after, after)
    assert asyncio.run(scenario(10)).stop_reason == "finished"


def test_exception_in_the_body_of_start_leaves_the_record() -> None:
    async def scenario() -> Run:
        live = start(AGENT, "go", model=ScriptedModel(distinct(9)))
        with pytest.raises(KeyError):
            async with live:
                async for _ in live:
                    raise KeyError
        return live.run

    assert asyncio.run(scenario()).n_steps == 1


def test_options_that_do_not_exist_are_named() -> None:
    many: dict[str, Any] = {f"zz{letter}": 3 for letter in "hgfedcba"}  # the message names the first by the alphabet
    for runner in (start, run_sync):
        with pytest.raises(SettingError, match="unknown option 'modle'; did you mean 'model'"):
            runner(AGENT, "go", modle=3)  # type: ignore[call-arg]
        with pytest.raises(SettingError, match="unknown option 'zzz'; accepted: abort, ask, clock, compaction"):
            runner(AGENT, "go", zzz=3)  # type: ignore[call-arg]
        with pytest.raises(SettingError, match="unknown option 'zza'"):
            runner(AGENT, "go", **many)
    with pytest.raises(TypeError):
        asyncio.run(run(AGENT, "go", modle=3))  # type: ignore[call-arg]


def test_the_builtin_question_pauses_and_the_answer_goes_on() -> None:
    items = [{"tool_calls": [call("ask_user_input", question="Which?")]}, "Thanks."]
    paused = run_sync(Agent("a", tools=("ask_user_input",)), "go", model=ScriptedModel(items))
    assert paused.stop_reason == "paused"
    assert paused.steps[0].results[0] is not None
    assert "Which?" in paused.steps[0].results[0].content
    done = asyncio.run(resume(paused, "This one."))
    assert (done.stop_reason, done.text, done.n_steps) == ("finished", "Thanks.", 2)
    assert pause_tools()["ask_user_input"].pauses


def test_time_goes_on_where_the_pause_left_it() -> None:
    items = [{"tool_calls": [call("ask")], "latency_ms": 500}, {"text": "end", "latency_ms": 200}]
    done = asyncio.run(resume(play(items), "x"))
    assert [(s.start_ms, s.duration_ms) for s in done.steps] == [(0, 500), (500, 200)]
    assert done.duration_ms == 700


def test_time_is_counted_from_the_start_value_of_the_clock() -> None:
    done = play([{"text": "x", "latency_ms": 100}], clock=VirtualClock(5000), stop=bl.max_time(1))
    assert (done.stop_reason, done.steps[0].start_ms, done.duration_ms) == ("finished", 0, 100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": 5}, "stop=5 is not accepted: expected a stop rule"),
        ({"shadow": bl.max_steps(2)}, "expected a list of stop rules, such as"),
        ({"shadow": "max_steps"}, "shadow='max_steps' is not accepted"),
        ({"tools": look}, "expected a list of tools or functions"),
        ({"clock": 3}, "clock=3 is not accepted: expected a clock"),
        ({"synthesis": "x"}, "synthesis='x' is not accepted"),
        ({"abort": True}, "abort=True is not accepted: expected a bl.Abort"),
        ({"agent": "explorer"}, "agent='explorer' is not accepted: expected a bl.Agent"),
        ({"score": run}, "score=.* is not accepted: expected a plain function"),
        ({"on_event": run}, "on_event=.* is not accepted"),
    ],
    ids=[
        "stop",
        "shadow",
        "text in shadow",
        "tools",
        "clock",
        "synthesis",
        "abort",
        "agent",
        "score",
        "on_event",
    ],
)
def test_options_that_could_only_fail_later_are_refused_at_once(options: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        play(["x"], **options)


def test_a_class_in_place_of_a_model_is_refused_at_once() -> None:
    with pytest.raises(
        SettingError, match=r"is a class: expected one of its instances, such as ScriptedModel\(\.\.\.\)"
    ):
        run_sync(None, "go", model=ScriptedModel)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", [None, 5, [{"role": "user", "content": [{"type": "text"}]}], [{"role": "user"}]])
def test_task_that_is_neither_text_nor_messages_is_refused(task: Any) -> None:
    with pytest.raises(SettingError, match="task"):
        run_sync(None, task, model=ScriptedModel(["x"]))


def test_run_is_a_coroutine_of_the_callers_own_loop() -> None:
    async def scenario() -> bool:
        here = asyncio.get_running_loop()
        loops: list[Any] = []

        async def where() -> str:
            """Tell the loop."""
            loops.append(asyncio.get_running_loop())
            return ""

        await run(Agent("a", tools=(where,)), "go", model=ScriptedModel([{"tool_calls": [call("where")]}, "end"]))
        return loops == [here]

    assert asyncio.run(scenario())
