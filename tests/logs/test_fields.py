from __future__ import annotations

from pathlib import Path

from boolab.logs.fields import (
    Head,
    effort_of,
    full_reward,
    name_or_none,
    one_line,
    reward_of,
    scores_of,
    seconds_ms,
    stem_of,
    time_ms,
)
from boolab.logs.limit_answers import limit_answer
from boolab.logs.readers._chat import usage_of


def test_signs_are_keys_suffix_and_types() -> None:
    signs = Head(b'{"type": "user"}\n[[{"id": 1}]]', Path("x.json")).signs
    assert sorted(sign for sign in signs if isinstance(sign, str)) == [".json", "id", "type", "type=", "type=user"]


def test_seconds_are_read_unless_missing_or_negative() -> None:
    assert seconds_ms(0.25) == 250
    assert seconds_ms(None) is None
    assert seconds_ms(-1) is None


def test_name_that_means_unknown_is_none() -> None:
    assert name_or_none("2.1.11") == "2.1.11"
    assert name_or_none("unknown") is None
    assert name_or_none(" ") is None
    assert name_or_none(3) is None


def test_effort_is_the_first_word_or_token_count() -> None:
    assert effort_of(None, "high") == "high"
    assert effort_of(31999) == "31999"
    assert effort_of({"effort": "low"}) == "low"
    assert effort_of(True) is None


def test_stem_has_no_suffix_of_format_or_packing() -> None:
    assert stem_of(Path("sessions/rollout-1.jsonl.zst")) == "rollout-1"
    assert stem_of(Path("a.traj.json")) == "a.traj"


def test_one_line_text_is_shortened() -> None:
    assert one_line("Fix  the\n test", 8) == "Fix the…"


def test_time_is_read_from_numbers_digits_and_iso() -> None:
    assert time_ms(1_500) == 1500
    assert time_ms(1.5, 0.001) == 1500
    assert time_ms("1500000000", 1e6) == 1500
    assert time_ms("1970-01-01T00:00:01.5Z") == 1500


def test_scores_are_numbers_flags_and_short_texts() -> None:
    assert (
        repr(scores_of({"reward": 0.6, "match": "C", "judge": None}))
        == "(Score(name='reward', value=0.6), Score(name='match', value='C'))"
    )


def test_reward_is_a_number_or_a_flag() -> None:
    assert reward_of(True) == 1.0
    assert reward_of(0.6) == 0.6
    assert reward_of("1") is None
    assert reward_of(None) is None
    assert reward_of(float("nan")) is None


def test_full_reward_is_at_least_one() -> None:
    assert full_reward(1.0)
    assert not full_reward(0.6)
    assert not full_reward(False)
    assert full_reward(None) is None


def test_limit_answer_has_the_limit_that_it_names() -> None:
    answer = limit_answer("Model call limits exceeded: run limit (3/3)")
    assert answer is not None
    assert answer.limits == {"steps": 3}
    assert limit_answer("Done.") is None


def test_usage_of_both_providers_includes_cached_input() -> None:
    assert usage_of({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}})[
        :3
    ] == (9, 4, 5)
    assert usage_of({"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 5})[:3] == (14, 4, 5)
