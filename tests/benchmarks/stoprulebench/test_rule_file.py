"""Rules in YAML: what is read, and how what is wrong is named."""

from pathlib import Path

import pytest

import boolab as bl
from benchmarks.stoprulebench.rule_file import RULES, parse_rules, read_rules
from boolab.errors import FileError
from boolab.limits.learned.models import LinearModel
from boolab.limits.learned.rule import LearnedFrom, LearnedRisk, Promise, learned_rule


def settings(text: str) -> list[str]:
    return [" | ".join(str(each.rule) for each in setting) for setting in parse_rules(text).settings]


def test_a_rule_is_its_name_and_its_first_argument_or_a_mapping() -> None:
    assert settings("rules: [{doom_loop: 3}]") == ["doom_loop(3, canonical)"]
    assert settings("rules: [{doom_loop: {n: 3, identity: tool, exempt: [poll, wait]}}]") == [
        "doom_loop(3, tool,poll=exempt,wait=exempt)"
    ]
    assert settings("rules: [{max_cost: 0.5}, {error_streak: {n: 2, on_unknown: ignore}}]") == [
        "max_cost(0.5) | error_streak(2, on_unknown=ignore)"
    ]


def test_rule_file_combines_all_lists_and_ranges() -> None:
    assert settings("rules: [{max_steps: '5:15:5'}]") == ["max_steps(5)", "max_steps(10)", "max_steps(15)"]
    assert settings("rules: [{max_steps: [5, 9]}, {cycle: {period: 2, repeats: [2, 3]}}]") == [
        "max_steps(5) | cycle(2, 2, canonical)",
        "max_steps(5) | cycle(2, 3, canonical)",
        "max_steps(9) | cycle(2, 2, canonical)",
        "max_steps(9) | cycle(2, 3, canonical)",
    ]


def test_rules_are_joined_by_any_and_all() -> None:
    text = "rules: [{all: [{max_steps: 5}, {any: [{doom_loop: 3}, {idle_streak: 2}]}]}]"
    assert settings(text) == ["max_steps(5) & (doom_loop(3, canonical) | idle_streak(2))"]


def test_a_learned_rule_is_read_from_the_file_beside(tmp_path: Path) -> None:
    risk = LearnedRisk(LinearModel(("calls_streak",), (1.5,), -1.0, (0.8,)))
    rule = learned_rule(risk, 900_000_000, Promise(0.95, 0.9, 60), LearnedFrom(9, 4, 9, 50, "ab"))
    bl.stats.save_rule(rule, tmp_path / "learned.yaml")
    (tmp_path / "rules.yaml").write_text("rules:\n  - learned: learned.yaml\n  - max_steps: 9\n")
    assert read_rules(tmp_path / "rules.yaml").settings[0][0].rule == rule | bl.max_steps(9)
    (tmp_path / "rules.yaml").write_text("rules:\n  - learned: other.yaml\n")
    with pytest.raises(FileError, match=r"rules.yaml:2: learned: .*other.yaml"):
        read_rules(tmp_path / "rules.yaml")


def test_a_file_describes_itself() -> None:
    text = (
        "name: mine\nauthors: Ada\ndescription: A cap.\nurl: https://example.org\nscope: turn\nrules: [{max_steps: 3}]"
    )
    entry = parse_rules(text, "file")
    assert (entry.about.name, entry.about.authors, entry.about.definition) == ("mine", "Ada", text)
    assert entry.settings[0][0].scope == "turn"
    assert parse_rules("rules: [{max_steps: 3}]", "file").about.name == "file"


@pytest.mark.parametrize("name", RULES)
def test_every_rule_of_the_catalog_can_be_named(name: str) -> None:
    more = {"cycle": "{period: 2, repeats: 3}", "tool_window": "{n: 3, window: 9}", "text_contains": "done",
            "finish_streak": "{n: 2, finish_reason: length}"}.get(name, "3")  # fmt: skip
    assert len(settings(f"rules: [{{{name}: {more}}}]")) == 1


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("rules:\n  - doom_lop: 3", r"rules.yaml:2: there is no rule 'doom_lop'; did you mean 'doom_loop'\?"),
        ("rules:\n  - doom_loop: 1", r"rules.yaml:2: doom_loop\(1\): expected an integer >= 2"),
        ("rules:\n  - doom_loop: {m: 1}", r"rules.yaml:2: doom_loop has no argument 'm'"),
        ("rules:\n  - cycle: {period: 2}", r"rules.yaml:2: cycle missing 1 required positional argument: 'repeats'"),
        ("rules:\n  - max_steps: '9:3'", r"rules.yaml:2: '9:3' is not a range such as 10:100:10"),
        ("rules:\n  - max_steps: []", r"rules.yaml:2: n: the list is empty"),
        ("rules:\n  - max_steps: 3\n    doom_loop: 3", r"rules.yaml:2: expected one rule, such as \{doom_loop: 3\}"),
        ("rules:\n  - all: 3", r"rules.yaml:2: all: expected a list of rules"),
        ("name: x", r"rules.yaml:1: there are no `rules`: expected a list such as"),
        ("rule: [{max_steps: 3}]", r"rules.yaml:1: the key 'rule' is not known; did you mean 'rules'\?"),
        ("rules: [{max_steps: 3}]\nscope: all", r"rules.yaml:2: scope 'all' is not known; accepted: run, turn"),
        ("name: [x]\nrules: [{max_steps: 3}]", r"rules.yaml:1: name: \['x'\] is not a text"),
        ("- max_steps: 3", r"rules.yaml:1: expected a mapping with name, authors"),
        ("rules: [{max_steps: '1:5000'}, {tool_budget: [1, 2]}]", r"more than 5,000 settings to choose among"),
        ("rules: [", r"not valid YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    with pytest.raises(FileError, match=match):
        read_rules(tmp_path / "rules.yaml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none.yaml: cannot be read: No such file"):
        read_rules(tmp_path / "none.yaml")


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match=r"rules.yaml: not UTF-8"):
        read_rules(tmp_path / "rules.yaml")
