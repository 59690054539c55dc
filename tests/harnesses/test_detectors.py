"""The call at which each harness's guard nudges, blocks or stops, live, with a model that ignores every nudge.

The figures are the golden detector matrix: ports of the harnesses' own rules, run on the same scripts. One cell differs
from the ports: OpenHands compares parsed actions, so arguments whose keys change places are the same action to it.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.harness_cases import (
    GUARDED,
    Played,
    other_error,
    other_result,
    play,
    preset,
    same_error,
    same_result,
)

CALLS = 30
HARNESSES = ("boocode", "roo", "cline", "gemini_cli", "openhands_classic", "openhands", "crush", "opencode_v1")

Fires = tuple[tuple[str, int], ...]
"""What a guard does, and at which call of the run."""

NO: Fires = ()
S3, S4, S6, S10 = ((("stop", n),) for n in (3, 4, 6, 10))
B4: Fires = (("block", 4),)
SH: Fires = (("nudge", 3), ("stop", 5))
NS: Fires = (("nudge", 3), ("stop", 4))


def gemini(first: int) -> Fires:
    """A nudge, and the stop one call later."""
    return (("nudge", first), ("stop", first + 1))


class Row(NamedTuple):
    """One script, what its tool gives, and what each harness makes of it, in their order."""

    cycle: str
    outcome: Callable[[int, str], str]
    fires: tuple[Fires, ...]
    then: str = ""


GEMINI = gemini(5)
MATRIX = {  #                                       boocode roo cline  gemini     classic openhands crush opencode
    "A, same result": Row("A", same_result,           (S3, B4, SH, GEMINI,     S4, S4, S10, NO)),
    "A, results vary": Row("A", other_result,         (S3, B4, SH, GEMINI,     NO, NO, NO,  NO)),
    "A, same error": Row("A", same_error,             (S3, B4, SH, GEMINI,     S3, NS, S10, NO)),
    "A, error text varies": Row("A", other_error,     (S3, B4, SH, GEMINI,     S3, NS, NO,  NO)),
    "ABAB, same results": Row("A B", same_result,     (NO, NO, NO, gemini(10), S6, S6, NO,  NO)),
    "ABAB, results vary": Row("A B", other_result,    (NO, NO, NO, gemini(10), NO, NO, NO,  NO)),
    "ABCABC, same results": Row("A B C", same_result, (NO, NO, NO, gemini(15), NO, NO, NO,  NO)),
    "AABAAB, same results": Row("A A B", same_result, (NO, NO, NO, gemini(15), NO, NO, S10, NO)),
    "A, key order flips": Row("K k", same_result,     (NO, B4, SH, gemini(10), S4, S4, NO,  NO)),
    "same tool, args drift": Row("T", same_result,    (NO,) * 8),
    "AAA then distinct": Row("T", same_result,        (S3, NO, (("nudge", 3),), NO, NO, NO, NO, NO), then="A A A"),
}  # fmt: skip


def fired(played: Played) -> Fires:
    """What the guards did: nudges and blocks, then the stop, if a detector gave it."""
    run = played.run
    stop = (("stop", run.n_steps),) if run.stop_reason in GUARDED else ()
    return (*played.events("nudge", "block"), *stop)


def pattern_of(row: Row) -> str:
    """The row's script: a model that ignores nudges, and is done after the last call."""
    head, cycle = row.then.split(), row.cycle.split()
    return " ".join([*head, *(cycle[i % len(cycle)] for i in range(CALLS - len(head))), "D"])


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("script", MATRIX)
def test_the_call_at_which_the_guard_fires(harness: str, script: str) -> None:
    row = MATRIX[script]
    expected = row.fires[HARNESSES.index(harness)]
    played = play(preset(harness), pattern_of(row), outcome=row.outcome, answers=(True,) if harness == "roo" else ())
    if harness == "roo":  # the human says go on, and it starts to count again
        assert fired(played)[: len(expected) or None] == expected
    else:
        assert fired(played) == expected
    if not any(what in ("stop", "block") for what, _ in expected):
        assert (played.run.stop_reason, len(played.ran)) == ("finished", CALLS)


@pytest.mark.parametrize(
    ("harness", "not_run"),
    [("boocode", 0), ("crush", 0), ("openhands", 0), ("openhands_classic", 0), ("cline", 1), ("gemini_cli", 2)],
)
def test_whether_the_call_that_fires_is_still_executed(harness: str, not_run: int) -> None:
    played = play(preset(harness), "A " * CALLS)
    assert len(played.ran) == played.run.n_steps - not_run


@pytest.mark.parametrize(
    ("harness", "reason"),
    [("boocode", "doom_loop"), ("cline", "doom_loop"), ("crush", "stuck"), ("openhands", "stuck")],
)
def test_the_reason_that_a_guard_gives(harness: str, reason: str) -> None:
    assert play(preset(harness), "A " * CALLS).run.stop_reason == reason


@pytest.mark.parametrize(
    ("harness", "end"),
    [("cline", "aborted"), ("gemini_cli", "LoopDetected"), ("openhands", "STUCK")],
)
def test_the_harness_has_a_word_of_its_own_for_it(harness: str, end: str) -> None:
    assert end in play(preset(harness), "A " * CALLS).observation.end


@pytest.mark.parametrize(("harness", "at"), [("gemini_cli", 5), ("openhands", 3)])
def test_nudge_appears_in_the_next_request_and_not_before(harness: str, at: int) -> None:
    outcome = same_error if harness == "openhands" else same_result
    played = play(preset(harness), "A " * CALLS, outcome=outcome)
    told = [len(request.told) for request in played.model.requests]
    assert told[:at] == [told[0]] * at
    assert told[at] == told[0] + 1


# opencode.


def test_opencode_v1_asks_at_the_third_equal_call_of_a_message() -> None:
    allowed = play(preset("opencode_v1"), "AAA X", answers=(True,))
    assert allowed.events("ask") == [("ask", 1)]
    assert allowed.observation[:4] == (2, 3, 0, "finished")


@pytest.mark.parametrize("answers", [(), (False,)], ids=["nobody there", "denied"])
def test_opencode_v1_ends_when_nobody_allows_the_third_call(answers: tuple[bool, ...]) -> None:
    played = play(preset("opencode_v1"), "AAA T X", answers=answers)
    assert (len(played.model.requests), played.run.stop_reason) == (1, "doom_loop")


def test_opencode_v1_asks_at_the_third_call_whatever_follows() -> None:
    played = play(preset("opencode_v1"), "AAAB X", answers=(True,))
    assert played.events("ask") == [("ask", 1)]
    assert played.ran == ("A", "A", "A", "B")


@pytest.mark.parametrize("word", ["AA", "AAB", "ABAA", "AABA"])
def test_opencode_v1_asks_only_if_last_three_calls_are_equal(word: str) -> None:
    played = play(preset("opencode_v1"), f"{word} X")
    assert (played.events("ask"), played.run.stop_reason) == ([], "finished")


def test_opencode_v1_does_not_see_a_repetition_across_messages() -> None:
    assert play(preset("opencode_v1"), "A " * CALLS + "X").observation[:4] == (CALLS + 1, CALLS, 0, "finished")


def test_boocode_sees_it_in_one_step_and_across_steps() -> None:
    assert play(preset("boocode"), "AAA X").run.stop[:2] == ("doom_loop", 1)
    assert play(preset("boocode"), "AA A X").run.stop[:2] == ("doom_loop", 2)


# Roo.


@given(n=st.integers(1, 20))
def test_roo_blocks_every_fourth_equal_call_and_asks_the_user(n: int) -> None:
    played = play(preset("roo"), "A " * n + "D", answers=(True,))
    blocked = range(4, n + 1, 4)
    assert played.events("block") == [("block", call) for call in blocked]
    assert (len(played.ran), played.asked_after) == (n - len(blocked), tuple(blocked))
    assert played.run.stop_reason == "finished"


def test_a_call_that_roo_blocks_gets_an_error_and_is_not_dropped() -> None:
    step = play(preset("roo"), "A A A A D", answers=(True,)).run.steps[3]
    assert [result is not None and result.is_error for result in step.results] == [True]


def test_roo_counts_replies_without_tool_as_mistakes_from_second() -> None:
    played = play(preset("roo"), "X X X X D", answers=(True,))
    assert played.asked_after == (4,)
    assert played.run.stop_reason == "finished"


def test_a_tool_call_makes_roo_forget_the_replies_without_one() -> None:
    assert play(preset("roo"), "X X X T X X X T D", answers=(True,)).asked_after == ()


# Gemini CLI.


def test_gemini_cli_nudges_once_then_stops_on_relapse() -> None:
    heeded = play(preset("gemini_cli"), "A " * 5 + "T " * 5 + "D")
    assert (fired(heeded), heeded.run.stop_reason, len(heeded.ran)) == ((("nudge", 5),), "finished", 9)
    relapse = play(preset("gemini_cli"), "A " * 5 + "T " * 5 + "A " * 9)
    assert fired(relapse) == (("nudge", 5), ("stop", 15))


# OpenHands.


@pytest.mark.parametrize("harness", ["openhands", "openhands_classic"])
def test_openhands_compares_the_thought_with_the_action(harness: str) -> None:
    assert play(preset(harness), "A " * 12 + "D", thoughts=True).run.stop_reason == "finished"


@pytest.mark.parametrize("harness", ["openhands", "openhands_classic"])
def test_a_success_in_between_makes_openhands_forget_its_errors(harness: str) -> None:
    played = play(preset(harness), "F F T F F T F F D")
    assert (fired(played), played.run.stop_reason) == ((), "finished")


# crush.


@given(order=st.permutations("AAAAAATTTT"))
def test_crush_stops_at_step_ten_with_six_equal_in_any_order(order: list[str]) -> None:
    assert fired(play(preset("crush"), " ".join([*order, *"TTTTT", "D"]))) == S10


@given(order=st.permutations("AAAAABBBBB"))
def test_crush_lets_five_and_five_pass_in_any_order(order: list[str]) -> None:
    played = play(preset("crush"), " ".join([*order, "D"]))
    assert (fired(played), played.run.stop_reason) == ((), "finished")


def test_crush_forgets_what_is_more_than_ten_steps_ago() -> None:
    assert play(preset("crush"), "A " * 3 + "T " * 5 + "A A " + "T " * 5 + "A A A D").run.stop_reason == "finished"
