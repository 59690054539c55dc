"""Fingerprints: digests of whatever can change what a run does, so that a sweep sees what was changed since.

A function is its code: what its source says, without comments and layout, with its defaults, what it closes over, and
the functions, classes and constants of its own module that it uses, and theirs. An object is its class and its
settings: its public attributes, but not those that its methods rebind as they go, nor lists and sets, which are how
counters and logs look. An object may say itself what it is: its attribute `fingerprint` is looked at
in its place.

What is not seen: the code of other packages, what is reached through a module (`helpers.parse`) or a private attribute,
files, environment variables, servers, and models behind an API that change under the same name. The bytecode of a
function is that of one version of Python.
"""

from __future__ import annotations

import dis
import enum
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

_SIZE: Final = 16
_SCALARS: Final = (type(None), bool, int, float, complex, str, bytes)
_OWN: Final = __name__.partition(".")[0]
_REBINDS: Final = frozenset({"STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL"})
_MAKERS: Final = ("__init__", "__post_init__", "__new__")


def fingerprint(value: object) -> str:
    """A digest of a value: equal as long as nothing was changed that can be seen.

    Args:
        value: Plain data, a function, a class, an object, or anything made of these.

    Returns:
        32 hexadecimal digits.

    Example:
        >>> def fetch(n=3):
        ...     return n
        >>> fingerprint(fetch) == fingerprint(fetch), fingerprint(fetch) == fingerprint(lambda n=4: n)
        (True, False)
    """
    return digest(*_Reader().parts(value))


def digest(*parts: object) -> str:
    """A digest of plain data: texts, numbers, None, and tuples of these.

    Example:
        >>> digest("a", "bc") == digest("ab", "c")
        False
    """
    return blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=_SIZE).hexdigest()


class _Reader:
    """Takes a value to pieces. Something that holds itself is named by how far up it stands."""

    def __init__(self) -> None:
        self._above: list[int] = []

    def parts(self, value: Any) -> Iterator[str]:  # noqa: ANN401 - anything at all
        """The pieces, as texts."""
        if isinstance(value, _SCALARS):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, enum.Enum):
            yield f"{_name(type(value))}.{value.name}"
        elif isinstance(value, PurePath | re.Pattern):
            yield f"{type(value).__name__} {value!s} {getattr(value, 'flags', '')}"
        elif isinstance(value, ModuleType | BuiltinFunctionType):
            yield f"named {_name(value)}"
        elif id(value) in self._above:
            yield f"above {self._above.index(id(value))}"
        else:
            self._above.append(id(value))
            yield from self._compound(value)
            self._above.pop()

    def _compound(self, value: Any) -> Iterator[str]:  # noqa: ANN401 - as above
        own = None if isinstance(value, type) else getattr(value, "fingerprint", None)
        if own is not None and not callable(own):
            yield f"{_name(type(value))} is"
            yield from self.parts(own)
        elif isinstance(value, tuple | list | set | frozenset | Mapping):
            yield from self._container(value)
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, MethodType):
            yield from self.parts(value.__func__)
            yield from self.parts(value.__self__)
        elif isinstance(value, functools.partial):
            yield from self.parts((value.func, value.args, value.keywords))
        elif isinstance(value, type):
            yield from self._class(value)
        else:
            yield from self._object(value)

    def _container(self, value: Any) -> Iterator[str]:  # noqa: ANN401 - as above
        yield f"{type(value).__name__} of {len(value)}"
        if isinstance(value, tuple | list):
            for item in value:
                yield from self.parts(item)
            return
        for key in sorted(value, key=lambda key: digest(*_Reader().parts(key))):
            yield from self.parts(key)
            if isinstance(value, Mapping):
                yield from self.parts(value[key])

    def _function(self, function: FunctionType) -> Iterator[str]:
        code, rebound = function.__code__, _rebound(function.__code__)
        own = not _is_foreign(function)
        yield f"function {function.__name__ if own else _name(function)}"
        if own:
            yield from self._code(code)
        yield from self.parts((function.__defaults__, function.__kwdefaults__))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name not in rebound:
                yield name
                yield from self._setting(_content(cell))
        for name in sorted(_names(code) - rebound):
            if own and name in function.__globals__:
                yield from self._used(name, function.__globals__[name], function.__module__)

    def _used(self, name: str, value: Any, module: str) -> Iterator[str]:  # noqa: ANN401 - as above
        """Something global that a function uses: what is of another module is only named."""
        yield name
        if isinstance(value, FunctionType | type):
            if value.__module__ == module:
                yield from self.parts(value)
            else:
                yield _name(value)
        elif isinstance(value, (*_SCALARS, tuple, frozenset, functools.partial)):
            yield from self.parts(value)
        else:
            yield from self._setting(value) if type(value).__module__ == module else [_name(type(value))]

    def _code(self, code: CodeType) -> Iterator[str]:
        yield code.co_code.hex()
        yield from (*code.co_names, *code.co_varnames, *code.co_freevars)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._code(constant)
            else:
                yield from self.parts(constant)

    def _class(self, kind: type) -> Iterator[str]:
        yield f"class {_name(kind)}"
        if _is_foreign(kind):
            return
        for base in kind.__bases__:
            yield from self.parts(base)
        for name, member in sorted(vars(kind).items()):
            inner = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if isinstance(inner, FunctionType) or not name.startswith("_"):
                yield name
                yield from self._setting(inner)

    def _object(self, value: object) -> Iterator[str]:
        yield from self.parts(type(value))
        own = _attributes(value)
        kind: Any = type(value)
        for name in sorted(own.keys() - _changed_by_methods(kind)):
            if not name.startswith("_"):
                yield name
                yield from self._setting(own[name])

    def _setting(self, value: object) -> Iterator[str]:
        """A value that is held on to. A list or a set is more often a log than a setting."""
        return iter([type(value).__name__]) if isinstance(value, list | set) else self.parts(value)


def _name(value: Any) -> str:  # noqa: ANN401 - classes, functions and modules
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"


def _is_foreign(value: Any) -> bool:  # noqa: ANN401 - a class or a function
    """Whether it belongs to Python, to boolab, or to a package that is installed: its name stands for it."""
    module = str(value.__module__)
    if module.partition(".")[0] == _OWN:
        return True
    if isinstance(value, type) and not value.__flags__ & 1 << 9:  # made in C
        return True
    code = getattr(value, "__code__", None) or next(
        (member.__code__ for member in vars(value).values() if isinstance(member, FunctionType)), None
    )
    return code is not None and _is_installed(code.co_filename)


@functools.cache
def _is_installed(file: str) -> bool:
    return bool({"site-packages", "dist-packages"} & set(PurePath(file).parts)) or file.startswith(_standard_library())


@functools.cache
def _standard_library() -> str:
    return str(PurePath(functools.__file__).parent)


def _names(code: CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _rebound(code: CodeType) -> set[str]:
    """The variables outside of it that a function binds anew as it goes."""
    inner = (_rebound(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    names = {one.argval for one in dis.get_instructions(code) if one.opname in _REBINDS}
    return names.union(*inner)


@functools.lru_cache(maxsize=256)
def _changed_by_methods(kind: Any) -> frozenset[str]:  # noqa: ANN401 - a class, which can be hashed
    """The attributes that the methods of a class bind anew, other than when it is made."""
    names: set[str] = set()
    for one in kind.__mro__:
        for name, member in vars(one).items():
            if isinstance(member, FunctionType) and name not in _MAKERS:
                codes = [member.__code__]
                while codes:
                    code = codes.pop()
                    codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
                    names |= {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_ATTR"}
    return frozenset(names)


def _attributes(value: object) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in _listed(vars(kind).get("__slots__", ()))]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return found | dict(getattr(value, "__dict__", {}))


def _listed(slots: Any) -> Iterable[str]:  # noqa: ANN401 - whatever a class has there
    return (slots,) if isinstance(slots, str) else slots


def _content(cell: Any) -> object:  # noqa: ANN401 - types.CellType
    try:
        found: object = cell.cell_contents
    except ValueError:  # not filled yet
        return None
    return found
