"""The atlas: its files, its counts, and the figures that others computed over the same runs without boolab.

Where a figure is checked, `plain` computes it from the lines of the files, with nothing of boolab, and boolab's own
functions have to agree.
"""

import bz2
import csv
import hashlib
import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import pandas as pd
import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.errors import RunFormatError, SettingError
from boolab.logs.shipped import atlas_sets
from tests.support.atlas_build import BUILD
from tests.support.project import ROOT

FOLDER = ROOT / "datasets" / "atlas"
CLONES = "BOOLAB_ATLAS_CLONES"
"""The environment variable that names a folder of clones, to build the atlas from."""

EXPECTED = {
    "intercode-sql": (11_369, 4_401, 75_445),
    "intercode-bash": (1_535, 461, 9_614),
    "intercode-ctf": (97, 40, 669),
    "intercode-python": (236, 139, 861),
    "tau-airline": (200, 84, 2_454),
    "tau2-airline": (140, 60, 1_641),
    "tau2-retail": (194, 164, 2_034),
    "tau2-telecom": (181, 119, 3_092),
    "swebench-verified": (499, 168, 16_707),
}
"""Runs, successes and steps of each set of `atlas`, counted over the original files by others."""
SECOND = {"sentinel-booking": (415, 180, 4_580), "sentinel-faults": (2_159, 0, 15_662)}
"""Those of the sets that are loaded by their names only, counted over the original files without boolab."""
SESSIONS = {"coding-sessions": (47, 0, 7_406)}
"""Those of the sessions without outcomes, as boolab counts them."""

AT_MOST = 4 * 2**20
TEXT = re.compile(r'"(message|content|text|reasoning|reasoning_content|arguments|error)":"((?:[^"\\]|\\.)*)"')
TOOL = re.compile(r'"function_name":"((?:[^"\\]|\\.)*)"')
PLACEHOLDER = re.compile(r"(<redacted [^<>]*>)?")


class Plain(NamedTuple):
    """A run as the lines of a file have it."""

    success: bool | None
    model: str
    stop: str
    actions: list[str]
    """The calls of each step, as one text."""


LOCAL = {"local-fix", "local-maze"}
"""Sets of a small model, with texts: see test_local_sets."""


def public_sets() -> dict[str, Path]:
    """The files of the sets of public runs."""
    return {name: path for name, path in atlas_sets().items() if path.parent == FOLDER}


def plain(path: Path) -> Iterator[Plain]:
    """The runs of a file, without boolab."""
    with bz2.open(path) as lines:
        for line in lines:
            run = json.loads(line)
            own = run["extra"]["boolab"]
            steps = [step for step in run["steps"] if step["source"] == "agent" and "is_copied_context" not in step]
            actions = [
                " ".join(f"{call['function_name']} {call['extra']['boolab']['arguments']}" for call in calls)
                for calls in (step.get("tool_calls", []) for step in steps)
            ]
            yield Plain(own.get("success"), run["agent"]["model_name"], own["stop"]["reason"], actions)


@pytest.fixture(scope="module")
def lines() -> dict[str, list[Plain]]:
    return {name.partition("/")[2]: list(plain(path)) for name, path in public_sets().items()}


@pytest.fixture(scope="module")
def atlas() -> dict[str, list[Run]]:
    found = defaultdict(list)
    for run in bl.load_dataset("atlas", progress=False):
        found[str(run.settings["set"])].append(run)
    return found


def smallest_cap(lengths: list[int], share: float = 0.95) -> int:
    """The smallest cap that keeps this share of runs of these lengths."""
    return sorted(lengths)[math.ceil(share * len(lengths)) - 1]


def saved_by(cap: int, runs: list[Plain]) -> float:
    lengths = [len(run.actions) for run in runs]
    return sum(max(0, length - cap) for length in lengths) / sum(lengths)


def kept_by(cap: int, runs: list[Plain]) -> int:
    return sum(run.success is True and len(run.actions) <= cap for run in runs)


def test_the_files_have_the_sums_that_are_written_down() -> None:
    rows = (line.split() for line in (FOLDER / "SHA256SUMS").read_text().splitlines())
    written = {name: value for value, name in rows}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in public_sets().values()}
    assert found == written
    assert {f"atlas/{name}" for name in EXPECTED | SECOND | SESSIONS} == set(public_sets())
    assert {f"atlas/{name}" for name in LOCAL} == set(atlas_sets()) - set(public_sets())


def test_all_files_together_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < AT_MOST


@pytest.mark.slow
def test_each_set_has_the_counts_of_its_sources(lines: dict[str, list[Plain]], atlas: dict[str, list[Run]]) -> None:
    for name, expected in EXPECTED.items():
        runs = lines[name]
        assert (
            len(runs),
            sum(run.success is True for run in runs),
            sum(len(run.actions) for run in runs),
        ) == expected, name
        assert (
            len(atlas[name]),
            sum(run.success is True for run in atlas[name]),
            sum(run.n_steps for run in atlas[name]),
        ) == expected, name
    for name, expected in (SECOND | SESSIONS).items():
        runs = lines[name]
        assert (len(runs), sum(run.success is True for run in runs), sum(len(run.actions) for run in runs)) == expected


def test_faults_have_the_step_at_which_they_begin() -> None:
    runs = bl.load_dataset("atlas/sentinel-faults")
    faults = Counter(str(run.settings["fault"]) for run in runs if "fault" in run.settings)
    assert faults == {
        "looping": 228, "context_corruption": 224, "goal_drift": 203, "tool_cascade": 168, "wrong_document": 62,
        "malformed_json": 59, "rate_limit": 56, "timeout": 51,
    }  # fmt: skip
    assert all(1 <= run.settings["fault_step"] < len(run.steps) for run in runs if "fault" in run.settings)


def test_labels_of_booking_are_those_of_its_authors() -> None:
    labels = Counter((str(run.settings["label"]), run.success) for run in bl.load_dataset("atlas/sentinel-booking"))
    assert labels == {
        ("healthy", True): 180, ("arithmetic_error", False): 122, ("incomplete", False): 54, ("other", False): 34,
        ("hallucinated", False): 25,
    }  # fmt: skip


@pytest.mark.slow
def test_causes_of_coding_sessions_add_up_to_their_bill() -> None:
    runs = bl.load_dataset("atlas/coding-sessions")
    assert Counter(str(run.settings["corpus"]) for run in runs) == {
        "entireio-cli": 10, "cipher-box": 8, "context-evaluator": 8, "agentv": 8, "spotter": 11, "pi-mono": 2,
    }  # fmt: skip
    assert {run.success for run in runs} == {None}
    causes = bl.cost_by(runs)
    assert round(causes["total_usd"].sum(), 6) == causes.attrs["bill"]["bill_usd"] == bl.runs_df(runs)["cost_usd"].sum()
    bills = bl.bills_df(runs).dropna(subset="stated_usd")
    assert list(bills["stated_usd"]) == [42.595885, 30.330193]
    assert max(abs(bills["difference_usd"])) <= 0.00001


@pytest.mark.slow
def test_prompts_and_misses_of_sessions_are_as_the_page_has_them() -> None:
    runs = [run for run in bl.load_dataset("atlas/coding-sessions") if run.parent_run_id is None]
    page = " ".join((ROOT / "docs/howto/where_the_money_goes.md").read_text(encoding="utf-8").split())
    sources = pd.Series({run.run_id: run.source for run in runs})
    prompts = bl.context_df(runs).groupby("run_id", sort=False)["context"].agg(["first", "max"])
    first = prompts["first"].groupby(sources).agg(["min", "max"])
    for source, name in (("claude_code", "Claude Code"), ("codex", "Codex"), ("pi", "pi")):
        assert re.search(rf"{first['min'][source]:,} to {first['max'][source]:,} (tokens )?in {name}", page)
    longest = prompts["max"].groupby(sources)
    claude, codex = ((longest.get_group("claude_code") >= 150_000), (longest.get_group("codex") >= 200_000))
    assert f"in {claude.sum()} of {len(claude)} sessions of Claude Code" in page
    assert f"200,000 in {codex.sum()} of {len(codex)} of Codex" in page
    misses = bl.cache_misses_df(runs)
    corpora = misses["run_id"].map({run.run_id: run.settings["corpus"] for run in runs})
    usd = misses["extra_usd"].groupby([corpora, misses["cause"]], observed=True).sum()
    assert f"cost ${usd['pi-mono', 'new turn, within the lifetime']:.2f} in the two sessions of pi" in page
    assert f"pauses lead, with ${usd['entireio-cli', 'expired']:.2f}." in page


@pytest.mark.slow
def test_the_table_of_counts_is_what_the_files_hold(lines: dict[str, list[Plain]]) -> None:
    with (FOLDER / "counts.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        some = [run for run in lines[row["set"]] if row["model"] in ("all", run.model)]
        reasons = {name: int(value) for name, value in list(row.items())[5:] if int(value)}
        assert Counter(run.stop for run in some) == reasons
        assert len(some) == int(row["runs"])
        assert sum(run.success is True for run in some) == int(row["successes"])
        assert sum(len(run.actions) for run in some) == int(row["steps"])
    models = {(name, run.model) for name, runs in lines.items() for run in runs}
    assert {(row["set"], row["model"]) for row in rows if row["model"] != "all"} == models


@pytest.mark.slow
def test_every_run_has_a_label_a_model_and_a_step(atlas: dict[str, list[Run]]) -> None:
    runs = [run for some in atlas.values() for run in some]
    assert len({run.run_id for run in runs}) == len(runs) == 14_451
    assert {type(run.success) for run in runs} == {bool}
    assert all(run.model and run.steps for run in runs)


@pytest.mark.slow
def test_task_is_in_one_set_and_has_runs_of_several_models(atlas: dict[str, list[Run]]) -> None:
    tasks = {name: {run.task for run in runs} for name, runs in atlas.items()}
    assert all(task.startswith(f"{name}/") for name, some in tasks.items() for task in some)
    counts = {name: len(some) for name, some in tasks.items()}
    assert (counts["intercode-sql"], counts["tau-airline"], counts["swebench-verified"]) == (1_034, 50, 499)
    assert counts["intercode-bash"] == 60 + 53 + 60 + 27


@pytest.mark.slow
def test_the_settings_name_the_set_and_who_ends_a_run(atlas: dict[str, list[Run]]) -> None:
    ended = {name: {run.settings["ended_by"] for run in runs} for name, runs in atlas.items()}
    assert ended["swebench-verified"] == {"agent"}
    assert ended["tau-airline"] == ended["intercode-ctf"] == {"environment"}
    for run in atlas["intercode-bash"]:
        assert (run.settings["ended_by"] == "agent") == (run.settings["prompting"] == "react")
    frame = bl.runs_df(atlas["tau2-retail"] + atlas["intercode-ctf"])
    assert frame.groupby("set")["success"].sum().to_dict() == {"intercode-ctf": 40, "tau2-retail": 164}


@pytest.mark.slow
def test_limits_and_stop_reasons_are_those_of_the_harnesses(atlas: dict[str, list[Run]]) -> None:
    reasons = {name: Counter(run.stop_reason for run in runs if run.censored) for name, runs in atlas.items()}
    assert reasons["intercode-sql"] == {"step_cap": 6_148, "error": 463}
    assert reasons["intercode-bash"] == {"step_cap": 801, "error": 135, "aborted": 9}
    assert (reasons["intercode-ctf"], reasons["intercode-python"]) == ({"step_cap": 45}, {"step_cap": 97})
    assert reasons["tau-airline"] == {"step_cap": 5}
    assert reasons["tau2-telecom"] == {"step_cap": 5, "error_streak": 1}
    assert reasons["swebench-verified"] == {"cost_budget": 90, "aborted": 2}
    limits = {name: {tuple(run.limits.items()) for run in runs} for name, runs in atlas.items()}
    assert limits["intercode-ctf"] == {(("steps", 10),), (("steps", 15),)}
    assert (limits["tau-airline"], limits["swebench-verified"]) == ({(("steps", 30),)}, {(("cost", 4_000_000),)})


@pytest.mark.slow
def test_turn_limit_stops_are_not_all_failures_of_ten_steps(atlas: dict[str, list[Run]]) -> None:
    """Others counted failures of ten steps as cut.

    Some of these submitted by themselves in the tenth turn; and some that the harness submitted for were right.
    """
    for name, failed, submitted, right in (("intercode-sql", 6_146, 6, 8), ("intercode-bash", 799, 1, 3)):
        runs = [run for run in atlas[name] if run.n_steps == 10 and run.stop_reason != "error"]
        assert sum(run.success is False for run in runs) == failed
        assert sum(run.success is False and run.stop_reason == "finished" for run in runs) == submitted
        assert sum(run.success is True and run.stop_reason == "step_cap" for run in runs) == right


@pytest.mark.slow
def test_three_equal_actions_in_a_row_are_nearly_always_failures(
    lines: dict[str, list[Plain]], atlas: dict[str, list[Run]]
) -> None:
    alarms = [(run, place) for run in lines["intercode-sql"] if (place := third_in_a_row(run.actions)) is not None]
    assert (len(alarms), sum(not run.success for run, _ in alarms)) == (3_801, 3_787)
    assert sum(len(run.actions) - place for run, place in alarms) == 19_069
    # Their prompts hold the last turn only.
    last_turn = Counter(run.model for run, _ in alarms if run.model in ("text-bison-001", "text-davinci-003"))
    assert last_turn.total() == 1_589
    # A limit that is reached with the last step of a run stops nothing: boolab counts only the others.
    in_time = [run for run, place in alarms if place < len(run.actions)]
    table = bl.counterfactual(atlas["intercode-sql"], grid={"doom_loop": [3]}, aggregate=True).iloc[0]
    assert (len(alarms) - len(in_time), table["n_doom_loop"]) == (163, len(in_time))
    assert (table["successes"] - table["kept_lower"], table["saved_steps"]) == (14, 19_069)
    scores = bl.scorecard(atlas["intercode-sql"], [bl.doom_loop(3)]).table
    assert scores is not None
    card = scores.iloc[0]
    assert (card["alarms"], card["true_alarms"], card["saved_steps"]) == (3_638, 3_624, 19_069)


def third_in_a_row(actions: list[str]) -> int | None:
    """The step, from 1, whose action is the third equal one in a row."""
    return next((n for n in range(3, len(actions) + 1) if actions[n - 3] == actions[n - 2] == actions[n - 1]), None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cap", "kept", "saved"),
    [
        ("intercode-sql", 7, 4_264, 0.248),
        ("swebench-verified", 68, 160, 0.021),
        ("tau2-retail", 17, None, 0.017),
        ("tau2-airline", 16, None, 0.122),
    ],
)
def test_the_smallest_cap_that_keeps_95_percent_of_successes(
    name: str, cap: int, kept: int | None, saved: float, lines: dict[str, list[Plain]], atlas: dict[str, list[Run]]
) -> None:
    runs = lines[name]
    assert smallest_cap([len(run.actions) for run in runs if run.success]) == cap
    assert round(saved_by(cap, runs), 3) == saved
    assert kept is None or kept_by(cap, runs) == kept
    table = bl.counterfactual(atlas[name], grid={"max_steps": [cap - 1, cap]}, aggregate=True)
    assert list(table["kept_lower"]) == [kept_by(cap - 1, runs), kept_by(cap, runs)]
    assert kept_by(cap - 1, runs) < 0.95 * table["successes"].iloc[0] <= kept_by(cap, runs)
    assert table["saved_steps"].iloc[1] == round(saved_by(cap, runs) * sum(len(run.actions) for run in runs))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ratio"), [("swebench-verified", "1.51"), ("intercode-sql", "3.61")])
def test_failures_are_as_many_times_as_long_as_the_readme_has_it(
    name: str, ratio: str, lines: dict[str, list[Plain]]
) -> None:
    lengths = {
        success: [len(run.actions) for run in lines[name] if run.success is success] for success in (True, False)
    }
    assert f"{mean(lengths[False]) / mean(lengths[True]):.2f}" == ratio
    assert f" {ratio} times" in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_cap_at_75th_percentile_loses_an_eighth_of_successes(
    lines: dict[str, list[Plain]], atlas: dict[str, list[Run]]
) -> None:
    runs = lines["swebench-verified"]
    lengths = sorted(len(run.actions) for run in runs)
    place = 0.75 * (len(lengths) - 1)
    low = int(place)
    cap = int(lengths[low] + (place - low) * (lengths[low + 1] - lengths[low]))
    assert (cap, kept_by(cap, runs), round(saved_by(cap, runs), 3)) == (49, 149, 0.124)
    table = bl.counterfactual(atlas["swebench-verified"], grid={"max_steps": [cap]}, aggregate=True).iloc[0]
    assert (table["kept_lower"], table["saved_steps"]) == (149, 2_067)


@pytest.mark.slow
def test_there_is_no_text_in_the_files() -> None:
    """What stands in each place of a text is a placeholder or nothing, and names of tools are short."""
    for path in public_sets().values():
        content = bz2.decompress(path.read_bytes()).decode()
        texts = {text for _, text in TEXT.findall(content)}
        assert all(map(PLACEHOLDER.fullmatch, texts)), path.name
        assert max(map(len, set(TOOL.findall(content)))) < 60, path.name
        assert "\\n" not in content


def test_one_set_and_the_first_runs_of_all_are_loaded_by_name() -> None:
    assert len(bl.load_dataset("atlas/intercode-ctf")) == 97
    first = bl.load_dataset("atlas/intercode-ctf", limit=3)
    assert [run.run_id for run in first] == [run.run_id for run in bl.load_runs("atlas/intercode-ctf")[:3]]
    assert len(bl.load_dataset("atlas", limit=1_540, progress=False)) == 1_540


def test_a_set_that_is_none_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(SettingError, match="did you mean 'atlas/intercode-sql'"):
        bl.load_dataset("atlas/intercode-sq")
    with pytest.raises(SettingError, match="nor a set of the atlas; sets: atlas/coding-sessions, "):
        bl.load_runs("atlas/qqqq")
    with pytest.raises(SettingError, match="did you mean 'atlas/intercode-sql'"):
        bl.load_dataset("intercode-sql")


def test_the_atlas_has_no_options() -> None:
    with pytest.raises(SettingError, match="no option 'model'; accepted: limit, progress"):
        bl.load_dataset("atlas/tau-airline", model="gpt-4o")


def test_commands_take_the_name_of_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", "atlas/intercode-ctf", "--max-steps", "5"]) == 0
    assert "97 runs" in capsys.readouterr().out
    assert main(["import", "atlas/intercode-ctf", "-o", str(tmp_path / "a.jsonl")]) == 0
    assert len(bl.load_runs(tmp_path / "a.jsonl")) == 97


def test_a_path_of_that_name_goes_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("atlas").mkdir()
    with pytest.warns(bl.errors.ReadWarning, match="atlas: no log was found"):
        assert bl.load_runs("atlas") == []
    with pytest.raises(RunFormatError, match="no such file"):
        bl.load_runs("atlases/tau-airline")


def test_the_notices_of_all_sources_are_there() -> None:
    sources = (FOLDER / "SOURCES.md").read_text()
    for holder in ("2023 Princeton Natural Language Processing", "2024 Sierra\n", "2025 Sierra Research", "2024 UK AI"):
        assert f"Copyright (c) {holder}" in sources
    holders = ("2026 Entire Inc.", "2026 Michael Yankelev", "2025 EntityProcess", "2026 marot", "2025 Mario Zechner")
    assert all(f"MIT, Copyright (c) {holder} |" in sources for holder in holders)
    assert sources.count("THE SOFTWARE IS PROVIDED") == 5
    assert "Copyright 2026 Sunny Dubey" in sources
    assert all(part.commit in sources for part in chain.from_iterable(one.parts for one in BUILD.SETS))


@pytest.mark.slow
@pytest.mark.skipif(CLONES not in os.environ, reason=f"{CLONES} does not name a folder of clones")
def test_the_clones_give_the_files(tmp_path: Path) -> None:
    BUILD.main([os.environ[CLONES], str(tmp_path)])
    for made in tmp_path.iterdir():
        assert made.read_bytes() == (FOLDER / made.name).read_bytes(), made.name
