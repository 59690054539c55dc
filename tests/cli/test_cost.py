"""The command `boolab cost`: the bill, its causes, and misses of the cache."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.report.context_text import threshold_sentence
from boolab.report.cost_text import _with_notes
from boolab.stats.cost.allocated import allocate_runs
from boolab.stats.cost.policy_costs import basis_of
from tests.support.billed_runs import billed_run, billed_step, priced_usage
from tests.support.samples import OWN

LISTED = "claude-sonnet-4-5"


def session() -> Run:
    """Steps with calls of eight tools, a miss and a compaction."""
    tools = ("read", "bash", "edit", "write", "grep", "glob", "fetch", "task")
    steps = [billed_step(1, priced_usage(20_000, 100, five=20_000), (tools[0], "y" * 9000), model=LISTED)]
    for index, tool in enumerate(tools[1:], 2):
        context = 20_000 + 3000 * index
        usage = priced_usage(context, 100, read=0 if index == 5 else context - 3000, five=3000)
        steps.append(billed_step(index, usage, (tool, "z" * 9000), model=LISTED, text="Ok."))
    steps.append(billed_step(9, priced_usage(21_000, 100, five=21_000), model=LISTED))
    return billed_run(*steps, compacted_before=[9])


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "runs.jsonl"
    bl.save_runs([session()], path)
    return str(path)


def test_cost_prints_the_bill_in_at_most_20_lines(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", saved]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 20
    bill = sum(step.response.usage.cost or 0 for step in session().steps) / 1e6
    assert lines[0].startswith(f"${bill:,.2f} for 1 run with 9 requests")
    assert [line.split("  ")[0] for line in lines[2:6]] == [
        "written by the model",
        "sent the first time",
        "sent again, from the cache",
        "sent again, cache missed",
    ]
    text = " ".join(lines)
    assert "system prompt, tools" in text
    assert "1 miss of the cache cost $0.11 extra: 1 unexplained $0.11." in text
    assert "wrote the summary of a compaction is on no line of the logs" in text


def test_cost_without_list_prices_says_what_to_install(
    saved: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boolab.core.prices.find_spec", lambda _: None)
    assert main(["cost", saved]) == 0
    printed = capsys.readouterr().out
    pieces = {line[:26].strip(): line.split()[-2] for line in printed.splitlines()[2:7]}
    assert pieces == dict.fromkeys(
        ("written by the model", "sent the first time", "sent again, from the cache", "sent again, cache missed"), "0%"
    ) | {"not divided": "100%"}
    words = " ".join(printed.split())
    assert "not divided by cause: list prices need the package genai-prices, which is not installed:" in words
    assert "pip install 'boolab[prices]'" in words
    assert "extra" not in words.split("not divided by cause")[0].split("cache:")[-1]


def test_cost_compares_the_bill_with_the_stated_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.jsonl"
    usage = priced_usage(20_000, 100, five=20_000)
    step = billed_step(1, usage._replace(cost=2 * (usage.cost or 0)), model=LISTED)
    bl.save_runs([billed_run(step, source="boolab")], path)
    assert main(["cost", str(path)]) == 0
    printed = capsys.readouterr()
    assert "The logs of 1 run state $0.15; list prices give $0.08." in " ".join(printed.out.split())
    assert "$0.0765 less at list prices than the $0.1530 that its log states" in " ".join(printed.err.split())


def test_cost_by_columns_prints_a_row_for_each(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", saved, "--by", "kind,model"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["kind", "model", "cost", "share", "measured"]
    assert any(row.split()[:2] == ["result", LISTED] for row in rows)


def test_cost_prints_each_miss(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", saved, "--misses"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["r", "5", "32,000", "$0.11", "9.5", "s", "unexplained"]


def test_cost_writes_the_rows_as_csv(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cost.csv"
    assert main(["cost", saved, "--by", "tool", "--csv", str(out)]) == 0
    table = pd.read_csv(out)
    assert round(table["total_usd"].sum() * 1e6) == sum(step.response.usage.cost or 0 for step in session().steps)
    assert main(["cost", saved, "--misses", "--csv", str(out)]) == 0
    assert pd.read_csv(out)["cause"].tolist() == ["unexplained"]
    assert "wrote" in capsys.readouterr().err


def test_cost_of_totals_only_has_ranks_and_no_dollars(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(OWN / "swe_agent")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Causes by rank: .*;", text)
    assert "no dollars by cause" in text
    assert "$" not in text


def test_cost_by_tool_of_totals_only_prints_the_rank(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(OWN / "swe_agent"), "--by", "tool"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["tool", "rank"]
    assert lines[1].split()[-1] == "1"


def test_the_bill_and_its_causes_name_all_requests(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs = [saved, str(OWN / "swe_agent")]
    assert main(["cost", *logs]) == 0
    overview = capsys.readouterr().out.split(", from the logs")[0]
    assert main(["cost", *logs, "--model", LISTED]) == 0
    assert overview.split()[-2:] == capsys.readouterr().out.split()[3:5]


def test_the_bill_ends_with_whole_sentences() -> None:
    notes = [f"This is note {n} of some length, which is as long as others are." for n in range(12)]
    lines = _with_notes(["a line"] * 12 + [""], notes).splitlines()
    assert len(lines) <= 20
    assert lines[-1].endswith(".")
    assert " more notes." in lines[-1]
    assert "" not in lines


@pytest.mark.parametrize("options", [[], ["--units"], ["--compact-at", "9000"]])
def test_cost_of_an_empty_folder_is_an_error(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", str(tmp_path), *options]) == 1
    assert "no log was found" in capsys.readouterr().err


def test_keep_needs_a_compaction_threshold(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", saved, "--keep", "2"]) == 1
    assert "expected --compact-at too" in capsys.readouterr().err


def test_a_cache_lifetime_without_times_names_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.jsonl"
    steps = [step._replace(start_ms=None, duration_ms=None, model_ms=None) for step in session().steps]
    bl.save_runs([replace(session(), steps=tuple(steps))], path)
    assert main(["cost", str(path), "--cache", "1h"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert words.startswith("1 run left out: the log has no times")


def test_cost_refuses_an_unknown_column(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cost", saved, "--by", "colour"])
    assert "'colour': accepted are kind, tool, step" in " ".join(capsys.readouterr().err.split())


def test_cost_names_requests_without_a_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.jsonl"
    step = billed_step(1, priced_usage(500, 5)._replace(cost=None))
    bl.save_runs([billed_run(step, source="boolab")], path)
    assert main(["cost", str(path), "--by", "tool"]) == 0
    assert main(["cost", str(path)]) == 0
    assert "The cost of 1 request is not known." in capsys.readouterr().out


def test_units_prints_what_each_budget_saves(tmp_path: Path, saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [billed_run(*(billed_step(i, priced_usage(9000 * i, 50), ("ls", "a") if i < n else ("ls", "b"))
                         for i in range(1, n + 1)), run_id=str(n), task=str(n)) for n in range(1, 21)]  # fmt: skip
    path, out = tmp_path / "many.jsonl", tmp_path / "units.csv"
    bl.save_runs(runs, path)
    assert main(["cost", str(path), "--units", "--csv", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    bill = sum(step.response.usage.cost or 0 for run in runs for step in run.steps) / 1e6
    assert lines[0] == f"20 runs that cost ${bill:,.2f}. A budget that stops at most 5%:"
    assert lines[1].split("  ")[0] == "budget"
    cells = {line.split()[0]: line.split()[1:] for line in lines[2:]}
    assert [*cells] == ["cost", "tokens", "steps", "weighted", "fresh", "context", "minutes"]
    assert cells["steps"][:2] == ["19", "1"]
    assert pd.read_csv(out)["budget"].tolist() == [*cells]
    assert main(["cost", saved, "--units"]) == 0
    assert capsys.readouterr().out == "No budget stops at most 5% of 1 run.\n"


def test_cost_has_a_line_on_the_cheapest_threshold(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", saved]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 20
    text = " ".join(lines)
    assert re.search(
        r"Compaction would cost least at [\d,]+ tokens \([\d,]+ to [\d,]+\) if the steps stay the same", text
    )
    assert re.search(r"one pays after \d+ more steps, which 0 of 1 run had", " ".join(text.split()))


def test_facts_have_bounds_for_what_is_read_again(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "facts.jsonl"
    bl.save_runs(bl.load_runs(saved), path, contents="facts")
    assert main(["cost", str(path), "--compact-at", "24000"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "Which files are named again is not on record: at most is with 30% of what is removed read again" in words
    assert "With it" not in threshold_sentence(basis_of(allocate_runs(bl.load_runs(path))))


def test_cost_prints_the_bill_with_the_cheapest_threshold() -> None:
    usages = [priced_usage(20_000 + 4000 * n, 100, read=16_000 + 4000 * n, five=4000) for n in range(1, 60)]
    steps = [billed_step(n, usage, ("ls", "z" * 12_000), model=LISTED) for n, usage in enumerate(usages, 1)]
    sentence = threshold_sentence(basis_of(allocate_runs(billed_run(*steps))))
    short = threshold_sentence(basis_of(allocate_runs(billed_run(*steps[:9]))))
    assert "With it" not in short  # no prompt is so long
    assert re.search(r"had\. With it the recorded steps would have cost \d+% less", sentence)


def test_cost_prints_other_context_policies(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "policies.csv"
    command = ["cost", saved, "--compact-at", "24000", "90000", "--keep", "1", "--cache", "1h", "--csv", str(out)]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "1 run under other policies, all with keep_steps=1 and cache=1h:"
    assert [line.split()[0] for line in lines[1:5]] == ["policy", "as", "compact_at=24,000", "compact_at=90,000"]
    printed = " ".join(lines)
    assert re.search(r"With compact_at=\d+,000, keep_steps=1, cache=1h", printed)
    assert re.search(r"they would have cost \d+% (less|more) .*if the steps stay the same", printed)
    assert re.search(r"The walk under the recorded policy gives 1.0\d+ of the bill", printed)
    assert "The outcome is not on record" in printed
    assert pd.read_csv(out)["compact_at"].tolist() == [24_000, 90_000]


def test_cost_refuses_policies_of_runs_without_prices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(OWN / "swe_agent"), "--compact-at", "9000"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "left out: the tokens of its requests are not on record." in text
    assert "$" not in text


def test_cost_prints_tails_and_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = session().steps
    runs = [replace(session(), run_id=f"r{n}", task=f"t{n}", steps=steps[: 2 + n % 8]) for n in range(90)]
    path, out = tmp_path / "runs.jsonl", tmp_path / "tails.csv"
    bl.save_runs(runs, path)
    assert main(["cost", str(path), "--tails", "--csv", str(out)]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert words.startswith("90 runs of 90 tasks, as recorded; 95% intervals count tasks. half within 95% within most")
    assert "The dearest run cost $0.40. A step cap of 9, the most steps on record, bounds it by $10.81" in words
    assert "no interval: no hard limit bounds it" in words
    assert pd.read_csv(out)["measure"].tolist() == ["cost_usd", "steps", "minutes"]


def test_cost_prints_how_many_tasks_tails_need(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", saved, "--tails"]) == 0
    assert "the upper end of the 95% needs 71 more tasks" in " ".join(capsys.readouterr().out.split())


def test_cost_prints_the_tokens_at_another_price(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", saved, "--model", "claude-haiku-4-5"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert main(["cost", saved, "--model", "nobody-1"]) == 0
    assert "9 requests left out: no list price is known of the model." in capsys.readouterr().out
    assert "The tokens of 9 requests at the list prices of claude-haiku-4-5:" in words
    assert "That is arithmetic on the tokens on record" in words
    dollars = [float(word[1:]) for word in words.split() if word.startswith("$")]
    assert dollars[1] == pytest.approx(dollars[0] / 3, abs=0.01)
