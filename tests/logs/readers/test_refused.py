"""Files of no format at all: no reader takes them for its own, and each that is to read one says where it failed."""

from pathlib import Path

import pytest

from boolab.errors import RunFormatError
from boolab.logs.fields import Head
from boolab.logs.load import load_runs
from boolab.logs.log_files import readers
from tests.support.readers import reader_of

OTHERS = {
    "cline": ("api_conversation_history.json", ["{}", "[]", "[1]", '{"sessionId": "s", "version": 1, "messages": {}}']),
    "codex": ("a.jsonl", ["{}", '{"a": 1}\n{"b": 2}\n', "nonsense", "[]"]),
    "gemini": ("a.jsonl", ["{}", '{"a": 1}\n{"b": 2}\n', "nonsense", "[]"]),
    "inspect": ("a.json", ["{}", "[]", '{"eval": 3}', "x", "", '{"version": 2, "status": "success"}']),
    "intercode": ("a.json", ["{}", "[]", "3", "", "nonsense", '{"0": {"task_id": 1}}', '{"0": {"turn_history": {}}}']),
    "mini_swe_agent": ("a.traj.json", ["{}", "3", ""]),
    "openai_chat": ("a.json", ["{}", "[]", "7", "nonsense", "", '{"messages": []}', '{"messages": 3}']),
    "openhands": ("a.json", ["{}", "[]", "[1]", '[{"action": 3}]', '[{"role": "user"}]', "x", "", '{"history": 3}x']),
    "openhands_sdk": ("a.json", ["{}", "[]", "[1]", '{"kind": "Other", "id": 1, "source": 2}', "x", "", '{"a": 3}x']),
    "pi": ("a.jsonl", ["{}", '{"a": 1}\n{"b": 2}\n', "nonsense", "[]"]),
    "swe_agent": ("a.traj", ["{}", "[]", "3", "", "nonsense", '{"trajectory": []}', '{"history": [{"id": 1}]}']),
    "tau2_bench": (
        "a.json",
        ["{}", "[]", "3", "", '[{"task_id": 1}]', '{"passed": 3, "pass_rate": 0.5}', '["a", "b"]'],
    ),
    "tau_bench": ("a.json", ["{}", "[]x", "nonsense", ""]),
}


@pytest.mark.parametrize(
    ("format_", "content"), [(name, one) for name, (_, contents) in OTHERS.items() for one in contents]
)
def test_other_files_are_refused(format_: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / OTHERS[format_][0]
    path.write_text(content)
    assert not readers()[format_].sniff(Head(path.read_bytes(), path))
    read = load_runs if format_ in ("cline", "openai_chat") else reader_of(format_)  # those find no message in some
    with pytest.raises(RunFormatError) as caught:
        read(path)
    assert caught.value.path == str(path)
