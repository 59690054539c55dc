"""For everybody: by keyboard alone, by ear, in both themes, in narrow windows and zoomed in."""

import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import PATIENCE_MS, Watch
from tests.browser.examples import EXAMPLES, page_with

pytestmark = pytest.mark.pages
CONTROLS: Final = (
    'button, input, select, textarea, summary, a[href], [role=slider], [role=grid], [role=button], [tabindex="0"]'
)
WANT_NAMES: Final = {
    "button", "textbox", "searchbox", "combobox", "slider", "spinbutton", "checkbox", "radio", "listbox", "grid",
    "link", "DisclosureTriangle", "image", "meter", "progressbar", "table",
}  # fmt: skip
"""Roles, as Chromium tells them to screen readers, of what one uses or looks at."""
PALE: Final = """() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => top.slice(0, 3).map((one, i) => one * top[3] + under[i] * (1 - top[3]));
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== "none") return null;
      layers.push(rgba(style.backgroundColor));
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const found = [];
  for (const one of document.querySelectorAll(".boolab *")) {
    const words = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const read = one.checkVisibility({ opacityProperty: true }) && !one.closest(":disabled, .only-read, option");
    if (!words || !read) continue;
    const under = ground(one);
    if (!under) continue;
    const style = getComputedStyle(one);
    const ink = over(rgba(one instanceof SVGElement ? style.fill : style.color), under);
    const [more, less] = [light(ink), light(under)].sort((a, b) => b - a);
    const ratio = (more + 0.05) / (less + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${one.getAttribute("class")}: ${one.textContent.slice(0, 40)}`);
  }
  return [...new Set(found)];
}"""
DRAWN: Final = """async () => {
  for (let frame = 0; frame < 4; frame += 1) await new Promise(requestAnimationFrame);
}"""
"""What a change of the window's width starts is over after some frames: it is seen, then drawn in the next one."""
WIDE: Final = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
NUMBERED: Final = """(controls) => {
  const all = [...document.querySelectorAll(`.boolab:is(${controls}), .boolab :is(${controls})`)];
  const reachable = all.filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0);
  reachable.forEach((one, n) => { one.dataset.n = `${n} ${one.className}`; });
  return reachable.map((one) => one.dataset.n);
}"""
FOCUS: Final = """() => {
  const one = document.activeElement;
  if (!one?.closest(".boolab")) return null;
  const style = getComputedStyle(one);
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  return { seen, number: one.dataset.n ?? null, what: one.outerHTML.slice(0, 160) };
}"""


OPENS: Final = {
    "CapLab": [".run-row button.open"],
    "Heatmap": [".cell[data-x='8'][data-y='12']", ".run-row button.open"],
    "Compare": [".head[data-side='b'] .open"],
}
"""What to click until all is shown that a widget has to show."""


@pytest.fixture(scope="module", params=EXAMPLES)
def shown(
    request: pytest.FixtureRequest, chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    """A page with a widget and what opens in it, for all that is asked of it."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page_with(request.param), "utf-8")
    context = chromium.new_context(offline=True)
    context.set_default_timeout(PATIENCE_MS)
    watch = Watch(context)
    page = context.new_page()
    page.goto(f"{path.as_uri()}#light")
    expect(page.locator(".boolab").first).not_to_be_empty()
    for button in OPENS.get(request.param, ()):
        page.locator(button).first.click()
    if request.param in OPENS:
        page.locator(".opened .boolab-replay .step-number").wait_for()
    yield page
    context.close()
    assert watch.seen == []


def test_every_control_and_figure_has_a_name_in_words(shown: Page) -> None:
    nodes = shown.context.new_cdp_session(shown).send("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node["name"]["value"])
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in WANT_NAMES
    ]
    assert len(named) > 0 or shown.locator(CONTROLS).count() == 0
    assert [one for one in named if not re.search(r"[^\W\d_]{2}|\d", one[1])] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(theme: str, shown: Page) -> None:
    shown.evaluate("(dark) => document.body.classList.toggle('dark', dark)", theme == "dark")
    assert shown.evaluate(PALE) == []


@pytest.mark.parametrize("width", [480, 540, 1080, 1600])  # 540: a window of 1080 at 200%
def test_nothing_runs_out_of_the_window(width: int, shown: Page) -> None:
    shown.set_viewport_size({"width": width, "height": 800})
    assert shown.evaluate(WIDE) <= 0


def test_tab_reaches_each_control_and_shows_the_focus(shown: Page) -> None:
    shown.evaluate(DRAWN)
    wanted = shown.evaluate(NUMBERED, CONTROLS)
    shown.evaluate("() => document.activeElement?.blur()")
    reached = set()
    for _ in range(len(wanted) + 12):
        shown.keyboard.press("Tab")
        now = shown.evaluate(FOCUS)
        if now is not None:
            assert now["seen"], now["what"]
            reached.add(now["number"])
        if reached >= set(wanted):
            break
    assert set(wanted) - reached == set()
