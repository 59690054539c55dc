"""The script that makes the atlas: it reads pinned commits of clones, and accounts for what it leaves out."""

import csv
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.atlas_build import BUILD

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *AUTHOR, *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def episodes(count: int, actions: int = 2) -> str:
    history: dict[str, Any] = {"actions": [f"SELECT {n}" for n in range(actions)], "observations": ["x"] * actions}
    summary = {"max_reward": 1.0, "turns_max": 10}
    entry = {"environment": "ic_sql", "query": "q", "turn_history": history, "summary": summary}
    return json.dumps({n: entry | {"task_id": n} for n in range(count)})


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """A folder with one clone, whose newest commit lacks what the one before it has."""
    clone = tmp_path / "clones" / "intercode"
    clone.mkdir(parents=True)
    git(clone, "init", "-q")
    for name, content in {
        "data/ic_sql_multiturn_m_10_turns.json": episodes(2),
        "data/ic_sql_multiturn_n:7b_10_turns.json": episodes(3),
        "data/ic_sql_multiturn_none_10_turns.json": episodes(1, actions=0),
        "data/ic_sql_multiturn_m_1_turns.json": episodes(4),
        "data/results.json": episodes(1),
    }.items():
        path = clone / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "results")
    git(clone, "rm", "-qr", "data")
    git(clone, "commit", "-qm", "no results")
    return clone.parent


def a_set(clones: Path, **more: Any) -> Any:
    """A set of all files of the commit before the newest one."""
    commit = git(clones / "intercode", "rev-parse", "HEAD~")
    part = BUILD.Part("intercode", commit, "intercode", r"data/.*\.json", **more)
    return BUILD.Set("some-sql", (part,))


def test_the_pinned_commit_is_read_whatever_is_checked_out(clones: Path) -> None:
    runs, _ = BUILD.runs_of_set(clones, a_set(clones, left_out={r".*_1_turns.*": "one turn"}, model="given"))
    assert [run.model for run in runs] == ["m", "m", "n-7b", "n-7b", "n-7b", "given"]
    assert {run.settings["set"] for run in runs} == {"some-sql"}
    assert runs[0].task == "some-sql/0"


def test_a_bare_clone_gives_the_same_runs(clones: Path) -> None:
    wanted = a_set(clones)
    runs, _ = BUILD.runs_of_set(clones, wanted)
    git(clones, "clone", "-q", "--bare", "intercode", "intercode.git")
    shutil.rmtree(clones / "intercode")
    assert BUILD.runs_of_set(clones, wanted)[0] == runs


def test_what_is_left_out_is_counted_with_its_reason(clones: Path) -> None:
    _, excluded = BUILD.runs_of_set(clones, a_set(clones, left_out={r".*_1_turns.*": "one turn"}))
    assert sorted((one.place, one.runs, one.reason) for one in excluded) == [
        ("data/ic_sql_multiturn_m_1_turns.json", 4, "one turn"),
        ("single runs", 1, "no model's name"),
        ("single runs", 1, "no step"),
    ]


def test_a_choice_of_logs_counts_those_not_chosen(clones: Path) -> None:
    commit = git(clones / "intercode", "rev-parse", "HEAD~")
    logs, candidates = r"data/ic_sql_multiturn_m_10_turns\.json", r"data/ic_.*\.json"
    part = BUILD.Part("intercode", commit, "intercode", logs, candidates=candidates, settings={"corpus": "some"})
    runs, excluded = BUILD.runs_of_set(clones, BUILD.Set("a-set", (part,), sessions=True))
    assert [(run.settings["corpus"], run.task.startswith("a-set")) for run in runs] == [("some", False)] * 2
    assert [(one.place, one.runs) for one in excluded] == [(f"intercode: {candidates}", 3)]


def test_a_blob_that_is_left_out_need_not_be_there(clones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = clones / "intercode"
    blob = git(clone, "rev-parse", "HEAD~:data/ic_sql_multiturn_m_10_turns.json")
    monkeypatch.setattr(BUILD, "ABSENT", {blob: (2, "too large")})
    wanted = a_set(clones)
    with_it, excluded = BUILD.runs_of_set(clones, wanted)
    (clone / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert BUILD.runs_of_set(clones, wanted)[0] == with_it
    assert [one for one in excluded if one.reason == "too large"] == [
        BUILD.Exclusion("some-sql", f"data/ic_sql_multiturn_m_10_turns.json (blob {blob})", 2, "too large")
    ]
    monkeypatch.setattr(BUILD, "ABSENT", {})
    with pytest.raises(SystemExit, match=f"blob {blob} is missing; is the clone complete"):
        BUILD.runs_of_set(clones, wanted)


def test_a_missing_clone_and_a_missing_commit_are_named(clones: Path) -> None:
    with pytest.raises(SystemExit, match=r"holds neither tau-bench nor tau-bench\.git"):
        BUILD.Clone.of(clones, "tau-bench")
    with pytest.raises(SystemExit, match="git ls-tree failed: fatal"):
        BUILD.Clone.of(clones, "intercode").tree("0" * 40)


def test_files_beside_logs_are_put_where_the_reader_looks(clones: Path) -> None:
    clone = clones / "intercode"
    log = {"trajectory": [{"action": "submit", "observation": "", "response": "x"}], "history": [], "info": {}}
    for name, value in {"logs/a/a.traj": log, "eval/a/report.json": {"a": {"resolved": True}}}.items():
        (clone / name).parent.mkdir(parents=True)
        (clone / name).write_text(json.dumps(value))
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "logs")
    commit = git(clone, "rev-parse", "HEAD")
    beside = {r"eval/(.*)/report\.json": r"logs/\1/report.json"}
    part = BUILD.Part("intercode", commit, "swe_agent", r"logs/.*\.traj", beside=beside, model="m", limits={"cost": 5})
    (run,), _ = BUILD.runs_of_set(clones, BUILD.Set("some", (part,), agent_ends=True))
    assert (run.success, run.model, dict(run.limits)) == (True, "m", {"cost": 5})
    assert run.settings["ended_by"] == "agent"


def test_a_folder_of_ones_own_becomes_a_set_with_its_sum(tmp_path: Path) -> None:
    folder = tmp_path / "20240101_agent_model-x"
    (folder / "trajs").mkdir(parents=True)
    (folder / "results").mkdir()
    (folder / "results" / "results.json").write_text('{"resolved": ["a__a-1"]}')
    log = {"trajectory": [{"action": "submit", "observation": "", "response": "x"}], "history": [], "info": {}}
    for name in ("a__a-1", "a__a-2"):
        (folder / "trajs" / f"{name}.traj").write_text(json.dumps(log))
    for out in ("one", "two"):
        BUILD.main([str(tmp_path), str(tmp_path / out), "--folder", str(folder)])
    names = {"20240101_agent_model-x.jsonl.bz2", "SHA256SUMS", "counts.csv", "exclusions.csv"}
    assert {path.name for path in (tmp_path / "one").iterdir()} == names
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names)
    header, row, _ = (tmp_path / "one" / "counts.csv").read_text().splitlines()
    assert row.split(",")[:5] == ["20240101_agent_model-x", "all", "2", "1", "2"], header


def test_a_long_name_of_a_task_becomes_a_short_one() -> None:
    long = "[mobile_data_issue]airplane_mode_on|bad_network[PERSONA:None]"
    assert BUILD.task_name(long).startswith("mobile_data_issue-")
    assert BUILD.task_name(long) != BUILD.task_name(long + "x")
    assert BUILD.task_name("nl2bash_fs_1/0") == "nl2bash_fs_1/0"


# --- BALROG -----------------------------------------------------------------------------------------------------------


def write_episode(folder: Path, name: str, rows: list[str], *, first: str = "Action", **facts: Any) -> None:
    """An episode of BALROG in one of its two orders of columns; without rows, its .csv is missing."""
    order = ["Action", "Reasoning", "Observation"] if first == "Action" else ["Observation", "Action", "Reasoning"]
    folder.mkdir(parents=True, exist_ok=True)
    client = {"client": {"model_id": "m"}, "agent": {"type": "naive"}}
    document = {"task": "env/goto", "progression": 0.0, "done": True, "num_steps": len(rows), **client, **facts}
    (folder / f"{name}.json").write_text(json.dumps(document))
    if rows:
        cells = {"Action": "{}", "Reasoning": "", "Observation": '"seen\nafter {}"'}
        lines = [
            ",".join([str(n), *(cells[key].format(row) for key in order), "0", "False"]) for n, row in enumerate(rows)
        ]
        (folder / f"{name}.csv").write_text("\n".join([",".join(["Step", *order, "Reward", "Done"]), *lines]) + "\n")


@pytest.fixture
def games(tmp_path: Path) -> Path:
    """A folder with a clone of BALROG's experiments that has one submission of text and one of images."""
    clone = tmp_path / "clones" / "balrog"
    clone.mkdir(parents=True)
    git(clone, "init", "-q")
    text, images = (clone / "submissions" / kind / "20250101_m" / "babaisai" / "goto" for kind in ("LLM", "VLM"))
    write_episode(text, "goto_run_00", ["up", "left", "left"], progression=1.0)
    write_episode(text, "goto_run_01", ["up"] * 100, first="Observation")
    write_episode(text, "goto_run_02", ["up", "down"], done=None)
    write_episode(images, "goto_run_00", [], progression=1.0)
    write_episode(images, "goto_run_01", ["up"], progression=0.5)
    (text.parent / "babaisai_summary.json").write_text("{}")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "results")
    return clone.parent


def test_an_episode_of_a_game_is_a_run_with_a_call_a_step(games: Path) -> None:
    (one,) = [one for one in BUILD.OPTIONAL if one.name == "balrog-babaisai"]
    part = one.parts[0]._replace(commit=git(games / "balrog", "rev-parse", "HEAD"))
    runs, excluded = BUILD.runs_of_set(games, one._replace(parts=(part,)))
    assert [(run.n_steps, run.success, run.stop_reason) for run in runs] == [
        (3, True, "finished"),
        (100, False, "step_cap"),
        (2, False, "aborted"),
        (1, False, "finished"),
    ]
    assert [(one.runs, one.reason) for one in excluded] == [(1, "no step")]
    first = runs[0]
    calls = [json.loads(step.response.tool_calls[0].arguments) for step in first.steps]
    assert calls == [{"action": "up"}, {"action": "left"}, {"action": "left"}]
    assert first.steps[0].results[0].content == "seen\nafter up"
    assert (first.model, first.agent, first.task) == ("m", "naive", "balrog-babaisai/env/goto")
    assert first.settings["submission"] == "20250101_m"
    assert [run.settings["images"] for run in runs] == [False, False, False, True]
    assert runs[1].limits == {"steps": 100}


def test_an_action_that_a_game_refuses_is_a_failed_call(games: Path) -> None:
    folder = games / "balrog" / "submissions" / "LLM" / "a" / "babyai" / "goto"
    refused = "\"Your previous output action: 'x' is not a valid action.\""
    folder.mkdir(parents=True)
    (folder / "goto_run_00.json").write_text('{"task": "goto", "progression": 1.0, "done": true}')
    (folder / "goto_run_00.csv").write_text(f"Step,Action,Reasoning,Observation,Reward,Done\n0,x,,{refused},0,False\n")
    (run,) = BUILD.READERS["balrog"](folder / "goto_run_00.json", BUILD.Damage(folder))
    assert [result.is_error for result in run.steps[0].results] == [True]


STEPS = [
    {"text": 'I look. [search({"q": "a [b](c)"}) -> two ] brackets]', "action": "tool_call", "output_tokens": 3},
    {"text": '[search({"q": 1}) -> x] [sum({}) -> 2]', "action": "tool_call", "output_tokens": 4, "error": True},
    {"text": "The total is [3](x).", "action": "synthesis", "output_tokens": 5, "task": "Add."},
]


def corpus_of(tmp_path: Path, entry: dict[str, Any], steps: list[dict[str, Any]]) -> Path:
    folder = tmp_path / "booking"
    folder.mkdir()
    about = {"episode_id": "e-1", "file": "e-1.jsonl", "model": "m", "failure_class": None, "tau": None, "seed": 7}
    (folder / "manifest.json").write_text(json.dumps([about | entry]))
    for name in ("e-1", "rejected"):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, steps)))
    return folder / "e-1.jsonl"


def read_episode(path: Path) -> list[Any]:
    found: list[Any] = BUILD.READERS["sentinel"](path, BUILD.Damage(path))
    return found


def test_calls_of_an_episode_are_read_from_its_texts(tmp_path: Path) -> None:
    (run,) = read_episode(corpus_of(tmp_path, {}, STEPS))
    calls = [[(call.name, call.arguments) for call in step.response.tool_calls] for step in run.steps]
    assert calls == [[("search", '{"q":"a [b](c)"}')], [("search", '{"q":1}'), ("sum", "{}")], []]
    results = [[(result.content, result.is_error) for result in step.results if result] for step in run.steps]
    assert results == [[("two ] brackets", False)], [("x", True), ("2", True)], []]
    assert [step.response.text for step in run.steps] == ["I look.", "", "The total is [3](x)."]
    assert (run.task, run.stop_reason, run.success, run.settings) == ("seed-7", "finished", None, {"corpus": "booking"})


def test_events_of_an_episode_go_before_its_texts(tmp_path: Path) -> None:
    event = {"name": "search", "args": {"q": 1}, "result": "a long result", "is_error": True}
    (run,) = read_episode(corpus_of(tmp_path, {}, [{**STEPS[1], "tool_events": [event]}]))
    (step,) = run.steps
    assert [call.name for call in step.response.tool_calls] == ["search"]
    assert step.results[0] is not None
    assert step.results[0].content == "a long result"
    assert run.stop_reason == "aborted"


def test_the_step_of_a_fault_counts_from_one(tmp_path: Path) -> None:
    (run,) = read_episode(corpus_of(tmp_path, {"failure_class": "looping", "tau": 1}, STEPS))
    assert run.settings == {"corpus": "booking", "fault": "looping", "fault_step": 2}


def test_a_label_beside_an_episode_is_its_outcome(tmp_path: Path) -> None:
    path = corpus_of(tmp_path, {}, STEPS)
    with (path.parent / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("episode_id", "label"), ("e-1", "hallucinated")])
    (run,) = read_episode(path)
    assert (run.success, run.settings["label"]) == (False, "hallucinated")


def test_an_episode_that_its_corpus_rejected_is_left_out(tmp_path: Path) -> None:
    path = corpus_of(tmp_path, {}, STEPS)
    assert read_episode(path.with_name("rejected.jsonl")) == []
