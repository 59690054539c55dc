"""Identities and detectors."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_core import from_json

from boolab.core.types import IDENTITIES, REDACTED, Response, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.limits.call_identity import _NOT_PARSED, _parse_plain, arguments_hash, call_key
from boolab.limits.detector import Detector
from boolab.limits.detectors.cycles import cycle_period
from boolab.limits.detectors.streaks import ErrorStreak, RepeatStreak
from boolab.limits.ladder import Watch
from tests.support.cases import cases


def counts_of(detector: Detector, pairs: Sequence[tuple[ToolCall, ToolResult]]) -> list[int | None]:
    """The counts after each call, one call per step."""
    watch, counts = Watch([detector]), dict[str, int | None]()
    out = []
    for call, result in pairs:
        watch.complete(Response("", (call,)), [result], counts)
        out.append(counts[detector.name])
    return out


def same(a: str, b: str, identity: str, results: tuple[str, str] = ("x", "x")) -> bool:
    keys = [
        call_key(ToolCall("", "t", text), ToolResult("", out), identity)
        for text, out in zip((a, b), results, strict=True)
    ]
    return keys[0] == keys[1]


@pytest.mark.parametrize(
    ("a", "b", "equal_in"),
    [
        ('{"a":1,"b":2}', '{"a":1,"b":2}', "raw ordered canonical call+result tool"),
        ('{"a":1,"b":2}', '{"a": 1, "b": 2}', "ordered canonical call+result tool"),
        ('{"a":1,"b":2}', '{"b":2,"a":1}', "canonical call+result tool"),
        ('{"x":{"a":1,"b":2}}', '{"x":{"b":2,"a":1}}', "canonical call+result tool"),
        ('{"a":1}', '{"a":2}', "tool"),
        ('{"a":1}', '{"a":true}', "tool"),
        ('{"a":1}', '{"a":1.0}', "tool"),
        ('{"a":"\\u0041"}', '{"a":"A"}', "ordered canonical call+result tool"),
        ('{"a":', '{"a": ', "tool"),
        ('{"a":', '{"a":', "raw ordered canonical call+result tool"),
        ('{"a":NaN}', '{"a": NaN}', "tool"),
    ],
)
def test_what_the_same_call_means_for_each_identity(a: str, b: str, equal_in: str) -> None:
    assert [i for i in IDENTITIES if same(a, b, i)] == equal_in.split()


def test_call_and_result_tells_polling_from_repeating() -> None:
    assert not same("{}", "{}", "call+result", ("1%", "2%"))
    assert same("{}", "{}", "call+result", ("1%", "1%"))


def test_unknown_identity_raises_and_lists_the_known_ones() -> None:
    with pytest.raises(SettingError, match="accepted: raw, ordered, canonical, call\\+result, tool"):
        RepeatStreak("object")


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["", "a", "é", "\u2028"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def call_and_result(draw: st.DrawFn) -> tuple[ToolCall, ToolResult]:
    text = draw(
        st.sampled_from(['{"a":', "", "NaN", "[1]", "[true]", "[1.0]", '{"a":-0.0}', '{"a":0.0}', '{"a":0}'])
        | st.builds(lambda v, i: json.dumps({"v": v}, indent=i), JSON, st.sampled_from([None, 1]))
    )
    name = draw(st.sampled_from(["t", "t", "u"]))
    return ToolCall("", name, text), ToolResult("", draw(st.sampled_from(["x", "y"])))


@cases(150)
@given(st.lists(call_and_result(), max_size=8), st.sampled_from(IDENTITIES))
def test_the_folded_streak_is_the_run_length_of_equal_keys(pairs: Any, identity: str) -> None:
    keys: list[object] = []
    for (call, result), streak in zip(pairs, counts_of(RepeatStreak(identity), pairs), strict=True):
        keys.append(call_key(call, result, identity))
        expected = 0
        for key in reversed(keys):
            if key != keys[-1]:
                break
            expected += 1
        assert streak == expected


def test_error_streak_is_unknown_until_the_next_known_success() -> None:
    pairs = [(ToolCall("", "t", ""), ToolResult("", "", error)) for error in (True, True, None, True, False, True)]
    assert counts_of(ErrorStreak(), pairs) == [1, 2, None, None, 0, 1]


@pytest.mark.parametrize(
    ("keys", "period"),
    [
        ("", None),
        ("A", None),
        ("AA", 1),
        ("AB", None),
        ("ABAB", 2),
        ("ABAC", None),
        ("xABCABC", 3),
        ("AABAAB", 3),
        ("ABCDEABCDE", 5),
        ("ABCDEFABCDEF", None),
        ("ABBABB", 1),
    ],
)
def test_cycle_period_is_the_smallest_with_two_equal_halves(keys: str, period: int | None) -> None:
    assert cycle_period(keys) == period
    assert cycle_period(list(keys)) == period


def test_the_arguments_hash_is_the_blake2b_of_the_canonical_form() -> None:
    expected = blake2b(b'{"a":[],"b":1}', digest_size=8).hexdigest()
    assert arguments_hash('{"b": 1, "a": [ ]}') == expected
    assert arguments_hash('{"b": 1, "a": [ ') == blake2b(b'{"b": 1, "a": [ ', digest_size=8).hexdigest()
    assert len(arguments_hash("\ud800")) == 16


@pytest.mark.parametrize("identity", IDENTITIES)
def test_redacted_arguments_equal_no_others_except_by_tool(identity: str) -> None:
    detector = RepeatStreak(identity)
    counts = counts_of(detector, [(ToolCall("1", "look", REDACTED), ToolResult("1", "same"))] * 3)
    by_tool = identity == "tool"
    assert counts == ([1, 2, 3] if by_tool else [1, 1, 1])
    assert (detector.key(ToolCall("1", "look", REDACTED), ToolResult("1", "same")) is not None) == by_tool


def by_another_parser(arguments: str, *, sort: bool) -> str:
    """Arguments, normalised by way of the parser of the standard library, which lets lone surrogates pass."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        value = json.loads(arguments, parse_constant=refuse)
    except ValueError:
        return arguments
    text = json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False)
    return arguments if re.search("[\ud800-\udfff]", text) else text


@cases(300)
@given(
    st.builds(lambda v, i: json.dumps(v, indent=i), JSON, st.sampled_from([None, 1]))
    | st.text('{}[]:,"\\ abu0eE+-.1\n\t\ud83d\ude00é', max_size=12)
    | st.sampled_from(
        ['{"a":1,"a":[2]}', "[1e999]", "NaN", "[-Infinity]", '["\\ud83d"]', '["\\ud83d\\ude00"]', "\ufeff1"]
    )
    | st.integers(4298, 4302).map(lambda digits: f"[ {'7' * digits}]")
)
def test_arguments_are_the_same_json_to_another_parser(arguments: str) -> None:
    for identity, sort in (("canonical", True), ("ordered", False)):
        assert call_key(ToolCall("", "t", arguments), None, identity) == ("t", by_another_parser(arguments, sort=sort))


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
def test_arguments_nested_too_deep_are_compared_as_sent(left: str, right: str) -> None:
    for depth, as_sent in ((200, False), (201, True), (100_000, True)):
        text = f" {left * depth}1{right * depth}"
        assert (call_key(ToolCall("", "t", text)) == ("t", text)) is as_sent


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ODD_PARTS = [
    "\\ud83d",
    "\\ude00",
    "\ud800",
    "NaN",
    "-Infinity",
    "1e999",
    "-0",
    "01",
    "9" * 4301,
    "9" * 4301 + ".0",
    "\t",
    "\\u0000",
    '"',
    "[" * 201,
]


@cases(250)
@example([[0.0]], False, [(2, "9" * 4301)])
@given(JSON_VALUES, st.booleans(), st.lists(st.tuples(st.integers(0, 40), st.sampled_from(ODD_PARTS)), max_size=2))
def test_argument_parser_agrees_with_pydantic_or_defers_to_it(
    value: Any, ascii_only: bool, odd: list[tuple[int, str]]
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    for place, part in odd:
        text = text[:place] + part + text[place:]
    plain = _parse_plain(text)
    if plain is not _NOT_PARSED:
        assert repr(plain) == repr(from_json(text, allow_inf_nan=False))


def test_ordinary_arguments_are_compared_without_pydantic() -> None:
    code = (
        "import sys, boolab as bl; monitor = bl.Monitor(bl.doom_loop(2));"
        "monitor.after([('ls', '{\"a\": 1, \"b\": \"\u00e9\"}')], ['x']);"
        "verdict = monitor.after([('ls', '{\"b\": \"\u00e9\", \"a\":1}')], ['x']);"
        "sys.exit(verdict.action != 'stop' or 'pydantic_core' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
