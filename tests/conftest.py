"""Options of the test-suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--damage", type=int, default=10, help="how often each sample log is cut, and how often changed")
