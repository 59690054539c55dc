"""Random cases whose records are held equal: a change of the engine that is meant to change nothing changes none.

Each case is made from its number alone: a policy (a preset, or one of random fields), a script with repeats, failures,
broken streams and odd finish reasons, and a user who answers, writes, aborts, leaves, resumes and branches. What is
kept of a case is a short digest of its runs, of its requests and of its events. Texts are left out of it, so that
rewriting one does not change it.

After a change of behaviour on purpose, write the file of digests anew, and look at a few of the cases that changed:

    python -m tests.runtime.engine.test_same_records --write
    python -m tests.runtime.engine.test_same_records --show 17
"""

import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import boolab as bl
from boolab.core.types import Response
from boolab.whatif.policy_limits import divergences
from tests.support.cases import first
from tests.support.detectors import DETECTORS
from tests.support.helpers import grouped

KEPT: Final = Path(__file__).parents[2] / "data" / "same_records.txt"
CASES: Final = 300
PRESETS: Final = (
    "boocode", "opencode_3631", "opencode_v1", "opencode_v2", "finish_aware", "claude_code", "aider", "cline", "roo",
    "autogpt", "inspect_react", "pydantic_ai", "mini_swe_agent", "swe_agent", "openhands", "openhands_classic",
    "gemini_cli", "gemini_subagent", "autogen", "smolagents", "ai_sdk", "langgraph_react", "langchain_agent",
    "langchain_middleware", "openai_agents", "goose", "crush", "openrouter", "naive",
)  # fmt: skip
"""The presets that the cases draw from: another one changes none of them."""
TEXTS: Final = ("", "Thinking.", "Looking further.", "La la la. " * 60)
RULES: Final = (
    lambda: bl.doom_loop(2),
    lambda: bl.doom_loop(3, "ordered"),
    lambda: bl.max_steps(2),
    lambda: bl.tool_budget(3),
    lambda: bl.error_streak(2),
    lambda: bl.detectors.cycle(2, 2),
    lambda: bl.max_tokens(200),
    lambda: bl.max_tokens(200, on_unknown="ignore"),
    lambda: bl.max_time(0.3) & bl.max_steps(1),
)


class Case:
    """One random case."""

    def __init__(self, number: int) -> None:
        self.rng = Random(number)  # noqa: S311 - the same cases every time
        self.log: list[Any] = []
        self.calls = 0

    def one(self, *values: Any) -> Any:
        """One of some values."""
        return self.rng.choice(values)

    def some(self, share: float) -> bool:
        """True in so large a share of the cases."""
        return self.rng.random() < share

    def guard(self) -> bl.Guard:
        """A random guard."""
        check = self.one("boundary", "response", "call", "call")
        actions = {"boundary": ("shadow", "nudge", "ask", "stop"), "response": ("shadow", "stop")}.get(
            check, ("shadow", "nudge", "ask", "block", "stop")
        )
        thresholds = sorted(self.rng.sample(range(1, 7), self.rng.randint(1, 3)))
        detector = self.one(*DETECTORS)
        rearm: Any = "break" if thresholds[0] < detector.least else self.one("break", "fire")
        return bl.Guard(
            detector=detector,
            ladder=tuple((n, self.one(*actions)) for n in thresholds),
            check=check,
            scope=self.one("message", "turn", "turn", "session"),
            rearm=rearm,
            nudge_executes=self.some(0.5),
            deny=self.one("stop", "block"),
            block_asks=self.some(0.3),
        )

    def policy(self) -> bl.Policy:
        """A preset, or a policy of random fields."""
        if self.some(0.4):
            return bl.policies[self.one(*sorted(PRESETS))]
        one, some = self.one, self.some
        budget = one(None, None, None, 0, 2, 4, 6)
        conditions = ("no_calls", "has_text", "reason_given", "reason_not_tool_calls", "reason_stop", "no_new_input")
        order = ["max_steps", "tool_budget", "doom_loop", "guards", "token_budget"]
        self.rng.shuffle(order)
        counts = one("steps", "steps", "steps", "actions", "tool_steps", "supersteps")
        finish = tuple(sorted(self.rng.sample(conditions, self.rng.randint(0, 3)))) if some(0.4) else ("no_calls",)
        execution = one("parallel", "parallel", "sequence", "one_per_message", "exactly_one")
        batch = one("all", "all", "until", "alone")
        by, kept = one("user", "ask", "loop"), one(True, True, False)
        check = one("boundary", "boundary", "boundary", "response")
        last_step = one("tools", "tools", "prompt", "tool_choice_none", "no_tools", "grace")
        if check == "response" or counts in ("tool_steps", "supersteps"):  # such a cap is final
            by, last_step = "user", "tools" if last_step == "grace" else last_step
        values: dict[str, Any] = {
            "order": tuple(order),
            "cap.max_steps": one(None, 0, 1, 2, 3, 4, 5, 6),
            "cap.kind": one("hard", "hard", "hard", "soft"),
            "cap.counts": counts,
            "cap.check": check,
            "cap.zero": one("text_only", "plain", "unlimited", "default"),
            "cap.ceiling": 12,
            "last_step.action": last_step,
            "last_step.in_cap": some(0.5),
            "last_step.text_finishes": some(0.5),
            "last_step.reminder": one("none", "none", "turns_left"),
            "continues.times": one(0, 1, None) if by != "loop" or kept else 1,
            "continues.by": by,
            "continues.adds": one(None, 1, 2),
            "continues.counters": "kept" if kept else "fresh",
            "budgets.read_only": budget,
            "budgets.writing": budget,
            "budgets.no_agent": budget,
            "budgets.batch": one("overshoot", "reject", "cut"),
            "budgets.tokens": one(None, None, None, 150, 300),
            "budgets.cost": one(None, None, None, 0.002, 0.005),
            "budgets.seconds": one(None, None, None, None, 0.2, 1.0),
            "budgets.before": one("reached", "exceeded", "unchecked"),
            "budgets.after": one("exceeded", "unchecked"),
            "budgets.on_unknown": one("ignore", "ignore", "error"),
            "detectors.doom_loop": one(None, None, 2, 3),
            "detectors.identity": one("ordered", "canonical", "tool"),
            "detectors.guards": tuple(self.guard() for _ in range(one(0, 0, 1, 1, 2, 3))),
            "finish.conditions": ("no_calls",) if counts in ("tool_steps", "supersteps") else finish,
            "finish.tools": ("done",),
            "finish.batch": "all" if execution == "parallel" and batch == "until" else batch,
            "finish.asks_again": one(*["always"] * 7, "after_errors"),
            "finish.final_reasons": one((), (), ("length",)),
            "finish.fatal_reasons": one((), (), ("unknown",)),
            "finish.fatal_if": one("no_calls", "empty"),
            "finish.idle": one("prompt", "again", "grace"),
            "execution.calls": execution,
            "execution.unknown_tools": one("reported", "reported", "reported", "fatal", "rejected", "rejected"),
            "execution.tool_failures": one(*["reported"] * 6, "unexpected_fatal", "fatal"),
            "execution.broken_retries": one(0, 0, 1, 2),
            "compaction": one(None, None, None, bl.Compaction(at_tokens=40, by=lambda _messages: "So far, so good.")),
            "inputs.queued": one("kept", "plain", "plain", "reminder"),
            "inputs.reset_cap": some(0.2),
            "wrap_up.sentinel": some(0.5),
            "wrap_up.limit_status": one("none", "without_text"),
            "wrap_up.summary": one("model", "static", "none"),
        }
        return bl.Policy(name="any").vary(**grouped(values))

    def item(self) -> dict[str, Any]:
        """One random response of the script."""
        calls = [
            {"name": "work", "arguments": {"what": "a"}},
            {"name": "work", "arguments": {"what": "a"}},
            {"name": "work", "arguments": {"what": "b"}},
            {"name": "work", "arguments": {"what": str(self.rng.randint(0, 99))}},
            {"name": "fail", "arguments": {}},
            {"name": "refuse", "arguments": {}},
            {"name": "work", "arguments": "{oops"},
            {"name": "nobody", "arguments": {}},
            {"name": self.one("done", "submit", "attempt_completion", "complete_task", "finish"), "arguments": {}},
            {"name": "wait_for_user", "arguments": {}},
            {"name": "task", "arguments": {"agent": "scout", "prompt": "Where?"}},
        ]
        weights = (12, 12, 10, 10, 4, 4, 2, 1, 2, 1, 2)
        item: dict[str, Any] = {
            "text": self.one(*TEXTS),
            "tool_calls": self.rng.choices(calls, weights, k=self.one(0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3)),
            "finish_reason": self.one("stop", *["tool_calls"] * 4, "length", "unknown", None),
            "usage": self.one(
                {"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.001},
                {"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.001},
                {},
            ),
            "latency_ms": self.one(0, 100),
        }
        if self.some(0.03):
            item["error"] = self.one({"reset": True, "after": 5}, {"status": 500, "after": 0}, {"garbage": True})
        return item

    async def run(self) -> list[Any]:
        """Play the case: its runs, and all that was seen on the way."""
        policy = self.policy()
        items = [self.item() for _ in range(self.rng.randint(2, 12))]
        if self.some(0.5):
            items.append({"text": "Done.", "finish_reason": "stop"})
        inbox = bl.Inbox() if self.some(0.4) else None
        abort = bl.Abort() if self.some(0.15) else None
        options = self.options(policy, inbox, abort)
        model = Watched(self, items, summary=self.one("All in all.", None), abort=abort)
        runs: list[bl.Run] = []
        try:
            await self.go(runs, policy, model, options)
            if self.some(0.3):
                further = self.options(self.one(policy, self.policy()), inbox, None)
                further["policy"] = self.one(policy, self.policy())
                at, message = self.rng.randint(0, runs[-1].n_steps), self.one(None, "And now?")
                runs.append(await bl.branch(runs[-1], at, model=model, message=message, **further))
        except bl.SettingError as error:
            self.log.append(type(error).__name__)
        except asyncio.CancelledError as error:
            runs.append(error.run)  # type: ignore[attr-defined] # the loop puts it there
        told = [
            divergences(preset, run)
            for preset in (policy, *(bl.policies[name] for name in PRESETS))
            for run in runs[-1:]
        ]
        return [runs, [run.messages for run in runs], [run.subagents for run in runs], self.log, told]

    async def go(self, runs: list[bl.Run], policy: bl.Policy, model: bl.ScriptedModel, options: dict[str, Any]) -> None:
        """Run, or start and leave; then resume as often as chance has it."""
        agent = None
        if self.some(0.7):
            own = {name: self.one(*values) for name, values in SETTINGS.items() if self.some(0.3)}
            agent = bl.Agent("worker", prompt="Work.", policy=policy, **own)
        else:
            options["policy"] = policy
        if self.some(0.15):
            leave = self.rng.randint(0, 4)
            async with bl.start(agent, "go", model=model, **options) as live:
                async for step in live:
                    self.log.append(("progress", dict(live.progress), live.limits))
                    if step.index == leave:
                        break
            runs.append(live.run)
        else:
            runs.append(await bl.run(agent, "go", model=model, **options))
        for _ in range(self.one(0, 1, 2, 3)):
            if runs[-1].stop_reason in ("paused", "step_cap"):
                other: Any = {"policy": self.policy()} if self.some(0.1) else {}
                runs.append(await bl.resume(runs[-1], "Go on.", **other))

    def options(self, policy: bl.Policy, inbox: bl.Inbox | None, abort: bl.Abort | None) -> dict[str, Any]:
        """Random options of a run."""
        rng = self.rng
        sends, aborts = rng.randint(0, 2), rng.randint(1, 6) if abort is not None else 0
        answers = [self.some(0.6) for _ in range(6)]
        names: list[str] = []

        @bl.tool
        async def work(what: str) -> str:
            """Work."""
            self.calls += 1
            if inbox is not None and len(names) < sends:
                names.append(what)
                inbox.send(f"Message {len(names)}.")
            if self.calls == aborts and abort is not None:
                abort.abort()
                await asyncio.sleep(0)
            return f"did {what}" if len(what) == 1 else "same"

        @bl.tool(read_only=True)
        def fail() -> str:
            """Fail."""
            raise ValueError

        @bl.tool
        def refuse() -> str:
            """Refuse."""
            msg = "not today"
            raise bl.ToolError(msg)

        @bl.tool(pauses=True)
        def wait_for_user() -> str:
            """Wait."""
            return "waiting"

        async def asked(question: bl.Question) -> bool:
            self.log.append(("asked", question.rule, question.value))
            return answers.pop() if answers else False

        def asked_plainly(question: bl.Question) -> Any:
            self.log.append(("asked", question.rule, question.value))
            return answers.pop() if answers else None

        async def synthesis(calls: Sequence[Any], _results: Sequence[Any]) -> Any:
            self.log.append(("synthesis", len(calls)))
            return rng.choice((None, None, None, "Written.", 7))

        done = [bl.tool(name=name)(_done) for name in sorted({*policy.finish.tools, "done"})]
        options: dict[str, Any] = {"tools": [work, fail, refuse, wait_for_user, *done]}
        if self.some(0.2):
            scout = bl.Agent("scout", model=Watched(self, [self.item() for _ in range(3)], summary=None, abort=None))
            options["tools"].append(bl.task_tool(scout, budget=self.one("own", "root")))
        if self.some(0.7):
            options["ask"] = self.one(asked, asked_plainly)
        if self.some(0.3):
            options["shadow"] = [self.one(*RULES)() for _ in range(rng.randint(1, 3))]
        if self.some(0.1):
            options["stop"] = self.one(*RULES)()
        if self.some(0.1):
            options["synthesis"] = synthesis
        if self.some(0.1):
            options["compaction"] = bl.Compaction(at_tokens=60, by=self.one("model", lambda _messages: "Short."))
        if self.some(0.4):
            options["on_event"] = lambda event: self.log.append(tuple(event))
        if inbox is not None:
            options["inbox"] = inbox
        if abort is not None:
            options["abort"] = abort
        return options


SETTINGS: Final = {"max_steps": (None, 0, 1, 2, 3, 5), "tool_budget": (None, 0, 2, 3, 5), "doom_loop": (None, 2, 3)}


def _done() -> str:
    """Be done."""
    return "done"


class Watched(bl.ScriptedModel):
    """A script whose requests are kept, and which fails now and then in ways that no script can."""

    def __init__(self, case: Case, items: list[Any], summary: str | None, abort: bl.Abort | None) -> None:
        super().__init__(items, summary=summary)
        self.case = case
        self.abort = abort
        odd = (None, "garbage", "crash", "cancel", "abort")
        self.odd = {case.rng.randint(0, 6): case.rng.choices(odd, (80, 1, 1, 1, 2))[0]}

    async def respond(self, request: Any, emit: Any = None) -> Any:
        """One response, or a failure."""
        case, odd = self.case, self.odd.get(request.index)
        case.log.append((list(request.messages), [spec.name for spec in request.tools], request.tool_choice))
        if odd == "garbage":
            return "not a response"
        if odd == "crash":
            raise RuntimeError
        if odd == "cancel":
            raise asyncio.CancelledError
        if odd == "abort" and self.abort is not None:
            self.abort.abort()
            await asyncio.sleep(0)
        return await super().respond(request, emit)


LEFT_OUT: Final = frozenset(
    {"continuation", "subagents", "started_at", "scores", "path"}
    | {"harness_version", "git_commit", "git_branch", "cwd", "entrypoint", "stated_cost", "labels", "prints", "log_id"}
)
OF_LOGS: Final = ("id", "effort", "speed", "service_tier")


def plain(value: Any, *, texts: bool = False) -> Any:
    """A value as lists of its parts, in order and without names; texts of several words are left out, ids too."""
    if isinstance(value, bl.Run):
        return [plain(getattr(value, f.name), texts=texts) for f in fields(value) if f.name not in LEFT_OUT]
    if isinstance(value, Response):
        value = [getattr(value, name) for name in value._fields if name not in OF_LOGS]
    if isinstance(value, str):
        text = re.sub(r"[0-9a-f]{32}", "ID", value)
        return text if texts or " " not in text.strip() else "..."
    if isinstance(value, Mapping):
        return [plain(one, texts=texts) for one in value.values()]
    if isinstance(value, list | tuple | Sequence):
        return [plain(one, texts=texts) for one in value]
    if is_dataclass(value) or not isinstance(value, int | float | type(None)):
        return str(type(value))
    return value


async def play(number: int) -> list[Any]:
    """What a case gives."""
    return await Case(number).run()


def digests(numbers: Sequence[int], *, texts: bool = False) -> list[str]:
    """A short digest of each case."""

    async def all_of_them() -> list[str]:
        found = []
        for number in numbers:
            value = repr(plain(await play(number), texts=texts))
            found.append(blake2b(value.encode(), digest_size=4).hexdigest())
        return found

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("begin", first(1, range(0, CASES, CASES // 3)))
def test_the_records_of_random_cases_are_those_on_file(begin: int) -> None:
    """Nothing that a run records, asks of its model or tells of its events has changed."""
    numbers = range(begin, begin + CASES // 3)
    kept = KEPT.read_text().split()
    assert len(kept) == CASES
    found = dict(zip(numbers, digests(numbers), strict=True))
    assert [number for number in numbers if found[number] != kept[number]] == []


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        KEPT.write_text("\n".join(digests(range(CASES))) + "\n")
    elif sys.argv[1] == "--show":
        sys.stdout.write(repr(plain(asyncio.run(play(int(sys.argv[2]))), texts=True)))
    else:  # all digests, texts included, of so many cases
        sys.stdout.write("\n".join(digests(range(int(sys.argv[1])), texts=True)) + "\n")
