"""Keys: where they come from, which host they are for, and what hides them.

A key is a pydantic `SecretStr` from the moment it is known; the one place that reads it is the authentication of a
request (`boolab.models.remote.transport`). A key from the environment is sent to the host that its variable stands for
and to no other, so that pointing a model at another server never hands that server a key of somebody else's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
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
"""The environment variable that holds the key for a host: the name that the provider's own documentation gives it."""

_SHORTEST: Final = 8
"""Shorter keys are the placeholders of local servers ("none", "ollama"): words that may stand anywhere."""
_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LINE: Final = re.compile(r"[\x20-\x7e]*")
_SECRET: Final = re.compile("key|auth|token|secret|cookie|password|signature", re.IGNORECASE)
_T = TypeVar("_T", str, bytes, Response)


def key_for(host: str, api_key: str | SecretStr | None, *, encrypted: bool = True) -> SecretStr | None:
    """The key to send to a host: the one given, else that of the environment, if the host is one that has a variable.

    Args:
        host: The host.
        api_key: The key, if one was given.
        encrypted: Whether it would travel over https. A key of the environment travels in no other way.

    Returns:
        The key; None for a host of one's own without a key.

    Raises:
        SettingError: if a provider's key is missing, or a key could not be sent. The message does not hold it.

    Example:
        >>> key_for("127.0.0.1", None), key_for("127.0.0.1", "a-key-of-mine")
        (None, SecretStr('**********'))
    """
    if api_key is not None:
        return secret(api_key, "api_key")
    variable = VARIABLES.get(host)
    if variable is None:
        return None
    if not encrypted:
        msg = f"{host} is asked over https: with http, anybody on the way could read the key of {variable}"
        raise SettingError(msg)
    value = os.environ.get(variable, "").strip()
    if not value:
        msg = f"no key for {host}: set the environment variable {variable}, or pass api_key=..."
        raise SettingError(msg)
    return secret(value, f"the environment variable {variable}")


def secret(value: str | SecretStr, where: str) -> SecretStr:
    """A value to be sent in a header, hidden.

    Args:
        value: The value.
        where: Where it comes from, for the message if it cannot be sent.

    Raises:
        SettingError: if it cannot. The message does not hold it.
    """
    plain: object = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(plain, str) or not _SENDABLE.fullmatch(plain.strip()):
        what = "is empty" if plain == "" else "holds a space, or a character that no key has"
        msg = f"{where}: expected a key; what was given {what if isinstance(plain, str) else 'is no text'}"
        raise SettingError(msg)
    return SecretStr(plain.strip())


def split_headers(headers: Mapping[str, str]) -> tuple[dict[str, str], dict[str, SecretStr]]:
    """The user's own headers: those that anybody may see, and those whose names say that they hold a secret.

    Raises:
        SettingError: if one cannot be sent. The message does not hold its value.

    Example:
        >>> split_headers({"X-Title": "my study", "api-key": "a-key-of-mine"})
        ({'X-Title': 'my study'}, {'api-key': SecretStr('**********')})
    """
    plain: dict[str, str] = {}
    hidden: dict[str, SecretStr] = {}
    for name, value in headers.items():
        given: object = value
        if not (isinstance(name, str) and _NAME.fullmatch(name) and isinstance(given, str) and _LINE.fullmatch(given)):
            msg = f"headers: {name!r}: expected the name of a header, and a text of one line in ASCII"
            raise SettingError(msg)
        if _SECRET.search(name):
            hidden[name] = SecretStr(value.strip())
        else:
            plain[name] = value.strip()
    return plain, hidden


class Redactor:
    """Takes secrets out of what a server sent: some send them back, in the text of an error or in an answer.

    Args:
        secrets: The secrets; each word of them is one, as it is and as it stands in JSON or in a URL. Words shorter
            than 8 characters are left alone: they are placeholders, or what stands before a key in a header ("Bearer").

    Example:
        >>> Redactor([SecretStr("sk-canary-1234")])("Incorrect API key provided: sk-canary-1234.")
        'Incorrect API key provided: <key>.'
    """

    def __init__(self, secrets: Iterable[SecretStr | None]) -> None:
        words = (word for one in secrets if one is not None for word in one.get_secret_value().split())
        forms = {form for word in words if len(word) >= _SHORTEST for form in _forms(word)}
        # The longest first: what is left of a secret that begins with another one would still be most of it.
        self._secrets = tuple(SecretStr(form) for form in sorted(forms, key=len, reverse=True))

    def __call__(self, given: _T) -> _T:
        """The text, the bytes or the response, without the secrets."""
        if isinstance(given, str):
            for one in self._secrets:
                given = given.replace(one.get_secret_value(), "<key>")
            return given
        if isinstance(given, bytes):
            for one in self._secrets:
                given = given.replace(one.get_secret_value().encode(), b"<key>")
            return given
        return given._replace(
            text=self(given.text),
            reasoning=self(given.reasoning),
            opaque=self(given.opaque),
            tool_calls=tuple(ToolCall(*map(self, call)) for call in given.tool_calls),
            finish_reason=given.finish_reason and self(given.finish_reason),
            native_finish_reason=given.native_finish_reason and self(given.native_finish_reason),
        )


def _forms(word: str) -> tuple[str, ...]:
    """A word as it is, in JSON (some servers escape the slash there), and in a URL."""
    in_json = json.dumps(word)[1:-1]
    return word, in_json, in_json.replace("/", r"\/"), quote(word, safe="")
