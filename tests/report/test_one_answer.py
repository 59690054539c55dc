"""One question, one answer (see `test_forty_questions`); and what is pasted gives the numbers that stand beside it."""

import contextlib
import html
import io
import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.harnesses.setting import Setting, as_code, as_front_matter
from boolab.io.resources import data_path
from boolab.limits.table import AGENT_LIMITS as LIMITS
from boolab.report.html_page import page_of
from boolab.report.question import Question
from boolab.report.snippets import LogInputs, front_matter, python, shell
from boolab.report.study import Study, study_of
from boolab.report.units import turns_as_units
from boolab.runtime.agents.agent import policy_of
from tests.support.caplab_cases import Told, runs_of
from tests.support.cases import first
from tests.support.project import ROOT

DATASET = str(data_path("datasets") / "runs")
PUBLIC = "atlas/swebench-verified"
POLLS = {"*": "canonical", "wait_for_build": None}
TOUR = ROOT / "docs/tour.md"


def labelled(folder: Path) -> str:
    """A small labelled set: 60 successes of up to 8 steps, failures that go on, in a loop or not; two are long."""
    words = ["A B C", "A B C D E F", "A A B C D", "AB CD EF GH A B C"]
    told = [Told((f"{words[n % 4]} -",), success=True, task=f"t{n}") for n in range(60)]
    told += [Told(("A B C " * 7 + "-",), success=False, task=f"f{n}") for n in range(12)]
    told += [Told(("A B C D E F G " * (3 + 20 * n) + "-",), success=False, task=f"g{n}") for n in range(3)]
    path = folder / "small.jsonl"
    bl.save_runs(runs_of(*told), path)
    return str(path)


@pytest.fixture(scope="module", params=first(1, ["small", "dataset"]))
def logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return DATASET if request.param == "dataset" else labelled(tmp_path_factory.mktemp("logs"))


def printed(*words: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(words) == 0
    return out.getvalue()


def of_lab(lab: bl.CapLab) -> dict[str, int | None]:
    """What CapLab says is to be set."""
    return lab.recommended["setting"] or dict.fromkeys(LIMITS)


def of_groups(text: str) -> dict[str, int | None]:
    """The setting in what `whatif --json` prints."""
    (row,) = json.loads(text)["recommendation"]["groups"]
    return {axis: row[axis] for axis in LIMITS}


def test_whatif_by_all_takes_agents_and_subagents_together() -> None:
    logs = str(ROOT / "tests/data/claude_code")
    found = bl.recommend(bl.load_runs(logs), by=[])
    assert len(found.frame) == 1
    pooled = json.loads(printed("whatif", logs, "--by", "all", "--json"))["recommendation"]["groups"]
    assert [row["successes"] for row in pooled] == [*found.frame["successes"]]
    assert len(json.loads(printed("whatif", logs, "--json"))["recommendation"]["groups"]) == 2
    study = study_of([logs], Question(by=()))
    assert "by=[]" in python(study, LogInputs((logs,)))


def test_without_labels_each_turn_counts_by_itself_everywhere(tmp_path: Path) -> None:
    words = ["A B C -", "A B C D E F -", "A -", "AB CD EF GH -"]
    told = [Told(tuple(words[(n + turn) % 4] for turn in range(3))) for n in range(40)]
    told += [Told(("A B -", "A B C D E F G " * (4 + n) + "-", "A -")) for n in range(2)]
    runs, path = runs_of(*told), tmp_path / "sessions.jsonl"
    bl.save_runs(runs, path)
    found = bl.recommend(runs, keep=0.9, objective="steps")
    row = found.frame.iloc[0]
    assert row["n_units"] == row["successes"] == 3 * 42
    (said,) = json.loads(printed("whatif", str(path), "--keep", "0.9", "--objective", "steps", "--json"))[
        "recommendation"
    ]["groups"]
    lab = bl.CapLab(runs, keep=0.9, objective="steps")
    lab.setting = lab.recommended["candidate"]
    assert lab.setting["max_steps"] is not None
    kept = {"lower": said["kept_lower"], "upper": said["kept_upper"], "of": said["successes"]}
    assert lab.answer["kept"] == kept == {"lower": row["kept_lower"], "upper": row["kept_upper"], "of": 3 * 42}
    assert lab.answer["saved"][0]["saved"] == row["saved"]
    assert f"of {lab.setting['max_steps']} would keep {kept['lower']} of 126 turns" in lab.answer["verdict"][0]


@pytest.mark.slow
def test_the_tour_shows_what_is_recommended() -> None:
    code = next(
        block for block in re.findall(r"```python\n(.*?)```", TOUR.read_text("utf-8"), re.DOTALL)
        if "decision = bl.recommend(" in block
    )  # fmt: skip
    names: dict[str, Any] = {"bl": bl, "runs": bl.load_dataset(PUBLIC)}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, names)  # noqa: S102 - what it shows is what is tested
    said = of_groups(printed("whatif", PUBLIC, "--json"))
    assert f"`boolab whatif {PUBLIC}`" in TOUR.read_text("utf-8")
    assert said == {axis: names["decision"].setting[axis] for axis in LIMITS}
    assert of_lab(bl.CapLab(names["runs"])) == said


def test_a_tool_that_polls_is_exempt_everywhere() -> None:
    runs = bl.load_runs(DATASET)
    said = of_groups(printed("whatif", DATASET, "--keep", "0.9", "--exempt", "wait_for_build", "--json"))
    found = bl.recommend(runs, keep=0.9, exempt=["wait_for_build"])
    assert said == {axis: found.setting[axis] for axis in LIMITS}
    assert of_lab(bl.CapLab(runs, keep=0.9, identity={**POLLS})) == said


# --- What is pasted ---------------------------------------------------------------------------------------------------


def agent_in(text: str, folder: Path) -> bl.Agent:
    """The agent that a front matter is."""
    path = folder / "AGENTS.md"
    path.write_text(f"{text.rstrip()}\nDo it.\n", "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (agent,) = bl.load_agents(path).values()
    return agent


def played(runs: Sequence[bl.Run], agent: bl.Agent) -> tuple[int, int]:
    """How many successes an agent leaves as they were, and how many steps it saves, with each turn played again."""
    quiet = policy_of(agent).vary(wrap_up={"summary": "none"})
    kept = saved = 0
    for run in runs:
        less = 0
        for unit in turns_as_units(run, 0):
            again = bl.run_sync(agent, "go", model=bl.RecordedModel(unit.run), policy=quiet)
            less += max(
                unit.run.n_steps - again.n_steps, 0
            )  # beyond what the recording's own cap let it say is nothing
        saved += less
        kept += bool(run.success) and not less
    return kept, saved


def told(runs: Sequence[bl.Run], setting: Setting) -> tuple[int, int]:
    """The same as a counterfactual tells it: the successes that are kept at least, and the steps that are saved."""
    grid = {axis: [value] for axis, value in setting.limits.items()}
    (row,) = bl.counterfactual(runs, grid=grid, identity=setting.identity, scope=setting.scope, aggregate=True).to_dict(
        "records"
    )
    return int(row["kept_lower"]), int(row["saved_steps"])


AGENT_LIMITS = [
    Setting(doom_loop=5),
    Setting(doom_loop=5, identity=POLLS),
    Setting(max_steps=56, tool_budget=60, doom_loop=4, identity={"*": "ordered", "wait_for_build": None}),
    Setting(doom_loop=3, identity={"*": "canonical", "wait_for_build": "call+result"}),
]


@pytest.mark.parametrize("setting", first(1, AGENT_LIMITS), ids=str)
def test_pasted_setting_keeps_and_saves_what_caplab_shows(setting: Setting, tmp_path: Path) -> None:
    runs = bl.load_runs(DATASET)
    lab = bl.CapLab(runs, identity=setting.identity)
    lab.setting = setting.limits
    answer = lab.answer
    steps = next(saved for saved in answer["saved"] if saved["measure"] == "steps")
    beside = (answer["kept"]["lower"], steps["saved"])
    assert beside == told(runs, setting)
    names: dict[str, Any] = {}
    texts = {way["name"]: way["text"] for way in answer["how"]}
    exec(texts["python"], names)  # noqa: S102 - that it runs and what it gives is what is tested
    assert played(runs, names["agent"]) == beside
    (row,) = bl.counterfactual(runs, rules=names["rule"], scope=setting.scope, aggregate=True).to_dict("records")
    assert (row["kept_lower"], row["saved_steps"]) == beside
    front = texts["boolab"]
    reached = played(runs, agent_in(front, tmp_path)) == beside
    assert reached or "#" in front
    assert reached or "ends a run at 200 steps" in front or "which no agent file can express" in front
    assert (as_code(setting), as_front_matter(setting)) == (texts["python"], front)


@pytest.mark.parametrize(
    ("identity", "grid"),
    [
        pytest.param(None, None, marks=pytest.mark.slow),
        (POLLS, {"doom_loop": [4, 5, 6]}),
        pytest.param("tool", None, marks=pytest.mark.slow),
    ],
)
def test_what_the_report_says_to_use_gives_its_numbers(logs: str, identity: Any, grid: Any, tmp_path: Path) -> None:
    if identity == POLLS and logs != DATASET:
        pytest.skip("no run of that set polls")
    study = study_of([logs], Question(keep=0.9, identity=identity, grid=grid))
    row, inputs = study.found.frame.iloc[0], LogInputs([logs])
    front = front_matter(study)
    assert (front in html.unescape(page_of(study, inputs=inputs))) == (study.found.action == "set")
    names: dict[str, Any] = {}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(python(study, inputs), names)  # noqa: S102
    assert names["found"].frame.equals(study.found.frame)
    assert names["found"].sentences == study.found.sentences
    if row["action"] == "set":
        (table,) = names["table"].to_dict("records")
        assert (table["kept_lower"], table["kept_upper"]) == (row["kept_lower"], row["kept_upper"])
        setting = Setting(**{axis: names["found"].setting.get(axis) for axis in LIMITS})
        kept = played(study.runs, agent_in(front, tmp_path))[0]
        assert kept == row["kept_lower"] or (setting.max_steps is None and "ends a run at 200 steps" in front)
    name, *words = re.findall(r"\S+", shell(study, inputs))
    said = json.loads(printed(*words, "--json"))
    assert name == "boolab"
    assert said["recommendation"]["groups"] == json.loads(json.dumps(groups_of(study)))


def groups_of(study: Study) -> list[dict[str, Any]]:
    from boolab.report.text import records

    return records(study.found.frame)


def test_each_agent_of_a_family_gets_a_front_matter_of_its_own(tmp_path: Path) -> None:
    study = study_of([str(data_path("datasets") / "families")], Question(keep=0.9))
    blocks = front_matter(study).split("\n\n")
    agents = [agent_in(block, tmp_path) for block in blocks]
    assert [(agent.name, agent.max_steps) for agent in agents] == [
        (row["agent"], row["max_steps"]) for _, row in study.found.frame.iterrows()
    ]
    lab = bl.CapLab(study.runs, keep=0.9)
    for agent in agents:
        lab.setting = {"agent": agent.name}
        assert lab.recommended["setting"]["max_steps"] == agent.max_steps


@pytest.mark.parametrize("policy", first(1, ["claude_code", "langgraph_react", "openhands"]))
def test_code_and_command_give_the_answer_under_a_policy_too(policy: str, tmp_path: Path) -> None:
    study = study_of([DATASET], Question(keep=0.9, policy=policy))
    inputs, names = LogInputs([DATASET]), dict[str, Any]()
    with contextlib.redirect_stdout(io.StringIO()):
        exec(python(study, inputs), names)  # noqa: S102
    said = json.loads(printed(*shell(study, inputs).split()[1:], "--json"))
    assert said["recommendation"]["groups"] == json.loads(json.dumps(groups_of(study)))
    agent = agent_in(front_matter(study), tmp_path)
    if study.found.frame.empty:
        assert "found" not in names
        assert f"No recommendation. policy {policy}: " in html.unescape(re.sub(r"</?b>", "", page_of(study)))
        assert "No limit is to be set" in front_matter(study)
        return
    assert names["found"].frame.equals(study.found.frame)
    if study.found.action == "set":
        assert (agent.policy, agent.max_steps) == (policy, study.found.setting["max_steps"])
