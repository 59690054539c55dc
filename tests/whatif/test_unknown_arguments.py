"""A streak of calls whose arguments are not on record is at most the one where all of them are equal."""

import json
from pathlib import Path
from typing import Any

import boolab as bl
from boolab.core.types import REDACTED, Run

CALLS = (("bash", REDACTED), ("bash", REDACTED), ("bash", REDACTED), ("read", '{"p":1}'), ("bash", REDACTED))
THRESHOLDS = [2, 3, 4, 5, 6, 100]


def recorded(folder: Path) -> list[Run]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number, (name, arguments) in enumerate(CALLS):
        function = {"name": name, "arguments": arguments}
        messages.append(
            {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{number}", "function": function}]}
        )
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "x"})
    path = folder / "a.jsonl"
    path.write_text(json.dumps({"messages": [*messages, {"role": "assistant", "content": "Done."}]}))
    return bl.load_runs(path, prices=False)


def test_a_threshold_above_the_largest_streak_is_decided(tmp_path: Path) -> None:
    runs = recorded(tmp_path)
    rules = [*map(bl.doom_loop, THRESHOLDS)]
    rules += [
        bl.doom_loop(3) & bl.tool_budget(2),
        bl.doom_loop(4) & bl.tool_budget(2),
        bl.doom_loop(4) | bl.max_steps(2),
    ]
    expected = ["unknown", "unknown", "unchanged", "unchanged", "unchanged", "unchanged"]
    for data in (runs, bl.recording_df(runs)):
        frame = bl.counterfactual(data, {"doom_loop": THRESHOLDS}, progress=False)
        assert frame["outcome"].tolist() == expected
        frame = bl.counterfactual(data, rules=rules, progress=False)
        assert frame["outcome"].tolist() == [*expected, "unknown", "unchanged", "truncated"]
    joined = [*runs, bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))]
    frame = bl.counterfactual(joined, {"doom_loop": [3, 4]}, progress=False)
    assert frame["outcome"].tolist() == ["unknown", "unchanged", "unchanged", "unchanged"]
