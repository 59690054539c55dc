"""Where the money goes, in the report: and that each surface has the same numbers."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.core.types import Usage
from boolab.display.numbers import money
from boolab.report.bill_data import bill_data
from boolab.report.html_page import page_of
from boolab.report.question import Question
from boolab.report.study import study_of
from boolab.widgets.replay.bill import bill_of
from tests.support.billed_runs import billed_run, billed_step, priced_usage
from tests.support.report_cases import draw_no_figures

LISTED = "claude-sonnet-4-5"


def session() -> Run:
    """A session with calls of twelve tools, of which the seventh request missed the cache after an hour."""
    steps = []
    for index in range(1, 13):
        context = 20_000 + 3000 * index
        read = 0 if index in (1, 7) else context - 3000
        usage = priced_usage(context, 90 + index, read=read, five=context - read)
        start_ms = index * 10_000 + 3_600_000 * (index >= 7)
        steps.append(billed_step(index, usage, (f"tool{index}", "y" * 9000), model=LISTED, start_ms=start_ms))
    return billed_run(*steps)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("money") / "runs.jsonl"
    bl.save_runs([session()], path)
    return path


@pytest.fixture(scope="module")
def report(path: Path) -> str:
    """The text of the report's part about money."""
    with pytest.MonkeyPatch.context() as patch:
        draw_no_figures(patch)
        page = page_of(study_of([str(path)], Question()))
    found = re.search(r'<details class="fold" id="money">(.*?)</details>', page, re.DOTALL)
    assert found is not None
    return " ".join(re.sub(r"<[^>]+>", " ", found[1]).split())


def test_the_report_has_the_bill_its_causes_and_its_misses(report: str) -> None:
    assert report.startswith("Where the money goes $")
    assert report.count(" tool1 ") == 1
    assert "4 further causes not listed: boolab cost has all." in report
    assert "1 miss of the cache cost" in report


def test_all_surfaces_have_the_same_bill(report: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = session()
    assert main(["cost", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    title = bl.plots.plot_bill(run).get_figure(root=True).get_suptitle()  # type: ignore[union-attr]
    plt.close("all")
    replay, causes, misses = bill_of(run), bl.cost_by(run), bl.cache_misses_df(run)
    assert replay is not None

    bill = sum(step.response.usage.cost or 0 for step in run.steps) / 1e6
    assert causes["total_usd"].sum() == pytest.approx(bill, abs=1e-9)
    assert bl.context_df(run)["cost_usd"].sum() == pytest.approx(bill, abs=1e-9)
    assert sum(usd for _, usd in replay["pieces"]) == pytest.approx(bill, abs=2e-6)
    for surface in (report, printed, title):
        assert f"${bill:,.2f} for " in surface

    for name, usd in replay["pieces"]:
        row = f"{name} {usd / bill:.0%} ${usd:,.2f}"
        assert row in report
        assert row in printed

    (extra,) = misses["extra_usd"]
    (missed,) = replay["misses"]
    assert missed["usd"] == extra
    assert missed["text"].startswith(f"{money(extra)} extra, ")
    assert title.endswith(f"${extra:,.2f} of it for cache misses")
    for surface in (report, printed):
        assert f"1 miss of the cache cost ${extra:,.2f} extra: 1 expired ${extra:,.2f}." in surface

    dearest = causes.iloc[0]
    row = f"${dearest['total_usd']:,.2f} {dearest['share']:.0%} {dearest['share_measured']:.0%}"
    assert f"system prompt, tools {row}" in report
    assert f"system prompt, tools {row}" in printed


def test_without_a_cost_the_report_has_no_bill() -> None:
    assert bill_data([billed_run(*(billed_step(index, Usage(100 * index, 5)) for index in (1, 2)))]) is None
    assert bill_data([]) is None
