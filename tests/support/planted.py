"""Canaries planted in sample logs: in every text and in every key, one by one where a log could not be read otherwise.

Each canary has a form that a careless rule takes for a harmless word: a name, a key of an API, an address, a name of a
file, a path, a number. All have a mark, by which they are found again.
"""

import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

_FORMS: Final = (
    "Zq7{0}",
    "sk-ant-api03-Zq7{0}Y7W6V5",
    "zq7{0}@corp.example",
    "zq7{0}_merger.xlsx",
    "/home/zq7{0}/thesis",
    "7349{0:08d}",
    "zq7{0} and more of it",
)
_FOUND: Final = re.compile(rb"zq7[0-9]+|7349[0-9]{8}")

KINDS: Final = ("text", "within tags", "within JSON", "key", "new key")
"""What is planted at a place."""


def canary(number: int) -> str:
    """The canary of that number."""
    return _FORMS[number % len(_FORMS)].format(number)


def found_in(content: bytes) -> set[str]:
    """The canaries in some bytes, in lower case, without what stands around their marks."""
    return {found.decode() for found in _FOUND.findall(content.lower())}


@dataclass(frozen=True)
class Place:
    """A key of the objects of one file, by the keys above it; `of` is what is planted there."""

    file: Path
    keys: tuple[str, ...]
    of: str


class Log:
    """The files of a sample, in a folder of its own, in which canaries are planted.

    Args:
        sample: The folder of the sample.
        folder: Where to put it.
    """

    def __init__(self, sample: Path, folder: Path) -> None:
        self.folder = folder
        self._contents: dict[Path, bytes] = {}
        self._documents: dict[Path, Any] = {}
        self._count = 0
        for path in sorted(path for path in sample.rglob("*") if path.is_file()):
            to = folder / path.relative_to(sample)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
            self._contents[to] = path.read_bytes()
            document = _parsed(to)
            if document is not None:
                self._documents[to] = document

    def places(self) -> list[Place]:
        """All places of the log, each once, whatever the index in a list."""
        found: dict[Place, None] = {}
        for path, document in self._documents.items():
            for keys, value in _values(document):
                if isinstance(value, str) and value:
                    found[Place(path, keys, "text")] = None
                    if re.search(r"<\w[^>]*>[^<]", value):
                        found[Place(path, keys, "within tags")] = None
                    if value.startswith(("{", "[")):
                        found[Place(path, keys, "within JSON")] = None
                if keys and keys[-1] != "[]":
                    found[Place(path, keys, "key")] = None
                if isinstance(value, dict):
                    found[Place(path, keys, "new key")] = None
        return list(found)

    def plant(self, places: list[Place]) -> None:
        """Write the files with canaries at some places, and all others as they were."""
        by_file: dict[Path, set[tuple[tuple[str, ...], str]]] = {}
        for place in places:
            by_file.setdefault(place.file, set()).add((place.keys, place.of))
        for path, content in self._contents.items():
            wanted = by_file.get(path)
            if wanted is None:
                if path.read_bytes() != content:
                    path.write_bytes(content)
            else:
                planted = self._planted(self._documents[path], (), wanted)
                path.write_bytes(_written(path, content, planted))

    def _canary(self) -> str:
        self._count += 1
        return canary(self._count)

    def _planted(self, value: Any, keys: tuple[str, ...], wanted: set[tuple[tuple[str, ...], str]]) -> Any:
        if isinstance(value, dict):
            planted = {}
            for key, item in value.items():
                below = (*keys, key)
                name = self._canary() if (below, "key") in wanted else key
                planted[name] = self._planted(item, below, wanted)
            if (keys, "new key") in wanted:
                planted[self._canary()] = self._canary()
            return planted
        if isinstance(value, list):
            return [self._planted(item, (*keys, "[]"), wanted) for item in value]
        if isinstance(value, str) and value:
            if (keys, "text") in wanted:
                return self._canary()
            if (keys, "within tags") in wanted:
                return re.sub(r"(<\w[^>]*>\s*)[^<\s][^<]*?(?=\s*<)", lambda m: m[1] + self._canary(), value)
            if (keys, "within JSON") in wanted:
                return re.sub(r'(?<=[:\[,])(\s*)"[^"\\]+"', lambda m: f'{m[1]}"{self._canary()}"', value)
        return value


def _values(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield keys, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _values(item, (*keys, key))
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, (*keys, "[]"))


def _parsed(path: Path) -> Any:
    """What a file holds: a list of values for lines, a mapping of names to values for an archive; None for no JSON."""
    content = path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return {name: json.loads(archive.read(name)) for name in archive.namelist() if name.endswith(".json")}
    try:
        return json.loads(content)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError:
        return None


def _written(path: Path, content: bytes, value: Any) -> bytes:
    if content[:2] == b"PK":
        packed = BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, entry in value.items():
                archive.writestr(name, json.dumps(entry))
        return packed.getvalue()
    try:
        json.loads(content)
    except ValueError:
        return "".join(json.dumps(line) + "\n" for line in value).encode()
    return json.dumps(value).encode()
