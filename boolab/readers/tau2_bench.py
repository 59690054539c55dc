"""tau2-bench: `data/simulations/*.json`; see github.com/sierra-research/tau2-bench, `data_model/` and `orchestrator/`.

An object with `info` (the settings), `tasks` and `simulations`; or, for larger ones, a `results.json` without
simulations beside a folder `simulations/` with one file for each; or a bare list of simulations, without settings.

- The assistant's messages are the steps, except for its first one where nobody was asked yet: a canned greeting.
- The simulated user calls tools too. Its calls are no calls of the agent, their results (`requestor` is `user`) none
  of its results, and a message of the user that only calls tools never reaches the agent: only one with words begins a
  turn.
- A result carries the id of its call as `id`, and says whether it is an `error`.
- Reasons for the end: `user_stop` and `agent_stop` are finished; `max_steps` is a step cap, but it counts everybody's
  messages, so that it is in the stop's own units and not among the limits; `too_many_errors` counts all errors.
- The reward decides: only a full one is a success.
- The domain is that of the settings; without them it is told by the file's name, by its folders, or by the names of the
  tools that the agent called. The model of a submission to the leaderboard is that of its `submission.json`, because
  the settings name the model that the harness talked to, which may be a part of a system.
- Usage, cost, times and finish reasons are those of each message, where it has them; a cost of 0 is one that was not
  tracked. Where costs are missing, `agent_cost` is in an event `totals`.
- Voice simulations, which hold `ticks` instead of messages, are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from boolab.errors import RunFormatError
from boolab.finish_reasons import finish_reason
from boolab.readers.chat import usage_of
from boolab.readers.drafts import stop_at
from boolab.readers.lines import (
    Damage,
    Head,
    Warn,
    content_text,
    epoch_ms,
    items,
    json_document,
    json_text,
    mapping,
    micro,
    one_line,
    seconds_ms,
    text,
    warn_reader,
    whole,
)
from boolab.readers.sidecars import sidecar
from boolab.readers.talk import Talk
from boolab.readers.tau import numbered, rewarded
from boolab.types import Run, Stop, StopReason

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
    if any(_is_simulation(one) for one in items(head.values[0])[:1]):
        return True
    if mapping(head.first.get("info")).keys() >= _SETTINGS:
        return True
    return _is_simulation(head.first) or any(_is_simulation(one) for one in items(head.first.get("simulations"))[:1])


def _is_simulation(value: object) -> bool:
    one = mapping(value)
    return "task_id" in one and ("termination_reason" in one or {"start_time", "end_time"} <= one.keys())


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The runs of one file.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    damage = Damage(path)
    value = json_document(path, damage)
    document: Mapping[str, Any] = {"simulations": value} if _is_bare(value) else mapping(value)
    alone = "simulations" not in document and _is_simulation(document)
    simulations = [document] if alone else document.get("simulations")
    if simulations is None and mapping(document.get("info")).keys() >= _SETTINGS:
        simulations = []
    if not isinstance(simulations, list):
        raise RunFormatError(f"a file of tau2-bench's results is {LOOKED_FOR}", path=path, line=1)
    settings = sidecar(path.absolute().parent.parent / _RESULTS) if alone else document
    info = mapping(mapping(settings).get("info"))
    model = _submitted_model(path)
    seen: Counter[str] = Counter()
    runs = []
    for number, simulation in enumerate(simulations, 1):
        if not _is_simulation(simulation) or not isinstance(simulation.get("messages"), list):
            kind = "voice, which is not read" if "ticks" in mapping(simulation) else "without task_id or messages"
            damage.note(1, f"simulation {number} is {kind}")
            continue
        runs.append(_Simulation(simulation, path, info, damage).run(seen, model, cut=damage.cut and alone))
    damage.tell(warn, readable=bool(runs))
    return runs


def _is_bare(value: object) -> bool:
    return any(map(_is_simulation, items(value)))


def _submitted_model(path: Path) -> str:
    """The model that a submission beside the file, or above its folder, says that it is of."""
    folder = path.absolute().parent
    found = (mapping(sidecar(place / _SUBMISSION)) for place in (folder, folder.parent))
    return next((model for one in found if (model := text(one.get("model_name")))), "")


def _domain_of(path: Path, talk: Talk) -> str:
    """The domain of a simulation without settings: by the names of its file and folders, else by those of its tools."""
    for part in reversed(path.absolute().parts):
        words = set(_WORD.findall(part.lower()))
        named = [domain for domain in _DOMAINS if domain in words]
        if len(named) == 1:
            return named[0]
    tools = {call.name for draft in talk.drafts for call in draft.calls}
    used = [domain for domain, own in _DOMAINS.items() if own & tools]
    return used[0] if len(used) == 1 else ""


class _Simulation:
    """One simulation: who said what."""

    def __init__(self, simulation: Mapping[str, Any], path: Path, info: Mapping[str, Any], damage: Damage) -> None:
        self.talk = Talk(NAME, damage)
        self.simulation = simulation
        self.info = info
        self.path = path
        self.talk.at(epoch_ms(simulation.get("start_time")))
        for message in map(mapping, items(simulation["messages"])):
            self._take(message)

    def _take(self, message: Mapping[str, Any]) -> None:
        role, time = message.get("role"), epoch_ms(message.get("timestamp"))
        said = content_text(message.get("content"))
        if role == "assistant":
            self._answer(message, said, time)
        elif role == "tool":
            for result in items(message.get("tool_messages")) or [message]:
                self._result(mapping(result), time)
        elif role in ("user", "system") and said:
            self.talk.says(role, said, opens=role == "user", time=time)

    def _answer(self, message: Mapping[str, Any], said: str, time: int | None) -> None:
        calls = items(message.get("tool_calls"))
        if not self.talk.asked and not self.talk.drafts and not calls and not message.get("usage"):
            self.talk.says("assistant", said, opens=False, time=time)
            return
        raw = mapping(message.get("raw_data"))
        took = seconds_ms(message.get("generation_time_seconds"))
        reply = self.talk.replies(time, None if time is None or took is None else max(1, time - took))
        reply.text += [said] if said else []
        reasoning = text(mapping(raw.get("message")).get("reasoning_content"))
        reply.reasoning += [reasoning] if reasoning else []
        reply.usage = usage_of(mapping(message.get("usage")))._replace(cost=micro(message.get("cost")) or None)
        reply.finish_reason = finish_reason(raw.get("finish_reason"))
        for call in map(mapping, calls):
            self.talk.asks(reply, text(call.get("id")), text(call.get("name")), call.get("arguments"))

    def _result(self, result: Mapping[str, Any], time: int | None) -> None:
        if result.get("requestor") != "user":
            failed = result.get("error")
            self.talk.gives(
                text(result.get("id")),
                content_text(result.get("content")),
                is_error=failed if isinstance(failed, bool) else None,
                time=time,
            )

    def run(self, seen: Counter[str], submitted: str, *, cut: bool) -> Run:
        """The record."""
        talk, simulation = self.talk, self.simulation
        given = simulation["task_id"]
        task_id = given if isinstance(given, str) else json_text(given)
        domain = text(mapping(self.info.get("environment_info")).get("domain_name"))
        domain = domain or ("" if self.info else _domain_of(self.path, talk))
        agent = mapping(self.info.get("agent_info"))
        cost = micro(simulation.get("agent_cost"))
        if cost and any(draft.usage.cost is None for draft in talk.drafts):
            talk.happened("totals", cost=cost)
        stop = self._stop(cut=cut)
        run_id = text(simulation.get("id")) or f"{self.path.stem}/{task_id}/{whole(simulation.get('trial')) or 0}"
        return talk.run(
            numbered(run_id, seen),
            stop,
            agent=text(agent.get("implementation")),
            model=submitted or text(agent.get("llm")),
            task=one_line(f"{domain}/{task_id}" if domain else task_id),
            success=rewarded(mapping(simulation.get("reward_info")).get("reward")),
            error=text(simulation.get("termination_reason")) if stop.reason == "error" else None,
            duration_ms=seconds_ms(simulation.get("duration")),
        )

    def _stop(self, *, cut: bool) -> Stop:
        """Why it ended, by the harness's word for it."""
        word = text(self.simulation.get("termination_reason"))
        reason = _STOPS.get(word) or ("error" if word else self.talk.ending(cut=cut))
        stop = stop_at(reason, self.talk.drafts)
        if word in ("max_steps", "timeout", "too_many_errors", "context_window_exceeded"):
            threshold = whole(self.info.get("max_errors" if word == "too_many_errors" else word))
            rule = word if threshold is None else f"{word}({threshold})"
            return stop._replace(rule=rule, threshold=threshold)
        return stop
