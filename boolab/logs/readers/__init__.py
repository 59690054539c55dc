"""Readers: one module for each log format, including boolab's own. `boolab.logs.log_files` finds them.

To add a format, add one module here. No registration is needed. Its parts:

- `NAME`, `SUFFIXES`, `PLACES`, `LOOKED_FOR`, `sniff` and `read`, as `boolab.logs.log_files.Reader` describes them.
- `SCOPE`: how the format's harness counts its limits, `turn` or `run`; see `boolab.logs.log_files`. A reader whose runs
  keep the source with which they were written has none.
- `TESTED`: the newest version of the format, or of the harness that writes it, that the reader was tested with, if logs
  name their version. The reader adds that of a log to `damage.versions`.
- `inner(folders)`, only if one log is spread over several folders: which of these sibling folders hold parts of logs,
  and are therefore not searched for logs.
- `listed(home, variables)`, only if the harness keeps a list of the places of its logs: paths beside those of `PLACES`.

Readers share `boolab.io.json_input` (from bytes to values, within limits), `boolab.logs.fields` (from values to texts
and times) and `boolab.logs.builder` (from these to runs). A leading underscore marks a module that a few readers share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SIGNS: Final[Mapping[str, frozenset[str | bytes]]] = {
    name: frozenset(signs)
    for name, signs in {
        "agentdojo": ("suite_name",),
        "anthropic_messages": ("messages", "role", "choices"),
        "atif": ("schema_version",),
        "claude_code": ("leafUuid", "loglines", "sessionId", "session_id", "snapshot"),
        "cline": ("messages", "role", "choices"),
        "codex": ("instructions", "items", "payload"),
        "copilot": (
            "type=assistant.message",
            "type=assistant.message_delta",
            "type=assistant.turn_start",
            "type=session.start",
            "type=session.tools_updated",
        ),
        "crush": (b"SQLi",),
        "droid": ("type=session_start", "type=tool_call", "type=completion"),
        "gemini": ("projectHash", "type=init", "type=tool_use"),
        "inspect_ai": ("eval", ".eval", b"PK\x03\x04"),
        "intercode": ("turn_history",),
        "kimi": ("type=metadata", "type=context.append_loop_event", "message.payload"),
        "mini_swe_agent": ("info", "role", "trajectory_format"),
        "openai_chat": ("messages", "role", "choices"),
        "opencode": ("id", "info", "sessionID", b"SQLi"),
        "openhands_v0": ("action", "instance_id", "issue", "observation"),
        "openhands_v1": ("agent", "instance_id", "issue", "kind"),
        "otel": ("context", "data", "object", "resourceSpans", "spans", "traces"),
        "parquet": (b"PAR1",),
        "pi": ("type=message", "type=session"),
        "qwen": ("message.parts", "qwen_code_version"),
        "store": (b"SQLi",),
        "sts": ("harness",),
        "swe_agent": ("attempts", "history", "trajectory"),
        "tau2_bench": ("info", "simulations", "task_id"),
        "tau_bench": ("messages_display", "task_id"),
    }.items()
}
"""Signs of which a file has at least one if the reader in the module of that name recognises it: see `Head.signs`.

A reader is loaded only for such a file. One without signs here is loaded for each file.
"""
