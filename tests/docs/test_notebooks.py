"""The notebooks run from top to bottom, are committed without outputs, and do what they say."""

import contextlib
import html
import io
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import first
from tests.support.model_protocols import CHAT, Said
from tests.support.model_server import ModelServer, stream
from tests.support.notebooks import BY_NUMBER, allow_ten_minutes, execute, sources
from tests.support.project import ROOT

pytestmark = [
    # ipykernel and zmq leave sockets to the garbage collector when a notebook's kernel ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LOGS = ROOT.parent / "shared/data/claude-code"


def images(notebook: Any) -> int:
    """How many figures its cells show."""
    return sum("image/png" in out.get("data", {}) for cell in notebook.cells for out in cell.get("outputs", ()))


def first_output(notebook: Any) -> str:
    """The text of the first cell that prints or shows something."""
    cell = next(cell for cell in notebook.cells if cell.get("outputs"))
    data = [out.get("data", {"text/plain": out.get("text", "")}) for out in cell.outputs]
    shown = "".join(one.get(kind, "") for one in data for kind in ("text/html", "text/markdown", "text/plain"))
    return html.unescape(re.sub(r"<[^>]+>", "", shown))


def prose(notebook: Any) -> str:
    """All Markdown of a notebook, in one line."""
    return " ".join(" ".join(cell.source.split()) for cell in notebook.cells if cell.cell_type == "markdown")


def test_there_are_notebooks() -> None:
    assert [path.stem for path in BY_NUMBER.values()] == [
        "01_sixty_seconds",
        "02_harnesses",
        "03_your_own_logs",
        "04_from_naive_to_production",
        "05_what_limits_should_agents_have",
        "06_real_models",
        "07_sweeps",
        "08_replay_and_explore",
        "09_turn_limits",
        "10_should_we_raise_the_cap",
        "11_does_it_come_true",
        "12_where_the_money_goes",
    ]


@pytest.mark.parametrize("path", BY_NUMBER.values(), ids=lambda path: path.stem)
def test_outputs_are_stripped(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert "widgets" not in notebook["metadata"]


@pytest.mark.parametrize("path", BY_NUMBER.values(), ids=lambda path: path.stem)
def test_notebook_cells_have_at_most_15_lines_of_88_characters(path: Path) -> None:
    cells = [cell.splitlines() for cell in sources(path)]
    assert [lines for lines in cells if len(lines) > 15] == []
    assert [line for lines in cells for line in lines if len(line) > 88] == []


@pytest.mark.parametrize("path", BY_NUMBER.values(), ids=lambda path: path.stem)
def test_figures_follow_the_theme_of_the_notebook(path: Path) -> None:
    lines = [line for cell in sources(path) for line in cell.splitlines()]
    made = [line for line in lines if "plt.subplots(" in line or "plt.figure(" in line]
    assert made == [], "white in a dark notebook: leave ax= out, or use boolab.plots.themed.new_figure"


@pytest.mark.parametrize("path", BY_NUMBER.values(), ids=lambda path: path.stem)
def test_amounts_of_dollars_are_not_read_as_a_formula(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert [text for text in texts if len(re.findall(r"(?<!\\)\$", text)) > 1] == [], r"write \$30 where there are two"


@pytest.mark.parametrize("path", BY_NUMBER.values(), ids=lambda path: path.stem)
def test_notebook_title_asks_or_teaches_and_code_follows(path: Path) -> None:
    first, second, *_ = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title = "".join(first["source"]).splitlines()[0]
    assert (first["cell_type"], second["cell_type"]) == ("markdown", "code")
    assert re.fullmatch(r"# (How to .*|.*\?)", title)


@pytest.mark.slow
def test_notebook_01_answers_first_and_shows_a_stopped_failure() -> None:
    extra = (
        "from boolab.widgets.replay.what_if_marks import marks_of_each\n"
        "stops = marks_of_each([longest], [], [bl.max_steps(cap)])[0]\n"
        "print(longest.success, longest.n_steps > cap, stops[1]['step'] == cap)"
    )
    notebook = execute(BY_NUMBER["01"], extra)
    assert "step cap of 3: on record it keeps 136 of 139 successes" in first_output(notebook)
    assert "236 runs of 119 tasks" in first_output(notebook)
    assert notebook.cells[-1].outputs[0]["text"].strip() == "False True True"


LAST = "print(setting, surprising.run_id, polling, sorted(lossless))"


@pytest.mark.slow
def test_03_answers_first_and_finds_the_stuck_run_and_what_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOOLAB_LOGS", raising=False)
    monkeypatch.delenv("BOOLAB_SCOPE", raising=False)
    notebook = execute(BY_NUMBER["03"], LAST)
    printed = notebook.cells[-1].outputs[0]["text"].strip()
    limits = "['doom_loop', 'max_steps', 'tool_budget']"
    assert printed == f"{{'max_steps': 59}} coder-041 ['wait_for_build'] {limits}"
    assert "step cap of 59" in first_output(notebook)
    assert images(notebook) == 4


@pytest.mark.slow
def test_03_runs_on_a_public_set_that_has_no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOLAB_LOGS", "atlas/intercode-bash")
    monkeypatch.setenv("BOOLAB_SCOPE", "run")
    notebook = execute(BY_NUMBER["03"], LAST)
    assert notebook.cells[-1].outputs[0]["text"].startswith("{'max_steps': 6} ")
    assert "step cap of 6" in first_output(notebook)


@pytest.mark.slow
@pytest.mark.skipif(not LOGS.is_dir(), reason=f"{LOGS} is not beside the checkout")
def test_03_recommends_nothing_from_logs_with_too_few_successes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOLAB_LOGS", str(LOGS))
    monkeypatch.delenv("BOOLAB_SCOPE", raising=False)
    notebook = execute(BY_NUMBER["03"], LAST)
    assert notebook.cells[-1].outputs[0]["text"].startswith("{} ")


@pytest.mark.parametrize("number", first(1, ["03", "08", "12"]))
@pytest.mark.parametrize(
    "source",
    [
        "gemini",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("claude_code", "codex", "opencode", "mini_swe_agent")
        ),
    ],
)
def test_notebooks_run_on_own_logs(source: str, number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs, without labels, and other tools than those of the sample: cell by cell, without a kernel."""
    monkeypatch.setenv("BOOLAB_LOGS", str(ROOT / "tests/data" / source))
    monkeypatch.delenv("BOOLAB_SCOPE", raising=False)
    names: dict[str, Any] = {}
    cells = json.loads(BY_NUMBER[number].read_text(encoding="utf-8"))["cells"]
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for code in ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]:
            exec(compile(code, f"{number}: {code[:40]}", "exec"), names)  # noqa: S102 - our own notebook
    if "folder" in names:  # the one of 08 lasts as long as its kernel
        names["folder"].cleanup()


@pytest.mark.slow
def test_12_shows_where_the_money_of_real_sessions_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_ten_minutes()
    monkeypatch.delenv("BOOLAB_LOGS", raising=False)
    notebook = execute(BY_NUMBER["12"], "print(len(runs), stated.sum(), session.run_id[:8])")
    assert notebook.cells[-1].outputs[0]["text"].strip() == "47 2 ffae836b"
    assert "(base)" in first_output(notebook)
    assert images(notebook) == 2


HARNESSES = """
of = {one["policy"]: one for one in capped}
print(
    [*map(str, early.loc["naive", ["stop_reason", "n_steps", "n_dropped"]])], int(parted.loc["naive", "boocode"]),
    [int(noticed.loc[name, "greps run"]) for name in ("boocode", "crush", "opencode_v1")],
    [(of[name]["model calls"], of[name]["tools run"]) for name in ("opencode_v2", "inspect_react", "boocode", "aider")],
    [*watched["polling"].dropna().astype(int)],
)
stuck = made[made["model"] == "stuck"].set_index("policy")["n_steps"]
print(f"ceiling of {stuck.max():,} steps")
loops = noticed[noticed["stop_reason"].isin(["doom_loop", "stuck"])]
caps = noticed[(noticed["stop_reason"] == "step_cap") & (noticed["greps run"] > 1)]["greps run"]
print(loops["greps run"].max() <= 10, f"Caps stop at {caps.min()} to {caps.max()}")
"""


@pytest.mark.slow
def test_notebook_02_shows_what_each_harness_does_with_a_script() -> None:
    notebook = execute(BY_NUMBER["02"], HARNESSES)
    found, ceiling, caps = notebook.cells[-1].outputs[0]["text"].strip().splitlines()
    assert found == "['finished', '2', '2'] 3 [3, 10, 364] [(3, 2), (4, 3), (4, 3), (1, 1)] [3, 5, 5]"
    assert ceiling in prose(notebook)
    assert caps.startswith("True ")
    assert caps.removeprefix("True ") in prose(notebook)
    assert "step_cap" in first_output(notebook)
    assert images(notebook) == 3


BUILT = """
_end = ends.pivot(index="model", columns="policy", values="end")
cycle = await bl.run(None, "x", model=scripts["alternating"], tools=TOOLS, stop=bl.cycle(2, 3))
print(
    [_end.loc[name, "naive loop"] for name in ("early_exit", "stuck", "greps")],
    [_end.loc[name, "+ compaction"] for name in ("early_exit", "stuck", "greps", "polling", "alternating")],
    cycle.stop_reason, retried["stop_reason"].tolist(),
)
one, last = table.iloc[0], table.iloc[-1]
capped, reminded = table.loc["+ step cap", "solved"], table.loc["+ reminder", "solved"]
print(
    one["dropped"] > last["dropped"] == 0, one["no_last_text"] > last["no_last_text"] == 0,
    one["solved"] > reminded > capped,
    cost.loc["without step cap", "million_tokens"] > 0 >= cost.loc["without step cap", "solved"],
    cost.loc["without doom-loop detector", "model_calls"] > 0, cost.loc["without compaction", "million_tokens"] > 0,
    cost.loc["without tool budget", "tools_run"] > 0, cost.loc["without reminder", "solved"] < 0,
)
"""
"""What each technique of 04 does, as its text reports it."""


@pytest.mark.slow
def test_notebook_04_shows_three_failures_and_gains_by_technique() -> None:
    notebook = execute(BY_NUMBER["04"], BUILT)
    ended, bought = "".join(out["text"] for out in notebook.cells[-1].outputs).strip().splitlines()
    assert ended == (
        "['finished, 2', 'step_cap, 1000', 'finished, 365'] "
        "['finished, 4', 'doom_loop, 4', 'doom_loop, 4', 'finished, 9', 'finished, 25'] "
        "stuck ['error', 'finished', 'step_cap']"
    )
    assert set(bought.split()) == {"True"}
    assert images(notebook) == 1


REMINDED = """
kept, cost = (left[what].unstack("reminder").stack("policy", future_stack=True)[list(EFFECTS)] for what in left)
both = pd.DataFrame(rows).T["cost saved by the limit (%)"].round().astype(int).tolist()
unknown = {row["no effect"] for _, row in pd.Series(more).unstack().iterrows()}
keeps_more, costs_less = (kept.diff(axis=1).iloc[:, 1:] >= 0).all(), (cost.diff(axis=1).iloc[:, 1:] <= 0).all()
print(keeps_more.all(), costs_less.all(), unknown, both, quartiles)
print(f"the plain stop above saves {1 - left['cost_usd'].loc[('Gemini 2.5 Pro', 'no effect'), 'p75']:.0%}")
"""
"""Whether a stronger effect of the reminder keeps more, and an extension that no agent reacts to saves nothing."""


@pytest.mark.slow
def test_notebook_09_shows_kept_successes_and_quotes_its_figures() -> None:
    notebook = execute(BY_NUMBER["09"], REMINDED)
    found, quoted = notebook.cells[-1].outputs[0]["text"].strip().splitlines()
    assert found == "True True {'0 (0 to 0)'} [68, 40, 72] [11, 17, 28]"
    assert quoted in prose(notebook)
    assert "successes kept" in first_output(notebook)
    told = [out["text"] for cell in notebook.cells for out in cell.get("outputs", ()) if "text" in out]
    assert "".join(told).count("refused: policy") == 1
    assert images(notebook) == 1


TRIED = """
hazards = {name: (at_least <= true <= at_most) for name, (_, at_least, at_most, true) in rows.items()}
print(
    truth, check.result.gain.low <= truth <= check.result.gain.high, check.result.n_branches, hazards,
    found.gain.width <= 103.4, found.spent <= 60, found.budget_stopped, effects.threshold > 0.4,
    reminded.result.gain.low > 0, raised.n_branches, held,
)
"""
"""Whether branches that play the record back find the truth, and which hazards do."""


@pytest.mark.slow
def test_notebook_10_branches_find_what_the_record_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")  # no weights: answers of the recording
    monkeypatch.delenv("BOOLAB_GGUF", raising=False)
    notebook = execute(BY_NUMBER["10"], TRIED)
    assert "the outcome of 272 runs is open" in first_output(notebook)
    assert notebook.cells[-1].outputs[0]["text"].strip() == (
        "149 True 150 {'GPT-4': True, 'GPT-3.5': False, 'StarChat': False} True True False True True 20 True"
    )
    assert images(notebook) == 2


@pytest.mark.slow
def test_notebook_11_compares_runs_with_what_the_recording_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")  # no weights: answers of the recording
    monkeypatch.delenv("BOOLAB_GGUF", raising=False)
    notebook = execute(BY_NUMBER["11"], "print(len(fresh) > 0, all(equal), model)")
    assert notebook.cells[-1].outputs[0]["text"].split() == ["True", "True", "None"]
    printed = "".join(out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", ()))
    assert "No model is here, so recorded answers are played back." in printed
    assert "did what the recording predicted (played back, so they must)" in printed
    assert "changes every request" in printed


COMPARED = """
drawn, likeliest = table.loc["drawn"], table.loc["likeliest"]
print(
    int(drawn["runs"]), int(likeliest["successes"]), agreed.loc["mine", "mine"], agreed.loc["likeliest", "likeliest"],
    agreed.loc["mine", "drawn"], agreed.loc["drawn", "drawn"] < 1, same, lost.error.partition(":")[0],
    [branch.steps[0] == longest.steps[0] for branch in branches.values()],
)
"""


@pytest.mark.slow
def test_notebook_06_compares_real_answers_and_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-canary-of-the-notebook"
    monkeypatch.setenv("KEY_OF_MINE", key)
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")  # no weights: recorded answers
    monkeypatch.delenv("BOOLAB_GGUF", raising=False)
    found = Said("I would have to look.")
    with ModelServer(reply=lambda _: stream(*CHAT.events(found))) as own:
        key_of_mine = "__import__('os').environ['KEY_OF_MINE']"
        mine = f"bl.OpenAIModel('mine', base_url={own.url + CHAT.root!r}, api_key={key_of_mine})"
        notebook = execute(BY_NUMBER["06"], COMPARED, {"OWN = []": f"OWN = [{mine}]"})
    printed = notebook.cells[-1].outputs[0]["text"].strip()
    assert printed == "3 3 1.0 1.0 0.0 True True ScriptExhausted [True, True, True]"
    assert "First difference between mine and smollm2-135m" in first_output(notebook)
    assert images(notebook) == 1
    assert {CHAT.key_in(asked) for asked in own.asked} == {key}
    assert key not in json.dumps(notebook)


SWEPT = """
print(
    500 <= before < len(runs) == len(frame) == 10_000, len(plain), sum(agree) == len(agree) == 16, chosen,
    bool(result.loc[chosen, "shown"]), -5 < tried["low"] < 0 < tried["saved_low"], found.setting,
)
"""


@pytest.mark.slow
def test_notebook_07_resumes_a_sweep_and_checks_on_other_tasks() -> None:
    notebook = execute(BY_NUMBER["07"], SWEPT)
    assert "step cap of 48" in first_output(notebook)
    assert (
        notebook.cells[-1].outputs[0]["text"].strip()
        == "True 300 True (48, 6) True True {'max_steps': None, 'doom_loop': None}"
    )
    assert images(notebook) == 2


EXPLORED = """
def lost(lab):
    return {row["run"] for row in lab.answer["rows"] if row["lost"]}


first, at = lab.replay.run, lab.replay.step
made = [(step.response.tool_calls[0].arguments, step.results[0].content) for step in first.steps[at - 3 : at]]
print(
    first.run_id in lost(lab), first.success, at == cut[0]["at"], len({call for call, _ in made}), len(set(made)),
    lost(by_result) < lost(lab), by_result.recommended["action"], by_result.setting["max_steps"] < 20,
    replay.step <= longest.n_steps == 20, heatmap.selected["doom_loop"], "coder" in tries[shortest[0].task][0].run_id,
)
"""
"""Whether the run that the text points at repeats a call that moves on, and fewer successes are lost by results."""


@pytest.mark.slow
def test_notebook_08_shows_cut_repeats_and_effect_of_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BOOLAB_LOGS", raising=False)
    notebook = execute(BY_NUMBER["08"], EXPLORED)
    printed = notebook.cells[-1].outputs[0]["text"].strip()
    assert printed == "True True True 1 3 True set True True 2 True"
    views = [out["data"] for cell in notebook.cells for out in cell.get("outputs", ()) if "data" in out]
    assert sum("application/vnd.jupyter.widget-view+json" in one for one in views) == 5
    assert sum("<iframe" in one.get("text/html", "") for one in views) == 5
