"""Replay in a page: what its keys, buttons and pointers do, what it shows of each step, and what it leaves behind."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Page, expect

import boolab as bl
from boolab.core.run import Score
from boolab.logs.facts import facts_of
from boolab.widgets._base.standalone_html import PagePart, module_of, pack, page, styles_of
from boolab.widgets.replay.data import replay_data
from tests.browser.conftest import PageOf
from tests.support.billed_runs import billed_run, billed_step, priced_usage
from tests.support.project import ROOT

pytestmark = pytest.mark.pages

LISTING: Final = "\n".join(f"src/core.py:{line}: from .old_name import thing_{line}" for line in range(1, 31))
GREP: Final = {"name": "grep", "arguments": {"pattern": "old_name"}}
STOP: Final = 7


def call(tool: str, **arguments: str) -> dict[str, Any]:
    """A scripted call."""
    return {"name": tool, "arguments": arguments}


def played() -> bl.Run:
    """Seven steps: a search, two reads at once, a failure, a subagent, the same search twice, an answer."""
    scout = bl.ScriptedModel(
        [{"text": "I list first.", "tool_calls": [call("list_dir", path="tests")]}, {"text": "Two tests."}],
        tools={"list_dir": "test_core.py\ntest_io.py"},
    )
    model = bl.ScriptedModel(
        [
            {"text": "I look for the name.", "reasoning": "It must be somewhere.", "tool_calls": [GREP]},
            {"tool_calls": [call("read_file", path="src/core.py"), call("read_file", path="src/io.py")]},
            {"text": "Run the tests.", "tool_calls": [call("bash", command="pytest -q")]},
            {"tool_calls": [call("task", agent="scout", prompt="Which tests use it?")]},
            {"tool_calls": [GREP]},
            {"tool_calls": [GREP]},
            {"text": "Nothing is left of it."},
        ],
        tools={"grep": LISTING, "read_file": "import sys", "bash": {"error": "1 failed in 3.41s"}},
    )
    task = bl.task_tool([bl.Agent("scout", description="looks", model=scout)])
    agent = bl.Agent("refactorer", policy="opencode_v1", max_steps=40)
    return bl.run_sync(agent, "Rename old_name", model=model, tools=[task])


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """What Replay is given of the run, with what the run itself has not: a second turn, and a limit reached."""
    made = replay_data(played())
    made["turns"] = [
        {"title": "Rename old_name", "text": "Rename old_name", "first": 1, "last": 4},
        {"title": "Look once more", "text": "Look once more", "first": 5, "last": STOP},
    ]
    items = [item for turn in made["outline"] for item in turn["items"]]
    made["outline"] = [
        {"turn": 1, "title": "Rename old_name", "items": [item for item in items if item["last"] < 5]},
        {"turn": 2, "title": "Look once more", "items": [item for item in items if item["first"] >= 5]},
    ]
    for step in made["steps"]:
        step["flags"] = []
    for n, flag in ((3, "error"), (5, "repeat"), (6, "repeat"), (6, "limit")):
        made["steps"][n - 1]["flags"].append(flag)
    made["marks"] = [
        {"label": "strict: doom loop 2", "policy": "strict", "rule": "doom_loop", "limit": "doom loop 2", "step": 6,
         "acts": "stops", "own": False},
        {"label": "lenient: never", "policy": "lenient", "rule": None, "limit": "never", "step": None, "acts": None,
         "own": False},
    ]  # fmt: skip
    made["between"] = [
        {"kind": "limit", "after": 6, "title": "Would have stopped here: strict, doom loop 2.", "text": "It went on.",
         "name": "strict, doom loop 2", "details": ""},
        {"kind": "stop", "after": STOP, "title": "The run ended here: finished after 7 steps.", "text": "",
         "name": "finished", "details": ""},
    ]  # fmt: skip
    return made


Opened = Callable[..., Page]


@pytest.fixture
def opened(page_of: PageOf, data: dict[str, Any]) -> Opened:
    """Opens the run's page with some traits, in some window."""

    def open_it(shown: dict[str, Any] | None = None, **how: Any) -> Page:
        window = {name: how.pop(name) for name in ("width", "height", "zoom", "theme") if name in how}
        traits = {"step": 1, "playing": False, "speed": 1, "axis": "count", "query": "", **how}
        opened_page = page_of(page("Replay", [PagePart("replay", shown or data, traits)]), **window)
        opened_page.locator(".boolab-replay .play").first.wait_for()
        return opened_page

    return open_it


def at(page: Page, n: int, of: int = STOP) -> None:
    """The step that all parts of the page agree on."""
    expect(page.locator(".step-number").first).to_have_text(f"step {n:,} of {of:,}")
    expect(page.locator(".timeline").first).to_have_attribute("aria-valuenow", str(n))
    expect(page.locator(".step-row[aria-current]")).to_have_attribute("data-step", str(n))


def row(page: Page, n: int) -> Locator:
    """A step in the transcript."""
    return page.locator(f".step-row[data-step='{n}']")


def press(page: Page, *names: str) -> None:
    """Press keys on the widget."""
    root = page.locator(".boolab-replay")
    for name in names:
        root.press(name)


def test_keys_move_the_play_head_and_all_that_follows_it(opened: Opened) -> None:
    shown = opened(step=2)
    at(shown, 2)
    for keys, n in (
        (["ArrowRight"], 3),
        (["ArrowLeft", "ArrowLeft"], 1),
        (["ArrowLeft"], 1),
        (["Shift+ArrowRight"], STOP),
        (["Shift+ArrowLeft"], 1),
        (["End"], STOP),
        (["Home"], 1),
        (["e"], 3),
        (["r"], 5),
        (["r"], 6),
        (["Shift+R"], 5),
        (["l"], 6),
        (["Shift+E"], 3),
    ):
        press(shown, *keys)
        at(shown, n)


def test_keys_toggle_panels_and_escape_closes_one_at_a_time(opened: Opened) -> None:
    shown = opened(step=4)
    for name, place in (("?", ".help"), ("/", ".search:focus"), ("o", ".outline [aria-current]:focus")):
        press(shown, name)
        expect(shown.locator(place)).to_be_visible()
    shown.keyboard.press("ArrowDown")
    at(shown, 5)
    press(shown, "?")
    expect(shown.locator(".help")).to_be_hidden()
    shown.locator(".open-subagents").click()
    shown.locator(".more button").click()
    inner = shown.locator(".level").last
    press(shown, "?")
    inner.locator(".show-code").click()
    for place in (".help", ".as-code"):
        expect(inner.locator(place)).to_be_visible()
        press(shown, "Escape")
        expect(inner.locator(place)).to_be_hidden()
    press(shown, "Escape")
    at(shown, 5)
    press(shown, "Escape")
    expect(shown.locator(".more")).to_be_hidden()
    keys = shown.locator(".help dt").all_text_contents()
    named = {"space", "←", "→", "shift", "home", "end", "e", "r", "l", "/", "n", "o", "c", "?", "esc"}
    assert named <= set(" ".join(keys).split())


def test_current_step_keeps_its_place_when_the_width_changes(page_of: PageOf) -> None:
    text = "This is a long sentence about what comes next, which wraps in a narrow window. " * 3
    parts: list[Any] = [{"text": text, "tool_calls": [call("bash", command=f"ls {n}")]} for n in range(40)]
    model = bl.ScriptedModel([*parts, "Done."], tools={"bash": "a.py"})
    run = bl.run_sync(bl.Agent("a", max_steps=50), "Look", model=model)
    shown = page_of(bl.Replay(run, step=20, policies=[]), width=1280)

    def offset() -> float:
        places = [shown.locator(one).bounding_box() for one in (".step-row[aria-current]", ".transcript")]
        assert places[0]
        assert places[1]
        return float(places[0]["y"] - places[1]["y"])

    at(shown, 20, 41)
    before = offset()
    for width in (900, 1500, 1280):
        shown.set_viewport_size({"width": width, "height": 800})
        shown.wait_for_function("(width) => document.querySelector('canvas').clientWidth > width - 40", arg=width)
        shown.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert abs(offset() - before) < 5  # heights of rows are whole pixels


def test_calls_without_texts_on_record_are_a_line_each(page_of: PageOf) -> None:
    model = bl.ScriptedModel([{"tool_calls": [call("bash", command="ls")]}, "Done."], tools={"bash": "a.py"})
    run = bl.run_sync(None, "Look", model=model)
    shown = page_of(bl.Replay(next(facts_of(run)), policies=[]))
    expect(row(shown, 1).locator(".call")).to_have_text("basharguments and result not on record (17, 4 characters)")
    expect(shown.locator(".facts-line")).to_contain_text("texts not on record")
    expect(shown.locator("body")).not_to_contain_text("<redacted")


def test_keys_typed_in_replay_are_no_shortcuts_of_the_notebook(opened: Opened) -> None:
    shown = opened(step=2)
    shown.evaluate("window.heard = []; document.addEventListener('keydown', (event) => window.heard.push(event.key))")
    press(shown, "d", "d", "x", "ArrowRight", "e", "Control+s")
    assert shown.evaluate("window.heard") == ["Control", "s"]


def test_play_goes_on_to_the_end_and_starts_again_from_there(opened: Opened) -> None:
    shown = opened(speed=16)
    press(shown, " ")
    expect(shown.locator(".play")).to_have_text("❚❚ Pause")
    at(shown, STOP)
    expect(shown.locator(".play")).to_have_attribute("aria-pressed", "false")
    shown.locator(".speed").select_option("1")
    shown.locator(".play").click()
    at(shown, 1)
    expect(shown.locator(".play")).to_have_attribute("aria-pressed", "true")
    shown.locator(".play").click()
    expect(shown.locator(".play")).to_have_text("▶ Play")


@pytest.mark.parametrize("axis", ["count", "time"])
def test_a_pointer_scrubs_along_the_timeline(opened: Opened, axis: str) -> None:
    shown = opened(axis=axis)
    box = shown.locator(".timeline").bounding_box()
    assert box is not None
    shown.mouse.move(box["x"] + box["width"] - 20, box["y"] + 40)
    shown.mouse.down()
    at(shown, STOP)
    shown.mouse.move(box["x"] + 90, box["y"] + 40, steps=4)
    at(shown, 1)
    shown.mouse.up()
    shown.mouse.move(box["x"] + box["width"] - 20, box["y"] + 40)
    at(shown, 1)


def test_a_step_shows_what_was_said_thought_asked_and_answered(opened: Opened) -> None:
    shown = opened()
    first = row(shown, 1)
    expect(first.locator(".said-text")).to_have_text("I look for the name.")
    expect(first.locator(".asked-text")).to_have_text("Rename old_name")
    expect(first.locator(".reasoned")).to_be_hidden()
    first.locator(".reasoning summary").click()
    expect(first.locator(".reasoned")).to_have_text("It must be somewhere.")
    expect(first.locator(".call .about")).to_have_text("old_name")
    press(shown, "ArrowRight")
    expect(row(shown, 2).locator(".call[data-kind=read]")).to_have_count(2)
    press(shown, "ArrowRight")
    expect(row(shown, 3).locator(".call")).to_contain_text("✕ failed")


def test_long_results_are_folded_and_unfold_whole(opened: Opened) -> None:
    first = row(opened(), 1)
    expect(first.locator(".result")).to_have_text("\n".join(LISTING.splitlines()[:6]))
    fold = first.get_by_role("button", name="Show all")
    expect(fold).to_have_attribute("aria-expanded", "false")
    fold.click()
    expect(first.locator(".result")).to_have_text(LISTING)
    first.get_by_role("button", name="Show less").click()
    expect(first.locator(".result")).not_to_contain_text("thing_7")


def test_transcript_has_all_steps_with_limits_between_them(opened: Opened) -> None:
    shown = opened(height=2400)
    order = shown.locator(".transcript .row").evaluate_all(
        "(rows) => rows.map((one) => one.dataset.step ?? one.querySelector('b').textContent)"
    )
    assert order == [
        "1", "2", "3", "4", "5", "6", "Would have stopped here: strict, doom loop 2.", "7",
        "The run ended here: finished after 7 steps.",
    ]  # fmt: skip
    tops = shown.locator(".transcript .row").evaluate_all(
        "(rows) => rows.map((one) => one.getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)
    row(shown, 6).click(position={"x": 20, "y": 12})
    at(shown, 6)


def test_view_that_is_removed_and_added_again_keeps_its_step(opened: Opened) -> None:
    shown = opened(step=2, width=1280, height=700)
    shown.evaluate("""async () => {
      const frame = () => new Promise(requestAnimationFrame);
      const el = document.querySelector(".boolab-replay"), place = el.parentNode;
      el.remove();  // as a notebook does with cells that are not in sight
      for (const step of [5, 4]) { location.hash = `light&step=${step}`; await frame(); await frame(); await frame(); }
      place.prepend(el);
    }""")
    at(shown, 4)
    expect(row(shown, 4)).to_be_in_viewport()
    expect(row(shown, 4).locator(".subagent")).to_be_in_viewport()
    press(shown, "Home")
    expect(row(shown, 1)).to_be_in_viewport()


def test_the_tabulator_stops_in_the_chosen_step_only(opened: Opened) -> None:
    shown = opened(step=3, height=2400)
    stops = "(all) => all.map((one) => [one.closest('.step-row').dataset.step, one.tabIndex])"
    controls = shown.locator(".step-row :is(button, summary)")
    assert {step for step, index in controls.evaluate_all(stops) if index == 0} == {"3"}
    press(shown, "ArrowRight")
    at(shown, 4)
    assert {step for step, index in controls.evaluate_all(stops) if index == 0} == {"4"}


@pytest.mark.parametrize("width", [1280, 850])  # a page, and a cell of JupyterLab in such a window
def test_the_head_is_one_line_and_opens_what_is_longer(opened: Opened, width: int) -> None:
    shown = opened(width=width)
    kpis = shown.locator(".kpi").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().top)")
    assert len(kpis) >= 2
    assert len(set(kpis)) == 1
    bars = shown.locator(".toolbar > *").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().top)")
    assert max(bars) - min(bars) < 12
    shown.locator(".open-tools").click()
    expect(shown.locator(".more li").first).to_have_text("grep 3 calls")
    shown.locator(".open-tools").click()
    expect(shown.locator(".more")).to_be_hidden()


OVERLAPS: Final = """() => {
  const seen = (one) => {
    const box = one.getBoundingClientRect();
    return box.width && box.height ? [[one, box]] : [];
  };
  const groups = [".level", ".top", ".facts-line", ".kpis", ".toolbar", ".called", ".told", ".would .row", ".step-row"];
  const clashes = [];
  for (const place of document.querySelectorAll(groups.map((one) => `.boolab-replay ${one}`).join())) {
    const boxes = [...place.children].flatMap(seen);
    const outer = place.getBoundingClientRect();
    boxes.forEach(([one, a], i) => {
      if (a.right > outer.right + 1) clashes.push(`${one.className} leaves ${place.className}`);
      for (const [other, b] of boxes.slice(i + 1)) {
        const apart = a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
        if (!apart) clashes.push(`${one.className} on ${other.className}`);
      }
    });
  }
  if (document.documentElement.scrollWidth > innerWidth) clashes.push("the page is wider than its window");
  return clashes;
}"""


@pytest.mark.parametrize("width", [1280, 850, 800, 480])
def test_nothing_overlaps_however_narrow_it_is(opened: Opened, width: int) -> None:
    shown = opened(replay_data(replace(played(), scores=(Score("reward", 0.25),))), step=4, width=width)
    at(shown, 4)
    expect(row(shown, 4)).to_be_in_viewport()
    assert shown.evaluate(OVERLAPS) == []
    press(shown, "r")
    at(shown, 6)
    assert shown.evaluate(OVERLAPS) == []


def test_the_address_of_a_page_keeps_the_step_and_opens_at_it(opened: Opened) -> None:
    shown = opened()
    press(shown, "End")
    expect(shown).to_have_url(re.compile(rf"#light&step={STOP}$"))
    shown.reload()
    at(shown, STOP)
    shown.evaluate("location.hash = 'light&step=3'")
    at(shown, 3)


def test_the_link_and_the_code_of_a_step_can_be_copied(opened: Opened) -> None:
    shown = opened(step=2)
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press(shown, "c")
    expect(shown.locator(".notice")).to_have_text("link copied")
    assert shown.evaluate("navigator.clipboard.readText()").endswith("#light&step=2")
    shown.locator(".show-code").click()
    expect(shown.locator(".as-code pre")).to_contain_text("bl.Replay(run, step=2, runs=runs)")
    press(shown, "ArrowRight")
    expect(shown.locator(".as-code pre")).to_contain_text("bl.Replay(run, step=3, runs=runs)")
    press(shown, "Escape")
    expect(shown.locator(".as-code")).to_be_hidden()


def test_copied_code_opens_the_run_at_the_step(page_of: PageOf) -> None:
    run = bl.load_runs(ROOT / "datasets/runs")[7]
    shown = page_of(bl.Replay(run, step=2))
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press(shown, "ArrowRight")
    shown.locator(".show-code").click()
    shown.locator(".copy-code").click()
    expect(shown.locator(".notice")).to_have_text("code copied")
    code = shown.evaluate("navigator.clipboard.readText()")
    scope: dict[str, Any] = {}
    exec(code.replace("bl.Replay(", "replay = bl.Replay("), scope)  # noqa: S102 - our own code
    assert (scope["replay"].run, scope["replay"].step) == (run, 3)


def test_gauges_follow_the_counters_at_each_boundary(opened: Opened, data: dict[str, Any]) -> None:
    shown = opened()
    for n in (1, 4, STOP):
        press(shown, "Home", *["ArrowRight"] * (n - 1))
        at(shown, n)
        for gauge in data["gauges"]:
            meter = shown.locator(f".gauge[data-key={gauge['key']}]")
            now = float(meter.get_attribute("aria-valuenow") or "nan")
            assert now == pytest.approx(min(gauge["values"][n] or 0, gauge["limit"] or float("inf"))), gauge["key"]
    limit = next(gauge["limit"] for gauge in data["gauges"] if gauge["key"] == "steps")
    expect(shown.get_by_role("meter", name="steps")).to_have_attribute("aria-valuetext", f"{STOP} of {limit:,}")


def test_mark_leads_to_the_step_at_which_its_rule_stops(opened: Opened) -> None:
    shown = opened()
    shown.locator(".would [data-policy=strict]").click()
    at(shown, 6)
    expect(shown.locator(".would [data-policy=strict]")).to_have_attribute("aria-current", "step")
    expect(shown.locator(".would [data-policy=lenient]")).to_contain_text("lenientnever")


def test_what_was_sent_for_a_step_is_shown_on_demand(opened: Opened) -> None:
    shown = opened(step=3)
    request = shown.locator(".request")
    expect(request.locator("p")).to_be_hidden()
    request.locator("summary").click()
    expect(request).to_contain_text("What was sent for step 3")
    expect(request.locator("p")).to_have_text("1 message, steps 1-2 with results")
    press(shown, "ArrowRight")
    expect(request.locator("p")).to_have_text("1 message, steps 1-3 with results")


def test_a_turn_narrows_all_to_itself_until_all_turns_are_wanted(opened: Opened) -> None:
    shown = opened()
    expect(shown.locator(".chips [data-kind=search] b")).to_have_text("3")
    shown.get_by_role("button", name="Look once more").click()
    at(shown, 5)
    expect(shown.locator(".chips [data-kind=search] b")).to_have_text("2")
    expect(shown.locator(".jump-error .forward")).to_be_disabled()
    press(shown, "Home")
    at(shown, 5)
    shown.get_by_role("button", name="all turns").click()
    press(shown, "Home")
    at(shown, 1)


def test_page_opened_at_a_late_step_has_no_gap_in_its_outline(page_of: PageOf) -> None:
    run = next(one for one in bl.load_runs(ROOT / "datasets/runs") if one.run_id == "coder-044")
    policies = ["boocode", "openhands", "gemini_cli", "claude_code"]
    shown = page_of(bl.Replay(run, step=38, policies=policies), width=1600, height=1000)
    shown.locator(".outline .item[aria-current]").wait_for()
    scroller = shown.locator(".outline .scroller")
    first, seen = scroller.evaluate("""(e) => [
      Math.min(...[...e.querySelectorAll(".rows > *")].map((row) => row.offsetTop)), e.scrollTop]""")
    assert first <= seen


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 400)])
def test_a_miss_of_the_cache_is_in_its_step_and_in_a_lane(page_of: PageOf, theme: str, width: int) -> None:
    steps = (
        billed_step(1, priced_usage(20_000, 100, five=20_000), ("read", "y" * 9000), model="claude-sonnet-4-5"),
        billed_step(2, priced_usage(23_000, 60, five=23_000), model="claude-sonnet-4-5"),
    )
    shown = page_of(bl.Replay(billed_run(*steps), step=2), theme, width=width)
    expect(row(shown, 2).locator(".missed")).to_contain_text("cache missed")
    expect(row(shown, 2).locator(".missed")).to_contain_text("$0.0690 extra, 20.0k tokens, unexplained")
    expect(row(shown, 2).locator(".facts")).to_contain_text("so far")
    expect(shown.locator(".lane", has_text="context")).to_have_count(1)
    drawn = shown.locator(".timeline canvas").evaluate("""(canvas) => {
      const colours = getComputedStyle(canvas.closest(".boolab"));
      const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      const seen = new Set();
      for (let i = 0; i < pixels.length; i += 4) seen.add(pixels[i] * 65536 + pixels[i + 1] * 256 + pixels[i + 2]);
      const colourOf = (piece) => parseInt(colours.getPropertyValue(`--paid-${piece}`).trim().slice(1), 16);
      return ["first", "rewrite"].map((piece) => seen.has(colourOf(piece)));
    }""")
    assert drawn == [True, True]


def test_the_outline_is_walked_with_up_and_down(opened: Opened) -> None:
    shown = opened()
    shown.locator(".outline [data-first='3']").click()
    at(shown, 3)
    shown.keyboard.press("ArrowDown")
    at(shown, 4)
    expect(shown.locator(".outline [data-first='4']")).to_be_focused()
    shown.keyboard.press("ArrowUp")
    at(shown, 3)


def test_a_kind_is_filtered_by_its_chip_and_jumped_to(opened: Opened) -> None:
    shown = opened()
    kinds = shown.locator(".outline .rows [data-kind]")
    whole = kinds.count()
    chip = shown.locator(".chips > button[data-kind=search]")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    assert {one.get_attribute("data-kind") for one in kinds.all()} == {"search"}
    shown.get_by_role("button", name="next of searches").click()
    at(shown, 5)
    shown.get_by_role("button", name="previous of searches").click()
    at(shown, 1)
    chip.click()
    expect(kinds).to_have_count(whole)


def test_jumps_say_which_of_how_many(opened: Opened) -> None:
    shown = opened(step=2)
    expect(shown.locator(".jump-repeat .name")).to_have_text("repeat 0 of 2")
    press(shown, "r")
    expect(shown.locator(".jump-repeat .name")).to_have_text("repeat 1 of 2")
    shown.locator(".jump-repeat .forward").click()
    at(shown, 6)
    expect(shown.locator(".jump-repeat .name")).to_have_text("repeat 2 of 2")
    press(shown, "r")
    expect(shown.locator(".notice")).to_have_text("no later repeat")


def test_a_search_counts_marks_and_leads_to_its_hits(opened: Opened) -> None:
    shown = opened()
    press(shown, "/")
    field = shown.locator(".search")
    expect(field).to_be_focused()
    field.type("THING_30")
    expect(shown.locator(".found")).to_have_text("1 of 3")
    expect(row(shown, 1).locator("mark")).to_have_text("thing_30")  # it was folded away
    expect(row(shown, 1).locator("mark")).to_be_in_viewport()
    field.press("Enter")
    at(shown, 5)
    press(shown, "n")
    at(shown, 6)
    expect(shown.locator(".found")).to_have_text("3 of 3")
    press(shown, "Shift+N")
    at(shown, 5)
    field.fill("a.c(")
    expect(shown.locator(".found")).to_have_text("no hits")
    field.press("Escape")
    expect(shown.locator(".boolab-replay")).to_be_focused()


def test_a_subagent_is_opened_from_its_call_and_leads_back(opened: Opened) -> None:
    shown = opened(step=4)
    shown.locator(".call button.subagent").click()
    inner = shown.locator(".level").last
    expect(inner.locator(".said-text").first).to_have_text("I list first.")
    expect(inner.locator(".step-number")).to_have_text("step 1 of 2")
    press(shown, "ArrowRight")
    expect(inner.locator(".step-number")).to_have_text("step 2 of 2")
    shown.get_by_role("button", name="back to step 4 of Rename old_name").click()
    at(shown, 4)
    shown.locator(".call button.subagent").click()
    expect(inner.locator(".step-number")).to_have_text("step 2 of 2")
    press(shown, "Escape")
    at(shown, 4)
    expect(shown.locator(".level")).to_have_count(1)


def test_subagent_has_a_summary_at_its_call_and_an_outline_line(opened: Opened) -> None:
    shown = opened(step=4)
    expect(row(shown, 4).locator(".call .subagent")).to_contain_text(
        "scout Which tests use it?○ finished · 2 steps, 1 call"
    )
    line = shown.locator(".outline .child")
    expect(line).to_contain_text("Which tests use it?2 steps")
    line.click()
    expect(shown.locator(".trail")).to_be_visible()
    expect(shown.locator(".level").last.locator("h3")).to_have_text("Which tests use it?")


def test_subagent_without_a_known_call_is_between_the_steps(opened: Opened) -> None:
    run = played()
    lost = replace(run.subagents[0], run_id="lost", task="Look elsewhere")
    shown = opened(replay_data(replace(run, subagents=(*run.subagents, lost)), []), step=STOP)
    found = shown.locator(".transcript .between.subagent")
    expect(found).to_contain_text("2 steps. Which call started it is not on record.")
    found.get_by_role("button", name="Subagent: Look elsewhere").click()
    expect(shown.locator(".level").last.locator("h3")).to_have_text("Look elsewhere")
    press(shown, "Escape")
    shown.locator(".outline .between.subagent").click()
    expect(shown.locator(".level").last.locator("h3")).to_have_text("Look elsewhere")


def test_a_link_leads_to_a_step_of_a_subagent(opened: Opened, data: dict[str, Any]) -> None:
    shown = opened()
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown.locator(".outline .child").click()
    press(shown, "ArrowRight", "c")
    expect(shown.locator(".level").last.locator(".notice")).to_have_text("link copied")
    link = shown.evaluate("navigator.clipboard.readText()")
    name = data["children"][0]["run"]["run_id"]
    assert link.endswith(f"#light&step=2&in={name}")
    expect(shown).to_have_url(link)
    shown.goto("about:blank")
    shown.goto(link)
    expect(shown.locator(".level").last.locator(".step-number")).to_have_text("step 2 of 2")
    press(shown, "Escape")
    at(shown, 4)
    expect(shown).to_have_url(re.compile("#light&step=4$"))
    shown.evaluate(f"location.hash = 'light&step=1&in={name}'")
    expect(shown.locator(".level").last.locator(".step-number")).to_have_text("step 1 of 2")


def test_a_run_without_steps_says_so(opened: Opened, data: dict[str, Any]) -> None:
    gauges = [{**gauge, "values": gauge["values"][:1]} for gauge in data["gauges"]]
    nothing = {
        "between": [],
        "steps": [],
        "turns": [],
        "outline": [],
        "marks": [],
        "children": [],
        "gauges": gauges,
    }
    shown = opened({**data, **nothing})
    expect(shown.locator(".transcript")).to_contain_text("This run has no steps.")
    expect(shown.locator(".play")).to_be_disabled()
    press(shown, "ArrowRight", " ", "e", "End")
    expect(shown.locator(".step-number")).to_have_text("step 0 of 0")


def test_five_thousand_steps_are_drawn_a_screenful_at_a_time(opened: Opened, data: dict[str, Any]) -> None:
    n = 5_000
    step = data["steps"][1]
    many = {
        **data,
        "steps": [{**step, "turn": 1, "start_ms": i * 1000, "duration_ms": 900} for i in range(n)],
        "turns": [{"title": "Go on", "text": "Go on", "first": 1, "last": n}],
        "gauges": [{"key": "steps", "label": "steps", "unit": "count", "limit": None, "values": [*range(n + 1)]}],
        "outline": [{"turn": 1, "title": "Go on", "items": [
            {"label": f"read {i}", "kind": "read", "first": i, "last": i, "errors": 0, "repeats": 1}
            for i in range(1, n + 1)
        ]}],
        "children": [],
    }  # fmt: skip
    shown = opened(many)
    press(shown, "End")
    at(shown, n, n)
    expect(shown.locator(f".outline [data-first='{n}']")).to_be_visible()
    assert shown.evaluate("document.querySelectorAll('*').length") < 500


TWO_VIEWS: Final = """
globalThis.pending = new Set();
globalThis.saved = 0;
for (const [start, end] of [["setTimeout", "clearTimeout"], ["requestAnimationFrame", "cancelAnimationFrame"]]) {
  const [started, ended] = [globalThis[start].bind(globalThis), globalThis[end].bind(globalThis)];
  globalThis[start] = (act, wait) => {
    const id = started((now) => { pending.delete(start + id); act(now); }, wait);
    pending.add(start + id);
    return id;
  };
  globalThis[end] = (id) => { pending.delete(start + id); ended(id); };
}
const bytes = Uint8Array.from(atob(DATA), (one) => one.charCodeAt(0));
const values = {step: 1, playing: false, speed: 1, axis: "count", query: "", _data: new DataView(bytes.buffer)};
const listeners = {};
globalThis.model = {
  get: (name) => values[name],
  set(name, value) {
    if (values[name] === value) return;
    values[name] = value;
    for (const one of [...(listeners["change:" + name] ?? [])]) one();
  },
  on: (event, one) => (listeners[event] ??= []).push(one),
  off: (event, one) => (listeners[event] = listeners[event].filter((other) => other !== one)),
  save_changes() { globalThis.saved = values.step; },
};
globalThis.listening = () => Object.values(listeners).flat().length;
globalThis.ends = ["left", "right"].map((id) => render({model, el: document.getElementById(id)}));
"""


def test_two_views_of_a_model_stay_in_sync_and_clean_up(page_of: PageOf, data: dict[str, Any]) -> None:
    packed_data = json.dumps(base64.b64encode(pack(data)).decode())
    source = module_of("replay").rstrip().removesuffix("export default { render };")
    shown = page_of(
        f"<!doctype html><meta charset='utf-8'><style>{styles_of('replay')}</style>"
        f"<div id='left'></div><div id='right'></div>"
        f"<script type='module'>{source}\nconst DATA = {packed_data};\n{TWO_VIEWS}</script>"
    )
    left, right = shown.locator("#left"), shown.locator("#right")
    left.press("ArrowRight")
    expect(right.locator(".step-number")).to_have_text("step 2 of 7")
    shown.wait_for_function("saved === 2")
    shown.evaluate("model.set('step', 5)")
    expect(left.locator(".step-row[aria-current]")).to_have_attribute("data-step", "5")
    expect(right.locator(".step-row[aria-current]")).to_have_attribute("data-step", "5")
    right.locator(".search").fill("core")
    expect(left.locator(".search")).to_have_value("core")
    left.press("Home")
    left.locator(".play").click()
    expect(right.locator(".play")).to_have_text("❚❚ Pause")
    expect(right.locator(".step-number")).to_have_text("step 2 of 7")
    shown.evaluate("ends[0]()")
    expect(right.locator(".step-number")).to_have_text("step 3 of 7")
    expect(left.locator(".level")).to_have_count(0)
    shown.evaluate("ends[1]()")
    assert shown.evaluate("[listening(), [...pending]]") == [0, []]
