"""Measure evidence where the outcome is known: of tests on logs with labels, of git on the commits of a repository.

`LOGS` are logs whose benchmark's results lie beside them. `CLONE` is a clone: each commit is taken for a session that
made it and has nothing else on record; those that a later commit reverts by its hash should be failures.

Usage: python -m benchmarks.evidence [--logs LOGS] [--clone CLONE] [--sample N] [--seed N]
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import boolab as bl
from boolab.io.git.history import Commit, GitHistory
from boolab.io.git.reading import open_git
from boolab.io.git.repository import find_repository
from boolab.logs.outcomes.git import GitOptions, evidence_of_git
from boolab.logs.outcomes.git_work import GitWork

_DAY = 86_400
_WINDOW_DAYS = 20


def compare_with_labels(logs: str) -> Counter[tuple[str, str]]:
    """How often evidence of tests and the benchmark's label come together."""
    runs = [run for run in bl.load_runs(logs) if run.parent_run_id is None]
    labels = {run.run_id: {True: "success", False: "failure", None: "no label"}[run.success] for run in runs}
    frame = bl.outcomes(runs, reaction=False, scope="run")
    return Counter((outcome, labels[run_id]) for run_id, outcome in zip(frame["run_id"], frame["outcome"], strict=True))


def commits_of(clone: Path) -> list[Commit]:
    """The commits of the default branch."""
    repository = find_repository(clone.resolve())
    with open_git(repository) as git:
        history = GitHistory(git, repository, 600)
        history.default_branches()
        return [*history.commits.values()]


def judge_commits(clone: Path, commits: Sequence[Commit], now: int) -> Counter[str]:
    """The outcomes of commits, each as if a session had made it."""
    folder = str(clone.resolve())
    works = [GitWork(folder, commit.time - 3600, commit.time + 60, (commit.oid[:9],)) for commit in commits]
    return Counter(evidence.outcome for evidence in evidence_of_git(works, GitOptions(now=now)))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs")
    parser.add_argument("--clone", type=Path)
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.logs:
        for (outcome, label), n in sorted(compare_with_labels(args.logs).items()):
            print(f"tests: {outcome:8}  label: {label:8}  {n:5}")
    if args.clone:
        commits = commits_of(args.clone)
        newest = max(commit.time for commit in commits)
        names = {name[:7] for commit in commits for name in commit.reverts}
        reverted = [commit for commit in commits if commit.oid[:7] in names]
        old = [commit for commit in commits if commit.time < newest - _WINDOW_DAYS * _DAY and len(commit.parents) == 1]
        others = [commit for commit in old if commit.oid[:7] not in names]
        sample = random.Random(args.seed).sample(others, min(args.sample, len(others)))  # noqa: S311 - no secret
        for name, part in (("reverted by hash", reverted), ("others", sample)):
            started = time.perf_counter()
            outcomes = judge_commits(args.clone, part, newest + _DAY)
            seconds = time.perf_counter() - started
            print(f"git, {name}: {len(part)} of {len(commits):,} commits, {dict(outcomes)}, {seconds:.0f} s")


if __name__ == "__main__":
    main()
