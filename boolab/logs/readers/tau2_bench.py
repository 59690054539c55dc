"""tau2-bench: `data/simulations/*.json`; see github.com/sierra-research/tau2-bench, `data_model/` and `orchestrator/`.

An object with `info` (the settings), `tasks` and `simulations`; for larger ones a `results.json` without simulations,
beside a folder `simulations/` with one file each; or a bare list of simulations, without settings.

- The assistant's messages are the steps, except a fixed greeting before the first user message.
- The simulated user calls tools too. These calls and their results (`requestor` is `user`) are not the agent's. A user
  message with only calls does not reach the agent; one with text opens a turn.
- A result has its call's id as `id`, and a flag `error`.
- `user_stop` and `agent_stop` are finished. `max_steps` is a step cap that counts all messages, so it is in the units
  of the stop and not among the limits. `too_many_errors` counts all errors.
- Only a full reward is a success.
- The domain is that of the settings; without them, that of the file's name, its folders, or the tools that the agent
  called. For a submission to the leaderboard, the model is that of its `submission.json`, because the settings name the
  model that the harness called, which may be a part of a system.
- Usage, cost, times and finish reasons are those of each message, if it has them; a cost of 0 is unknown. If costs are
  missing, `agent_cost` is in an event `totals`.
- Voice simulations, which have `ticks` and no messages, are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, Stop, StopReason
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, flag, items, json_document, json_text, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import (
    Head,
    content_text,
    effort_of,
    epoch_ms,
    full_reward,
    make_unique,
    name_or_none,
    one_line,
    reward_of,
    scores_of,
    seconds_ms,
    sidecar,
)
from boolab.logs.readers._chat import usage_of

NAME: Final = "tau2_bench"
SCOPE: Final = "run"
SUFFIXES: Final = (".json",)
PLACES: Final = ()
LOOKED_FOR: Final = 'an object with "info" and a list of "simulations", or one or a list of these simulations'

_STOPS: Final[Mapping[str, StopReason]] = {
    "user_stop": "finished",
    "agent_stop": "finished",
    "max_steps": "step_cap",
    "timeout": "time_budget",
    "too_many_errors": "error_streak",
    "context_window_exceeded": "token_budget",
    "agent_error": "error",
    "user_error": "error",
    "infrastructure_error": "error",
    "unexpected_error": "error",
}
_SETTINGS: Final = {"num_trials", "max_steps", "max_errors"}
_RESULTS: Final = "results.json"
_SUBMISSION: Final = "submission.json"
_DOMAINS: Final[Mapping[str, frozenset[str]]] = {
    "airline": frozenset({"get_reservation_details", "search_direct_flight", "book_reservation", "cancel_reservation"}),
    "retail": frozenset({"get_order_details", "get_product_details", "find_user_id_by_email", "cancel_pending_order"}),
    "telecom": frozenset({"get_customer_by_phone", "get_details_by_id", "get_data_usage", "enable_roaming"}),
}
"""Some tools of the agent in each domain, which no other domain has."""
_WORD: Final = re.compile(r"[a-z]+")


def sniff(head: Head) -> bool:
    """Whether this is a file of tau2-bench's results."""
    if len(head.values) != 1:
        return False
    if any(_is_simulation(item) for item in items(head.values[0])[:1]):
        return True
    if mapping(head.first.get("info")).keys() >= _SETTINGS:
        return True
    return _is_simulation(head.first) or any(_is_simulation(item) for item in items(head.first.get("simulations"))[:1])


def _is_simulation(value: object) -> bool:
    entry = mapping(value)
    return "task_id" in entry and ("termination_reason" in entry or {"start_time", "end_time"} <= entry.keys())


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file."""
    value = json_document(path, damage)
    document: Mapping[str, Any] = {"simulations": value} if any(map(_is_simulation, items(value))) else mapping(value)
    single = "simulations" not in document and _is_simulation(document)
    simulations = [document] if single else document.get("simulations")
    if simulations is None and mapping(document.get("info")).keys() >= _SETTINGS:
        simulations = []
    if not isinstance(simulations, list):
        raise RunFormatError(f"a file of tau2-bench's results is {LOOKED_FOR}", path=path, line=1)
    settings = sidecar(path.absolute().parent.parent / _RESULTS) if single else document
    info = mapping(mapping(settings).get("info"))
    model = _submitted_model(path)
    id_counts: Counter[str] = Counter()
    runs = []
    for number, simulation in enumerate(simulations, 1):
        if not _is_simulation(simulation) or not isinstance(simulation.get("messages"), list):
            kind = "voice, which is not read" if "ticks" in mapping(simulation) else "without task_id or messages"
            damage.note(1, f"simulation {number} is {kind}")
            continue
        builder = RunBuilder(NAME, damage, truncated=damage.truncated and single)
        runs.append(_Simulation(simulation, path, info, builder).run(id_counts, model))
    return runs


def _submitted_model(path: Path) -> str:
    """The model of the submission beside the file or its folder."""
    folder = path.absolute().parent
    submissions = (mapping(sidecar(directory / _SUBMISSION)) for directory in (folder, folder.parent))
    return next((model for submission in submissions if (model := text(submission.get("model_name")))), "")


def _domain_of(path: Path, builder: RunBuilder) -> str:
    """The domain of a simulation without settings: by the names of its file and folders, else by those of its tools."""
    for part in reversed(path.absolute().parts):
        words = set(_WORD.findall(part.lower()))
        domains = [domain for domain in _DOMAINS if domain in words]
        if len(domains) == 1:
            return domains[0]
    tools = {call.name for call in chain.from_iterable(step.calls for step in builder.steps)}
    candidates = [domain for domain, tool_names in _DOMAINS.items() if tool_names & tools]
    return candidates[0] if len(candidates) == 1 else ""


class _Simulation:
    """Builds the run of one simulation."""

    def __init__(self, simulation: Mapping[str, Any], path: Path, info: Mapping[str, Any], builder: RunBuilder) -> None:
        self.builder = builder
        self.simulation = simulation
        self.info = info
        llm_args = mapping(mapping(info.get("agent_info")).get("llm_args"))
        self.path = path
        self.builder.version = name_or_none(info.get("git_commit"))
        self.builder.effort = effort_of(llm_args.get("reasoning_effort"), llm_args.get("reasoning"))
        self.builder.note_time(epoch_ms(simulation.get("start_time")))
        for message in map(mapping, items(simulation["messages"])):
            self._take(message)

    def _take(self, message: Mapping[str, Any]) -> None:
        role, time = message.get("role"), epoch_ms(message.get("timestamp"))
        content = content_text(message.get("content"))
        if role == "assistant":
            self._answer(message, content, time)
        elif role == "tool":
            for result in items(message.get("tool_messages")) or [message]:
                self._result(mapping(result), time)
        elif role in ("user", "system") and content:
            self.builder.add_message(role, content, opens_turn=role == "user", time=time)

    def _answer(self, message: Mapping[str, Any], content: str, time: int | None) -> None:
        calls = items(message.get("tool_calls"))
        if not self.builder.has_prompt and not self.builder.steps and not calls and not message.get("usage"):
            self.builder.add_message("assistant", content, opens_turn=False, time=time)
            return
        raw = mapping(message.get("raw_data"))
        duration = seconds_ms(message.get("generation_time_seconds"))
        reply = self.builder.add_response(time, None if time is None or duration is None else max(1, time - duration))
        reply.add_text(content)
        reply.add_reasoning(text(mapping(raw.get("message")).get("reasoning_content")))
        reply.usage = usage_of(mapping(message.get("usage")))._replace(cost=micro(message.get("cost")) or None)
        reply.finish_reason = finish_reason(raw.get("finish_reason"))
        for call in map(mapping, calls):
            self.builder.add_call(reply, text(call.get("id")), text(call.get("name")), call.get("arguments", REDACTED))

    def _result(self, result: Mapping[str, Any], time: int | None) -> None:
        if result.get("requestor") != "user":
            call_id, content = text(result.get("id")), content_text(result.get("content"))
            self.builder.add_result(call_id, content, is_error=flag(result.get("error")), time=time)

    def run(self, id_counts: Counter[str], submitted: str) -> Run:
        builder, simulation = self.builder, self.simulation
        raw_id = simulation["task_id"]
        task_id = raw_id if isinstance(raw_id, str) else json_text(raw_id)
        domain = text(mapping(self.info.get("environment_info")).get("domain_name"))
        domain = domain or ("" if self.info else _domain_of(self.path, builder))
        agent = mapping(self.info.get("agent_info"))
        cost = micro(simulation.get("agent_cost"))
        builder.state("agent_cost", cost=cost or None)
        if any(step.usage.cost is None for step in builder.steps):
            builder.add_totals(cost=cost)
        reward = mapping(simulation.get("reward_info")).get("reward")
        stop = self._stop()
        run_id = text(simulation.get("id")) or f"{self.path.stem}/{task_id}/{whole(simulation.get('trial')) or 0}"
        return builder.build(
            make_unique(run_id, id_counts),
            stop,
            agent=text(agent.get("implementation")),
            model=submitted or text(agent.get("llm")),
            task=one_line(f"{domain}/{task_id}" if domain else task_id),
            success=full_reward(reward),
            scores=scores_of({"reward": reward_of(reward)}),
            error=text(simulation.get("termination_reason")) if stop.reason == "error" else None,
            duration_ms=seconds_ms(simulation.get("duration")),
            log_id=text(simulation.get("id")),
        )

    def _stop(self) -> Stop:
        word = text(self.simulation.get("termination_reason"))
        reason = _STOPS.get(word) or ("error" if word else self.builder.stop_reason())
        if word in ("max_steps", "timeout", "too_many_errors", "context_window_exceeded"):
            threshold = whole(self.info.get("max_errors" if word == "too_many_errors" else word))
            rule = word if threshold is None else f"{word}({threshold})"
            return self.builder.stop(reason, rule, threshold)
        return self.builder.stop(reason)
