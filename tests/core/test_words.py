"""Texts for one line, and names and commands in messages."""

import pytest

from boolab.core.commands import insert_program
from boolab.core.text import clean, clip, count, first_of, flatten, replace_controls, shorten
from boolab.errors import SettingError, install, near, program
from boolab.io.checks import check_count, repr_of


def test_control_characters_reach_no_terminal() -> None:
    assert clean("red \x1b[31m text") == "red [31m text"
    assert replace_controls("red: \x1b[31m\r\nend") == "red: \ufffd[31m\nend"
    assert flatten("two\n  lines \x07") == "two lines \ufffd"


def test_long_texts_keep_their_beginning_or_both_ends() -> None:
    assert clip("a long line", 7) == "a long\u2026"
    assert shorten("a" * 40 + "z", 9) == "aaaa\u2026aaaz"


def test_counts_agree_with_their_nouns() -> None:
    assert [count(1, "run"), count(1200, "run"), count(2, "success", "successes")] == [
        "1 run",
        "1,200 runs",
        "2 successes",
    ]
    assert [first_of(["a", "b"], 2), first_of(["a", "b", "c"], 2)] == ["a, b", "a, b and 1 more"]


def test_unknown_names_get_the_nearest_or_all() -> None:
    names = ["boocode", "naive"]
    assert near("boocde", names) == "; did you mean 'boocode'?"
    assert near("x", names, "presets") == "; presets: boocode, naive"
    assert near("boocde", names, "presets", every=True) == "; did you mean 'boocode'? Presets: boocode, naive"


def test_commands_in_comments_name_the_program() -> None:
    text = "# The hook of boolab holds them:\n{} hook claude-code"
    assert insert_program(text.format("boolab")) == text.format(program())
    assert install("boolab[learn]").endswith("pip install 'boolab[learn]'")


def test_settings_are_whole_and_written_short() -> None:
    check_count(None, "limit")
    check_count(5, "limit")
    with pytest.raises(SettingError, match="limit=-1: expected an integer from 0"):
        check_count(-1, "limit")
    assert [repr_of("nine"), repr_of(10**5000)] == ["'nine'", "a number of more than 4,300 digits"]
