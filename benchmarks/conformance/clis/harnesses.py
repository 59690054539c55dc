"""The harnesses that can be run, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.conformance.clis.claude_code import CLAUDE_CODE
from benchmarks.conformance.clis.codex import CODEX
from benchmarks.conformance.clis.gemini_cli import GEMINI_CLI
from benchmarks.conformance.clis.harness import Harness
from benchmarks.conformance.clis.opencode import OPENCODE

HARNESSES: Final[Mapping[str, Harness]] = {one.name: one for one in (CLAUDE_CODE, OPENCODE, GEMINI_CLI, CODEX)}
"""The harnesses."""
