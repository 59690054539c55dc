"""Why a response ended: one vocabulary for what providers and harnesses write."""

from __future__ import annotations

from typing import Final

_FINISH: Final = {
    "blocklist": "content_filter",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "context_length_exceeded": "length",
    "context_window_exceeded": "length",
    "end_turn": "stop",
    "error": "error",
    "function_call": "tool_calls",
    "guardrail_intervened": "content_filter",
    "image_safety": "content_filter",
    "length": "length",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "maxtokens": "length",
    "model_context_window_exceeded": "length",
    "model_length": "length",
    "prohibited_content": "content_filter",
    "recitation": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "spii": "content_filter",
    "stop": "stop",
    "stop_sequence": "stop",
    "token_limit": "length",
    "tool_call": "tool_calls",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "tooluse": "tool_calls",
}
FINISH_REASONS: Final = frozenset(_FINISH.values())
"""The vocabulary."""

FAILED_FINISH: Final = frozenset({"length", "content_filter", "error"})
"""The finish reasons of a response that did not come to its own end, in boolab's vocabulary."""


def finish_reason(word: object) -> str | None:
    """A provider's word for why a response ended, in boolab's vocabulary; a word that is not known stays as it is."""
    if not isinstance(word, str) or not word:
        return None
    return _FINISH.get(word.lower().replace("-", "_"), word)
