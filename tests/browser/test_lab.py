"""Every widget in a real JupyterLab, with a real kernel: driven in the page, and asked about in Python."""

import io
from collections.abc import Iterator
from typing import Final

import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from tests.browser.hostile import MARKUP
from tests.browser.lab import Lab
from tests.browser.test_access import DRAWN, PALE
from tests.support.project import ROOT

pytestmark = pytest.mark.slow
CELLS: Final = {
    "runs": f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from dataclasses import replace
from IPython.display import display
import boolab as bl
runs = bl.load_runs({str(ROOT / "datasets/runs")!r})[:50]
longest = max(runs, key=lambda run: run.n_steps)
""",
    "Replay": "replay = bl.Replay(longest)\nreplay",
    "CapLab": "lab = bl.CapLab(runs)\nlab",
    "Heatmap": """
grid = {"max_steps": [4, 8, 12, 16, None], "tool_budget": [6, 12, None]}
heatmap = bl.Heatmap(bl.counterfactual(runs, grid=grid, aggregate=True, progress=False), runs)
heatmap
""",
    "SweepView": "view = bl.SweepView()\nview",
    "a sweep": """
import asyncio
gates = asyncio.Queue()
async def ls():
    await gates.get()
    return "a.py"
stuck = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}])
grid = {"max_steps": [1, 2, 3, 4], "doom_loop": [None]}
sweeping = asyncio.ensure_future(
    bl.sweep(bl.Agent("walker"), "go", stuck, grid=grid, tools=[ls], concurrency=1, progress=view)
)
""",
    "Compare": "compared = bl.Compare(longest, min(runs, key=lambda run: run.n_steps))\ncompared",
    "AgentEditor": """
import shutil
from pathlib import Path
from boolab.io.resources import data_path
path = Path(shutil.copy(data_path("agents") / "AGENTS.md", "AGENTS.md"))
editor = bl.AgentEditor(path)
editor
""",
    "figure": "bl.plots.plot_steps(runs).figure",
    "watch": """
from tests.support.growing import claude_lines, encoded
growing = [encoded(line) for line in claude_lines(4, same=True)]
log = Path("growing.jsonl")
log.write_bytes(b"".join(growing[:3]))
watched = bl.watch(log, bl.doom_loop(3), prices=False)
watched
""",
    "dollars": """
from IPython.display import HTML
import pandas as pd
money = "Saves $6.94 of $21.86, $x$"
display(HTML(f"<p class=control>{money}</p>"))
table = pd.DataFrame({"said": [money]})
from boolab.stats.finding import Finding

display(Finding(money, table, (money,), (money,)))
bl.compare_policies("boocode", bl.policies["opencode_v1"].vary(name="$a$"))
""",
    "hostile": """
from tests.browser.hostile import hostile_run
hostile = bl.Replay(hostile_run())
hostile
""",
}


@pytest.fixture(scope="module")
def book(lab: Lab) -> Iterator[Lab]:
    """A notebook with every widget in it, run from top to bottom."""
    lab.open(lab.write("widgets.ipynb", [*CELLS.values()]))
    lab.run_all()
    yield lab
    assert lab.watch.seen == []


def cell(book: Lab, name: str) -> Locator:
    """What the cell of a widget shows, as far as it is drawn."""
    shown = book.cell([*CELLS].index(name))
    shown.locator(".boolab").first.wait_for()
    return shown


def test_dollars_stay_dollars(book: Lab) -> None:
    shown = book.cell([*CELLS].index("dollars"))
    shown.locator(".control mjx-container").first.wait_for()  # what is not protected is typeset
    mine = shown.locator(".mathjax_ignore")
    expect(mine).to_have_count(2)
    expect(mine.locator("mjx-container")).to_have_count(0)
    money = "Saves $6.94 of $21.86, $x$"
    for place in ("strong", "li", "p:not(:first-child)", "td"):
        expect(mine.first.locator(place)).to_have_text(money)
    expect(mine.last).to_contain_text("$a$")


def test_replay_goes_with_keys_and_python_knows_the_step(book: Lab) -> None:
    replay = cell(book, "Replay").locator(".boolab-replay").first
    last = book.ask("longest.n_steps")
    for key, step in (("Home", 1), ("ArrowRight", 2), ("Shift+ArrowRight", 12), ("ArrowLeft", 11), ("End", last),
                      ("Shift+ArrowLeft", last - 10), ("Home", 1)):  # fmt: skip
        replay.focus()
        replay.press(key)
        expect(replay.locator(".step-number").first).to_contain_text(f"step {step} of {last}")
        book.becomes("replay.step", step)
    assert book.notebook.locator(".jp-Cell").count() == len(CELLS)  # and the notebook took none of the keys


def test_replay_follows_python(book: Lab) -> None:
    replay = cell(book, "Replay").locator(".boolab-replay").first
    book.ask("[setattr(replay, 'step', 7)]")
    expect(replay.locator(".step-number").first).to_contain_text("step 7 of")
    expect(replay.locator(".timeline").first).to_have_attribute("aria-valuenow", "7")


def test_caplab_slider_changes_numbers_in_python_and_on_the_page(book: Lab) -> None:
    lab = cell(book, "CapLab")
    figure = lab.locator(".boolab-caplab .answer")
    book.becomes("lab._search is None", True)  # till then it may open on another setting
    before, kept = book.ask("lab.setting"), book.ask("lab.answer['kept']")
    expect(lab.locator(".label strong")).to_have_text(str(before["max_steps"] or "no limit"))
    shown = figure.inner_text()
    slider = lab.locator(".boolab-cap input")
    slider.focus()
    slider.press("Home")
    book.becomes("lab.setting['max_steps']", 1)
    slider.press("ArrowRight")  # a shortcut of the notebook's elsewhere
    book.becomes("lab.setting['max_steps']", 2)
    lab.locator(".column > .below").evaluate("(one) => one.scrollIntoView()")
    expect(lab.locator(".thumb")).to_be_in_viewport()
    expect(lab.locator(".side .label")).to_be_in_viewport()  # it stays in view
    expect(figure).not_to_have_text(shown, use_inner_text=True)
    steps = book.ask("lab.setting['max_steps']")
    expect(lab.locator(".label strong")).to_have_text(str(steps))
    table = f"bl.counterfactual(runs, grid={{'max_steps': [{steps}]}}, aggregate=True, progress=False)"
    lower, upper = book.ask(f"{table}[['kept_lower', 'kept_upper']].iloc[0].astype(int).tolist()")
    now = book.ask("lab.answer['kept']")
    assert (now["lower"], now["upper"]) == (lower, upper) != (kept["lower"], kept["upper"])
    expect(figure).to_contain_text(f"of {now['of']}")
    book.ask(f"[setattr(lab, 'setting', {{'max_steps': {before['max_steps']}}})]")
    expect(lab.locator(".label strong")).to_have_text(str(before["max_steps"] or "no limit"))
    expect(figure).to_have_text(shown, use_inner_text=True)


def test_the_controls_of_caplab_ask_python(book: Lab) -> None:
    lab = cell(book, "CapLab")
    lab.locator(".boolab-keep").select_option("0.9")
    book.becomes("lab.keep", 0.9)
    expect(lab.locator(".figure text.label.keep").last).to_have_text("keep 90%")
    lab.locator(".boolab-exempt summary").click()
    box = lab.locator(".boolab-exempt input").first
    tool = lab.locator(".boolab-exempt .tool").first.inner_text()
    box.check()
    book.becomes("lab.setting['identity']", {"*": "canonical", tool: None})
    expect(lab.locator(".boolab-exempt summary b")).to_have_text(tool)
    box.uncheck()
    book.becomes("lab.setting['identity']", "canonical")
    lab.locator(".boolab-counting summary").click()
    lab.locator(".boolab-same").select_option("raw")
    book.becomes("lab.setting['identity']", "raw")
    lab.locator(".boolab-same").select_option("canonical")
    lab.locator(".boolab-keep").select_option("0.95")
    book.becomes("[lab.keep, lab.setting['identity']]", [0.95, "canonical"])


def test_a_run_that_caplab_would_cut_opens_where_it_is_cut(book: Lab) -> None:
    lab = cell(book, "CapLab")
    book.ask("[setattr(lab, 'setting', {'max_steps': 5})]")
    lab.locator(".boolab-caplab .run-row button.open").first.click()
    book.becomes("lab.opened is not None", True)
    opened = book.ask("lab.opened")
    replay = lab.locator(".boolab-replay")
    expect(replay.locator(".step-number").first).to_contain_text(f"step {opened['step']} of")
    assert opened["step"] == 5
    assert book.ask("lab.replay.step") == 5


def test_click_on_heatmap_then_run_opens_replay_at_its_stop(book: Lab) -> None:
    heatmap = cell(book, "Heatmap")
    heatmap.locator(".cell[data-x='8'][data-y='12']").click()
    book.becomes("heatmap.selected", {"max_steps": 8, "tool_budget": 12})
    heatmap.locator(".run-row button.open").first.click()
    book.becomes("heatmap.opened is not None", True)
    opened = book.ask("heatmap.opened")
    run = f"[run for run in runs if run.run_id == {opened['run']!r}]"
    limited = f"bl.counterfactual({run}, grid={{'max_steps': [8], 'tool_budget': [12]}}, progress=False).iloc[0]"
    assert book.ask(f"int({limited}['stop_step'])") == opened["step"]
    replay = heatmap.locator(".boolab-replay")
    expect(replay.locator(".step-number").first).to_contain_text(f"step {opened['step']} of")
    assert book.ask("heatmap.replay.run.run_id") == opened["run"]


def test_a_sweep_view_counts_while_the_sweep_runs(book: Lab) -> None:
    """Each call of a tool waits until the test lets it go, so that what is seen is seen on the way."""
    view = cell(book, "SweepView").locator(".boolab-sweep_view").first
    expect(view.locator("h3")).to_contain_text("0 of 4 runs")
    for calls, done in ((1, 1), (2, 2), (7, 4)):
        book.ask(f"[gates.put_nowait(None) for _ in range({calls})]")
        expect(view.locator("h3")).to_contain_text(f"{done} of 4 runs")
        assert (view.get_attribute("data-state") == "running") is (done < 4)
    book.becomes("sweeping.done()", True)
    expect(view.locator(".key li")).to_have_text(["step cap 4"])
    assert book.ask("[run.stop_reason for run in sweeping.result()]") == ["step_cap"] * 4
    view.locator("tr.setting").nth(2).click()
    view.locator("tr.run.opens").click()
    replay = cell(book, "SweepView").locator(".boolab-replay")
    expect(replay.locator(".step-number").first).to_contain_text("step 3 of 3")
    assert book.ask("view.opened['run']") == book.ask("sweeping.result()[2].run_id")


def test_a_step_of_a_comparison_opens_below_it(book: Lab) -> None:
    compared = cell(book, "Compare")
    compared.locator(".head[data-side='b'] .open").click()
    book.becomes("compared.opened is not None", True)
    opened = book.ask("compared.opened")
    assert opened["step"] == book.ask("compared.divergence.step")
    expect(compared.locator(".boolab-replay .step-number").first).to_contain_text(f"step {opened['step']} of")


def test_agent_editor_changes_only_the_edited_line_of_the_file(book: Lab) -> None:
    form, path = cell(book, "AgentEditor"), book.folder / "AGENTS.md"
    before = path.read_bytes().splitlines(keepends=True)
    field, save = form.locator(".boolab-field-max_steps input"), form.locator("button.boolab-save")
    field.fill("many")
    field.press("Tab")
    expect(form.locator("[role=alert]", has_text="'many' is not accepted")).to_be_visible()
    expect(save).to_be_disabled()
    field.fill("57")
    field.press("Tab")
    expect(form.locator(".limits li").first).to_have_text("step cap: at most 57")
    expect(form.locator(".diff .changed")).to_have_text(["5", "57"])
    top, diff = form.bounding_box(), form.locator(".diff").bounding_box()
    assert top is not None
    assert diff is not None
    assert diff["y"] + diff["height"] - top["y"] < 400  # beside the form, not below it
    form.locator(".boolab-add-tools select").select_option("ask_user_input")
    expect(form.locator(".boolab-field-tools input")).to_have_value(
        "list_files, read_file, search_text, ask_user_input"
    )
    form.locator("button.boolab-undo").click()
    expect(form.locator(".boolab-field-tools input")).to_have_value("list_files, read_file, search_text")
    save.click()
    expect(form.get_by_role("status")).to_have_text("refactorer is valid and saved.")
    after = path.read_bytes().splitlines(keepends=True)
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [b"max_steps: 57\n"]
    assert book.ask("bl.load_agents(path)[editor.fields['name'].value].max_steps") == 57


def test_hostile_text_stays_text_in_the_notebook(book: Lab) -> None:
    shown = cell(book, "hostile")
    replay = shown.locator(".boolab-replay").first
    expect(replay).to_contain_text("<img src=x onerror=")
    for step in range(1, book.ask("hostile.run.n_steps") + 1):
        expect(replay.locator(".step-number").first).to_contain_text(f"step {step} of")
        assert shown.locator(".boolab").locator(MARKUP).count() == 0
        replay.press("ArrowRight")
    assert book.page.evaluate("() => window.__canary") is None


@pytest.mark.parametrize(("theme", "light"), [("JupyterLab Dark", False), ("JupyterLab Light", True)])
def test_the_widgets_take_the_greys_of_the_theme(theme: str, light: bool, book: Lab) -> None:
    book.theme(theme)
    shown = cell(book, "Replay").locator(".boolab-replay").first
    ground = "(one) => getComputedStyle(one).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number)"
    assert (sum(shown.evaluate(ground)) > 3 * 128) is light
    ink = "(one) => getComputedStyle(one).color.match(/[\\d.]+/g).slice(0, 3).map(Number)"
    assert (sum(shown.evaluate(ink)) < 3 * 128) is light


@pytest.mark.parametrize(("theme", "light"), [("JupyterLab Dark", False), ("JupyterLab Light", True)])
def test_a_figure_follows_the_theme(theme: str, light: bool, book: Lab) -> None:
    book.theme(theme)
    shown = book.cell([*CELLS].index("figure")).locator(".boolab-figure img").first
    corner = shown.screenshot()
    with Image.open(io.BytesIO(corner)) as image:
        assert image.convert("L").getpixel((3, 3)) in (range(250, 256) if light else range(40))


def test_watch_follows_a_log_that_grows_and_opens_its_replay(book: Lab) -> None:
    table = cell(book, "watch").locator(".boolab-watch_view").first
    expect(table.locator("tbody tr")).to_have_count(1)
    steps = table.locator("tbody .steps")
    expect(steps).to_have_text("1")
    book.ask("log.write_bytes(b''.join(growing))")
    expect(steps).to_have_text("4")
    expect(table.locator("tbody .limit")).to_contain_text("would stop: doom loop")
    table.locator("tbody button").first.press("Enter")
    cell(book, "watch").locator(".boolab-replay").first.wait_for()
    book.ask("watched.stop()")


# --- In both themes and two sizes of a window -------------------------------------------------------------------------

WIDGETS: Final = ("Replay", "CapLab", "Heatmap", "SweepView", "Compare", "AgentEditor")


@pytest.mark.parametrize("size", [(1280, 800), (1600, 1000)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
@pytest.mark.parametrize("name", WIDGETS)
def test_a_widget_fits_its_cell_and_its_texts_stand_out(
    name: str, theme: str, size: tuple[int, int], book: Lab
) -> None:
    book.page.set_viewport_size({"width": size[0], "height": size[1]})
    book.theme(theme)
    shown = cell(book, name)
    book.page.evaluate(DRAWN)
    assert shown.locator(".boolab").first.bounding_box() is not None
    wide = shown.evaluate("""(area) => [area, ...area.querySelectorAll(".jp-OutputArea-output, .boolab")]
      .map((one) => one.scrollWidth - one.clientWidth).reduce((most, one) => Math.max(most, one), 0)""")
    assert wide <= 0
    pale = book.page.evaluate(PALE)
    assert pale == []


def test_a_cell_of_the_heat_map_is_chosen_with_keys(book: Lab) -> None:
    heatmap = cell(book, "Heatmap")
    book.ask("[setattr(heatmap, 'selected', None)]")
    heatmap.locator(".cell[tabindex='0']").focus()
    seen: list[object] = []
    for key in ("Shift+Home", "ArrowRight"):
        book.page.keyboard.press(key)
        book.page.keyboard.press("Enter")
        book.becomes(f"heatmap.selected not in {[None, *seen]!r}", True)
        seen.append(book.ask("heatmap.selected"))
    assert len(seen) == 2


def test_a_run_of_a_sweep_is_opened_with_keys(book: Lab) -> None:
    book.ask("[setattr(view, 'opened', None)]")
    view = cell(book, "SweepView")
    view.locator("tr.setting button").first.press("Enter")
    view.locator("tr.run.opens button").first.press("Enter")
    book.becomes("view.opened is not None", True)


def test_both_runs_of_a_comparison_are_opened_with_keys(book: Lab) -> None:
    compared = cell(book, "Compare")
    book.ask("[setattr(compared, 'opened', None)]")
    expect(compared.locator(".boolab-replay")).to_have_count(0)
    for side, run in (("a", "longest"), ("b", "min(runs, key=lambda run: run.n_steps)")):
        compared.locator(f".head[data-side='{side}'] .open").press("Enter")
        book.becomes(f"(compared.opened or {{}}).get('run') == {run}.run_id", True)
        expect(compared.locator(".boolab-replay .step-number").first).to_be_visible()
