"""A notebook that is saved with widgets in it, and opened again without the kernel that made them."""

from typing import Final

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.support.project import ROOT

pytestmark = pytest.mark.slow
CELLS: Final = (
    f"import boolab as bl\nruns = bl.load_runs({str(ROOT / 'datasets/runs')!r})[:20]",
    "bl.Replay(runs[0])",
    "bl.CapLab(runs)",
    """
table = bl.counterfactual(runs, grid={"max_steps": [4, 8, None], "tool_budget": [6, None]}, aggregate=True)
bl.Heatmap(table, runs)
""",
    "bl.Compare(runs[0], runs[1])",
    "bl.SweepView()",
)
WIDGETS: Final = {1: "replay", 2: "caplab", 3: "heatmap", 4: "compare", 5: "sweep"}
ERROR: Final = "Error displaying widget"


def test_a_saved_notebook_shows_the_pages_of_its_widgets_without_a_kernel(lab: Lab) -> None:
    path = lab.write("saved.ipynb", CELLS)
    lab.open(path)
    lab.run_all()
    for number in WIDGETS:
        shown = lab.cell(number)
        shown.locator(".boolab").first.wait_for()
        expect(shown.locator(".boolab-saved")).to_be_hidden()  # the live widget alone
    lab.open_again(path)
    for number in WIDGETS:
        shown = lab.cell(number)
        expect(shown.locator(".boolab-saved")).not_to_have_css("height", "0px")
        expect(shown.get_by_text("Run the cell to make it live.")).to_be_in_viewport()
        expect(shown.locator(".untrusted")).to_be_hidden()
        expect(shown.locator(".boolab-saved iframe").content_frame.locator(".boolab").first).to_be_in_viewport()
        expect(shown.get_by_text(ERROR)).to_be_hidden()
