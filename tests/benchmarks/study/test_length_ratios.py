"""length_ratio: how much longer failures are than successes, and what a cap saves."""

from dataclasses import replace

import pytest

import boolab as bl
from benchmarks.study.length_ratios import length_ratio, rank_correlation
from boolab.errors import SettingError
from tests.support.samples import atlas

LOOKS = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(40)]


def run(steps: int, name: str, *, success: bool | None) -> bl.Run:
    """A run of so many steps, of a group and with a label."""
    made = bl.run_sync(None, f"{name} {steps} {success}", model=bl.ScriptedModel([*LOOKS[: steps - 1], "Done."]))
    return replace(made, model=name, success=success)


RUNS = [
    *(run(steps, "short", success=True) for steps in (2, 4)),
    *(run(steps, "short", success=False) for steps in (12, 24)),
    *(run(steps, "same", success=success) for steps in (5, 7) for success in (True, False)),
    run(9, "no failures", success=True),
]


def test_ratio_is_of_mean_lengths_and_the_cap_is_per_group() -> None:
    found = length_ratio(RUNS, "model", keep=0.99).frame.set_index("model")
    assert found["rule"].to_dict() == {"short": "max_steps(4)", "same": "max_steps(7)", "no failures": "max_steps(9)"}
    assert found.loc[["short", "same"], "length_ratio"].tolist() == [6.0, 1.0]
    assert found["saved_steps"].tolist() == [8 + 20, 0, 0]
    assert found["kept_lower"].tolist() == [2, 2, 1]


def test_a_group_without_failures_has_no_ratio() -> None:
    found = length_ratio(RUNS[-1:])
    assert found["length_ratio"].isna().all()
    assert found.sentences == ("No group has both successes and failures.",)


@pytest.mark.slow
def test_the_ends_are_named_and_few_groups_have_no_correlation() -> None:
    found = length_ratio(RUNS, "model")
    assert [sentence.split(",")[0] for sentence in found.sentences] == ["In same", "In short"]


@pytest.mark.slow
def test_what_a_cap_saves_on_the_atlas_follows_the_ratio() -> None:
    runs = [one for name in ("swebench-verified", "tau2-retail", "intercode-python", "intercode-ctf", "tau-airline")
            for one in atlas(name)]  # fmt: skip
    found = length_ratio(runs, "set").frame.set_index("set")
    assert found.loc["swebench-verified", "rule"] == "max_steps(68)"
    assert found.loc["swebench-verified", "saved_steps"] == 351
    assert rank_correlation(found["length_ratio"].tolist(), found["saved_share"].tolist()) == pytest.approx(0.9)


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(SettingError, match="keep"):
        length_ratio(RUNS, keep=1.5)
