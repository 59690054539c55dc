"""Stop rules on detectors: live as offline, on all that reads recordings, and what they refuse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import boolab as bl
from boolab.limits.detectors.wrappers import PerMessage, Rearmed
from boolab.limits.learned.rule import LearnedRisk
from boolab.report.html_page import page_of
from boolab.report.question import Question
from boolab.report.study import study_of
from boolab.whatif.from_runs import ledger_of
from tests.limits.learned.test_risk import LINEAR, TREES
from tests.support.cases import cases
from tests.support.helpers import call, play
from tests.support.report_cases import draw_no_figures
from tests.whatif.test_properties import FREE, NEVER

RULES: list[bl.StopRule] = [
    bl.doom_loop(3, {"*": "ordered", "fail": None}),
    bl.error_streak(2),
    bl.detectors.text_contains("a"),
    bl.cycle(2, 2),
    bl.cycle(None, 3, "ordered"),
    bl.detectors.cycle_detections(2, 2),
    bl.detectors.round_streak(2),
    bl.detectors.step_repeats(2, 4),
    bl.detectors.tool_window(4, 5),
    bl.detectors.tool_window(2, 5, "fail"),
    bl.detectors.similar_calls(3, 0.8),
    bl.detectors.similar_calls(2, 0.8, "call+result"),
    bl.detectors.call_window(3, 4),
    bl.detectors.context_growth(60, "canonical", on_unknown="ignore"),
    bl.detectors.compaction_thrash(),
    bl.max_context(130, on_unknown="ignore"),
    bl.max_context(120, "handoff", on_unknown="ignore"),
    bl.detectors.same_error(2),
    bl.detectors.finish_streak(2, "length"),
    bl.detectors.idle_streak(1),
    bl.detectors.repeating_actions(2),
    bl.detectors.failing_actions(2),
    bl.detectors.alternating_actions(4),
    bl.detectors.repeated_text(),
    bl.detectors.stop_when(PerMessage(bl.detectors.RepeatStreak("ordered")), 2),
    bl.detectors.stop_when(Rearmed(bl.detectors.RepeatStreak(), 2), 2),
    bl.detectors.stop_when(LearnedRisk(LINEAR), 600_000_000),
    bl.detectors.stop_when(LearnedRisk(TREES), 700_000_000),
]

ITEMS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.sampled_from(["", "so", "over and over again " * 40]),
            "usage": st.fixed_dictionaries(
                {"input_tokens": st.sampled_from([100, 130, 190]), "output_tokens": st.just(3)}
            ),
            "finish_reason": st.sampled_from(["tool_calls", "length"]),
            "tool_calls": st.lists(
                st.builds(call, st.sampled_from(["look", "look", "fail"]), what=st.sampled_from("AAB")),
                min_size=1,
                max_size=3,
            ),
        }
    ),
    max_size=12,
)


@cases(25, suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS)
def test_live_run_stops_where_rule_first_fires_in_recording(items: Any) -> None:
    whole = play([*items, "done"], stop=bl.max_steps(1000))
    for rule in RULES:
        table = bl.boundaries_df(whole, rule)
        fired = [bool(rule(dict(zip(table.columns, row, strict=True)))) for row in table.itertuples(index=False)]
        live = play([*items, "done"], stop=rule)
        if True in fired:
            assert (live.stop_step, live.stop_reason) == (fired.index(True), rule.decisive({}).reason)
        else:
            assert live.stop_reason == "finished"
        ledger = ledger_of([whole], rule.detectors())
        (counter,) = {leaf.counter for leaf in rule.leaves()}
        assert ledger.counters[counter][ledger.boundary].tolist() == table[counter].tolist()[1:]


@pytest.fixture(scope="module")
def runs() -> list[bl.Run]:
    scripts = ("A", "AB", "AAB")
    made = [[*({"tool_calls": [call("look", what=c)]} for c in s * 15), "done"] for s in scripts]
    made += [[*({"tool_calls": [call("fail", what="A")]} for _ in range(15)), "done"], ["done"]]
    return [play(items, policy=FREE, stop=NEVER) for items in made]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_scorecards_and_counterfactuals_take_every_rule(rule: bl.StopRule, runs: list[bl.Run]) -> None:
    table = bl.counterfactual(runs, rules=[rule])
    expected = [alarm(rule, run) for run in runs]
    assert (table["outcome"] != "unchanged").tolist()[: len(runs)] == [*expected]
    row = bl.scorecard(runs, [rule]).frame.iloc[0]
    assert row["alarms"] == sum(expected)


def alarm(rule: bl.StopRule, run: bl.Run) -> bool:
    return bool(rule(bl.boundaries_df(run, rule)).fillna(value=False).any())


@pytest.mark.parametrize("rule", RULES[2:], ids=str)
def test_frame_without_calls_is_refused_for_call_detectors(rule: bl.StopRule, runs: list[bl.Run]) -> None:
    with pytest.raises(bl.SettingError, match="cannot be computed from a frame, which holds no calls: pass runs"):
        bl.counterfactual(bl.recording_df(runs), rules=[rule])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bl.cycle(0, 3), r"cycle: period\(0\): expected an integer >= 1"),
        (lambda: bl.cycle(2, 1), r"cycle\(1\): expected an integer >= 2"),
        (lambda: bl.cycle(2, 3, "same"), "identity 'same' is not known"),
        (lambda: bl.cycle(2, 3, {"*": None}), "exempts every tool"),
        (lambda: bl.detectors.cycle_detections(1, 1), "expected an integer >= 2"),
        (lambda: bl.detectors.round_streak(1), r"round_streak\(1\): expected an integer >= 2"),
        (lambda: bl.detectors.step_repeats(1), r"step_repeats\(1\): expected an integer >= 2"),
        (lambda: bl.detectors.step_repeats(6, 5), r"step_repeats: window of 6\(5\): expected an integer >= 6"),
        (lambda: bl.detectors.similar_calls(1), r"similar_calls\(1\): expected an integer >= 2"),
        (lambda: bl.detectors.similar_calls(3, 0), "similarity=0: expected a number above 0 and at most 1"),
        (lambda: bl.detectors.similar_calls(3, True), "similarity=True: expected a number above 0"),
        (lambda: bl.detectors.similar_calls(3, 0.9, "raw"), "identity 'raw' is not accepted: expected 'canonical'"),
        (lambda: bl.detectors.call_window(1), r"call_window\(1\): expected an integer >= 2"),
        (lambda: bl.detectors.call_window(6, 5), r"call_window: window of 6\(5\): expected an integer >= 6"),
        (lambda: bl.detectors.compaction_thrash(1), r"compaction_thrash\(1\): expected an integer >= 2"),
        (lambda: bl.detectors.compaction_thrash(3, 0), r"compaction_thrash: within\(0\): expected an integer >= 1"),
        (lambda: bl.detectors.context_growth(0), r"context_growth\(0\): expected an integer >= 1"),
        (
            lambda: bl.detectors.context_growth(9, on_unknown="x"),  # type: ignore[arg-type]
            "on_unknown='x' is not known",
        ),
        (lambda: bl.detectors.tool_window(1, 5), r"tool_window\(1\): expected an integer >= 2"),
        (lambda: bl.detectors.tool_window(6, 5), "expected an integer >= 6"),
        (lambda: bl.detectors.same_error(0), r"same_error\(0\): expected an integer >= 1"),
        (lambda: bl.detectors.same_error(1, "guess"), "on_unknown='guess' is not known"),  # type: ignore[arg-type]
        (lambda: bl.detectors.alternating_actions(2), r"alternating_actions\(2\): expected an integer >= 3"),
        (lambda: Rearmed(bl.detectors.RepeatStreak(), 1), "expected an integer >= 2"),
        (lambda: bl.detectors.Detections(bl.detectors.RepeatStreak(), True), "expected an integer >= 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(bl.SettingError, match=message):
        make()


class Looks:
    """How many calls of `look` there were: a detector of somebody's own."""

    name = "looks"
    reason = "stuck"
    least = 1
    start = 0

    def fold(self, state: int, seen: bl.detectors.ObservedCall) -> tuple[int, int]:
        return (count := state + (seen.name == "look")), count


def lacking(name: str) -> Any:
    """A detector without one of its attributes."""
    return type("Lacks", (), {key: value for key, value in vars(Looks).items() if key != name})()


def with_(**values: Any) -> Any:
    """A detector with other attributes."""
    return type("Other", (Looks,), values)()


@pytest.mark.parametrize("wrong", ["name", "reason", "least", "start", "fold"])
@pytest.mark.parametrize(
    "make",
    [
        lambda detector: bl.detectors.stop_when(detector, 2),
        lambda detector: bl.Guard(detector=detector, ladder=((2, "stop"),)),
        PerMessage,
        lambda detector: Rearmed(detector, 2),
        lambda detector: bl.detectors.Detections(detector, 2),
    ],
)
def test_incomplete_detector_is_refused_when_a_rule_is_made(make: Any, wrong: str) -> None:
    with pytest.raises(bl.SettingError, match=f"has no attribute `{wrong}`: expected"):
        make(lacking(wrong))


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        (
            with_(reason="too_many_looks"),
            "reason='too_many_looks' is not accepted: expected one of finished, synth.*stuck",
        ),
        (with_(name=""), "name='' is not accepted: expected the name of its counter"),
        (with_(least="two"), "least='two' is not accepted"),
        (with_(fold=3), "fold=3 is not accepted: expected a function"),
        (with_(__hash__=None), "cannot be hashed: make it a frozen dataclass"),
        (Looks, "is a class: expected one of its instances, such as Looks()"),
        (None, "detector None has no attribute `name`"),
    ],
)
def test_a_detector_is_refused_with_what_is_expected_of_it(detector: Any, message: str) -> None:
    with pytest.raises(bl.SettingError, match=message):
        bl.detectors.stop_when(detector, 2)


def test_a_stop_reason_of_a_guard_is_one_of_those_that_there_are() -> None:
    with pytest.raises(
        bl.SettingError, match="guard: reason='bored': expected one of finished, .*, stuck, aborted, error"
    ):
        bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((2, "stop"),), reason="bored")  # type: ignore[arg-type]


def test_a_detector_of_ones_own_works_from_the_run_to_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_no_figures(monkeypatch)
    rule = bl.detectors.stop_when(with_(), 2, label="looks(2)")
    items = [[{"tool_calls": [call("look")]}] * n + ["done"] for n in (0, 1, 3, 4)]
    stopped, whole = ([play(script, stop=stop) for script in items] for stop in (rule, bl.max_steps(50)))
    table = bl.runs_df(stopped)
    assert table["stop_reason"].tolist() == ["finished", "finished", "stuck", "stuck"]
    assert table["stop_rule"].tolist()[2:] == ["looks(2)"] * 2
    for plot in (bl.plots.plot_stop_reasons, bl.plot_steps):
        key = plot(stopped, ax=Figure().subplots()).get_legend()
        assert key is not None
        assert "stuck 2" in [text.get_text() for text in key.get_texts()]
    offline = bl.counterfactual(whole, rules=[rule])
    assert offline["stop_reason"].tolist() == table["stop_reason"].tolist()
    assert bl.counterfactual(whole, rules=[rule], aggregate=True)["n_stuck"].item() == 2
    for file in ("runs.parquet", "runs.jsonl"):
        bl.save_runs(stopped, tmp_path / file)
        assert [run.stop for run in bl.load_runs(tmp_path / file)] == [run.stop for run in stopped]
    assert "stuck" in page_of(study_of([str(tmp_path / "runs.jsonl")], Question()))


def test_an_unknown_status_is_an_error_of_its_own_or_ignored() -> None:
    for rule in (bl.detectors.same_error, bl.detectors.failing_actions, bl.error_streak):
        name = rule(2).detectors()[0].name
        assert rule(2)({name: None}) is None
        assert rule(2, "ignore")({name: None}) is False


@pytest.mark.parametrize("rule", [bl.doom_loop, lambda n, **of: bl.cycle(1, n, **of), bl.detectors.round_streak])
def test_exempt_tools_repeat_without_being_a_loop(rule: Callable[..., bl.StopRule]) -> None:
    again = [{"tool_calls": [call("look")]}] * 4
    assert play([*again, "done"], stop=rule(3)).stop_reason != "finished"
    assert play([*again, "done"], stop=rule(3, exempt=["look"])).stop_reason == "finished"
    assert str(rule(3, exempt=["look"])) == str(rule(3, identity={"*": "canonical", "look": None}))


@pytest.mark.parametrize("exempt", [[3], [""], ["*"], [None]])
def test_exempt_takes_names_of_tools(exempt: Any) -> None:
    with pytest.raises(bl.SettingError, match=r"expected a list of names of tools"):
        bl.doom_loop(3, exempt=exempt)
