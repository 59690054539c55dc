"""What the documentation says that each format gives is what its samples give; the rest is NA, never 0 or False."""

import pytest

from boolab.core.run import Run
from boolab.logs.log_files import readers
from tests.logs.readers import given


@pytest.fixture(scope="module")
def samples() -> dict[str, list[Run]]:
    return given.samples()


@pytest.mark.parametrize("name", [*given.TABLES])
def test_the_table_in_the_documentation_is_what_the_samples_give(name: str, samples: dict[str, list[Run]]) -> None:
    assert given.written(name) == given.TABLES[name](samples), "run: make formats"


def test_every_format_has_samples_with_steps_and_calls(samples: dict[str, list[Run]]) -> None:
    assert samples.keys() == readers().keys()
    for name, runs in samples.items():
        assert sum(run.n_steps for run in runs), name
        assert sum(run.n_tool_calls for run in runs), name


def test_every_format_has_a_row_of_its_own_in_words() -> None:
    page = given.PAGE.read_text()
    for name in readers():
        assert f"\n| `{name}` |" in page, name


# From the formats' own descriptions, not from the tables: what these never say.
NEVER = {
    "agentdojo": {"input tokens", "output tokens", "cost", "step start", "finish reason", "start"},
    "anthropic_messages": {"cost", "first token", "call duration"},
    "atif": {"first token"},
    "claude_code": {"cost", "success", "first token"},
    "cline": {"success", "finish reason"},
    "codex": {"cost", "finish reason", "success"},
    "copilot": {"success", "finish reason", "cost"},
    "crush": {"success", "input tokens", "output tokens", "cost", "effort", "version"},
    "droid": {"success", "finish reason", "input tokens", "output tokens", "cost"},
    "gemini": {"cost", "finish reason", "success"},
    "intercode": {"input tokens", "output tokens", "cost", "step start", "finish reason", "start"},
    "kimi": {"success", "cost"},
    "mini_swe_agent": {"first token"},
    "openai_chat": {"failed", "call duration"},
    "opencode": {"success"},
    "pi": {"success"},
    "qwen": {"success", "cost"},
    "sts": {"success", "failed", "cost", "effort"},
    "swe_agent": {"input tokens", "output tokens", "cost", "failed", "step start", "finish reason", "start"},
    "tau_bench": {"input tokens", "output tokens", "cost", "step start", "finish reason", "model", "start"},
    "tau2_bench": {"cached tokens", "first token"},
}


@pytest.mark.parametrize("name", sorted(NEVER))
def test_what_a_format_never_says_is_na_in_every_row(name: str, samples: dict[str, list[Run]]) -> None:
    told = dict(zip(given.COLUMNS, given.given(samples[name]), strict=True))
    assert {column for column in NEVER[name] if told[column] != given.NONE} == set()
