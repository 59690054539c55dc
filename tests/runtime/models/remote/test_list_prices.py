"""List prices for logs that tell tokens and no cost: each kind of token at its own price; what is unknown stays so."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.cli.main import main
from boolab.core import prices
from boolab.core.run import Run
from boolab.core.types import MICRO, Usage
from boolab.errors import SettingError
from boolab.logs.list_prices import price_notes, price_runs, step_rates
from boolab.store.writer import Store
from tests.support.project import ROOT

OPUS, SONNET = "claude-opus-4-6", "claude-sonnet-4-5-20250929"
LOGS = ROOT.parent / "shared" / "data"


def claude_log(path: Path, *replies: tuple[str, dict[str, Any]]) -> Path:
    """A session of Claude Code in which each reply calls a tool, and the last one does not."""
    at = "2026-03-01T00:00:{:02d}.000Z"
    lines: list[dict[str, Any]] = [{"type": "user", "message": {"role": "user", "content": "Go"}}]
    for place, (model, usage) in enumerate(replies):
        last = place == len(replies) - 1
        call = {"type": "tool_use", "id": f"t{place}", "name": "Bash", "input": {"command": f"ls {place}"}}
        content = [{"type": "text", "text": "Done."}] if last else [call]
        message = {"id": f"m{place}", "role": "assistant", "model": model, "content": content, "usage": usage}
        lines.append({"type": "assistant", "message": message})
        if not last:
            result = {"type": "tool_result", "tool_use_id": f"t{place}", "content": "a.py"}
            lines.append({"type": "user", "message": {"role": "user", "content": [result]}})
    parent = None
    with path.open("w") as file:
        for place, line in enumerate(lines):
            about = {"uuid": f"u{place}", "parentUuid": parent, "sessionId": "s", "timestamp": at.format(place)}
            file.write(json.dumps({**about, **line}) + "\n")
            parent = f"u{place}"
    return path


def usage(plain: int, read: int, short: int, hour: int, output: int) -> dict[str, Any]:
    return {
        "input_tokens": plain,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": short + hour,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": hour},
        "output_tokens": output,
    }


def costs(runs: list[Run]) -> list[int | None]:
    return [step.response.usage.cost for run in runs for step in run.steps]


def test_list_price_depends_on_the_token_kind_and_model(tmp_path: Path) -> None:
    log = claude_log(
        tmp_path / "s.jsonl",
        (OPUS, usage(1_000, 100_000, 3_000, 40_000, 500)),
        (OPUS, usage(10, 0, 0, 0, 20)),
        (SONNET, usage(100, 1_000, 2_000, 3_000, 70)),
        ("a-model-of-mine", usage(100, 0, 0, 0, 70)),
    )
    runs = bl.load_runs(log, prices=False)
    assert costs(runs) == [None] * 4
    opus = 5 * 1_000 + 0.5 * 100_000 + 6.25 * 3_000 + 10 * 40_000 + 25 * 500  # dollars for a million tokens
    sonnet = 3 * 100 + 0.3 * 1_000 + 3.75 * 2_000 + 6 * 3_000 + 15 * 70
    assert costs(bl.priced(runs)) == [round(opus), 5 * 10 + 25 * 20, round(sonnet), None]
    assert costs(bl.load_runs(log)) == costs(bl.priced(runs)) == costs(list(bl.read_logs(log).runs))
    assert bl.runs_df(bl.priced(runs))["cost_usd"].isna().tolist() == [True]
    assert costs(runs) == [None] * 4  # the records stay as they are
    found = price_runs(runs)
    assert (found.n_priced, dict(found.unpriced)) == (3, {"a-model-of-mine": 1})
    for name in ("runs.jsonl", "runs.parquet"):
        bl.save_runs(runs, tmp_path / name)
        assert bl.load_runs(tmp_path / name, prices=False) == runs
        assert bl.load_runs(tmp_path / name) == bl.priced(runs)
    with Store(tmp_path / "runs.db") as store:
        store.add(runs[0])
    assert costs(bl.priced(tmp_path / "runs.db")) == costs(bl.priced(runs))


counts = st.integers(0, 10**6)


@given(st.tuples(counts, counts, counts, counts, st.integers(0, 10**5)))
def test_a_step_of_claude_code_costs_what_genai_prices_says(figures: tuple[int, int, int, int, int]) -> None:
    plain, read, short, hour, output = figures
    used = Usage(plain + read + short + hour, output, read, None, None, short + hour, hour)
    asked = genai_prices.Usage(
        input_tokens=sum(figures[:4]),
        cache_read_tokens=read,
        cache_write_tokens=short + hour,
        cache_write_1h_tokens=hour,
        output_tokens=output,
    )
    for model in (OPUS, SONNET):
        expected = genai_prices.calc_price(asked, model, provider_id="anthropic").total_price
        assert prices.list_price(used, prices.PricedRequest(model, "anthropic")).cost == round(expected * MICRO)


def each_usage(path: Path) -> Iterator[tuple[str, genai_prices.Usage]]:
    """The responses of a file of Claude Code with their figures, read by other means: the last line of each id."""
    last: dict[str, tuple[str, genai_prices.Usage]] = {}
    for line in path.read_text().splitlines():
        message = json.loads(line).get("message")
        if isinstance(message, dict) and message.get("role") == "assistant" and message.get("usage"):
            told = message["usage"]
            written, read = told.get("cache_creation_input_tokens", 0), told.get("cache_read_input_tokens", 0)
            last[message["id"]] = (
                message["model"],
                genai_prices.Usage(
                    input_tokens=told["input_tokens"] + written + read,
                    cache_write_tokens=written,
                    cache_write_1h_tokens=told.get("cache_creation", {}).get("ephemeral_1h_input_tokens", 0),
                    cache_read_tokens=read,
                    output_tokens=told["output_tokens"],
                ),
            )
    yield from last.values()


@pytest.mark.skipif(not LOGS.exists(), reason="the sample logs (shared/data) are not beside this checkout")
@pytest.mark.parametrize("name", ["tool_heavy", "short"])
def test_a_real_session_of_claude_code_costs_what_its_lines_say(name: str) -> None:
    path = LOGS / "claude-code" / "spotter" / f"{name}.jsonl"
    runs = bl.load_runs(path)
    expected = [genai_prices.calc_price(used, model, provider_id="anthropic").total_price
                for model, used in each_usage(path)]  # fmt: skip
    assert costs(runs) == [round(price * MICRO) for price in expected]


@pytest.mark.skipif(not LOGS.exists(), reason="the sample logs (shared/data) are not beside this checkout")
def test_a_real_session_of_codex_costs_what_its_reports_say() -> None:
    for path in sorted((LOGS / "agtrace").rglob("*.jsonl")):
        (run, *_) = bl.load_runs(path) if "token_count" in path.read_text() else [None]
        if run is None or run.source != "codex" or not run.model:
            continue
        for step in run.steps:
            used = step.response.usage
            if used.input_tokens is None or used.cached_tokens is None or used.output_tokens is None:
                assert used.cost is None
                continue
            table = genai_prices.calc_price(
                genai_prices.Usage(), step.response.model or run.model, provider_id="openai"
            )
            per: Any = table.model_price
            plain = used.input_tokens - used.cached_tokens  # the cached ones are among the input
            dollars = per.input_mtok * plain + per.cache_read_mtok * used.cached_tokens
            assert used.cost == round(dollars + per.output_mtok * used.output_tokens)


@pytest.mark.skipif(not LOGS.exists(), reason="the sample logs (shared/data) are not beside this checkout")
def test_each_step_of_a_real_session_of_pi_costs_its_own_figure() -> None:
    path = LOGS / "pi" / "large-session.jsonl"
    (run,) = bl.load_runs(path, prices=False)
    messages = [json.loads(line).get("message", {}) for line in path.read_text().splitlines()]
    usages = [message["usage"] for message in messages if "usage" in message]
    stated = [usage["cost"]["total"] for usage in usages if usage["cost"]["total"]]
    units = []
    for step in run.steps:
        rates, used = step_rates(step, run), step.response.usage
        assert rates is not None
        written, read, output = used.cache_write_tokens or 0, used.cached_tokens or 0, used.output_tokens or 0
        fresh = (used.input_tokens or 0) - written - read
        units.append(fresh * rates.fresh + read * rates.read + written * rates.write_5m + output * rates.output)
    assert len(units) == len(stated) == 439
    assert all(abs(unit / 1e10 - dollars) < 1e-9 for unit, dollars in zip(units, stated, strict=True))
    assert f"{sum(units) / 1e10:.6f}" == "30.330198"


def test_notes_bound_the_cost_of_unknown_cache_reads(tmp_path: Path) -> None:
    (run,) = bl.load_runs(claude_log(tmp_path / "s.jsonl", (OPUS, usage(100_000, 0, 0, 0, 20))), prices=False)
    (step,) = run.steps
    unread = step.response.usage._replace(cached_tokens=None)
    without = replace(run, steps=(step._replace(response=step.response._replace(usage=unread)),))
    (note,) = price_notes([without])
    assert note.startswith("How much of the input of 1 step was read from the cache is not on record")
    assert note.endswith("between $0.05 (all of it) and $0.50 (none).")
    fast = replace(run, steps=(step._replace(response=step.response._replace(speed="fast")),))
    assert price_notes([fast]) == (
        "No list price is known of claude-opus-4-6 (fast), so the cost of 1 step is not known.",
    )


def test_list_price_leaves_recorded_costs_unchanged(tmp_path: Path) -> None:
    (run,) = bl.load_runs(claude_log(tmp_path / "s.jsonl", (OPUS, usage(10, 0, 0, 0, 20))), prices=False)
    (step,) = run.steps
    told = step._replace(response=step.response._replace(usage=step.response.usage._replace(cost=7)))
    for other in (replace(run, steps=(told,)), replace(run, source="openai_chat"), replace(run, source="")):
        assert bl.priced(other) == [other]


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return re.sub(r"\s+", " ", capsys.readouterr().out)


def test_whatif_names_the_source_of_list_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = claude_log(tmp_path / "s.jsonl", *[(OPUS, usage(1_000, 195_000, 0, 4_000, 500))] * 4)
    total = 4 * (5 * 1_000 + 0.5 * 195_000 + 10 * 4_000 + 25 * 500) / MICRO
    text = said(capsys, "whatif", log)
    assert "cost saved" in text
    assert f"of ${total:,.2f}" in text
    marked = f"Cost of 4 steps: from tokens at list prices of genai-prices {version('genai-prices')}, not from the log."
    assert marked in text
    assert "800,000 input tokens in 4 steps, 97.5% of them cached" in text
    shown = json.loads(said(capsys, "whatif", log, "--json"))
    assert any(note.startswith(marked) for note in shown["data"]["notes"])
    assert shown["recommendation"]["groups"][0]["objective"] == "cost"
    off = json.loads(said(capsys, "whatif", log, "--json", "--no-prices"))
    assert off["recommendation"]["groups"][0]["objective"] == "tokens"
    # The same runs give the same answer by hand.
    by_hand = bl.recommend(bl.load_runs(log))
    assert by_hand["spent"].tolist() == [row["spent"] for row in shown["recommendation"]["groups"]]
    assert by_hand["objective"].tolist() == ["cost"]
    assert any(note.startswith(marked) for note in by_hand.notes)
    assert any(note.startswith(marked) for note in bl.audit(log).notes)
    without = bl.recommend(bl.load_runs(log, prices=False))
    assert without["objective"].tolist() == ["tokens"]
    assert "The cost of 4 steps is left out, though list prices of the models are known." in without.notes
    # What was imported has no prices of its own.
    assert main(["import", str(log), "-o", str(tmp_path / "kept.jsonl")]) == 0
    assert costs(bl.load_runs(tmp_path / "kept.jsonl", prices=False)) == [None] * 4
    assert bl.load_runs(tmp_path / "kept.jsonl") == bl.load_runs(log)
    monkeypatch.setattr(prices, "_PACKAGE", "no_such_package")
    text = said(capsys, "whatif", log)
    assert "tokens saved" in text
    assert text.count("pip install 'boolab[prices]'") == 1
    with pytest.raises(SettingError, match=r"pip install 'boolab\[prices\]'"):
        bl.priced([])


def test_the_dearest_rates_cover_each_kind_of_token_and_length() -> None:
    model = bl.AnthropicModel("claude-sonnet-4-5", api_key="k")
    assert model.request_rates == (120_000, 225_000)  # an hour in the cache, above 200,000 tokens
    assert bl.OpenAIModel("claude-sonnet-4-5", base_url="http://127.0.0.1:8080/v1").request_rates is None
    assert bl.AnthropicModel("claude-sonnet-4-5", api_key="k", prices=False).request_rates is None
    assert bl.AnthropicModel("claude-sonnet-9", api_key="k").request_rates is None
