"""What is recommended, as the settings of a harness: one answer in the command, the text, the JSON and the page."""

import contextlib
import html
import io
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.cli.main import main
from boolab.core.types import IDENTITIES
from boolab.harnesses.exports.export import as_command, export, target_of
from boolab.harnesses.exports.values import Limits
from boolab.harnesses.presets import policies
from boolab.harnesses.registry import SOURCES, TARGETS, target_of_source
from boolab.limits.table import LIMITS
from boolab.report.how_to_set import how_to_set
from boolab.report.html_page import page_of
from boolab.report.question import Question
from boolab.report.study import study_of
from boolab.report.text import as_data, text
from tests.support.caplab_cases import Told, runs_of
from tests.support.cases import cases

NUMBERS = st.none() | st.integers(2, 10**6)
LIMIT_VALUES = st.builds(
    Limits,
    max_steps=NUMBERS,
    tool_budget=NUMBERS,
    doom_loop=NUMBERS,
    error_streak=NUMBERS,
    max_tokens=NUMBERS,
    max_cost=st.none() | st.sampled_from([0.1, 2.5, 40]),
    max_time=st.none() | st.sampled_from([0.5, 600]),
    identity=st.sampled_from([*IDENTITIES, {"*": "ordered", "wait": None}]),
    exempt=st.sampled_from([(), ("poll",), ("a b", "--wait")]),
    scope=st.sampled_from(["turn", "run"]),
    agent=st.none() | st.sampled_from(["coder", "a b", "it's"]),
    policy=st.none() | st.sampled_from(sorted(policies)),
).filter(lambda limits: bool(limits.given))


def printed(command: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(shlex.split(command)[1:]) == 0
    return out.getvalue()


@cases(120)
@given(limits=LIMIT_VALUES, target=st.sampled_from(sorted(TARGETS)))
def test_the_command_prints_the_export_of_its_limits(limits: Limits, target: str) -> None:
    if limits.policy is not None and not set(limits.given) & {"max_steps"}:
        limits = Limits(max_steps=5, policy=limits.policy)
    assert printed(as_command(limits, target)).strip() == str(export(target, limits)).strip()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    told = [Told(("A B C -",), success=True, task=f"t{n}") for n in range(60)]
    told += [Told(("A B " * 10 + "-",), success=False, task=f"f{n}") for n in range(6)]
    path = tmp_path_factory.mktemp("logs") / "small.jsonl"
    bl.save_runs(runs_of(*told), path)
    return path


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one length, of which those that fail repeat a call."""
    told = [Told(("A B C " * 4 + "-",), success=True, task=f"t{n}") for n in range(60)]
    told += [Told(("A B C " + "A " * 9 + "-",), success=False, task=f"f{n}") for n in range(12)]
    path = tmp_path_factory.mktemp("loops") / "loops.jsonl"
    bl.save_runs(runs_of(*told), path)
    return path


def test_text_and_json_show_the_export_of_the_recommendation(logs: Path) -> None:
    study = study_of([str(logs)], Question(keep=0.9))
    limits = study.found.limits()
    command = as_command(limits)
    assert command in text(study)
    (row,) = as_data(study)["how_to_set"]
    assert (row["command"], row["limits"], row["target"], row["text"]) == (command, limits.given, None, None)


@pytest.mark.slow
def test_page_shows_the_command_and_the_export_for_each_harness(logs: Path) -> None:
    study = study_of([str(logs)], Question(keep=0.9))
    page = html.unescape(page_of(study))
    assert as_command(study.found.limits()) in page
    for target in TARGETS:
        if target != "boolab":  # its agent file stands there already
            assert study.found.export(target).text in page
    assert "\nboolab hook claude-code " in page


def typed(command: str, folder: Path) -> tuple[int, str]:
    """The exit code of a printed command in an empty project, and what it prints."""
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main([*shlex.split(command)[1:], *(["--yes"] if " --install" in command else [])])
    return code, out.getvalue()


@pytest.mark.parametrize("source", [source for source in SOURCES if target_of_source(source)])
@pytest.mark.parametrize("axis", ["max_steps", "doom_loop"])
def test_printed_commands_set_the_limit_in_each_harness(
    logs: Path, loops: Path, tmp_path: Path, source: str, axis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / f"{source}.jsonl"
    bl.save_runs([replace(run, source=source) for run in bl.load_runs(logs if axis == "max_steps" else loops)], path)
    study = study_of([str(path)], Question(keep=0.9, grid={axis: [*range(2, 10)]}))
    [way] = how_to_set(study)
    assert way.target == target_of_source(source)
    limits = study.found.limits()
    target = target_of(str(way.target))
    assert str(study.found.export(target.name)).rstrip() in text(study, full=True)
    lines = text(study).splitlines()
    start = lines.index("How to set it") + 2
    commands = [line.strip() for line in lines[start : start + 8] if line.strip().startswith("boolab ")]
    effects = {command: lines[lines.index(command) + 1].strip() for command in commands if "TARGET" not in command}
    value = str(limits.given[axis])
    if axis in target.lacks:
        assert not effects
        assert f"{target.title} cannot set {LIMITS[axis].with_value(limits.given[axis])}:" in " ".join(lines)
        return
    assert effects
    for command, effect in effects.items():
        (folder := tmp_path / "project").mkdir(exist_ok=True)
        code, out = typed(command, folder)
        assert code == 0, out
        assert value in out
        written = [file for file in (*folder.rglob("*"), *(tmp_path / "home").rglob("*")) if file.is_file()]
        assert bool(written) or not effect.startswith("sets")
        assert not written or any(value in file.read_text() for file in written)


def test_each_group_gets_a_command_of_its_own(logs: Path) -> None:
    study = study_of([str(logs)], Question(keep=0.9, by=("agent",)))
    (way,) = how_to_set(study)
    assert way.group
    assert as_command(way.limits) in text(study)


def test_without_a_recommendation_nothing_is_set(tmp_path: Path) -> None:
    path = tmp_path / "few.jsonl"
    bl.save_runs(runs_of(Told(("A B -",), success=True, task="t")), path)
    study = study_of([str(path)], Question())
    assert how_to_set(study) == []
    assert "How to set it" not in text(study)
