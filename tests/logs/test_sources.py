"""Sources: every reader says where its harness counts its limits."""

import pandas as pd
import pytest

from boolab.logs.log_files import readers, scope_of
from tests.support.helpers import play

RUN = {
    "agentdojo", "inspect", "intercode", "mini_swe_agent", "openhands", "swe_agent", "tau2_bench", "tau_bench",
}  # fmt: skip
"""Benchmarks, and harnesses whose limits hold for the whole task."""
TURN = {
    "anthropic_messages", "atif", "claude_code", "cline", "codex", "copilot", "crush", "droid", "gemini", "kimi",
    "openai_chat", "opencode", "openhands_sdk", "otel", "pi", "qwen", "sts",
}  # fmt: skip
OWN = {"parquet", "store"}
"""Formats of boolab, whose runs keep the source that they had."""


def test_every_reader_is_covered_once() -> None:
    assert sorted(readers()) == sorted([*RUN, *TURN, *OWN])


@pytest.mark.parametrize(("names", "scope"), [(RUN, "run"), (TURN, "turn")], ids=["run", "turn"])
def test_each_source_has_the_scope_of_its_harness(names: set[str], scope: str) -> None:
    for name in names:
        assert scope == readers()[name].SCOPE  # type: ignore[attr-defined] # one of one's own may lack it
        assert scope_of(name) == scope


def test_formats_of_boolab_have_no_scope_of_their_own() -> None:
    assert not any(hasattr(readers()[name], "SCOPE") for name in OWN)


@pytest.mark.parametrize("source", [None, "", "somebody's benchmark", pd.NA])
def test_the_turn_is_the_scope_where_the_harness_is_not_known(source: str | None) -> None:
    assert scope_of(source) == "turn"


def test_the_turn_is_the_scope_of_boolabs_own_runs() -> None:
    assert scope_of(play(["Done."]).source) == "turn"
