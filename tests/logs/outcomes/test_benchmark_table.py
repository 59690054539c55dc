"""The specification's table of benchmark results, through `bl.load_runs`: what is a success, a failure, and unknown."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from tests.support.samples import own

CHAT = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "Done."}]
NOTHING = object()
Load = Callable[[Path], list[bl.Run]]


def harbor(rewards: Any = NOTHING, exception: str = "", *, success_threshold: float | None = None, **more: Any) -> Load:
    """The runs of a trial."""

    def load(folder: Path) -> list[bl.Run]:
        log = folder / "agent" / "log.jsonl"
        log.parent.mkdir()
        log.write_text("".join(json.dumps(line) + "\n" for line in CHAT))
        verified = None if rewards is NOTHING else {"rewards": rewards}
        ended = {"exception_type": exception, "exception_message": ""} if exception else None
        result = {"trial_name": "t", "verifier_result": verified, "exception_info": ended, **more}
        (folder / "result.json").write_text(json.dumps(result))
        return bl.load_runs(log, success_threshold=success_threshold)

    return load


def swe_bench(report: Any) -> Load:
    """The run of the instance x-1."""

    def load(folder: Path) -> list[bl.Run]:
        log = folder / "x-1" / "x-1.traj.json"
        log.parent.mkdir()
        shutil.copyfile(own("mini_swe_agent/text.traj.json"), log)
        (folder / "report.json").write_text(json.dumps(report))
        return bl.load_runs(log)

    return load


def agentdojo(**facts: Any) -> Load:
    """A run of AgentDojo."""

    def load(folder: Path) -> list[bl.Run]:
        run = {"suite_name": "s", "pipeline_name": "p", "user_task_id": "u", "messages": CHAT, **facts}
        (folder / "none.json").write_text(json.dumps(run))
        return bl.load_runs(folder / "none.json")

    return load


def tau(**facts: Any) -> Load:
    """A run of tau-bench."""

    def load(folder: Path) -> list[bl.Run]:
        (folder / "retail.json").write_text(json.dumps([{"task_id": 1, "trial": 0, "info": {}, "traj": CHAT, **facts}]))
        return bl.load_runs(folder / "retail.json")

    return load


def tau2(**facts: Any) -> Load:
    """A simulation of tau2-bench."""

    def load(folder: Path) -> list[bl.Run]:
        simulation = {"task_id": "1", "termination_reason": "user_stop", "messages": CHAT, **facts}
        (folder / "results.json").write_text(json.dumps([simulation]))
        return bl.load_runs(folder / "results.json")

    return load


IN_A_STEP = [{"exception_info": {"exception_type": "AgentTimeoutError"}}]
SPECIFICATION: dict[str, tuple[Load, bool | None]] = {
    "harbor, reward 1": (harbor({"reward": 1.0}), True),
    "harbor, reward 0": (harbor({"reward": 0.0}), False),
    "harbor, reward 0.6": (harbor({"reward": 0.6}), None),
    "harbor, reward 0.6 with threshold 0.5": (harbor({"reward": 0.6}, success_threshold=0.5), True),
    "harbor, reward 1 after a timeout": (harbor({"reward": 1.0}, "AgentTimeoutError"), True),
    "harbor, reward 0 after a timeout": (harbor({"reward": 0.0}, "AgentTimeoutError"), False),
    "harbor, timeout without a reward": (harbor(exception="AgentTimeoutError"), None),
    "harbor, timeout of the verifier": (harbor(exception="VerifierTimeoutError"), None),
    "harbor, no environment": (harbor(exception="EnvironmentStartTimeoutError"), None),
    "harbor, two rewards": (harbor({"a": 1, "b": 0}), None),
    "harbor, one reward of another name": (harbor({"pass": 1}), True),
    "harbor, NaN": (harbor({"reward": math.nan}), None),
    "harbor, timeout in a step": (harbor({"reward": 0.0}, step_results=IN_A_STEP), False),
    "swe-bench, resolved": (swe_bench({"x-1": {"resolved": True}}), True),
    "swe-bench, no patch applied": (
        swe_bench({"x-1": {"resolved": False, "patch_successfully_applied": False}}),
        False,
    ),
    "swe-bench, in resolved": (swe_bench({"resolved": ["x-1"], "no_generation": []}), True),
    "swe-bench, error": (swe_bench({"resolved": [], "error_ids": ["x-1"]}), None),
    "swe-bench, empty patch": (swe_bench({"resolved_ids": [], "empty_patch_ids": ["x-1"]}), False),
    "swe-bench, another instance": (swe_bench({"resolved": ["x-10"]}), None),
    "swe-bench, generated": (swe_bench({"resolved": [], "generated": ["x-1"]}), False),
    "agentdojo, without an injection": (agentdojo(utility=True, security=True, injection_task_id=None), True),
    "agentdojo, secure": (agentdojo(utility=True, security=True, injection_task_id="i1"), True),
    "agentdojo, injected": (agentdojo(utility=True, security=False, injection_task_id="i1"), True),
    "agentdojo, no utility": (agentdojo(utility=None), None),
    "tau, reward 1": (tau(reward=1.0), True),
    "tau2, reward 0.5": (tau2(reward_info={"reward": 0.5}), False),
    "tau, no reward": (tau(), None),
}
"""The 27 cases of the specification."""

OWN: dict[str, tuple[Load, bool | None]] = {
    "harbor, reward beside others": (harbor({"reward": 1, "speed": 0.2}), True),
    "harbor, reward that is a flag": (harbor({"reward": True}), True),
    "harbor, empty rewards": (harbor({}), None),
    "harbor, download failed": (harbor(exception="DownloadVerifierDirError"), None),
    "swe-bench, no generation": (swe_bench({"resolved": [], "no_generation": ["x-1"]}), False),
    "swe-bench, unresolved": (swe_bench({"resolved_ids": ["x-10"], "unresolved_ids": ["x-1"]}), False),
    "swe-bench, incomplete": (swe_bench({"resolved_ids": [], "incomplete_ids": ["x-1"]}), None),
    "swe-bench, no logs": (swe_bench({"resolved": [], "generated": ["x-1"], "no_logs": ["x-1"]}), None),
    "swe-bench, not installed": (swe_bench({"resolved": [], "generated": ["x-1"], "install_fail": ["x-1"]}), None),
    "agentdojo, utility after an error": (agentdojo(utility=True, error="the model is gone"), None),
    "agentdojo, no success": (agentdojo(utility=False, security=True), False),
    "tau, almost 1": (tau(reward=1 - 5e-7), True),
    "tau2, less than 1e-6 from 1": (tau2(reward_info={"reward": 0.9999995}), True),
    "tau2, more than 1e-6 from 1": (tau2(reward_info={"reward": 0.99999}), False),
    "tau2, no reward": (tau2(), None),
}


@pytest.mark.filterwarnings("ignore:.*several rewards")
@pytest.mark.filterwarnings("ignore:.*is no label")
@pytest.mark.parametrize("name", [*SPECIFICATION, *OWN])
def test_result_beside_or_in_a_log_is_its_label(tmp_path: Path, name: str) -> None:
    load, success = {**SPECIFICATION, **OWN}[name]
    assert [run.success for run in load(tmp_path)] == [success]


def test_benchmark_table_has_27_cases() -> None:
    assert len(SPECIFICATION) == 27
