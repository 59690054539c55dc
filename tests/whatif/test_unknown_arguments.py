"""A streak of calls whose arguments are not on record is at most the one where all of them are equal."""

import json
from pathlib import Path
from typing import Any

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import REDACTED
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.step_table import bound_counter

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


class CountingStreak(RepeatStreak):
    """A streak that is folded call by call, and counts these calls."""

    folded = 0

    def fold(self, state: Any, call: ObservedCall) -> Any:
        CountingStreak.folded += 1
        return super().fold(state, call)


def test_only_runs_that_lack_arguments_are_counted_twice(tmp_path: Path) -> None:
    look = {"tool_calls": [{"name": "ls"}], "repeat": 40}
    complete = bl.run_sync(None, "Look", model=bl.ScriptedModel([look, "Done."]), policy="naive")
    lacking = recorded(tmp_path)
    CountingStreak.folded = 0
    ledger = ledger_of([complete, *lacking, complete], [CountingStreak()])
    assert CountingStreak.folded == 40 + 2 * len(CALLS) + 40
    name = CountingStreak().name
    first, middle, last = (ledger.take(slice(n, n + 1)).counters for n in range(3))
    assert first[name].tolist() == last[name].tolist() == [*range(1, 41), 40]
    assert middle[name].tolist() == [1, -1, -1, 1, 1, 1]
    assert middle[bound_counter(name)].tolist() == [1, 2, 3, 1, 1, 1]
