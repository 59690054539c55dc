"""What `boolab run` does: one agent, one task, one model, shown while it runs, with its record kept.

The record is written whatever ends the run: a limit, a failure of the model, Ctrl-C (once), or a closed output pipe.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import re
import signal
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final
from urllib.parse import urlsplit

from boolab.cli.run_view import Guarded, RunHeader, RunView, view_of
from boolab.cli.terminal import ERASE_BELOW, is_terminal
from boolab.core.run import Run
from boolab.core.text import flatten
from boolab.errors import AgentFileError, BoolabError, SettingError, near
from boolab.harnesses.presets import get_policy
from boolab.io.files import user_path
from boolab.io.resources import data_path
from boolab.limits.table import AGENT_LIMITS
from boolab.logs.save import check_suffix, save_runs
from boolab.runtime.agents.agent import Agent, AgentFileWarning, load_agents
from boolab.runtime.engine.abort import Abort
from boolab.runtime.engine.runner import StartedRun, start
from boolab.runtime.models.base import Model
from boolab.runtime.tools.workspace import workspace_tools

FINISHED: Final = 0
FAILED: Final = 1
STOPPED: Final = 3
INTERRUPTED: Final = 130
_SIGNALLED: Final = 128
"""What a shell adds to the number of the signal that ended a process."""
SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, a kill, and a closed terminal: a run that was paid for keeps its record after all three."""
TICK_S: Final = 0.1
"""How often the status line is refreshed while nothing happens."""


def run_agent(args: Namespace) -> int:
    """Run an agent with the arguments of `boolab run`, and return the exit code; see `exit_code`."""
    with warnings.catch_warnings(record=True) as agent_warnings:
        warnings.simplefilter("always", AgentFileWarning)
        agent = agent_of(args)
    for warning in agent_warnings:
        sys.stderr.write(f"boolab: {flatten(str(warning.message))}\n")
    model, address = model_of(args, agent)
    if args.record is not None:
        from boolab.runtime.models.recorder import record

        model = record(model, args.record)
    view = view_of(sys.stdout, sys.stderr, quiet=args.quiet, as_json=args.json)
    return asyncio.run(_perform(args, agent, model, address, view))


async def _perform(args: Namespace, agent: Agent | None, model: Model, address: str, inner_view: RunView) -> int:
    abort = Abort()
    view = Guarded(inner_view, abort.abort)
    live, record = _prepare_run(args, agent, model, abort, view)
    args.kept = record  # the next step reads it
    policy = get_policy("boocode" if agent is None else agent.policy)
    name = "" if agent is None else agent.name
    opening = RunHeader(name, address, policy.name, str(args.root), args.task, live.limits, record)
    with _discard_on_error(record), _interrupts(asyncio.get_running_loop(), abort, view, record) as signals:
        view.begin(opening)
        await _watch(live, view)
        _save(live.run, record)
    code = _SIGNALLED + signals[0] if signals and live.run.stop_reason == "aborted" else exit_code(live.run)
    view.end(live.run, code)
    if view.left and not signals:
        raise BrokenPipeError
    return code


def _prepare_run(
    args: Namespace, agent: Agent | None, model: Model, abort: Abort, view: RunView
) -> tuple[StartedRun, Path]:
    """The run, and the file for its record; if either fails, the file for requests, still empty, is removed."""
    try:
        options = {"tools": list(workspace_tools(args.root).values()), "root": args.root, "seed": args.seed}
        live = start(agent, args.task, model=model, abort=abort, on_event=view.event, **options)
        return live, _new_record(args.out, agent)
    except BoolabError:
        if args.record is not None:
            user_path(args.record).unlink()
        raise


async def _watch(live: StartedRun, view: RunView) -> None:
    """Show each step, and the time that passes in between."""
    clock = asyncio.create_task(_tick(view))
    try:
        async with live:
            async for step in live:
                view.step(step, live.progress)
    finally:
        clock.cancel()


async def _tick(view: RunView) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        view.tick()


def exit_code(run: Run) -> int:
    """0 if a run finished, 1 if it failed, 130 if it or its summary was interrupted, 3 if it was stopped or waits."""
    if not run.censored:
        return FINISHED
    if run.wrap_up is not None and run.wrap_up.fault == "aborted":
        return INTERRUPTED
    return {"error": FAILED, "aborted": INTERRUPTED}.get(run.stop_reason, STOPPED)


# --- Who runs -------------------------------------------------------------------------------------------------------


def agent_of(args: Namespace) -> Agent | None:
    """The agent that the arguments of `boolab run` name, under the limits that they set."""
    if args.agent is None and args.task in known_agents(args.agents):
        msg = f"{args.task!r} is an agent, and has no task (boolab run - {args.task} sends the word to a bare model)"
        raise SettingError(msg)
    agent = None if args.agent in (None, "-") else _load_agent(args.agent, args.agents)
    policy = get_policy(args.policy or ("boocode" if agent is None else agent.policy))
    limits: dict[str, Any] = {
        name: None if value == "none" else value for name in AGENT_LIMITS if (value := getattr(args, name)) is not None
    }
    for name in limits:
        if name not in policy.order:
            accepted_limits = ", ".join(limit for limit in AGENT_LIMITS if limit in policy.order)
            raise SettingError(
                f"policy {policy.name} has no limit called {name}; it has: {accepted_limits or 'none that can be set'}"
            )
    changed = policy.vary(budgets=_spending(args))
    if agent is None:
        if not limits and args.policy is None and args.temperature is None and changed == policy:
            return None
        # A bare model with limits of its own: an agent without a name, with the budget of no agent.
        agent = Agent("", policy=changed, tool_budget=policy.budgets.no_agent)
    temperature = agent.temperature if args.temperature is None else args.temperature
    return replace(agent, policy=changed, temperature=temperature, **limits)


def _spending(args: Namespace) -> dict[str, Any]:
    """The limits on money and time, as the policy's budgets."""
    options = {"cost": args.max_cost, "seconds": args.max_time}
    spending = {name: value for name, value in options.items() if value is not None}
    # A limit on a cost that is not known would limit nothing: the run then ends with an error.
    return spending | ({} if args.max_cost is None else {"on_unknown": "error"})


def _load_agent(word: str, agents: str | None) -> Agent:
    """The agent of that name, or in that file."""
    if Path(word).suffix == ".md":
        agents_here = load_agents(word)
        if len(agents_here) > 1:
            raise SettingError(
                f"{word} holds {len(agents_here)} agents ({', '.join(agents_here)}): name one, with --agents {word}"
            )
        return next(iter(agents_here.values()))
    searched = _agents_by_place(agents)
    for agents_there in searched.values():
        if word in agents_there:
            return agents_there[word]
    names = [*itertools.chain.from_iterable(searched.values())]
    hint = near(word, names) or "."
    listed_paths = "; ".join(f"{path}: {', '.join(agents_here) or 'none'}" for path, agents_here in searched.items())
    raise SettingError(f"there is no agent {word!r}{hint} Looked in {listed_paths}")


def known_agents(agents: str | None) -> set[str]:
    """The names of all agents that can be named."""
    return {*itertools.chain.from_iterable(_agents_by_place(agents).values())}


def _agents_by_place(agents: str | None) -> dict[str, Mapping[str, Agent]]:
    """The agents of each place in which names are looked up, in order."""
    searched: dict[str, Mapping[str, Agent]] = {}
    for path in _agent_files(agents):
        try:
            searched[str(path)] = load_agents(path)
        except AgentFileError as error:
            if agents is not None:
                raise
            # An AGENTS.md without agents is common: other tools keep their instructions there.
            searched[f"{path} ({error.message})"] = {}
    return searched


def _agent_files(path_option: str | None) -> Iterator[Path]:
    if path_option is not None:
        yield Path(path_option)
        return
    for path in (Path("AGENTS.md"), Path("agents") / "AGENTS.md"):
        if path.is_file():
            yield path
    yield data_path("agents")


# --- What answers ---------------------------------------------------------------------------------------------------


def model_of(args: Namespace, agent: Agent | None) -> tuple[Model, str]:
    """The model that the arguments of `boolab run`, or the agent, name, and where it is in words."""
    agent_model = None if agent is None else agent.model
    name = args.model or (agent_model if isinstance(agent_model, str) else None)
    if name is None:
        msg = "no model: --model NAME with --base-url URL uses a server, --model FILE.yaml plays a script"
        raise SettingError(msg)
    suffix = Path(name).suffix
    if suffix not in (".yaml", ".yml", ".jsonl"):
        return _make_remote_model(args, name)
    if args.base_url or args.protocol or args.key_env or args.param:
        msg = f"{name} is a file, which needs no server: leave out --base-url, --protocol, --key-env and --param"
        raise SettingError(msg)
    path = user_path(name)
    if suffix == ".jsonl":
        from boolab.runtime.models.recorded import RecordedModel

        return RecordedModel(path), f"recording {name}"
    from boolab.runtime.models.scripted import ScriptedModel

    return ScriptedModel.load(path, realtime=True), f"script {name}"


def protocol_of(name: str, base_url: str | None) -> str:
    """The protocol of a model: Anthropic's for its own host and for names of its own models."""
    is_anthropic = name.startswith("claude") or urlsplit(base_url or "").hostname == "api.anthropic.com"
    return "anthropic" if is_anthropic else "openai"


def _make_remote_model(args: Namespace, name: str) -> tuple[Model, str]:
    key = None
    if args.key_env is not None:
        key = os.environ.get(args.key_env)
        if not key:
            raise SettingError(f"--key-env {args.key_env}: there is no such environment variable, or it is empty")
    from boolab.runtime.models.remote.model import AnthropicModel, OpenAIModel

    protocol = args.protocol or protocol_of(name, args.base_url)
    kind = AnthropicModel if protocol == "anthropic" else OpenAIModel
    parameters = dict(args.param)
    reserved = parameters.keys() & inspect.signature(kind).parameters.keys()
    if reserved:
        raise SettingError(f"--param {min(reserved)}: that is no parameter of a request")
    model = kind(name, base_url=args.base_url, api_key=key, **parameters)
    return model, f"{name} at {model.base_url}"


# --- Where the record goes, and what Ctrl-C does --------------------------------------------------------------------


def _new_record(path_option: str | None, agent: Agent | None) -> Path:
    """An empty file for the record, made before the run, so that no run is paid for whose record cannot be written."""
    if path_option is not None:
        path = user_path(path_option)
        check_suffix(path)
        if not _is_made(path):
            raise SettingError(f"{path} exists, and is not overwritten: choose another name")
        return path
    agent_name = re.sub(r"[^\w.-]+", "-", agent.name if agent is not None else "").strip("-.") or "model"
    stem = f"{datetime.now().astimezone():%Y-%m-%dT%H-%M-%S}-{agent_name}"
    names = itertools.chain((stem,), (f"{stem}-{number}" for number in itertools.count(2)))
    return next(path for name in names if _is_made(path := Path("runs") / f"{name}.jsonl"))


def _is_made(path: Path) -> bool:
    """Make an empty file; False if there is one of that name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("xb").close()
    except OSError as error:
        if isinstance(error, FileExistsError) and path.parent.is_dir():
            return False
        raise SettingError(f"{path}: {error.strerror}") from error
    return True


def _save(run: Run, record: Path) -> None:
    try:
        save_runs(run, record)
    except OSError as error:
        raise SettingError(f"the record cannot be written to {record}: {error.strerror}") from error


@contextmanager
def _discard_on_error(record: Path) -> Iterator[None]:
    """Leave no empty file behind if something fails."""
    try:
        yield
    except BaseException:
        _discard(record)
        raise


def _discard(record: Path) -> None:
    if record.exists() and not record.stat().st_size:
        record.unlink()


@contextmanager
def _interrupts(loop: asyncio.AbstractEventLoop, abort: Abort, view: RunView, record: Path) -> Iterator[list[int]]:
    """While in it, the first Ctrl-C or kill ends the run with its record, the second the process; yields them."""

    def stop() -> None:
        view.interrupt()
        abort.abort()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        # Nothing is written and no lock is taken in here: the main thread may be in the middle of either.
        signals.append(number)
        if len(signals) == 1:
            loop.call_soon_threadsafe(stop)
            return
        _discard(record)
        with suppress(OSError):  # the terminal may be gone
            os.write(sys.stderr.fileno(), last_line)
        os._exit(_SIGNALLED + number)

    signals: list[int] = []
    last_line = f"{ERASE_BELOW if is_terminal(sys.stderr) else ''}\nboolab: left without a record\n".encode()
    handled = [number for number in SIGNALS if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN]
    old_handlers = {number: signal.signal(number, interrupt) for number in handled}  # nohup ignores the terminal's
    try:
        yield signals
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
