"""`OpenAIModel` and `AnthropicModel`: models behind an API, by protocol. What they do is in `boolab.models.remote`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import SecretStr

from boolab.models.anthropic import Messages
from boolab.models.openai import ChatCompletions
from boolab.models.patience import Timeouts
from boolab.models.remote import RemoteModel, key_for_url
from boolab.models.retry import Retry
from boolab.models.throttle import Throttle

OPENAI_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com/v1"
ANTHROPIC_VERSION: Final = "2023-06-01"
_RETRY: Final = Retry()
_TIMEOUTS: Final = Timeouts()


class OpenAIModel(RemoteModel):
    """A model behind an API of chat completions: OpenAI's, and that of vLLM, llama.cpp, Ollama, OpenRouter and others.

    It streams. One instance serves any number of runs, in any number of event loops, and holds no state of theirs.

    Args:
        model: What the server calls the model.
        base_url: The address of the API, up to and without `/chat/completions`; OpenAI's by default.
        api_key: The key. By default it is that of the environment, if the host is one that has a variable
            (`OPENAI_API_KEY` for api.openai.com, `OPENROUTER_API_KEY` for openrouter.ai, ...), and none for any other
            host. It is sent to that host only, and is in no record, repr, log or exception.
        headers: Further headers. The values of those whose names speak of a key, a token or the like are kept as the
            key is.
        retry: How a request is tried again that failed before any output.
        timeouts: How long to wait for a connection, for the first output, between outputs, and for all.
        throttle: A limit on requests at once and per minute. All runs share it, and all models that hold the same.
        prices: Whether a cost that the server does not tell is looked up in the package genai-prices: True, False, or
            None for "if it is installed". A price is known only for providers that the package knows by `base_url`.
        context_window: How many tokens fit into a request, so that policies can compact; None if it is not known.
        name: What records call the model; by default what the server calls it.
        **parameters: Whatever else goes into the body of each request: `max_completion_tokens=4000`,
            `reasoning_effort="low"`, `tool_choice="required"`, ... None takes away what is sent by default
            (`stream_options=None`, `seed=None`).

    Raises:
        SettingError: if a value is not one that makes sense, or the key of a known provider is missing.

    Example:
        >>> OpenAIModel("qwen3-8b", base_url="http://127.0.0.1:8000/v1", temperature=0.2)
        <OpenAIModel qwen3-8b at http://127.0.0.1:8000/v1>
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | SecretStr | None = None,
        headers: Mapping[str, str] | None = None,
        retry: Retry = _RETRY,
        timeouts: Timeouts = _TIMEOUTS,
        throttle: Throttle | None = None,
        prices: bool | None = None,
        context_window: int | None = None,
        name: str | None = None,
        **parameters: Any,  # noqa: ANN401 - any JSON value
    ) -> None:
        url = OPENAI_URL if base_url is None else base_url
        key = key_for_url(url, api_key)
        super().__init__(
            ChatCompletions(model, parameters),
            model=model,
            base_url=url,
            headers={},
            secrets={} if key is None else {"authorization": SecretStr(f"Bearer {key.get_secret_value()}")},
            key=key,
            extra=headers,
            retry=retry,
            timeouts=timeouts,
            throttle=throttle,
            use_prices=prices,
            context_window=context_window,
            name=name,
        )


class AnthropicModel(RemoteModel):
    """A model behind Anthropic's messages API, or behind one that speaks it.

    It streams. One instance serves any number of runs, in any number of event loops, and holds no state of theirs.

    Args:
        model: What the server calls the model.
        base_url: The address of the API, up to and without `/messages`; Anthropic's by default.
        api_key: The key; by default `ANTHROPIC_API_KEY` of the environment for api.anthropic.com, and none for any
            other host.
        headers: Further headers, such as `{"anthropic-beta": "..."}`.
        retry: How a request is tried again that failed before any output.
        timeouts: How long to wait for a connection, for the first output, between outputs, and for all.
        throttle: A limit on requests at once and per minute. All runs share it, and all models that hold the same.
        prices: Whether the cost is looked up in the package genai-prices; see `OpenAIModel`.
        context_window: How many tokens fit into a request, so that policies can compact; None if it is not known.
        name: What records call the model; by default what the server calls it.
        **parameters: Whatever else goes into the body of each request: `max_tokens` (8192 by default, which the API
            demands), `thinking={"type": "enabled", "budget_tokens": 4000}`, ... None takes a default away.

    Raises:
        SettingError: if a value is not one that makes sense, or the key is missing.

    Example:
        >>> AnthropicModel("claude-opus-4-5", api_key="a-key-of-mine")
        <AnthropicModel claude-opus-4-5 at https://api.anthropic.com/v1>
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | SecretStr | None = None,
        headers: Mapping[str, str] | None = None,
        retry: Retry = _RETRY,
        timeouts: Timeouts = _TIMEOUTS,
        throttle: Throttle | None = None,
        prices: bool | None = None,
        context_window: int | None = None,
        name: str | None = None,
        **parameters: Any,  # noqa: ANN401 - any JSON value
    ) -> None:
        url = ANTHROPIC_URL if base_url is None else base_url
        key = key_for_url(url, api_key)
        super().__init__(
            Messages(model, parameters),
            model=model,
            base_url=url,
            headers={"anthropic-version": ANTHROPIC_VERSION},
            secrets={} if key is None else {"x-api-key": key},
            key=key,
            extra=headers,
            retry=retry,
            timeouts=timeouts,
            throttle=throttle,
            use_prices=prices,
            context_window=context_window,
            name=name,
        )
