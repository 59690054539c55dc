"""llama.cpp as a server of chat completions on loopback, in this process; it ends with its owner."""

from __future__ import annotations

import secrets
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_config_var, get_platform
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from boolab.errors import ModelError, SettingError
from boolab.runtime.models.local.gguf import check_weights
from boolab.runtime.models.local.weights import HOW_TO_GET

if TYPE_CHECKING:
    from types import ModuleType

CACHE_MIB: Final = 64
"""The most memory for the prompts of slots that are not in use; llama.cpp's default is 8 GiB."""
BATCH: Final = 32
"""The tokens of a prompt that are read before the server looks whether its client has gone: a fraction of a second."""

_PLATFORMS: Final = ("linux-x86_64", "linux-aarch64", "win-amd64")
OWN_SERVER: Final = "bl.OpenAIModel works with a llama.cpp server of your own"
NO_WHEEL: Final = (
    "bl.LocalModel needs llama.cpp, and xllamacpp has no wheel for this platform: it has some for Linux with glibc, "
    f"on x86-64 and ARM64, for macOS 13 or newer, and for Windows on x86-64; {OWN_SERVER}"
)


class ServerSettings(NamedTuple):
    """How the server computes.

    Attributes:
        context: Tokens that fit into a request.
        slots: Requests that it answers at once. Each further one changes the batches, and so the last bits.
        threads: Threads that compute. On a loaded machine, more than one wait for each other.
        exact: Read the tokens of a prompt one by one, as they were written: a branch or a resumed run then gets the
            answers that the undisturbed run got. False is a third faster.
        template: The chat template, in Jinja; None for that of the weights.
    """

    context: int
    slots: int
    threads: int
    exact: bool
    template: str | None


class LlamaServer:
    """A running server.

    Args:
        weights: The file in GGUF.
        settings: How it computes.

    Raises:
        SettingError: if xllamacpp is not installed, or cannot be loaded; if the file is cut short, or memory is too
            small for it.
        ModelError: if the server cannot be started with these weights.
    """

    def __init__(self, weights: Path, settings: ServerSettings) -> None:
        xllamacpp = _import()
        check_weights(weights, settings.context * settings.slots)
        self.key = secrets.token_urlsafe(24)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(weights)
        parameters.n_ctx = settings.context * settings.slots
        parameters.n_parallel = settings.slots
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = settings.threads
        parameters.cache_ram_mib = CACHE_MIB
        parameters.api_keys = [self.key]
        parameters.cors_origins = ""
        parameters.ui = False
        parameters.warmup = False
        parameters.verbosity = 0
        if settings.exact:
            parameters.n_ubatch = 1
            parameters.n_batch = BATCH
        if settings.template is not None:
            parameters.chat_template = settings.template
        try:
            self._server: Any = xllamacpp.Server(parameters)
        except Exception as error:  # of any kind: the file is not accepted
            msg = (
                f"llama.cpp does not start with {weights}: it is damaged, or of a kind that this version does not know"
            )
            raise ModelError(f"{msg} ({error})") from error
        self.address = f"{self._server.listening_address}/v1"

    def close(self) -> None:
        """End the server, and free its memory. Closing it twice does nothing."""
        self._server = None


def version_of_llama() -> str:
    """The version of xllamacpp, which is that of its llama.cpp."""
    _import()
    return version("xllamacpp")


def _import() -> ModuleType:
    if find_spec("xllamacpp") is None:
        raise SettingError(HOW_TO_GET if _has_wheel() else NO_WHEEL)
    try:
        import xllamacpp
    except ImportError as error:
        raise SettingError(f"llama.cpp cannot be loaded on this machine: {error}; {OWN_SERVER}") from error

    module: ModuleType = xllamacpp
    return module


def _has_wheel() -> bool:
    """Whether there is a wheel of xllamacpp for this platform, by the names of platforms."""
    has_glibc = "musl" not in str(get_config_var("SOABI"))
    return get_platform().startswith("macosx") or (get_platform() in _PLATFORMS and has_glibc)
