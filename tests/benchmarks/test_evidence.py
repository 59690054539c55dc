"""The measurement of evidence, on a small history and on logs with labels."""

from pathlib import Path

from benchmarks.evidence import commits_of, compare_with_labels, judge_commits
from tests.support.git_histories import DAY, History, body
from tests.support.samples import own


def test_commit_that_is_reverted_by_its_hash_is_a_failure(tmp_path: Path) -> None:
    history = History(tmp_path / "r")
    for number in range(3):
        history.day += 1
        oid = history.commit("main", {f"{number}.py": body(f"tag{number}")})
    history.day += 1
    history.revert(oid, {"2.py": None})
    history.day += 30
    history.commit("main", {"last.py": body("last")})
    commits = commits_of(history.folder)
    assert [commit.oid for commit in commits if commit.reverts] == [history.commits_above("main")]
    judged = judge_commits(history.folder, [commit for commit in commits if commit.parents], history.time + DAY)
    assert judged == {"success": 3, "failure": 1, "unknown": 1}


def test_outcomes_of_tests_stand_beside_the_labels() -> None:
    logs = str(own("agentdojo/runs/tiny-1/office/user_task_0/important_instructions/injection_task_2.json"))
    assert compare_with_labels(logs) == {("unknown", "success"): 1}
