"""Positional arguments and options in every order, for all commands that take logs."""

from itertools import permutations

import pytest

from boolab.cli.main import parser_of

COMMANDS = {
    "export": (["claude-code", "a", "b"], ["--agent", "x"], "logs"),
    "whatif": (["a", "b", "c"], ["--keep", "0.9"], "logs"),
    "report": (["a", "b", "c"], ["--keep", "0.9"], "logs"),
    "import": (["a", "b", "c"], ["-o", "new.jsonl"], "logs"),
    "audit": (["a", "b", "c"], ["--scope", "run"], "logs"),
    "watch": (["a", "b", "c"], ["--max-steps", "5"], "paths"),
}
"""By command: its positional arguments, an option with its value, and the name of the logs."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("second", range(4))
def test_options_may_stand_anywhere_among_logs(command: str, place: int, second: int) -> None:
    positional, option, name = COMMANDS[command]
    words = [[word] for word in positional]
    words.insert(place, option)
    words.insert(second, ["--since", "3d"] if command != "watch" else ["--doom-loop", "4"])
    found, unknown = parser_of(command).parse_known_args([command, *(part for word in words for part in word)])
    logs = positional[1:] if command == "export" else positional
    assert (getattr(found, name), unknown) == (logs, [])
    assert getattr(found, option[0].lstrip("-").replace("-", "_") if option[0] != "-o" else "out")
    assert found.since[0] == "3d" if command != "watch" else found.doom_loop == 4
    assert command != "export" or found.target == "claude-code"


def test_an_unknown_option_is_left_over_with_its_value() -> None:
    for words in permutations([["a"], ["--nothing", "b"], ["--keep", "0.9"]]):
        _, unknown = parser_of("whatif").parse_known_args(["whatif", *(part for word in words for part in word)])
        assert unknown[0] == "--nothing"


def test_words_of_the_next_command_are_each_kept_once() -> None:
    found, _ = parser_of("whatif").parse_known_args(["whatif", "a", "--keep", "0.9", "b"])
    assert found.parser.words_without("logs") == ["--keep", "0.9"]
    assert [*found.parser.words_without()].count("--keep") == 1
