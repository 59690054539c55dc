"""Runs on a server that fails in all the ways we know, by a seed: each ends, and nothing that was paid for is lost.

`make test` plays 100 runs, `make soak` 1,000 (`--soak N`).
"""

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, get_args

import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.types import Event, StopReason
from tests.support.helpers import QUIET, TOOLS
from tests.support.model_protocols import PROTOCOLS, Said, Speaks
from tests.support.model_server import CLOSE, END, RESET, Act, Asked, Forever, Gate, Latency, ModelServer, stream, whole

TOGETHER: Final = 50
"""How many runs are under way at once."""
LIMIT_S: Final = 60
"""What a run may take at most; most take some milliseconds, and each silence of the server a timeout."""
PAUSE_S: Final = 0.01
"""Between the pieces of what never ends: the server shares the processor with all that it serves."""
PATIENCE: Final = bl.models.Timeouts(connect=5, first_token=3, between=3, whole=4)
"""Long enough for a slow machine never to take a proper answer for silence."""
POLICIES: Final = (
    QUIET,
    QUIET.vary(execution={"broken_retries": 2}),
    bl.policies["boocode"],
    bl.policies["opencode_v1"].vary(execution={"broken_retries": 1}),
    bl.policies["claude_code"],
    bl.policies["inspect_react"],
)


class Played(NamedTuple):
    """What the server did with one request. The usage is what the client must have been told, by its input tokens."""

    fault: str
    begun: bool
    told: int | None


@dataclass
class Plan:
    """One run: what the server has in store for it, and what it did."""

    seed: int
    speaks: Speaks
    policy: bl.Policy
    said: list[Said]
    faultiness: float
    aborts_after: int | None
    random: random.Random
    played: list[Played] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"seed {self.seed}: {self.speaks} under {self.policy}, after {[one.fault for one in self.played]}"


def plan_of(seed: int) -> Plan:
    """A run's plan, from its seed alone."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    steps = [
        Said(
            rng.choice(["", "I look. ", "Grüße 🌊 "]),
            [
                (f"call_{n}_{m}", rng.choice(["look", "look", "write", "fail"]), json.dumps({"what": f"{n}.{m}"}))
                for m in range(rng.randint(1, 3))
            ],
            reasoning=rng.choice(["", "", "Hm."]),
        )
        for n in range(rng.randint(0, 6))
    ]
    return Plan(
        seed,
        rng.choice(PROTOCOLS),
        rng.choice(POLICIES),
        [*steps, Said("All done.")],
        rng.choice([0.1, 0.4, 0.4, 0.8]),
        rng.choice([None, None, None, None, None, rng.randint(1, 12)]),
        rng,
    )


Fault = Callable[[Plan, Said, list[bytes]], tuple[Sequence[Act], bool, bool]]
"""How an answer is spoilt: the acts, whether output begins in them, and whether its usage is told for sure."""


def _half(plan: Plan, said: Said, *acts: Act, end: Iterable[Act] = (END,)) -> tuple[list[Act], bool, bool]:
    """An answer that tells its usage, says half a sentence, and then something else."""
    assert said.usage is not None
    return stream(plan.speaks.opening(said.usage), plan.speaks.text("Half of "), *acts, end=end), True, True


def _slow(events: list[bytes]) -> Iterator[Act]:
    for event in events:
        yield Latency(0.001)
        yield event


def _pieces(plan: Plan, events: list[bytes]) -> list[Act]:
    body, cuts = b"".join(events), []
    cuts = sorted({plan.random.randrange(1, len(body)) for _ in range(20)})
    return [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def _error(plan: Plan, status: int, **headers: str) -> list[Act]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return whole(plan.speaks.error("Spoilt on purpose."), status, named)


HARMLESS: Final[dict[str, Fault]] = {
    "latency": lambda _plan, _said, events: (stream(*_slow(events)), True, True),
    "odd pieces": lambda plan, _said, events: (stream(*_pieces(plan, events)), True, True),
    "JSON": lambda plan, said, _events: (whole(plan.speaks.whole(said)), True, True),
    "no last event": lambda _plan, _said, events: (stream(*events[:-1]), True, True),
    "closed after it": lambda _plan, _said, events: ([*stream(*events), CLOSE], True, True),
    "reset after it": lambda _plan, _said, events: ([*stream(*events), Latency(0.02), RESET], True, True),
    "goes on after it": lambda plan, _said, events: (
        stream(*events, Forever(plan.speaks.nothing(), PAUSE_S), end=()),
        True,
        True,
    ),
}
FAULTS: Final[dict[str, Fault]] = {
    "reset at once": lambda *_: ([RESET], False, False),
    "closed at once": lambda *_: ([CLOSE], False, False),
    "reset after headers": lambda *_: ([*stream(end=()), RESET], False, False),
    "429": lambda plan, *_: (_error(plan, 429, Retry_After="3"), False, False),
    "429 with ms": lambda plan, *_: (_error(plan, 429, retry_after_ms="30"), False, False),
    "500": lambda plan, *_: (_error(plan, 500), False, False),
    "503 in HTML": lambda *_: (whole(b"<h1>503</h1>", 503, {"Content-Type": "text/html"}), False, False),
    "529": lambda plan, *_: (_error(plan, 529), False, False),
    "400": lambda plan, *_: (_error(plan, 400), False, False),
    "empty stream": lambda *_: (stream(), False, False),
    "error in place of a stream": lambda plan, *_: (whole(plan.speaks.error("Spoilt on purpose.")), False, False),
    "overload in the stream": lambda plan, *_: (
        stream(plan.speaks.error_event("Busy.", "overloaded_error", 529)),
        False,
        False,
    ),
    "usage alone": lambda plan, said, _events: (stream(plan.speaks.opening(said.usage or (0, 0))), False, True),
    "garbage at once": lambda *_: (stream(b"data: {garbage\n\n"), False, False),
    "pings for ever": lambda plan, *_: (stream(Forever(plan.speaks.nothing(), PAUSE_S), end=()), False, False),
    "silence": lambda *_: ([Gate()], False, False),
    "silence in the stream": lambda plan, said, _events: _half(plan, said, Gate()),
    "output for ever": lambda plan, said, _events: _half(plan, said, Forever(plan.speaks.text("and on "), PAUSE_S)),
    "reset in the stream": lambda plan, said, _events: _half(plan, said, Latency(0.05), RESET),
    "closed in the stream": lambda plan, said, _events: _half(plan, said, CLOSE),
    "half a chunk": lambda plan, said, _events: _half(plan, said, end=(b"80\r\ndata: {", CLOSE)),
    "garbage in the stream": lambda plan, said, _events: _half(plan, said, b"data: {garbage\n\n"),
    "error in the stream": lambda plan, said, _events: _half(plan, said, plan.speaks.error_event("Worker died.")),
    "no finish reason": lambda plan, said, _events: _half(plan, said),
}
RACING: Final = frozenset({"reset after it", "reset in the stream"})
"""A reset may overtake what was sent before it (RFC 9293, 3.10.7.4: it flushes the queues)."""
LASTING: Final = frozenset(
    {"goes on after it", "pings for ever", "silence", "silence in the stream", "output for ever"}
)
"""Those that only a timeout ends."""


class Server:
    """Plays the plans: each run asks under a path of its own."""

    def __init__(self) -> None:
        self.plans: dict[int, Plan] = {}

    def reply(self, asked: Asked) -> Sequence[Act]:
        plan = self.plans[int(asked.target.split("/")[1])]
        said = self._next(plan, asked)
        number = len(plan.played) + 1
        usage = (1000 * number, number)
        events = plan.speaks.events(said._replace(usage=usage))
        kinds = FAULTS if plan.random.random() < plan.faultiness else HARMLESS
        (kind,) = plan.random.choices(list(kinds), [0.4 if kind in LASTING else 1 for kind in kinds])
        acts, begun, told = kinds[kind](plan, said._replace(usage=usage), events)
        plan.played.append(Played(kind, begun, usage[0] if told else None))
        return acts

    @staticmethod
    def _next(plan: Plan, asked: Asked) -> Said:
        """What follows in the conversation as it was sent: a server keeps nothing."""
        sent = asked.body.decode()
        place = next((n for n, said in enumerate(plan.said) if said.calls and said.calls[0][0] not in sent), -1)
        return plan.said[place] if "tools" in asked.json else Said("In short: all done.")


async def play(server: ModelServer, plan: Plan, models: list[bl.models.Model]) -> bl.Run:
    """One run, by its plan. Its model goes to the others: one that is dropped as its loop ends is closed too late."""
    model = plan.speaks.model(
        f"{server.url}/{plan.seed}", timeouts=PATIENCE, retry=bl.models.Retry(attempts=3, seconds=120)
    )
    models.append(model)
    abort, deltas = bl.Abort(), 0

    def watch(event: Event) -> None:
        nonlocal deltas
        deltas += event.kind == "delta"
        if deltas == plan.aborts_after:
            abort.abort()

    agent = bl.Agent("tester", tools=TOOLS, policy=plan.policy)
    # A run that is to be aborted is watched; of the others, every second one is.
    listener = watch if plan.aborts_after is not None or plan.seed % 2 else None
    async with asyncio.timeout(LIMIT_S):
        return await bl.run(agent, "go", model=model, clock=VirtualClock(), on_event=listener, abort=abort)


def check(run: bl.Run, plan: Plan) -> None:
    """A whole record: an end with a reason, a step for each response, a result for each call, and all usage."""
    assert run.stop_reason in get_args(StopReason)
    assert (run.error is not None) == (run.stop_reason == "error")
    for step in run.steps:
        assert len(step.results) == len(step.response.tool_calls)
        if not step.error:
            assert all(result is not None for result in step.results) or step is run.steps[-1]
    outside = [] if run.wrap_up is None or run.wrap_up.response is None else [run.wrap_up.response]
    responses = [*(step.response for step in run.steps), *outside]
    begun = [response for response in responses if response.text or response.tool_calls or response.reasoning]
    sure = [played for played in plan.played if played.fault not in RACING]
    assert sum(played.begun for played in sure) <= len(begun) <= sum(played.begun for played in plan.played)
    told = [response.usage.input_tokens for response in responses]
    told += [event.payload.get("input_tokens") for event in run.events if event.kind == "retry"]
    paid = [tokens for tokens in told if tokens is not None]
    assert len(paid) == len(set(paid))
    assert set(paid) <= {played.told for played in plan.played}
    owed = [played.told for played in sure if played.told is not None]
    if run.stop_reason == "aborted":  # the last may have been on its way
        owed = [tokens for tokens in owed if tokens != 1000 * len(plan.played)]
    assert set(owed) <= set(paid)


def check_replay(run: bl.Run, plan: Plan) -> None:
    """A recording of it runs the same way, without a network."""
    agent = bl.Agent("tester", tools=TOOLS, policy=plan.policy)
    again = asyncio.run(bl.run(agent, "go", model=bl.RecordedModel(run), clock=VirtualClock()))
    assert again.steps == run.steps
    assert (again.stop, again.error, again.text) == (run.stop, run.error, run.text)


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> list[tuple[Plan, bl.Run]]:
    plans = [plan_of(seed) for seed in range(request.config.getoption("--soak"))]
    waiting = iter(plans)
    runs: dict[int, bl.Run] = {}
    models: list[bl.models.Model] = []
    faults = Server()
    faults.plans = {plan.seed: plan for plan in plans}

    async def work(server: ModelServer) -> None:
        for plan in waiting:
            runs[plan.seed] = await play(server, plan, models)

    async def work_together(server: ModelServer) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(TOGETHER):
                group.create_task(work(server))

    with ModelServer(reply=faults.reply) as server:
        asyncio.run(work_together(server))
    return [(plan, runs[plan.seed]) for plan in plans]


def test_every_run_ends_with_a_reason_and_a_whole_record(played: list[tuple[Plan, bl.Run]]) -> None:
    for plan, run in played:
        try:
            check(run, plan)
        except AssertionError as failure:
            failure.add_note(f"{plan.name}\n{run}\n{run.events}")
            raise


def test_every_record_can_be_replayed(played: list[tuple[Plan, bl.Run]]) -> None:
    for plan, run in played:
        if run.stop_reason != "aborted":
            try:
                check_replay(run, plan)
            except AssertionError as failure:
                failure.add_note(f"{plan.name}\n{run}\n{run.events}")
                raise


def test_each_fault_occurred_and_ended_runs_in_several_ways(played: list[tuple[Plan, bl.Run]]) -> None:
    """Else the two tests above would hold of nothing."""
    met = {one.fault for plan, _ in played for one in plan.played}
    assert met == set(FAULTS) | set(HARMLESS)
    reasons = [run.stop_reason for _, run in played]
    assert {"finished", "error", "aborted"} <= set(reasons)
    assert reasons.count("finished") > len(reasons) / 10
    assert any(step.broke_off and step is not run.steps[-1] for _, run in played for step in run.steps)
