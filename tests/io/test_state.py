"""The folder for state belongs to the user alone, or is refused."""

import os
from pathlib import Path

import pytest

from boolab.io.state import private_state_folder, state_folder


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_folder_is_made_for_its_owner_alone(state: Path) -> None:
    made = Path(private_state_folder("git"))
    assert made == state / "boolab/git"
    assert [path.stat().st_mode & 0o777 for path in (made, made.parent)] == [0o700, 0o700]


def test_relative_xdg_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert state_folder("git") == "/home/somebody/.local/state/boolab/git"


def test_folder_that_others_can_read_becomes_private(state: Path) -> None:
    (state / "boolab/git").mkdir(parents=True, mode=0o755)
    assert Path(private_state_folder("git")).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["boolab", "boolab/git"])
def test_link_in_the_state_folder_is_refused(state: Path, name: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (state / name).parent.mkdir(parents=True)
    (state / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="not a folder, or a link: remove it"):
        private_state_folder("git")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702])
def test_folder_that_others_can_write_is_refused(state: Path, mode: int) -> None:
    (state / "boolab").mkdir(parents=True)
    (state / "boolab").chmod(mode)
    with pytest.raises(OSError, match="others can write in it"):
        private_state_folder("git")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_folder_of_another_user_is_refused(state: Path) -> None:
    (state / "boolab").mkdir(parents=True)
    os.chown(state / "boolab", 65534, 65534)
    with pytest.raises(OSError, match="belongs to another user"):
        private_state_folder("git")


def test_link_to_the_state_folder_is_the_users_choice(state: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    state.symlink_to(tmp_path / "data")
    assert private_state_folder("git") == str(tmp_path / "data/boolab/git")
