"""What a branch costs itself: not what an earlier run paid for."""

import asyncio
from typing import Any

import pytest

import boolab as bl
from boolab.frames.runs import micro_cost, own_cost, own_part
from tests.support.helpers import call

PAID = {"cost_usd": 0.5, "input_tokens": 200, "output_tokens": 10}


def model() -> bl.ScriptedModel:
    steps = [{"tool_calls": [call("look", what=f"{number}")], "usage": PAID} for number in range(5)]
    summary = {"text": "So far.", "usage": {**PAID, "cost_usd": 0.25}}
    tools = {"look": "seen " * 50}
    return bl.ScriptedModel([*steps, {"text": "Done.", "usage": PAID}], tools=tools, summary=summary)


@pytest.mark.parametrize("at", [2, 3, 4])
def test_a_branch_pays_for_the_compactions_after_its_kept_steps(at: int) -> None:
    options: dict[str, Any] = {"compaction": bl.Compaction(at_tokens=100, keep_steps=1), "policy": "naive"}
    first = bl.run_sync(None, "Look around.", model=model(), **options)
    assert [one.before for one in first.compactions] == [3, 4, 5, 6]
    branch = asyncio.run(bl.branch(first, at, model=model(), **options))
    assert [one.before for one in own_part(branch).compactions] == [
        one.before for one in branch.compactions if one.before > at
    ]
    new_steps = branch.n_steps - at
    new_summaries = sum(one.before > at for one in branch.compactions)
    assert new_summaries == len(branch.compactions) - max(0, at - 2) > 0
    assert own_cost(branch) == new_steps * 500_000 + new_summaries * 250_000
    assert micro_cost(first) == own_cost(first) == 6 * 500_000 + 4 * 250_000
