"""A reward is read alike in every format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import boolab as bl

CHAT = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "Done."}]


def tau_bench(folder: Path, reward: Any) -> Path:
    path = folder / "retail.json"
    path.write_text(json.dumps([{"task_id": 1, "trial": 0, "reward": reward, "info": {}, "traj": CHAT}]))
    return path


def tau2_bench(folder: Path, reward: Any) -> Path:
    path = folder / "results.json"
    simulation = {
        "task_id": "1",
        "termination_reason": "user_stop",
        "messages": CHAT,
        "reward_info": {"reward": reward},
    }
    path.write_text(json.dumps([simulation]))
    return path


def harbor(folder: Path, reward: Any) -> Path:
    (folder / "agent").mkdir(exist_ok=True)
    path = folder / "agent" / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in CHAT))
    result = {"trial_name": "t", "verifier_result": {"rewards": {"reward": reward}}}
    (folder / "result.json").write_text(json.dumps(result))
    return path


def chat(folder: Path, reward: Any) -> Path:
    path = folder / "chat.jsonl"
    path.write_text(json.dumps({"messages": CHAT, "reward": reward}))
    return path


FORMATS = [tau_bench, tau2_bench, harbor, chat]


@pytest.mark.filterwarnings("ignore:.*is no label")
@pytest.mark.parametrize("write", FORMATS)
def test_a_reward_is_read_alike_in_all_formats(write: Callable[[Path, Any], Path], tmp_path: Path) -> None:
    cases: list[tuple[Any, bool | None]] = [
        (True, True), (False, False), (1, True), (0, False), (1.0, True), (0.0, False), (None, None), ("1", None),
        ("true", None), ([1], None), ({"value": 1}, None), (float("nan"), None), (float("inf"), None), (10**400, None),
    ]  # fmt: skip
    for reward, success in cases:
        (run,) = bl.load_runs(write(tmp_path, reward), prices=False)
        assert run.success is success, reward
        scores = dict(run.scores)
        assert scores == ({} if success is None else {"reward": float(success)}) or isinstance(reward, str), reward
    (run,) = bl.load_runs(write(tmp_path, 0.6), prices=False)
    assert run.success is (None if write in (chat, harbor) else False)  # their scales are not known
