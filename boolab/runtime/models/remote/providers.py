"""`OpenAIModel` and `AnthropicModel`: `RemoteModel` with a protocol."""

from __future__ import annotations

from boolab.runtime.models.remote.anthropic_request import Messages
from boolab.runtime.models.remote.model import Protocol, RemoteModel
from boolab.runtime.models.remote.openai_request import ChatCompletions


class OpenAIModel(RemoteModel):
    """A model behind an API of chat completions: OpenAI, vLLM, llama.cpp, Ollama, OpenRouter and others.

    It streams. One instance serves any number of runs, in any number of event loops.

    Args:
        model, base_url, api_key, headers, retry, timeouts, rate_limit, prices, context_window, name: See `RemoteModel`.
        **parameters: `max_completion_tokens=4000`, `reasoning_effort="low"`, `tool_choice="required"`, ... None removes
            a default (`stream_options=None`, `seed=None`).

    Raises:
        SettingError: if a value is not valid, or the key of a known provider is missing.

    Example:
        >>> import boolab as bl
        >>> bl.OpenAIModel("qwen3-8b", base_url="http://127.0.0.1:8000/v1", temperature=0.2)
        <OpenAIModel qwen3-8b at http://127.0.0.1:8000/v1>
    """

    protocol = Protocol("https://api.openai.com/v1", ChatCompletions, lambda key: {"authorization": f"Bearer {key}"})


class AnthropicModel(RemoteModel):
    """A model behind Anthropic's messages API, or another server with this protocol.

    It streams. One instance serves any number of runs, in any number of event loops.

    Args:
        model, base_url, api_key, headers, retry, timeouts, rate_limit, prices, context_window, name: See `RemoteModel`.
        **parameters: `max_tokens` (required by the API, by default 8192), `thinking={"type": "enabled",
            "budget_tokens": 4000}`, `tool_choice="any"`, ... None removes a default.

    Raises:
        SettingError: if a value is not valid, or the key is missing.

    Example:
        >>> import boolab as bl
        >>> bl.AnthropicModel("claude-opus-4-5", api_key="a-key-of-mine")
        <AnthropicModel claude-opus-4-5 at https://api.anthropic.com/v1>
    """

    protocol = Protocol(
        "https://api.anthropic.com/v1",
        Messages,
        lambda key: {"x-api-key": key},
        {"anthropic-version": "2023-06-01"},
    )
