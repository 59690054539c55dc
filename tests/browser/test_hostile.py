"""Words of a log are shown as words: nothing in them runs, loads, or becomes a part of the page."""

import asyncio
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Frame, Page, expect

import boolab as bl
from boolab.sweeps.progress import Begun, CellResult
from boolab.widgets._base.widget import Shown
from tests.browser.chromium import PATIENCE_MS, Watch
from tests.browser.conftest import PageOf
from tests.browser.hostile import ACTIVE, MARKUP, NAME, SONG, TEXTS, control, hostile_run, hostile_runs
from tests.support.cases import first
from tests.support.notebooks import code_cell, exported, notebook

UNSEEN: Final = (
    r"[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ufeff]"
)


def sweep_view() -> Shown:
    """A sweep whose names, settings and errors are hostile."""
    view = bl.SweepView()
    view.begin(Begun(3, {"agents": [NAME], "tasks": [NAME], "grid": {NAME: [NAME]}, "repeats": 1}))
    view.add(CellResult(NAME, NAME, NAME, NAME, NAME, {NAME: NAME}, "error", 5, None, None, NAME))
    view.end(RuntimeError(NAME))
    return view


def heatmap() -> Shown:
    """Caps and budgets of hostile runs."""
    runs = hostile_runs()
    grid = {"max_steps": [3, None], "tool_budget": [6, None]}
    return bl.Heatmap(bl.counterfactual(runs, grid=grid, aggregate=True, progress=False), runs)


def agent_editor() -> Shown:
    """A file whose every text is hostile; no file is UTF-8 with halves of letters in it."""
    told = NAME.encode(errors="replace").decode()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "AGENTS.md"
        words = json.dumps(told)
        path.write_text(f"---\nname: {words}\ndescription: {words}\nmodel: {words}\nmode: {words}\n---\n{told}\n")
        return bl.AgentEditor(path)


def labeler() -> Shown:
    """A desk whose criterion and person are hostile; texts of runs are on no page of it: see `test_labeler_page`."""
    with TemporaryDirectory() as folder:
        return bl.Labeler(hostile_runs(), {"max_steps": [3]}, labels=f"{folder}/labels.jsonl", criterion=NAME, who=NAME)


def live() -> Shown:
    """A live run whose task, steps, errors and limits are hostile."""
    model = bl.ScriptedModel([{"text": NAME, "tool_calls": [{"name": "ls", "arguments": {"path": NAME}}]}, NAME])

    async def drive() -> Shown:
        shown = bl.Live(bl.Agent("a", description=NAME, prompt=NAME), NAME, model=model)
        await shown.wait()
        run = hostile_run()
        for step in run.steps:
            shown._cards.add(step, run)
        shown._fault = shown._failed = NAME
        return shown

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, drive()).result()


SHOWN: Final[dict[str, Callable[[], Shown]]] = {
    "Replay": lambda: bl.Replay(hostile_run()),
    "SweepView": sweep_view,
}

OTHERS: Final[dict[str, Callable[[], Shown]]] = {
    "CapLab": lambda: bl.CapLab(hostile_runs()),
    "Heatmap": heatmap,
    "Compare": lambda: bl.Compare(*hostile_runs()[:2]),
    "AgentEditor": agent_editor,
    "Labeler": labeler,
    "Live": live,
}
"""Looked at in one theme only: their pages take long to make."""


LOOK: Final = """([markup, unseen]) => {
  const all = [...document.querySelectorAll(".boolab *")];
  return {
    canary: window.__canary,
    polluted: ({}).polluted,
    markup: document.querySelectorAll(`.boolab :is(${markup})`).length,
    attributes: all.flatMap((one) => one.getAttributeNames()).filter((name) => /^(on|src|href|action)/.test(name)),
    unseen: document.querySelector(".boolab").textContent.match(new RegExp(unseen)),
  };
}"""


def innocent(page: Page | Frame) -> None:
    """Nothing in a page or a frame became markup, ran, or reaches a reader as a sign that turns or hides others."""
    clean: dict[str, object] = {"canary": None, "polluted": None, "markup": 0, "attributes": [], "unseen": None}
    assert page.evaluate(LOOK, [MARKUP, UNSEEN]) == clean


@cache
def page_with(name: str) -> str:
    """The page of a hostile widget, made once."""
    return SHOWN[name]().to_html()


def stepped(page: Page) -> list[str]:
    """What Replay shows of each step, from the first to the last."""
    root = page.locator(".boolab-replay").first
    total = int(re.findall(r"of (\d+)", root.locator(".step-number").first.inner_text())[0])
    root.focus()
    root.press("Home")
    seen = []
    for number in range(1, total + 1):
        expect(root.locator(".step-number").first).to_contain_text(f"step {number} of {total}")
        seen.append(root.evaluate("(one) => one.textContent"))
        innocent(page)
        root.press("ArrowRight")
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("text", ACTIVE.values(), ids=ACTIVE)
def test_the_canary_sings_where_text_is_taken_for_markup(text: str, chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "control.html").write_text(control(text))
    context = chromium.new_context()
    watch = Watch(context)
    page = context.new_page()
    page.goto((tmp_path / "control.html").as_uri())
    if page.locator("#link").count():
        page.locator("#link").click()
    if "iframe" not in text:  # which sings in its own window
        page.wait_for_function("window.__canary === 1", timeout=PATIENCE_MS)
    else:
        page.wait_for_function("frames.length && frames[0].__canary === 1", timeout=PATIENCE_MS)
    assert page.locator(MARKUP).count() > 0
    context.close()
    assert any(SONG in one for one in watch.seen)


@pytest.mark.slow
def test_replay_says_each_text_as_it_is_in_every_field_of_a_step(page_of: PageOf) -> None:
    page = page_of(page_with("Replay"))
    seen = stepped(page)
    for (name, text), shown in zip(TEXTS.items(), seen, strict=False):
        if text and text.isprintable() and len(text) < 500:
            assert shown.count(text) >= 5, name  # its words, its reasoning, calls and results
    assert "␛[31mred" in seen[[*TEXTS].index("terminal codes")]
    assert "before␀after" in seen[[*TEXTS].index("the end of a text of C")]
    assert "⟨U+202E⟩txt.exe" in seen[[*TEXTS].index("marks of direction")]
    assert len(seen) == len(TEXTS) + 1


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", first(1, SHOWN))
def test_nothing_in_a_page_is_taken_for_markup(name: str, theme: str, page_of: PageOf) -> None:
    page = page_of(page_with(name), theme)
    page.locator(".boolab").first.wait_for()
    expect(page.locator(".boolab").first).to_contain_text("<img src=x onerror=")
    innocent(page)
    page.evaluate("() => document.querySelectorAll('.boolab button').forEach((one) => one.click())")
    innocent(page)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_nothing_in_other_pages_is_taken_for_markup(name: str, page_of: PageOf) -> None:
    page = page_of(OTHERS[name]().to_html())
    root = page.locator(".boolab").first
    root.wait_for()
    if name == "Heatmap":
        page.locator(".cell").first.click()
    if name == "CapLab":
        page.locator(".boolab-cap input").press("Home")
    expect(root).to_contain_text("<script>")
    innocent(page)
    page.evaluate("() => document.querySelectorAll('.boolab button').forEach((one) => one.click())")
    innocent(page)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_where_no_script_runs_a_text_is_a_text(name: str, page_of: PageOf) -> None:
    page = page_of(page_with(name), javascript=False)
    expect(page.locator("noscript pre")).to_contain_text("<img src=x onerror=")
    assert page.locator("noscript iframe, noscript a, noscript svg, body > script ~ *").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_exported_notebook_takes_no_text_of_a_widget_for_markup(name: str, page_of: PageOf) -> None:
    page = page_of(exported_with(SHOWN[name]()))
    frame = page.locator("iframe[srcdoc]").content_frame
    expect(frame.locator(".boolab").first).to_contain_text("<img src=x onerror=")
    inside = page.frames[1]
    innocent(inside)
    assert page.evaluate("() => window.__canary") is None
    assert page.locator("iframe").count() == 1
    assert page.evaluate("() => document.title") == "exported"


def exported_with(widget: Any) -> str:
    """A notebook that shows a widget, as nbconvert writes it to a page."""
    data = {kind: text for kind, text in widget._repr_mimebundle_().items() if "widget" not in kind}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    text = exported(notebook(code_cell("widget", [output])))
    return f'<!doctype html><meta charset="utf-8"><title>exported</title>{text}'
