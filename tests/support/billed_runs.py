"""Runs with usage, to be billed: drawn at random, and by hand."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from boolab.core.allocation import zones_of
from boolab.core.messages import Input, Message, Text
from boolab.core.prices import Rates
from boolab.core.run import Run
from boolab.core.types import Event, Image, Response, Step, Stop, ToolCall, ToolResult, Usage

RATES = Rates(fresh=30_000, read=3_000, write_5m=37_500, write_1h=60_000, output=150_000)
"""Those of claude-sonnet-4-5: $3 for a million tokens of input, $15 for output."""
LONG = Rates(fresh=60_000, read=6_000, write_5m=75_000, write_1h=120_000, output=225_000)
LONG_FROM = 900
"""From how many tokens on the rates of a long request apply to all of it."""


def rates_of(step: Step) -> Rates | None:
    """The rates of a step: one model has none."""
    if step.response.model == "unlisted":
        return None
    return LONG if (step.response.usage.input_tokens or 0) > LONG_FROM else RATES


def list_cost(usage: Usage, rates: Rates) -> int:
    """The micro-dollars of a request, rounded as a bill is."""
    read, hour, five, fresh = zones_of(usage)
    whole = read * rates.read + hour * rates.write_1h + five * rates.write_5m + fresh * rates.fresh
    return round((whole + (usage.output_tokens or 0) * rates.output) / 10_000)


def priced_usage(context: int, output: int = 0, read: int = 0, hour: int = 0, five: int = 0, **more: Any) -> Usage:
    """The usage of a request at `RATES`."""
    usage = Usage(context, output, read, cache_write_tokens=hour + five, cache_write_1h_tokens=hour, **more)
    return usage._replace(cost=list_cost(usage, RATES))


def billed_step(index: int, usage: Usage, *calls: tuple[str, str], text: str = "", **more: Any) -> Step:
    """A step with calls, each a tool and its result."""
    tool_calls = tuple(ToolCall(f"{index}.{place}", tool, "{}") for place, (tool, _) in enumerate(calls))
    results = tuple(ToolResult(call.id, result) for call, (_, result) in zip(tool_calls, calls, strict=True))
    fields = {"turn": 1, "start_ms": index * 10_000, "duration_ms": 900, "model_ms": 500, **more}
    response = Response(
        text, tool_calls, usage=usage, reasoning=fields.pop("reasoning", ""), model=fields.pop("model", "")
    )
    return Step(index, response=response, results=results, **fields)


def billed_run(*steps: Step, compacted_before: Sequence[int] = (), **fields: Any) -> Run:
    """A run of such steps, with compactions before some of them."""
    events = tuple(Event(None, "compaction", {"after_step": step - 1}) for step in compacted_before)
    fields = {"run_id": "r", "agent": "a", "model": "m", "policy": "p", "task": "t", "source": "claude_code", **fields}
    prompt = fields.pop("prompt", (Message("user", (Text("x" * 40),)),))
    events += fields.pop("events", ())
    return Run(steps=steps, prompt=prompt, stop=Stop("finished", len(steps)), events=events, **fields)


_images: st.SearchStrategy[tuple[Image, ...]] = st.sampled_from([(), (), (Image(300, 200),), (Image(), Image(90, 90))])


@st.composite
def billed_runs(draw: st.DrawFn) -> Run:
    """A run with growth, falls, compactions, tiers, several models, and usage that contradicts itself or is unknown."""
    number = st.integers
    context, steps, inputs, compacted = draw(number(1, 600)), [], [], []
    for index in range(1, draw(number(1, 9)) + 1):
        change = draw(st.sampled_from(("grow", "grow", "grow", "shrink", "drop", "compaction")))
        if change == "compaction":
            compacted.append(index)
        context = max(1, context + draw(number(-60, -1) if change == "shrink" else number(0, 400)))
        context = context // 3 + 1 if change == "drop" else context
        usage = Usage(
            draw(st.sampled_from((context, context, context, context, None))),
            draw(st.sampled_from((0, 1, 7, 30, 200, None))),
            draw(st.one_of(st.none(), number(0, context + 50))),
            draw(st.one_of(st.none(), number(0, 250))),
            cache_write_tokens=draw(st.one_of(st.none(), number(0, context))),
            cache_write_1h_tokens=draw(st.one_of(st.none(), number(0, context))),
        )
        model = draw(st.sampled_from(("m", "m", "m", "n", "unlisted")))
        calls = [
            (draw(st.sampled_from(("read", "bash"))), "y" * draw(number(0, 300))) for _ in range(draw(number(0, 3)))
        ]
        text, reasoning = "t" * draw(number(0, 200)), "r" * draw(number(0, 200))
        step = billed_step(index, usage, *calls, text=text, model=model, reasoning=reasoning, turn=1 + index // 4)
        listed = list_cost(usage, rates_of(step) or RATES)
        cost = draw(st.sampled_from((listed, listed, listed, listed * 7 // 5, 0, None)))
        response = step.response._replace(usage=usage._replace(cost=cost))
        results = tuple(
            result and draw(st.sampled_from((result, result._replace(images=draw(_images)), None)))
            for result in step.results
        )
        steps.append(
            step._replace(response=response, results=results, error=draw(st.sampled_from(("", "", "", "cut"))))
        )
        if draw(st.booleans()):
            words = Text("u" * draw(number(0, 90)))
            inputs.append(Input(index + 1, Message("user", (words, *draw(_images)))))
    return billed_run(*steps, compacted_before=compacted, inputs=tuple(inputs))
