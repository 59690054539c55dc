"""What the loop accepts as a response, and that it reads the fields of records by name."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from boolab.core.surrogates import whole_response
from boolab.core.types import Response, ToolCall, Usage
from boolab.runtime.models.base import accept_response, validate_response

CALLS: list[Any] = [(), (ToolCall("1", "é", "{}"),), (ToolCall("1", "ls", "\ud83d"),), [], (("1", "ls", "{}"),)]
TEXTS: list[Any] = ["", "plain", "é", "\ud83d", None, 1]
LONGER = Path(__file__).with_name("longer_records.py")


@pytest.mark.parametrize("field", [*Response._fields, "calls"])
def test_accepted_response_is_valid_and_whole(field: str) -> None:
    values = {"tool_calls": CALLS, "usage": [Usage(1), Usage(-1), (1, 2)]}.get(field, TEXTS)
    for calls, value in itertools.product(CALLS[:2], values):
        response = Response("a", calls)._replace(**({} if field == "calls" else {field: value}))
        fault = validate_response(response)
        if fault:
            with pytest.raises(ValueError, match=r"is .*(not|no) a?"):
                accept_response(response)
        else:
            assert accept_response(response) == whole_response(response)


def test_new_fields_of_records_break_no_reader() -> None:
    done = subprocess.run([sys.executable, str(LONGER)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
