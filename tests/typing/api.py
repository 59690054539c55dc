"""Calls of the public API, for mypy: no line has an error, and those with an `ignore` have just that one.

`make lint` checks it: mypy is strict here and reports an `ignore` that nothing needs.
"""

from __future__ import annotations

from typing import assert_type

import boolab as bl


def of_runs(model: bl.models.Model, agent: bl.Agent) -> None:
    assert_type(bl.run_sync(agent, "go", model=model, stop=bl.max_steps(3), seed=1), bl.Run)
    assert_type(bl.run_sync(None, [{"role": "user", "content": "go"}], model=model, policy="naive"), bl.Run)
    bl.run_sync(agent, "go", modle=model)  # type: ignore[call-arg] # a typo
    bl.run_sync(agent, "go", model="gpt")  # type: ignore[arg-type] # a name is no model
    bl.run_sync(agent, "go", model=model, seed="1")  # type: ignore[arg-type]
    bl.run_sync(agent, model=model)  # type: ignore[call-arg] # no task
    bl.start(agent, "go", stpo=bl.max_steps(3))  # type: ignore[call-arg]


async def of_coroutines(model: bl.models.Model, agent: bl.Agent) -> None:
    run = await bl.run(agent, "go", model=model)
    assert_type(run, bl.Run)
    assert_type(await bl.resume(run, "go", agent=agent), bl.Run)
    assert_type(await bl.branch(run, 2, model=model, policy="naive"), bl.Run)
    await bl.resume(run, "go", polcy="naive")  # type: ignore[call-arg]
    await bl.branch(run, 2, model=model, setps=3)  # type: ignore[call-arg]


def of_policies() -> None:
    policy = bl.policies["boocode"]
    assert_type(policy.vary(name="mine", cap={"max_steps": 5}), bl.Policy)
    policy.vary(cpa={"max_steps": 5})  # type: ignore[call-arg]
    policy.vary(cap=5)  # type: ignore[arg-type]
    bl.Policy(name="mine", steps=5)  # type: ignore[call-arg]
    policy.cap.maxsteps  # type: ignore[attr-defined] # noqa: B018 - an expression is what is checked


def of_names() -> None:
    bl.run_sinc  # type: ignore[attr-defined] # noqa: B018 - an expression is what is checked
    bl.detectors.cycel  # type: ignore[attr-defined] # noqa: B018 - an expression is what is checked
    assert_type(bl.cycle(3, 2), bl.StopRule)
    assert_type(bl.models.Retry(attempts=3), bl.models.Retry)
    assert_type(bl.errors.ModelError("gone").retryable, bool)
