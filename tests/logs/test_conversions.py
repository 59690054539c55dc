"""A session beside its conversion to ATIF, as Harbor leaves them, is counted once, with its subagents."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from tests.support.project import ROOT

NATIVE = ROOT / "tests/data/claude_code"


def steps_of(run: Run, *, sidechain: bool) -> list[dict[str, Any]]:
    """The steps of a run as Harbor's converter writes them: those of a subagent are marked."""
    extra = {"is_sidechain": sidechain}
    began = run.started_at
    assert began is not None
    steps: list[dict[str, Any]] = []
    if not sidechain:
        steps.append({"source": "user", "message": run.prompt[-1].text, "extra": extra})
    for step in run.steps:
        pairs = zip(step.response.tool_calls, step.results, strict=True)
        results = [{"source_call_id": call.id, "content": result.content} for call, result in pairs if result]
        calls = [
            {"tool_call_id": call.id, "function_name": call.name, "arguments": json.loads(call.arguments)}
            for call in step.response.tool_calls
        ]
        usage = step.response.usage
        made = {
            "source": "agent",
            "message": step.response.text,
            "timestamp": (began + timedelta(milliseconds=(step.start_ms or 0) + (step.model_ms or 0))).isoformat(),
            "metrics": {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens},
            "extra": extra,
        }
        steps.append(made | ({"tool_calls": calls, "observation": {"results": results}} if calls else {}))
    return steps


@pytest.mark.filterwarnings("ignore::boolab.errors.ReadWarning")
@pytest.mark.parametrize("ids", ["short", "unique"])
def test_subagents_of_a_conversion_are_counted_once(ids: str, tmp_path: Path) -> None:
    agent = tmp_path / "trial" / "agent"
    project = agent / "sessions/projects/-app"
    shutil.copytree(NATIVE, project)
    (first,) = project.rglob("agent-*.jsonl")
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for number, line in enumerate(lines):  # another subagent, after the first one
        line |= {"agentId": "cd34", "uuid": f"cd34-{number}", "timestamp": line["timestamp"].replace("T10:", "T11:")}
        line["message"] |= {"id": f"msg_cd34_{number}"} if "id" in line["message"] else {}
    second = first.parent / "agent-cd34.jsonl"
    second.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    if ids == "unique":  # as the provider makes them: then the conversion begins with the first subagent's steps
        for number, path in enumerate((first, second)):
            path.write_text(path.read_text().replace('"a1"', f'"toolu_01Yk{number}uTQ8vWc6BrDnPz3hXeL5"'))
    alone = bl.runs_df(bl.load_runs(agent))
    assert len(alone) == 3
    runs = bl.load_runs(agent)
    (main,) = (run for run in runs if run.parent_run_id is None)
    steps = [one for run in runs for one in steps_of(run, sidechain=run is not main)]
    record = {
        "schema_version": "ATIF-v1.2",
        "session_id": main.run_id,
        "agent": {"name": "claude-code", "version": "2.0.46", "model_name": main.model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
    }
    (agent / "trajectory.json").write_text(json.dumps(record))
    assert {run.source for run in bl.load_runs(agent / "trajectory.json")} == {"atif"}
    both = bl.runs_df(bl.load_runs(tmp_path))
    for name in ("n_steps", "n_tool_calls", "n_errors", "input_tokens", "output_tokens"):
        assert both[name].sum() == alone[name].sum(), name
    assert sorted(both["run_id"]) == sorted(alone["run_id"])
