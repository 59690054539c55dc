"""API keys: their sources, their hosts, and their removal from what servers send.

A key is a pydantic `SecretStr`; only the authentication of a request reads it (`transport`). A key from the environment
is sent to the host of its variable and to no other, so another server never receives a provider's key.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final, TypeVar
from urllib.parse import quote

from pydantic import SecretStr

from boolab.core.types import Response, ToolCall
from boolab.errors import SettingError

VARIABLES: Final = {
    "api.openai.com": "OPENAI_API_KEY",
    "api.anthropic.com": "ANTHROPIC_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
    "api.deepseek.com": "DEEPSEEK_API_KEY",
    "api.groq.com": "GROQ_API_KEY",
    "api.mistral.ai": "MISTRAL_API_KEY",
    "api.together.xyz": "TOGETHER_API_KEY",
    "api.x.ai": "XAI_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
}
"""The environment variable of each host's key, as in the provider's documentation."""

MIN_SECRET_CHARS: Final = 8
"""Shorter keys are placeholders of local servers ("none", "ollama"), which may occur in any text."""
_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LINE: Final = re.compile(r"[\x20-\x7e]*")
_SECRET: Final = re.compile("key|auth|token|secret|cookie|password|signature", re.IGNORECASE)
_T = TypeVar("_T", str, bytes, Response)


def key_for(host: str, api_key: str | SecretStr | None, *, encrypted: bool = True) -> SecretStr | None:
    """The key for a host: the given one, else that of the host's environment variable, else None.

    A key of the environment is sent only over https (`encrypted`).
    """
    if api_key is not None:
        return secret(api_key, "api_key")
    variable = VARIABLES.get(host)
    if variable is None:
        return None
    if not encrypted:
        msg = f"{host} needs https: with http, others on the network could read the key of {variable}"
        raise SettingError(msg)
    value = os.environ.get(variable, "").strip()
    if not value:
        msg = f"no key for {host}: set the environment variable {variable}, or pass api_key=..."
        raise SettingError(msg)
    return secret(value, f"the environment variable {variable}")


def secret(value: str | SecretStr, source: str) -> SecretStr:
    """A value for a header, hidden; a `SettingError` without the value, but with its `source`, if not valid."""
    plain: object = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(plain, str) or not _SENDABLE.fullmatch(plain.strip()):
        fault = "is empty" if plain == "" else "contains a space, or a character that no key has"
        msg = f"{source}: expected a key; the given value {fault if isinstance(plain, str) else 'is no text'}"
        raise SettingError(msg)
    return SecretStr(plain.strip())


def split_headers(headers: Mapping[str, str]) -> tuple[dict[str, str], dict[str, SecretStr]]:
    """The user's headers: plain ones, and those whose names indicate a secret."""
    plain: dict[str, str] = {}
    secrets: dict[str, SecretStr] = {}
    for name, value in headers.items():
        line: object = value
        if not (isinstance(name, str) and _NAME.fullmatch(name) and isinstance(line, str) and _LINE.fullmatch(line)):
            msg = f"headers: {name!r}: expected the name of a header, and one line of ASCII text"
            raise SettingError(msg)
        if _SECRET.search(name):
            secrets[name] = SecretStr(value.strip())
        else:
            plain[name] = value.strip()
    return plain, secrets


class Redactor:
    """Removes secrets from what a server sent, since some servers repeat them in an error or in an answer.

    `secrets`: the secrets. Each word of them is removed, also in its form in JSON or in a URL. Words of fewer than 8
    characters are kept: they are placeholders, or a word before the key in a header ("Bearer").
    """

    def __init__(self, secrets: Iterable[SecretStr | None]) -> None:
        values = " ".join(secret.get_secret_value() for secret in secrets if secret is not None)
        words = (word for word in values.split() if len(word) >= MIN_SECRET_CHARS)
        forms = set(chain.from_iterable(map(_forms, words)))
        # The longest first: a secret may begin with another one.
        self._secrets = tuple(SecretStr(form) for form in sorted(forms, key=len, reverse=True))

    def __call__(self, content: _T) -> _T:
        if isinstance(content, str):
            for secret in self._secrets:
                content = content.replace(secret.get_secret_value(), "<key>")
            return content
        if isinstance(content, bytes):
            for secret in self._secrets:
                content = content.replace(secret.get_secret_value().encode(), b"<key>")
            return content
        return content._replace(
            text=self(content.text),
            reasoning=self(content.reasoning),
            opaque=self(content.opaque),
            tool_calls=tuple(ToolCall(*map(self, call)) for call in content.tool_calls),
            finish_reason=content.finish_reason and self(content.finish_reason),
            native_finish_reason=content.native_finish_reason and self(content.native_finish_reason),
        )


def _forms(word: str) -> tuple[str, ...]:
    """A word itself, in JSON (some servers escape the slash), and in a URL."""
    in_json = json.dumps(word)[1:-1]
    return word, in_json, in_json.replace("/", r"\/"), quote(word, safe="")
