"""A page that was written is enough: from a file, without a network and without a kernel."""

import pytest
from playwright.sync_api import expect

import boolab as bl
from tests.browser.chromium import PATIENCE_MS
from tests.browser.conftest import PageOf
from tests.browser.examples import EXAMPLES, example, failing, page_with, runs

# ipykernel and zmq leave sockets to the garbage collector when a notebook's kernel ends.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def test_replay_plays_searches_and_jumps(page_of: PageOf) -> None:
    run = failing()
    wrong = [step.index for step in run.steps if any(one and one.is_error for one in step.results)]
    replay = page_of(page_with("Replay")).locator(".boolab-replay")
    replay.focus()
    for step in wrong[:3]:
        replay.press("e")
        expect(replay.locator(".step-number")).to_contain_text(f"step {step} of {run.n_steps}")
    replay.press("E")
    expect(replay.locator(".step-number")).to_contain_text(f"step {wrong[1]} of")
    replay.press("Home")
    replay.locator("select.speed").select_option("16")
    replay.locator(".play").click()
    expect(replay.locator(".step-number")).to_contain_text(f"step {run.n_steps} of", timeout=PATIENCE_MS)


@pytest.mark.slow
def test_replay_says_what_each_step_did(page_of: PageOf) -> None:
    run = failing()
    replay = page_of(page_with("Replay")).locator(".boolab-replay")
    replay.focus()
    for step in run.steps[:10]:
        expect(replay.locator(".step-number")).to_contain_text(f"step {step.index} of")
        for call, result in zip(step.response.tool_calls, step.results, strict=True):
            expect(replay).to_contain_text(call.name)
            expect(replay).to_contain_text(result.content.splitlines()[0] if result else "")
        replay.press("ArrowRight")


@pytest.mark.slow
def test_a_slider_of_caplab_moves_its_numbers(page_of: PageOf) -> None:
    lab = page_of(page_with("CapLab")).locator(".boolab-caplab")
    slider = lab.locator(".boolab-cap input")
    slider.wait_for()
    before = lab.locator(".numbers").inner_text()
    slider.press("End")
    expect(lab.locator(".numbers")).not_to_have_text(before, use_inner_text=True)
    expect(lab.locator(".run-row")).to_have_count(0)
    slider.press("Home")
    expect(lab.locator(".run-row")).not_to_have_count(0)


@pytest.mark.slow
def test_a_click_on_the_heat_map_and_on_a_run_opens_its_replay(page_of: PageOf) -> None:
    page = page_of(page_with("Heatmap"))
    page.locator(".cell[data-x='8'][data-y='12']").click()
    row = page.locator(".run-row").first
    (run,) = [run for run in runs() if run.run_id == row.get_attribute("data-run")]
    row.locator("button.open").click()
    stop = bl.counterfactual(run, grid={"max_steps": [8], "tool_budget": [12]}, progress=False)["stop_step"][0]
    expect(page.locator(".opened .boolab-replay .step-number")).to_contain_text(f"step {stop} of {run.n_steps}")


@pytest.mark.slow
def test_a_step_of_either_compared_run_opens_its_replay(page_of: PageOf) -> None:
    page = page_of(page_with("Compare"))
    expect(page.locator(".divergence")).to_be_in_viewport()
    for side in ("a", "b"):
        page.locator(f".head[data-side='{side}'] .open").click()
        parted = page.locator(f".row.different[data-{side}]").first.get_attribute(f"data-{side}")
        expect(page.locator(".opened .boolab-replay .step-number")).to_contain_text(f"step {parted} of")


@pytest.mark.slow
def test_an_agents_file_is_read_with_the_limits_that_follow(page_of: PageOf) -> None:
    form = page_of(page_with("AgentEditor")).locator(".boolab-agent_editor")
    editor = example("AgentEditor")
    assert isinstance(editor, bl.AgentEditor)
    expect(form.locator(".limits li")).to_have_text(editor.effective)
    for name, control in editor.fields.items():
        said = form.locator(f"[data-field={name}]").first
        expect(said).to_contain_text(control.value.splitlines()[0] if control.value else "not set")


def test_a_sweep_that_ended_stays_as_it_ended(page_of: PageOf) -> None:
    view = page_of(page_with("SweepView")).locator(".boolab-sweep_view")
    expect(view.locator("h3")).to_contain_text("4 of 4 runs")
    expect(view.get_by_role("progressbar")).to_have_count(0)
    expect(view.locator(".key li")).to_have_text(["step cap 2", "doom-loop threshold 2"])


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_where_no_script_runs_text_and_picture_stand(name: str, page_of: PageOf) -> None:
    page = page_of(page_with(name), javascript=False)
    assert len(page.locator("noscript pre").inner_text()) > 40
    if name != "AgentEditor":  # a form: all that it says is in the text
        assert page.locator("noscript img").evaluate("(one) => one.naturalWidth") > 300


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_notebook_keeps_is_a_short_text_and_a_page(name: str) -> None:
    bundle = example(name)._repr_mimebundle_()
    assert bundle["text/plain"].startswith(f"{name}(")
    assert len(bundle["text/plain"]) < 10_000
    assert "<iframe" in bundle["text/html"]
