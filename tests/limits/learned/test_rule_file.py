"""Files of learned rules: read as written, and what is refused."""

from pathlib import Path

import pytest

import boolab as bl
from boolab.limits.learned.rule import LearnedFrom, LearnedRisk, Promise, learned_rule
from tests.limits.learned.test_risk import LINEAR, TREES

SOURCE = LearnedFrom(499, 168, 499, 16707, "ab" * 32)


@pytest.mark.parametrize("model", [LINEAR, TREES], ids=["linear", "trees"])
@pytest.mark.parametrize("confidence", [0.9, None])
def test_a_rule_is_read_as_it_was_written(model: object, confidence: float | None, tmp_path: Path) -> None:
    rule = learned_rule(LearnedRisk(model), 965_387_112, Promise(0.95, confidence, 118), SOURCE)  # type: ignore[arg-type]
    bl.stats.save_rule(rule, tmp_path / "rule.yaml")
    again = bl.stats.load_rule(tmp_path / "rule.yaml")
    assert again == rule
    assert (str(again), again.counter, again.promise) == (str(rule), rule.counter, rule.promise)
    head = (tmp_path / "rule.yaml").read_text().splitlines()[:2]
    assert head[0].endswith("whose estimate of failure reaches 96.538711%.")
    assert head[1] == f"# {rule.promise}"


GOOD = """boolab_rule: 1
threshold: 900
promise: {keep: 0.95, confidence: null, calibration_tasks: 60}
learned_from: {runs: 9, successes: 4, tasks: 9, steps: 50, sha256: ab, cluster: task}
model:
  kind: logistic
  intercept: -1
  features:
    steps: {weight: 0.5, unknown: 3}
"""
TREE = GOOD.replace("kind: logistic", "kind: trees") + "  trees: [[steps, 2, -0.5, 0.5]]\n"


@pytest.mark.parametrize("text", [GOOD, TREE])
def test_a_file_that_was_written_by_hand_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "rule.yaml").write_text(text)
    rule = bl.stats.load_rule(tmp_path / "rule.yaml")
    assert rule.threshold == 900
    assert rule.risk.model.log_odds([None]) == (0.5 if text is GOOD else -0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "the file: expected a mapping"),
        (GOOD.replace("boolab_rule: 1", "boolab_rule: 2"), ":1: boolab_rule is 2: expected 1"),
        (GOOD.replace("900", "0"), ":2: threshold is 0: expected an integer from 1"),
        (GOOD.replace("900", "2000000000"), ":2: threshold is 2000000000: expected"),
        (GOOD.replace("0.95", "95"), ":3: keep is 95.0: expected a number between 0 and 1"),
        (GOOD.replace("logistic", "forest"), ":6: kind is 'forest': expected logistic or trees"),
        (GOOD.replace("-1", "nan"), ":7: intercept is 'nan': expected a number"),
        (GOOD.replace("steps:", "stepz:"), "feature 'step.*' is not known|learned_from|steps"),
        (GOOD.replace("    steps: {", "    stepz: {"), "feature 'stepz' is not known; did you mean 'steps'?"),
        (GOOD.replace("weight: 0.5", "weight: high"), ":9: weight is 'high': expected a number"),
        (TREE.replace("[[steps", "[[step"), ":10: a tree splits 'step' at 2"),
        (TREE.replace("2, -0.5, 0.5]", "2]"), r":10: a tree is \['steps', 2\]"),
        (TREE.replace("  trees: [[steps, 2, -0.5, 0.5]]\n", ""), "trees: expected a list of trees"),
        (GOOD + "\t", "not valid YAML"),
    ],
)
def test_a_file_that_holds_no_rule_is_refused_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rule.yaml"
    path.write_text(text)
    with pytest.raises(bl.errors.FileError, match=message):
        bl.stats.load_rule(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(bl.errors.FileError, match="cannot be read"):
        bl.stats.load_rule(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(bl.errors.FileError, match="is not UTF-8 text"):
        bl.stats.load_rule(tmp_path / "bytes.yaml")
