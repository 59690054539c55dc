"""What `python -m benchmarks.house --check` holds."""

from pathlib import Path

from benchmarks.house import top_level_differences
from tests.support.git_worlds import git


def test_house_check_finds_stray_file_at_the_top(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "report.html", "docs/report.html", "untracked.html"):
        (tmp_path / name).touch()
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "README.md", "report.html", "docs")
    assert [*top_level_differences(tmp_path, ["README.md", "docs", "LICENSE"])] == [
        "report.html: not in the list [top] of .ci/house.toml",
        ".ci/house.toml: git tracks no LICENSE at the top",
    ]


def test_house_check_accepts_tree_without_git(tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    assert not [*top_level_differences(tmp_path, ["README.md"])]
