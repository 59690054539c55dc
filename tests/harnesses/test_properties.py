"""What holds under any policy that can be made of the axes, not only under the presets."""

from typing import Any, Final, get_args, get_origin, get_type_hints

from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.harnesses.groups import GROUPS
from tests.support.cases import cases
from tests.support.detectors import EVERY_DETECTOR
from tests.support.helpers import grouped

ACTIONS: Final = {"boundary": ("shadow", "nudge", "ask", "stop"), "response": ("shadow", "stop"), "call": None}


@st.composite
def guards(draw: st.DrawFn) -> bl.Guard:
    """Any guard that is accepted."""
    check = draw(st.sampled_from(sorted(ACTIONS)))
    actions = ACTIONS[check] or ("shadow", "nudge", "ask", "block", "stop")
    thresholds = sorted(draw(st.sets(st.integers(1, 6), min_size=1, max_size=3)))
    options: Any = {
        "ladder": tuple((n, draw(st.sampled_from(actions))) for n in thresholds),
        "check": check,
        "scope": draw(st.sampled_from(("message", "turn", "session"))),
        "rearm": draw(st.sampled_from(("break", "fire"))),
        "nudge_executes": draw(st.booleans()),
        "deny": draw(st.sampled_from(("stop", "block"))),
        "block_asks": draw(st.booleans()),
    }
    detector = draw(st.sampled_from(EVERY_DETECTOR))
    if options["rearm"] == "fire" and thresholds[0] < detector.least:
        options["rearm"] = "break"
    return bl.Guard(detector=detector, **options)


LITERALS: Final = {
    f"{group}.{name}": get_args(hint)
    for group, kind in GROUPS.items()
    for name, hint in get_type_hints(kind).items() if get_origin(hint) is not None
    and all(isinstance(value, str) for value in get_args(hint)) and get_args(hint)
}  # fmt: skip


@st.composite
def any_policy(draw: st.DrawFn) -> bl.Policy:
    """Any policy that is accepted."""
    values: dict[str, Any] = {name: draw(st.sampled_from(accepted)) for name, accepted in LITERALS.items()}
    budget = draw(st.none() | st.integers(0, 6))
    values |= {
        "name": "any",
        "order": tuple(draw(st.permutations(("max_steps", "tool_budget", "doom_loop", "guards", "token_budget")))),
        "cap.max_steps": draw(st.none() | st.integers(0, 6)),
        "cap.ceiling": 12,
        "continues.times": draw(st.sampled_from((0, 1, None))),
        "continues.adds": draw(st.none() | st.integers(1, 3)),
        "budgets.read_only": budget,
        "budgets.writing": budget,
        "budgets.no_agent": budget,
        "budgets.tokens": draw(st.none() | st.integers(0, 900)),
        "budgets.cost": draw(st.none() | st.sampled_from((0.0, 0.002, 0.005))),
        "budgets.seconds": draw(st.none() | st.sampled_from((0.0, 0.2, 1.0))),
        "detectors.doom_loop": draw(st.none() | st.integers(2, 4)),
        "detectors.guards": tuple(draw(st.lists(guards(), max_size=3))),
        "finish.conditions": tuple(
            draw(
                st.sets(
                    st.sampled_from(
                        ("no_calls", "has_text", "reason_given", "reason_not_tool_calls", "reason_stop", "no_new_input")
                    )
                )
            )
        ),
        "finish.tools": ("done",),
        "finish.final_reasons": draw(st.sampled_from(((), ("length",)))),
        "finish.fatal_reasons": draw(st.sampled_from(((), ("unknown",)))),
        "last_step.in_cap": draw(st.booleans()),
        "last_step.text_finishes": draw(st.booleans()),
        "inputs.reset_cap": draw(st.booleans()),
        "wrap_up.sentinel": draw(st.booleans()),
        "compaction": draw(st.none() | st.just(bl.Compaction(at_tokens=40, by=lambda _messages: "So far, so good."))),
    }
    endless = values["continues.by"] == "loop" and values["continues.counters"] == "fresh"
    if endless and values["continues.times"] is None:
        values["continues.times"] = 1
    if values["cap.check"] == "response" or values["cap.counts"] in ("tool_steps", "supersteps"):
        values["continues.by"] = "user"
        if values["last_step.action"] == "grace":
            values["last_step.action"] = "tools"
    if values["cap.counts"] in ("tool_steps", "supersteps"):
        values["finish.conditions"] = ("no_calls",)
    if values["execution.calls"] == "parallel" and values["finish.batch"] == "until":
        values["execution.calls"] = "sequence"
    return bl.Policy(name="any").vary(**grouped(values))


@st.composite
def scripts(draw: st.DrawFn) -> list[Any]:
    """Any script: repeats, failures, unknown tools, bad arguments, odd finish reasons."""
    call = st.sampled_from(
        [
            {"name": "work", "arguments": {"what": "a"}},
            {"name": "work", "arguments": {"what": "b"}},
            {"name": "fail", "arguments": {}},
            {"name": "work", "arguments": "{oops"},
            {"name": "nobody", "arguments": {}},
            {"name": "done", "arguments": {}},
        ]
    )
    item = st.fixed_dictionaries(
        {
            "text": st.sampled_from(("", "Thinking.", "La la la. " * 60)),
            "tool_calls": st.lists(call, max_size=3),
            "finish_reason": st.sampled_from(("stop", "tool_calls", "length", "unknown", None)),
            "usage": st.sampled_from(({"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.001}, {})),
            "latency_ms": st.sampled_from((0, 100)),
        }
    )
    return draw(st.lists(item, min_size=1, max_size=8))


def played(policy: bl.Policy, items: list[Any], answers: list[bool], messages: int) -> tuple[bl.Run, list[str]]:
    """A run under a policy, with a user who answers and writes, and what was really executed."""
    ran: list[str] = []
    inbox = bl.Inbox()

    @bl.tool
    def work(what: str) -> str:
        """Work."""
        ran.append(what)
        if len(ran) <= messages:
            inbox.send(f"Message {len(ran)}.")
        return f"did {what}"

    @bl.tool
    def fail() -> str:
        """Fail."""
        ran.append("fail")
        raise ValueError

    @bl.tool
    def done() -> str:
        """Be done."""
        ran.append("done")
        return "done"

    def ask(_question: bl.Question) -> bool:
        return answers.pop() if answers else False

    model = bl.ScriptedModel(items, summary="All in all.")
    run = bl.run_sync(None, "go", model=model, tools=[work, fail, done], policy=policy, ask=ask, inbox=inbox)
    return run, ran


@cases(250)
@given(policy=any_policy(), items=scripts(), answers=st.lists(st.booleans(), max_size=4), messages=st.integers(0, 2))
def test_every_run_ends_on_record_whatever_the_policy(
    policy: bl.Policy, items: list[Any], answers: list[bool], messages: int
) -> None:
    try:
        run, ran = played(policy, items, list(answers), messages)
    except bl.SettingError:
        assert policy.cap.zero == "invalid"
        assert policy.cap.max_steps == 0
        return
    answered = [result for step in run.steps for result in step.results if result is not None]
    executed = [r for r in answered if r.content.startswith(("did", "done", "ValueError"))]
    assert len(executed) == len(ran)
    assert run.n_tool_calls == len(answered)
    assert [step.index for step in run.steps] == list(range(1, run.n_steps + 1))
    assert run.stop_step <= run.n_steps
    assert run.error is not None or run.stop_reason != "error"
    assert run.error is None or run.stop_reason == "error" or run.steps[-1].error  # a limit all the same
    assert all(len(step.results) == len(step.response.tool_calls) for step in run.steps)
    assert all(1 <= given.before <= run.n_steps + 1 for given in run.inputs)
    assert len(bl.steps_df(run)) == run.n_steps
    assert bl.runs_df(run)["n_tool_calls"].item() == run.n_tool_calls
    assert str(run)


@cases(80)
@given(policy=any_policy(), items=scripts())
def test_a_limit_that_never_fires_stops_no_run(policy: bl.Policy, items: list[Any]) -> None:
    try:
        never = policy.never_fires({}, no_agent=True)
        run, _ = played(policy, items * 4, [], 0)
    except bl.SettingError:
        return
    reasons = {"max_steps": "step_cap", "tool_budget": "tool_budget", "doom_loop": "doom_loop"}
    silent = {reasons[name] for name, first in never.items() if first.limit != "ceiling"}
    guards = {guard.reason or guard.detector.reason for guard in policy.detectors.guards}
    assert run.stop_reason not in silent - guards
