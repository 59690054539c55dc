"""How harnesses answer a call that they did not execute, because a user, a rule or a hook rejected it."""

from __future__ import annotations

import re

_ANSWERS = re.compile(
    # Claude Code, seen up to 2.1.330
    r"The user doesn't want to |Permission to use \S(?=[\s\S]{0,20000}?denied)"
    r"|Permission for this (?:action|tool use) (?:has been|was) denied|Claude requested permissions to "
    r"|This command requires approval|This Bash command contains multiple operations\. The following part"
    r"|(?:Hook )?PreToolUse:|\w{1,100} operation blocked by hook"
    # Codex
    r"|(?:exec command|command|patch) rejected\b|rejected by user|approval policy is [^\n]{1,80}; reject"
    r"|exec_command failed(?=[\s\S]{0,20000}?Rejected\()|Command blocked by "
    # opencode
    r"|The user rejected permission to use this |The user has specified a rule which prevents you from using this "
    # Gemini CLI
    r"|(?:\[Operation Cancelled\] Reason: )?User did not allow tool call"
    r'|Tool execution (?:for "[^"\n]{1,200}" )?denied by policy'
    # Cline and Roo Code
    r'|The user denied this operation|\{"status": ?"denied"'
    # pi, Crush
    r"|Tool execution was blocked|User denied permission"
)
_UNFLAGGED = ("cline",)
"""The formats in which a rejection has no flag of an error."""


def is_rejection(source: str, content: str, *, is_error: bool | None) -> bool:
    """Whether a result in a log answers a call that was rejected, and so never executed."""
    return (is_error is not False or source in _UNFLAGGED) and _ANSWERS.match(content) is not None
