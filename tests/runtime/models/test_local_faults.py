"""What goes wrong with a model in this process: each fault is one sentence, and nothing is left running."""

import asyncio
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import cloudpickle
import pytest

import boolab as bl
from boolab.errors import ModelError, SettingError
from boolab.runtime.models.local import gguf, model, server
from boolab.runtime.models.local.gguf import check_weights, free_memory
from boolab.runtime.models.local.model import Client
from boolab.runtime.models.local.server import LlamaServer, ServerSettings
from boolab.runtime.models.local.weights import HOW_TO_GET, find_weights
from tests.support.helpers import QUIET
from tests.support.local_models import llama, real
from tests.support.model_server import PATIENCE_S, RESET, Gate, ModelServer

SETTINGS: Final = ServerSettings(context=2048, slots=1, threads=1, exact=True, template=None)
LONG: Final = "word " * 300
AGENT: Final = bl.Agent("writer", prompt="Write.", policy=QUIET, tool_budget=None, doom_loop=None)


def ask(model: Any, task: str = "Hello.", **options: Any) -> bl.Run:
    return bl.run_sync(AGENT, task, model=model, **options)


def threads() -> int:
    """How many threads the system counts in this process, those of llama.cpp included."""
    return len([*Path("/proc/self/task").iterdir()]) if Path("/proc/self/task").exists() else threading.active_count()


# --- The file of the weights ------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def number(name: str, value: int) -> bytes:
    return text(name) + struct.pack("<II", 4, value)


def head_of(version: int = 3, layers: int = 30) -> bytes:
    """The head of a file with the shape of SmolLM2, and two tensors of a kilobyte each."""
    names = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    words = text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 3) + b"".join(map(text, "abc"))
    types = text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, 5_000) + bytes(4 * 5_000)
    scale = text("llama.rope.freq_base") + struct.pack("<If", 6, float("inf"))
    shape = [
        number("llama.block_count", layers),
        number("llama.embedding_length", 576),
        number("llama.attention.head_count", 9),
        number("llama.attention.head_count_kv", 3),
    ]
    tensors = [text(f"blk.{n}.w") + struct.pack("<IQIQ", 1, 512, 1, 1_024 * n) for n in range(2)]
    values = [names, words, types, scale, *shape]
    return b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + b"".join([*values, *tensors])


def weights(folder: Path, data: bytes) -> Path:
    path = folder / "x.gguf"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kept", [4, 30, 700, len(head_of()) - 1, len(head_of()) + 1_000])
def test_file_cut_short_is_named_with_its_size(kept: int, tmp_path: Path) -> None:
    path = weights(tmp_path, (head_of() + bytes(2_048))[:kept])
    with pytest.raises(SettingError, match=rf"^{path} is cut short: it has {kept:,} bytes; fetch it again .*`\)$"):
        check_weights(path, 2048)


def test_whole_file_passes_and_so_does_another_kind(tmp_path: Path) -> None:
    check_weights(weights(tmp_path, head_of() + bytes(2_048)), 2048)
    check_weights(weights(tmp_path, head_of(version=1)), 2048)
    check_weights(weights(tmp_path, head_of().replace(struct.pack("<II", 4, 576), struct.pack("<II", 77, 576))), 2048)


def test_context_larger_than_memory_is_refused(tmp_path: Path) -> None:
    if free_memory() is None:
        pytest.skip("this system does not say how much memory is free")
    path = weights(tmp_path, head_of(layers=300_000) + bytes(2_048))
    with pytest.raises(SettingError, match=r"a context of 2,000,000,000 tokens needs .* GB of memory, and .* are free"):
        check_weights(path, 2_000_000_000)


def test_memory_of_a_context_is_that_of_its_keys_and_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = weights(tmp_path, head_of() + bytes(2_048))
    needed = path.stat().st_size + 100 * 2 * 30 * 3 * (64 + 64)
    monkeypatch.setattr(gguf, "free_memory", lambda: needed)
    check_weights(path, 100)
    monkeypatch.setattr(gguf, "free_memory", lambda: needed - 1)
    with pytest.raises(SettingError, match="give a smaller context, or a smaller model"):
        check_weights(path, 100)


@pytest.mark.slow
@llama
def test_llama_refuses_a_damaged_file_in_one_sentence(tmp_path: Path) -> None:
    before = threads()
    for data in (head_of(version=1), head_of() + bytes(2_048)):
        with pytest.raises(ModelError, match=r"llama.cpp does not start with .*x\.gguf: it is damaged, or of a kind"):
            LlamaServer(weights(tmp_path, data), SETTINGS)
    assert threads() <= before + 1  # llama.cpp keeps the one that writes its log


# --- llama.cpp itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "abi", "said"),
    [
        ("linux-x86_64", "cpython-311-x86_64-linux-gnu", HOW_TO_GET),
        ("macosx-14.0-arm64", "cpython-311-darwin", HOW_TO_GET),
        ("linux-x86_64", "cpython-311-x86_64-linux-musl", server.NO_WHEEL),
        ("linux-riscv64", "cpython-311-riscv64-linux-gnu", server.NO_WHEEL),
        ("win-arm64", "cp311-win_arm64", server.NO_WHEEL),
    ],
)
def test_platform_without_a_wheel_is_told(platform: str, abi: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _: None)
    monkeypatch.setattr(server, "get_platform", lambda: platform)
    monkeypatch.setattr(server, "get_config_var", lambda _: abi)
    with pytest.raises(SettingError) as error:
        bl.LocalModel()
    assert str(error.value) == said
    assert "\n" not in said


def test_library_that_cannot_be_loaded_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('GLIBC_2.38 not found')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    with pytest.raises(SettingError, match=r"^llama\.cpp cannot be loaded on this machine: GLIBC_2\.38 not found; "):
        bl.LocalModel()


@pytest.mark.parametrize("name", ["context", "slots", "threads"])
def test_count_beyond_32_bits_is_refused(name: str) -> None:
    options: dict[str, Any] = {name: 2**31}
    with pytest.raises(SettingError, match=f"{name}=2147483648: expected an integer >= 1 and <= 2,147,483,647"):
        bl.LocalModel(**options)


# --- A server that goes away ------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[bl.LocalModel, ModelServer]]:
    """A local model whose server is one of the tests, which answers nothing."""
    with ModelServer([Gate()], [Gate()]) as other:

        class Server:
            address, key = f"{other.url}/v1", "key"

            def close(self) -> None:
                """Nothing has to be ended."""

        monkeypatch.setattr(model, "LlamaServer", lambda *_: Server())
        monkeypatch.setattr(model, "version_of_llama", lambda: "1")
        yield bl.LocalModel(weights(tmp_path, head_of())), other


def test_model_closed_in_mid_request_ends_the_run(served: tuple[bl.LocalModel, ModelServer]) -> None:
    local, other = served
    runs: list[bl.Run] = []
    asking = threading.Thread(target=lambda: runs.append(ask(local)))
    asking.start()
    other.wait_for(1)
    local.close()
    asking.join()
    other.wait_until_left()
    assert (runs[0].stop_reason, runs[0].error) == ("error", "ModelError: x@1 was closed in mid-request")


def test_model_closed_in_the_loop_of_a_request_does_not_wait(served: tuple[bl.LocalModel, ModelServer]) -> None:
    local, other = served

    async def close_meanwhile() -> bl.Run:
        asking = asyncio.ensure_future(bl.run(AGENT, "Hello.", model=local))
        await asyncio.to_thread(other.wait_for, 1)
        local.close()
        return await asking

    assert str(asyncio.run(close_meanwhile()).error).endswith("was closed in mid-request")


def test_cancelled_request_is_no_error_of_the_model(served: tuple[bl.LocalModel, ModelServer]) -> None:
    local, other = served

    async def cancel() -> None:
        asking = asyncio.ensure_future(bl.run(AGENT, "Hello.", model=local))
        await asyncio.to_thread(other.wait_for, 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError) as interruption:
            await asking
        assert interruption.value.run.stop_reason == "aborted"  # type: ignore[attr-defined] # as documented

    asyncio.run(cancel())
    other.wait_until_left()


@pytest.mark.slow  # it asks again for seconds
def test_server_killed_in_mid_request_is_an_error() -> None:
    about: tuple[Any, ...] = ("", "1", SETTINGS, "command", {"type": "string"}, {})
    with ModelServer([RESET]) as gone:
        client = Client("x@1", f"{gone.url}/v1", "key", about)
        runs: list[bl.Run] = []
        asking = threading.Thread(target=lambda: runs.append(ask(client)))
        asking.start()
        gone.wait_for(1)
    asking.join()
    error = str(runs[0].error)
    assert runs[0].stop_reason == "error"
    assert "is the server running there?" in error
    assert "\n" not in error


# --- With llama.cpp and a model ---------------------------------------------------------------------------------------

OWNER: Final = """
import sys, time, cloudpickle
import boolab as bl
model = bl.LocalModel()
print(cloudpickle.dumps(model).hex(), flush=True)
time.sleep(600)
"""


@real
@pytest.mark.slow
def test_owner_killed_in_mid_request_is_an_error_of_the_run() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        client = cloudpickle.loads(bytes.fromhex(owner.stdout.readline()))
        killing = threading.Timer(1, owner.kill)
        killing.start()
        run = ask(client, LONG)
        killing.join()
    assert run.stop_reason == "error"
    assert "is the server running there?" in str(run.error)


@real
@pytest.mark.slow
def test_file_cut_short_starts_nothing(tmp_path: Path) -> None:
    whole = find_weights().path.read_bytes()
    before = threads()
    with pytest.raises(SettingError, match=r"is cut short: it has 49,181,216 bytes"):
        bl.LocalModel(weights(tmp_path, whole[: len(whole) // 2]))
    assert threads() == before


@real
@pytest.mark.slow
def test_context_too_large_for_memory_starts_nothing() -> None:
    before = threads()
    with pytest.raises(SettingError, match=r"needs .* GB of memory, and .* are free: give a smaller context"):
        bl.LocalModel(context=1_000_000_000)
    assert threads() == before


@real
@pytest.mark.slow
def test_models_at_once_have_ports_of_their_own_and_end() -> None:
    before = threads()
    with bl.LocalModel(max_tokens=4) as one, bl.LocalModel(max_tokens=4) as other:
        assert one.__reduce__()[1][1] != other.__reduce__()[1][1]
        assert [ask(model).n_steps for model in (one, other)] == [1, 1]
        assert threads() > before + 2
    assert threads() <= before + 2  # that of run_sync, and the one that writes llama.cpp's log


def in_request(local: bl.LocalModel) -> bl.Run:
    """A run whose first request is interrupted: its prompt is read for seconds."""
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    return ask(local, LONG)


def in_tool(local: bl.LocalModel) -> bl.Run:
    """A run that is interrupted in its tool."""

    async def wait() -> str:
        """Wait."""
        threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT)).start()
        await asyncio.Event().wait()
        return ""

    agent = bl.Agent("waiter", prompt="Call the tool.\n> wait\n> wait\n", policy=QUIET)
    forced = bl.models.WrittenCalls(local._client._model._model, answer={"const": "no answer to this ever"})
    return bl.run_sync(agent, "> wait", model=forced, tools=[wait])


def live_run(local: bl.LocalModel, task: str, **options: Any) -> bl.Run:
    """A run that is shown live, and stopped once it waits for the model or is paused."""

    async def kernel() -> bl.Run:
        live = bl.Live(AGENT, task, model=local, **options)
        until = time.monotonic() + PATIENCE_S
        while not (live.state == "paused" or live.data["now"]["what"] == "model"):
            assert time.monotonic() < until
            await asyncio.sleep(0.01)
        live.stop()
        return await live.wait()

    return asyncio.run(kernel())


MOMENTS: Final[dict[str, Callable[[bl.LocalModel], bl.Run]]] = {
    "in a request": in_request,
    "in a tool": in_tool,
    "live, in a request": lambda local: live_run(local, LONG),
    "live, paused": lambda local: live_run(local, LONG, paused=True),
}


@real
@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_interrupt_frees_the_slot_at_once(moment: str) -> None:
    with bl.LocalModel(max_tokens=4, temperature=0.0) as local:
        begun = time.monotonic()
        ask(local, LONG.replace("word", "name"))  # the time that reading such a prompt takes
        whole_s = time.monotonic() - begun
        run = MOMENTS[moment](local)
        assert run.stop_reason == "aborted"
        begun = time.monotonic()
        assert ask(local, "Go on.").stop_reason in ("finished", "length")
        assert time.monotonic() - begun < 0.9 * whole_s  # what is left of the other request is not read first
