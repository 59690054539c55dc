"""What the head of a file in GGUF holds: whether the file is whole, and how much memory a context takes.

llama.cpp does not say why it refuses a file, and ends the whole process where memory is too small.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple

from boolab.display.numbers import size
from boolab.errors import SettingError
from boolab.io.files import open_file

_FORMATS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT: Final = 8
_LIST: Final = 9
_MAX_VALUES: Final = 4096
"""Longer lists, of tokens, are skipped."""
_BYTES_OF_A_NUMBER: Final = 2
_MEMINFO: Final = Path("/proc/meminfo")
_CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


class GGUFHead(NamedTuple):
    """The head of a file.

    Attributes:
        least_size: The least number of bytes that the file must have.
        token_bytes: The memory that each token of a context takes; 0 if the head does not say it.
    """

    least_size: int
    token_bytes: int


def check_weights(file: Path, tokens: int) -> None:
    """Raise `SettingError` if a file is cut short, or memory is too small for it with a context of so many tokens.

    A file with a head of another kind passes: llama.cpp decides on it.
    """
    file_size = file.stat().st_size
    try:
        with open_file(file) as stream:
            head = _HeadReader(stream).read()
    except EOFError:
        head = GGUFHead(file_size + 1, 0)
    except (ValueError, KeyError):
        return
    if head.least_size > file_size:
        raise SettingError(f"{file} is cut short: it has {file_size:,} bytes; fetch it again (`boolab model`)")
    memory, free = file_size + head.token_bytes * tokens, free_memory()
    if free is not None and memory > free:
        raise SettingError(
            f"{file} with a context of {tokens:,} tokens needs {size(memory)} of memory, and {size(free)} are free: "
            "give a smaller context, or a smaller model"
        )


def free_memory() -> int | None:
    """The bytes that Linux can still give, or its container; None elsewhere."""
    limits = []
    with suppress(OSError, ValueError):
        limits += [1024 * int(line.split()[1]) for line in _MEMINFO.read_text().splitlines() if "MemAvailable" in line]
    with suppress(OSError, ValueError):
        limits.append(int(_CONTAINER_LIMIT.read_text()))
    return min(limits, default=None)


class _HeadReader:
    """Reads the head of a file; `EOFError` if it ends before, and `ValueError` if it is of another kind."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._position = 0

    def read(self) -> GGUFHead:
        self._take(4)
        if self._number("I") not in (2, 3):
            raise ValueError
        n_tensors, n_values = self._number("Q"), self._number("Q")
        values = {self._text(): self._value(self._number("I")) for _ in range(n_values)}
        offsets = [self._offset() for _ in range(n_tensors)]
        return GGUFHead(self._position + max(offsets, default=0), _token_bytes(values))

    def _take(self, count: int) -> bytes:
        data = self._stream.read(count)
        if len(data) < count:
            raise EOFError
        self._position += count
        return data

    def _number(self, number_format: str) -> int:
        (value,) = struct.unpack(f"<{number_format}", self._take(struct.calcsize(f"<{number_format}")))
        return int(value)

    def _text(self) -> str:
        length = self._number("Q")
        if length > 2**24:
            raise ValueError
        return self._take(length).decode()

    def _offset(self) -> int:
        """Where the data of a tensor begin; its name and its shape are skipped."""
        self._text()
        self._take(8 * self._number("I"))
        self._number("I")
        return self._number("Q")

    def _value(self, kind: int) -> object:
        if kind == _TEXT:
            return self._text()
        if kind != _LIST:
            (value,) = struct.unpack(f"<{_FORMATS[kind]}", self._take(struct.calcsize(_FORMATS[kind])))
            return value
        kind, count = self._number("I"), self._number("Q")
        if kind in _FORMATS and count > _MAX_VALUES:
            self._position += struct.calcsize(f"<{_FORMATS[kind]}") * count
            self._stream.seek(self._position)
            return []
        if kind == _LIST:
            raise ValueError
        return [value for value in (self._value(kind) for _ in range(count)) if kind != _TEXT]


def _token_bytes(values: dict[str, object]) -> int:
    """The memory of a token: its keys and values in all layers, 16 bits each."""
    name = values.get("general.architecture")

    def integer(key: str, default: int = 0) -> int:
        value = values.get(f"{name}.{key}", default)
        return value if isinstance(value, int) else default

    layers, heads = integer("block_count"), integer("attention.head_count")
    width = integer("embedding_length") // max(heads, 1)
    widths = integer("attention.key_length", width) + integer("attention.value_length", width)
    by_layer = values.get(f"{name}.attention.head_count_kv", heads)
    n_heads = sum(by_layer) if isinstance(by_layer, list) else layers * integer("attention.head_count_kv", heads)
    return _BYTES_OF_A_NUMBER * n_heads * widths
