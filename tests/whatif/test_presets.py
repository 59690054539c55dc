"""What recordings say about the presets: as the live loop has it, for every preset whose rules the model cannot see."""

from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import MICRO
from tests.support.cases import cases
from tests.support.helpers import TOOLS, grouped, play
from tests.whatif.test_evaluate import assert_spent, row_of
from tests.whatif.test_properties import ARGUMENTS, NEVER

REFUSED = {"opencode_v1": "compaction", "opencode_v2": "compaction", "crush": "compaction"}
ANSWERED = [name for name in bl.policies if name not in REFUSED]
QUICK = cases(  # for each preset: more than 200 over those whose rules the model cannot see
    50,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
FINISHING = ("attempt_completion", "submit", "finish", "complete_task", "final_answer")


def _done(what: str = "") -> str:
    return what


@bl.tool(read_only=True)
async def wait(ctx: bl.ToolContext, what: str = "") -> str:
    """Take some time."""
    await ctx.sleep(0.007)
    return what


TOOLBOX = (*TOOLS[:3], wait, *(bl.tool(name=name, read_only=True)(_done) for name in FINISHING))


@st.composite
def scripts(draw: st.DrawFn) -> list[Any]:
    """Scripts of repeated, failing, broken and parallel calls, texts in between, and usage that may not be told."""
    texts = ARGUMENTS[: draw(st.integers(1, 6))]
    names = st.sampled_from(["look"] * 5 + ["wait", "fail", "fail", "nowhere", draw(st.sampled_from(FINISHING))])
    calls = st.builds(lambda name, text: {"name": name, "arguments": text}, names, st.sampled_from(texts))
    known = draw(st.sampled_from(["all", "all", "all", "none", "some"]))
    items: list[Any] = []
    for _ in range(draw(st.integers(0, 10))):
        item: dict[str, Any] = {"latency_ms": draw(st.sampled_from([0, 1, 10, 999]))}
        kind = draw(st.sampled_from(["calls"] * 9 + ["text", "empty"]))
        if kind == "calls":
            item["tool_calls"] = draw(st.lists(calls, min_size=1, max_size=3))
        item["text"] = "words" if kind == "text" else ""
        if draw(st.integers(0, 5)) == 0:
            item["finish_reason"] = draw(st.sampled_from(["stop", "tool_calls", "length", "content_filter"]))
        if known == "all" or (known == "some" and draw(st.booleans())):
            item["usage"] = {
                "input_tokens": draw(st.integers(0, 50)),
                "output_tokens": draw(st.integers(0, 50)),
                "cost_usd": draw(st.sampled_from([0, 0.1, 0.25, 0.3])),
            }
        items.append(item)
    ending = draw(st.sampled_from(["done", {"tool_calls": [{"name": FINISHING[1]}]}, {"error": {"status": 500}}, None]))
    return items if ending is None else [*items, ending]


def totals(run: bl.Run, name: str) -> list[int]:
    """What a run has used after each of its steps, as far as it tells."""
    total, out = 0, [0]
    for step in run.steps:
        usage = step.response.usage
        used = {
            "tokens": None if usage.input_tokens is None else (usage.input_tokens or 0) + (usage.output_tokens or 0),
            "cost": usage.cost,
            "calls": sum(result is not None for result in step.results),
            "time": step.duration_ms,
        }[name]
        if used is None:
            break
        total += used
        out.append(total)
    return out


@st.composite
def asked(draw: st.DrawFn, recording: bl.Run, preset: bl.Policy) -> tuple[bl.Policy, dict[str, list[Any]] | None]:
    """A preset with limits of its own, and a grid or none, their limits drawn from the recording's own values."""

    def near(values: list[int], least: int = 0) -> int:
        return max(least, draw(st.sampled_from(values)) + draw(st.sampled_from([-1, 0, 0, 1])))

    spend: dict[str, Any] = {}
    if draw(st.booleans()):
        spend["budgets.tokens"] = near(totals(recording, "tokens"))
    if draw(st.booleans()):
        spend["budgets.cost"] = near(totals(recording, "cost")) / MICRO
    if draw(st.booleans()):
        spend["budgets.seconds"] = near(totals(recording, "time")) / 1000
    cap = near([*range(1, recording.n_steps + 2), 2 * recording.n_steps], 1)
    budget = near(totals(recording, "calls"))
    if draw(st.booleans()):
        settings_: dict[str, Any] = {
            "cap.max_steps": cap,
            "budgets.no_agent": budget,
            "detectors.doom_loop": draw(st.integers(2, 4)),
        }
        chosen = draw(st.sets(st.sampled_from(sorted(settings_))))
        return preset.vary(**grouped({name: settings_[name] for name in sorted(chosen)} | spend)), None
    grid: dict[str, list[Any]] = {"max_steps": [cap], "tool_budget": [budget], "doom_loop": [draw(st.integers(2, 4))]}
    grid = {name: values for name, values in grid.items() if name in preset.order and draw(st.booleans())}
    axis = {"budgets.tokens": "max_tokens", "budgets.cost": "max_cost", "budgets.seconds": "max_time"}
    moved = [name for name in spend if draw(st.booleans())]
    grid |= {axis[name]: [spend.pop(name)] for name in moved}
    policy = preset.vary(**grouped(spend))
    return policy, grid or None


def live(recording: bl.Run, policy: bl.Policy, grid: dict[str, list[Any]] | None) -> bl.Run:
    """The recording, played again under the policy; if there is a grid, with its limits and without a ceiling."""
    if grid is None:
        return bl.run_sync(None, "go", model=bl.RecordedModel(recording), policy=policy, tools=TOOLBOX)
    limit = {"max_tokens": "budgets.tokens", "max_cost": "budgets.cost", "max_time": "budgets.seconds"}
    spend = {limit[axis]: values[0] for axis, values in grid.items() if axis in limit}
    own: dict[str, Any] = {
        name: grid[name][0] if name in grid else None for name in ("max_steps", "tool_budget", "doom_loop")
    }
    agent = bl.Agent("tester", tools=TOOLBOX, policy=policy.vary(**grouped({"cap.ceiling": None} | spend)), **own)
    return bl.run_sync(agent, "go", model=bl.RecordedModel(recording))


def assert_as_live(row: dict[str, Any], recording: bl.Run, again: bl.Run) -> None:
    """The row of a setting against what the live loop makes of the recording."""
    undecided = (again.error or "").startswith("UnknownCounter")
    failed = again.stop_reason == "error" and not undecided
    assert (row["outcome"] == "censored") == failed
    assert (row["outcome"] == "unknown") == undecided
    if failed:
        return
    found = (row["stop_reason"], row["stop_step"], tuple(filter(None, row["also_fired"].split(","))))
    assert found == (again.stop_reason, again.stop_step, again.stop.also_fired)
    assert_spent(row, recording, again)


@pytest.mark.parametrize("name", ANSWERED)
def test_a_preset_stops_a_recording_where_the_live_loop_does(name: str) -> None:
    preset = bl.policies[name].vary(wrap_up={"summary": "none"})

    @QUICK
    @given(st.data())
    def holds(data: Any) -> None:
        recording = play(data.draw(scripts()), agent=bl.Agent("tester", tools=TOOLBOX, policy=preset), stop=NEVER)
        policy, grid = data.draw(asked(recording, preset))
        row = row_of(bl.counterfactual(recording, policy=policy, grid=grid, own_limits="lifted"))
        if row["outcome"] == "not_identified":
            assert not preset.unseen
        else:
            assert_as_live(row, recording, live(recording, policy, grid))

    holds()


@pytest.mark.parametrize("name", [name for name in ANSWERED if bl.policies[name].unseen])
def test_a_tally_under_a_preset_is_the_sum_of_its_table(name: str) -> None:
    preset = bl.policies[name].vary(wrap_up={"summary": "none"})

    @settings(QUICK, max_examples=cases(10).max_examples)
    @given(st.data())
    def holds(data: Any) -> None:
        one, other = (
            play(data.draw(scripts()), agent=bl.Agent("tester", tools=TOOLBOX, policy=preset), stop=NEVER) for _ in "12"
        )
        policy, grid = data.draw(asked(one, preset))
        table = bl.counterfactual([one, other], policy=policy, grid=grid)
        (tally,) = bl.counterfactual([one, other], policy=policy, grid=grid, aggregate=True).to_dict("records")
        for sums in ("steps", "tool_calls", "saved_steps", "saved_tool_calls"):
            assert tally[sums] == table[sums].sum()
        assert tally["n_truncated"] == (table["outcome"] == "truncated").sum()
        assert tally.get("n_step_cap", 0) == (table["stop_reason"] == "step_cap").sum()
        assert tally["kept_upper"] == table["kept_upper"].sum()

    holds()


@pytest.mark.parametrize(("name", "axis"), REFUSED.items())
def test_a_preset_that_cannot_be_answered_names_the_axis(name: str, axis: str) -> None:
    with pytest.raises(bl.SettingError, match=f"policy {name}: {axis} "):
        bl.counterfactual([], policy=name)
    with pytest.raises(bl.SettingError, match=f"policy {name}: {axis} "):
        bl.counterfactual([], policy=name, grid={"max_steps": [5]})


def test_what_cannot_be_seen_is_what_changes_no_request() -> None:
    unseen = [name for name, policy in bl.policies.items() if policy.unseen]
    assert unseen == [
        "boocode", "finish_aware", "claude_code", "aider", "autogpt", "pydantic_ai", "autogen", "ai_sdk",
        "langgraph_react", "langchain_agent", "langchain_middleware", "openai_agents", "naive",
    ]  # fmt: skip


def test_frames_tell_as_much_as_runs_of_limits_at_the_response() -> None:
    run = play([{"tool_calls": [{"name": "look"}] * 2}] * 3 + ["done"], policy="pydantic_ai", stop=NEVER)
    grid = {"tool_budget": [0, 1, 3, 4, 6, None]}
    policy = bl.policies["pydantic_ai"].vary(detectors={"guards": ()})
    of_runs, of_frame = (bl.counterfactual(x, grid=grid, policy=policy) for x in (run, bl.recording_df(run)))
    pd.testing.assert_frame_equal(of_runs, of_frame)
    assert of_runs["stop_step"].tolist()[:4] == [0, 0, 1, 2]
    with pytest.raises(bl.SettingError, match="at the response"):
        bl.counterfactual(bl.recording_df(run).drop(columns="asked"), grid=grid, policy=policy)
