"""`max_context`: a run stops, is compacted or is handed off before a request that is too long."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Any

import pytest

import boolab as bl
from boolab.core.events import compactions_of
from boolab.core.redacted import chars_of
from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.limits.context_size import ContextSize
from tests.runtime.engine.test_clearing import AGENT, Worker, events_of
from tests.support.helpers import QUIET

FREE = bl.max_steps(1000)


def work(chars: int, rule: bl.StopRule, chars_per_token: float = 4, **options: Any) -> tuple[Worker, Run]:
    model = Worker([[chars]] * 30, chars_per_token)
    return model, bl.run_sync(AGENT, "go", model=model, stop=rule, **options)


@pytest.mark.parametrize("chars_per_token", [2, 3, 4])
def test_it_stops_before_the_request_that_would_be_too_long(chars_per_token: float) -> None:
    model, run = work(4000, FREE | bl.max_context(20_000), chars_per_token)
    assert run.stop_reason == "token_budget"
    assert run.stop.rule == "max_context(20000)"
    sent = [model.tokens(messages) for _, purpose, messages in model.requests if purpose == "step"]
    assert max(sent) < 20_000
    assert sent[-1] + 10 + 4000 / chars_per_token >= 20_000


def test_the_results_count_before_they_are_sent() -> None:
    _, run = work(400, FREE | bl.max_context(209))
    assert (run.stop_step, run.stop.value) == (1, 100 + 10 + 100)
    assert work(400, FREE | bl.max_context(211))[1].stop_step == 2


def test_a_counterfactual_names_the_same_boundary() -> None:
    _, free = work(4000, FREE, 3)
    for n in (5_000, 20_000):
        rule = bl.max_context(n)
        _, live = work(4000, rule, 3)
        row = bl.counterfactual([free], rules=[rule]).iloc[0]
        assert (row["stop_step"], row["stop_reason"]) == (live.stop_step, "token_budget")


def test_compact_summarises_in_place_of_a_stop() -> None:
    model, run = work(4000, FREE | bl.max_context(10_000, then="compact"))
    _, other = work(4000, FREE, compaction=bl.Compaction(at_tokens=9_999))
    assert run.stop_reason == "finished"
    assert (run.steps, run.compactions) == (other.steps, other.compactions)
    assert max(model.tokens(messages) for _, _, messages in model.requests) < 10_100


def test_compact_keeps_the_other_settings_of_a_compaction() -> None:
    rule = FREE | bl.max_context(10_000, then="compact")
    compaction = bl.Compaction(keep_steps=3, by=lambda _: "So far.")
    _, run = work(4000, rule, compaction=compaction)
    first = run.compactions[0]
    assert (first.before - first.kept_from, first.summary, first.response) == (3, "So far.", None)


def test_compact_alone_leaves_no_limit() -> None:
    _, run = work(4000, bl.max_context(10_000, then="compact"))
    assert (run.stop_reason, run.n_steps, run.limits) == ("finished", 31, {})


def test_compact_cannot_be_joined_with_and() -> None:
    with pytest.raises(SettingError, match="join it with | and not with &"):
        work(400, bl.max_context(10_000, then="compact") & bl.max_steps(2))


def handed_off(n: int = 20_000, **options: Any) -> Run:
    items = [{"tool_calls": [{"name": "look"}], "usage": {"input_tokens": n, "output_tokens": 0}}] * 2
    model = bl.ScriptedModel([*items, "Done."], summary="Two rooms were seen.", tools={"look": "a room"})
    agent = bl.Agent("a", policy=QUIET, prompt="Be brief.")
    return bl.run_sync(agent, "Look around.", model=model, stop=FREE | bl.max_context(n, "handoff"), **options)


def test_handoff_ends_with_a_summary_and_resume_starts_anew() -> None:
    first = handed_off()
    assert (first.stop_reason, first.stop.rule, first.n_steps) == ("token_budget", "max_context(20000, handoff)", 1)
    assert first.wrap_up is not None
    assert first.wrap_up.asked
    second = asyncio.run(bl.resume(first, "Continue.", model=bl.ScriptedModel(["A third room."])))
    assert second.run_id != first.run_id
    assert [message.text for message in second.prompt[:-2]] == ["Be brief.", "Look around."]
    assert "Two rooms were seen." in second.prompt[-2].text
    assert (second.prompt[-1].text, second.n_steps, second.text) == ("Continue.", 1, "A third room.")
    assert second.task == "Look around."
    assert events_of(second, "handoff") == [{"run_id": first.run_id, "step": 1, "after_step": 0}]
    assert bl.runs_df([first, second])["n_steps"].tolist() == [1, 1]


def test_a_second_handoff_has_the_latest_summary_alone() -> None:
    run = handed_off()
    for summary in ("Three rooms.", "Four rooms."):
        items = [{"tool_calls": [{"name": "look"}], "usage": {"input_tokens": 30_000, "output_tokens": 0}}]
        model = bl.ScriptedModel(items, summary=summary, tools={"look": "a room"})
        run = asyncio.run(bl.resume(run, "Continue.", model=model))
    last = asyncio.run(bl.resume(run, "Continue.", model=bl.ScriptedModel(["Done."])))
    assert len(last.prompt) == 4
    assert "Four rooms." in last.prompt[-2].text


def test_a_run_without_a_summary_is_not_handed_off() -> None:
    items = [{"tool_calls": [{"name": "look"}], "usage": {"input_tokens": 30_000, "output_tokens": 0}}]
    model = bl.ScriptedModel(items, tools={"look": "a room"})
    run = bl.run_sync(None, "Look.", model=model, stop=bl.max_context(9, "handoff"))
    with pytest.raises(SettingError, match="cannot be handed off: "):
        asyncio.run(bl.resume(run, "Continue."))


@pytest.mark.slow
def test_learned_characters_halve_the_errors_of_recorded_prompts() -> None:
    errors: dict[str, list[tuple[int, int]]] = {"codex": [], "all": []}
    for run in bl.load_dataset("atlas/coding-sessions"):
        detector, state, compacted = ContextSize(), ContextSize.start, compactions_of(run) or {}
        last: tuple[int, int, int] | None = None
        for step in run.steps:
            sent, output = step.response.usage.input_tokens, step.response.usage.output_tokens
            if last is not None and sent is not None and step.index not in compacted and sent > last[2]:
                error = abs(sent - last[0]), abs(sent - last[1])
                errors["all"].append(error)
                errors["codex"] += [error] if run.source == "codex" else []
            state = detector.compact(state, compacted.get(step.index) or None)
            chars = 0
            for call, result in zip(step.response.tool_calls, step.results, strict=True):
                if result is not None:
                    state, _ = detector.fold(state, bl.detectors.ObservedCall(call, result))
                    chars += chars_of(result.content)
            state, count = detector.close(state, step.response)
            tokens = (sent or 0) + (output or 0)
            last = None if count is None or chars < 2_000 else (count, tokens + ceil(chars / 4), tokens)
    shares = {
        name: sum(learned for learned, _ in rows) / sum(four for _, four in rows) for name, rows in errors.items()
    }
    assert len(errors["all"]) == 1_678
    assert {name: round(share, 2) for name, share in shares.items()} == {"all": 0.55, "codex": 1.19}


@pytest.mark.parametrize(("n", "options"), [(0, {}), ("9", {}), (9, {"then": "restart"}), (9, {"on_unknown": "x"})])
def test_values_that_are_not_accepted_are_refused(n: Any, options: Any) -> None:
    with pytest.raises(SettingError):
        bl.max_context(n, **options)


def test_what_follows_is_no_part_of_the_count() -> None:
    assert ContextSize("handoff") == ContextSize()
    both = bl.max_context(9) | bl.max_context(8, "handoff")
    assert len(both.detectors()) == 1
