"""`OpenAIModel` and `AnthropicModel`: models behind an API, by protocol (see `boolab.models.remote.model`)."""

from __future__ import annotations

from boolab.models.remote.anthropic_request import Messages
from boolab.models.remote.model import Protocol, RemoteModel
from boolab.models.remote.openai_request import ChatCompletions


class OpenAIModel(RemoteModel):
    """A model behind an API of chat completions: OpenAI's, and that of vLLM, llama.cpp, Ollama, OpenRouter and others.

    It streams. One instance serves any number of runs, in any number of event loops, and holds no state of theirs.

    Args:
        model, base_url, api_key, headers, retry, timeouts, rate_limit, prices, context_window, name: See `RemoteModel`.
        **parameters: `max_completion_tokens=4000`, `reasoning_effort="low"`, `tool_choice="required"`, ... None takes
            away what is sent by default (`stream_options=None`, `seed=None`).

    Raises:
        SettingError: if a value is not one that makes sense, or the key of a known provider is missing.

    Example:
        >>> import boolab as bl
        >>> bl.OpenAIModel("qwen3-8b", base_url="http://127.0.0.1:8000/v1", temperature=0.2)
        <OpenAIModel qwen3-8b at http://127.0.0.1:8000/v1>
    """

    protocol = Protocol("https://api.openai.com/v1", ChatCompletions, lambda key: {"authorization": f"Bearer {key}"})


class AnthropicModel(RemoteModel):
    """A model behind Anthropic's messages API, or behind one that speaks it.

    It streams. One instance serves any number of runs, in any number of event loops, and holds no state of theirs.

    Args:
        model, base_url, api_key, headers, retry, timeouts, rate_limit, prices, context_window, name: See `RemoteModel`.
        **parameters: `max_tokens` (8192 by default, which the API demands), `thinking={"type": "enabled",
            "budget_tokens": 4000}`, `tool_choice="any"`, ... None takes a default away.

    Raises:
        SettingError: if a value is not one that makes sense, or the key is missing.

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
