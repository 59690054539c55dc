"""Fingerprints: digests of everything visible that can change a run, so that a sweep notices changes.

A function is its code: its source without comments and layout, with its defaults, its closure, and the functions,
classes and constants of its own module that it uses, recursively. An object is its class and its settings: its public
attributes, except those that its methods rebind, and except lists, sets and the like, which are usually counters and
logs. A date, a number or an array is its value. An object may have its own attribute `fingerprint`, which is used
instead.

Not visible are: the code of other modules and packages, private attributes and private mappings, files, environment
variables, servers, and models behind an API that change under the same name. The bytecode of a function is that of one
version of Python.
"""

from __future__ import annotations

import dis
import enum
import functools
import logging
import operator
import re
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from pathlib import PurePath
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, GenericAlias, MethodType, ModuleType, UnionType
from typing import Any, Final

from boolab.errors import SettingError

_SIZE: Final = 16
_SCALARS: Final = (type(None), bool, int, float, complex, str, bytes)
_TEXTUAL: Final = (
    *(PurePath, re.Pattern, slice, GenericAlias, UnionType),
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller),
)
"""Types whose text holds their whole value."""
_LOGS: Final = (list, set, deque, Counter, defaultdict)
_PACKAGE: Final = __name__.partition(".")[0]
_REBINDS: Final = frozenset({"STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL"})
_READS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_SETS: Final = frozenset({"STORE_ATTR"})
_MAKERS: Final = ("__init__", "__post_init__", "__new__")


def fingerprint(value: object) -> str:
    """A digest of plain data, functions, classes and objects: equal as long as nothing visible was changed."""
    try:
        return digest(*_PartReader().parts(value))
    except RecursionError:
        msg = (
            f"{_name(type(value))}: it is nested too deeply to notice changes: give the objects "
            "an attribute `fingerprint` that identifies them"
        )
        raise SettingError(msg) from None


def digest(*parts: object) -> str:
    """A digest of plain data: texts, numbers, None, and tuples of these."""
    return blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=_SIZE).hexdigest()


class _PartReader:
    """Splits a value into parts.

    A value that contains itself is named by its distance from the top, and a function, a class or an object that occurs
    many times by the number of its first place: the paths to it may be millions.
    """

    def __init__(self) -> None:
        self._above: list[int] = []
        self._numbered: dict[int, tuple[int, object]] = {}  # with the thing itself, or its id might become another's

    def parts(self, value: object) -> Iterator[str]:
        """The parts, as texts."""
        if isinstance(value, enum.Enum):
            yield f"{_name(type(value))}.{value.name}"
            yield from self.parts(value.value)
        elif isinstance(value, _SCALARS):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, _TEXTUAL):
            yield f"{type(value).__name__} {value!s} {getattr(value, 'flags', '')}"
        elif isinstance(value, ModuleType | logging.Logger):
            yield f"named {_name(value)} {value.__name__ if isinstance(value, ModuleType) else value.name}"
        elif id(value) in self._above:
            yield f"above {self._above.index(id(value))}"
        elif id(value) in self._numbered:
            yield f"met {self._numbered[id(value)][0]}"
        else:
            self._above.append(id(value))
            yield from self._read_compound(value)
            yield "end"
            self._above.pop()

    def _read_compound(self, value: object) -> Iterator[str]:
        own_fingerprint = None if isinstance(value, type) else getattr(value, "fingerprint", None)
        if own_fingerprint is not None and not callable(own_fingerprint):
            yield f"{_name(type(value))} is"
            yield from self.parts(own_fingerprint)
        elif isinstance(value, tuple | list | set | frozenset | Mapping):
            yield from self._container(value)
        elif isinstance(value, MethodType):
            yield from self.parts((value.__func__, value.__self__))
        elif isinstance(value, BuiltinFunctionType):
            yield f"named {_name(value)}"
            yield from self.parts(value.__self__)
        elif isinstance(value, functools.partial):
            yield from self.parts((value.func, value.args, value.keywords))
        elif isinstance(value, FunctionType):
            self._number(value)
            yield from self._function(value)
        elif isinstance(value, type):
            self._number(value)
            yield from self._class(value)
        else:
            yield from self._object(value)

    def _number(self, value: object) -> None:
        self._numbered[id(value)] = (len(self._numbered), value)

    def _container(self, value: Collection[object]) -> Iterator[str]:
        yield f"{type(value).__name__} of {len(value)}"
        if not _is_foreign(type(value)):
            yield from self.parts(type(value))
        if isinstance(value, tuple | list):
            for item in value:
                yield from self.parts(item)
            return
        for key in sorted(value, key=lambda key: digest(*_PartReader().parts(key))):
            yield from self.parts(key)
            if isinstance(value, Mapping):
                yield from self.parts(value[key])

    def _function(self, function: FunctionType) -> Iterator[str]:
        code, rebound = function.__code__, _names_in(function.__code__, _REBINDS)
        is_own = not _is_foreign(function)
        yield f"function {function.__name__ if is_own else _name(function)}"
        if is_own:
            yield from self._code(code)
        yield from self.parts((function.__defaults__, function.__kwdefaults__))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name not in rebound:
                yield name
                yield from self._setting(_content(cell))
        for name in sorted(_names_in(code, _READS) - rebound):
            if is_own and name in function.__globals__:
                yield from self._read_used(name, function.__globals__[name], function.__module__)

    def _read_used(self, name: str, value: object, module: str) -> Iterator[str]:
        """Something global that a function uses. A function or a class of another module is only named.

        So is an object of a foreign class that is no plain value: a client, a connection, a table. A private mapping is
        more often a cache than a constant.
        """
        yield name
        kind = type(value)
        if isinstance(value, FunctionType | type) and value.__module__ != module:
            yield _name(value)
        elif isinstance(value, Mapping) and name.startswith("_"):
            yield _name(kind)
        elif (
            isinstance(value, FunctionType | type)
            or not _is_foreign(kind)
            or kind.__module__.partition(".")[0] in (_PACKAGE, "builtins")
            or isinstance(value, (*_SCALARS, *_TEXTUAL, enum.Enum, tuple, Mapping, functools.partial))
            or hasattr(value, "__wrapped__")
            or _value(value)
        ):
            yield from self._setting(value)
        else:
            yield _name(kind)

    def _code(self, code: CodeType) -> Iterator[str]:
        yield code.co_code.hex()
        yield code.co_exceptiontable.hex()  # code inside a `try` and after it may be equal
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
        changed = _changed_by_methods(kind)
        for name, member in sorted(vars(kind).items()):
            inner = _inner_function(member)
            if isinstance(inner, FunctionType) or not (name.startswith("_") or name in changed):
                yield name
                yield from self._setting(inner)
        if issubclass(kind, enum.Enum):
            yield from self.parts({name: member.value for name, member in kind.__members__.items()})
        if fields := vars(kind).get("__pydantic_fields__"):
            yield from self.parts({name: (field.default, field.default_factory) for name, field in fields.items()})

    def _object(self, value: object) -> Iterator[str]:
        kind: Any = type(value)
        yield from self.parts(kind)
        if isinstance(inner := getattr(value, "__wrapped__", None), FunctionType):
            yield from self.parts(inner)
            return
        if kind.__eq__ is object.__eq__:  # two equal dates may be one object or two
            self._number(value)
        public_attributes = {
            name: attribute for name, attribute in _attributes(value).items() if not name.startswith("_")
        }
        for name in sorted(public_attributes.keys() - _changed_by_methods(kind)):
            yield name
            yield from self._setting(public_attributes[name])
        if not public_attributes:
            yield _value(value)

    def _setting(self, value: object) -> Iterator[str]:
        """A value that is kept. A list or a set is more often a log than a setting."""
        return iter([type(value).__name__]) if isinstance(value, _LOGS) else self.parts(value)


def _name(value: object) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"


def _inner_function(member: object) -> object:
    """The function in a method of any kind, in a property, and in a cached function; else the member itself."""
    for name in ("__func__", "fget", "func", "__wrapped__"):
        inner = getattr(member, name, None)
        if isinstance(inner, FunctionType):
            return inner
    return member


def _value(value: object) -> str:
    """The text of an object that is a value, such as a date, a range, an array; "" for all others."""
    kind: Any = type(value)
    if kind.__eq__ is object.__eq__:
        return ""
    if kind.__hash__ is None:
        return _digest_buffer(value)
    text = "" if kind.__hash__ is object.__hash__ or kind.__repr__ is object.__repr__ else repr(value)
    return "" if " at 0x" in text else text


def _digest_buffer(value: object) -> str:
    try:
        view = memoryview(value)  # type: ignore[arg-type] # a TypeError is caught
    except (TypeError, ValueError, BufferError):
        return ""
    if "O" in view.format:  # of Python objects it has only addresses
        return ""
    return f"{view.format} {view.shape} {blake2b(view.tobytes(), digest_size=_SIZE).hexdigest()}"


def _is_foreign(value: object) -> bool:
    """Whether it belongs to Python, to boolab, or to an installed package: then its name is enough."""
    module = str(value.__module__)
    top = module.partition(".")[0]
    if top == _PACKAGE:
        return True
    if isinstance(value, FunctionType):
        return _is_installed(value.__code__.co_filename)
    file = getattr(sys.modules.get(module), "__file__", None)
    return top in sys.stdlib_module_names and top != "__main__" if file is None else _is_installed(file)


@functools.cache
def _is_installed(file: str) -> bool:
    path, standard_library = PurePath(file), PurePath(functools.__file__).parent
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts) or path.is_relative_to(standard_library)


@functools.lru_cache(maxsize=4096)
def _names_in(code: CodeType, operations: frozenset[str]) -> frozenset[str]:
    """The names that some operations use in a function and in the functions inside it."""
    inner = (_names_in(constant, operations) for constant in code.co_consts if isinstance(constant, CodeType))
    names = {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in operations}
    return frozenset(names.union(*inner))


@functools.lru_cache(maxsize=256)
def _changed_by_methods(kind: type) -> frozenset[str]:
    """The attributes that the methods of a class rebind, except those that create it."""
    members = chain.from_iterable(vars(base).items() for base in kind.__mro__)
    codes = [member.__code__ for name, member in members if name not in _MAKERS and isinstance(member, FunctionType)]
    return frozenset().union(*(_names_in(code, _SETS) for code in codes))


def _attributes(value: object) -> dict[str, Any]:
    """The attributes of an object, without cached ones."""
    kinds = type(value).__mro__
    slots = (vars(kind).get("__slots__", ()) for kind in kinds)
    names = chain.from_iterable((slot_names,) if isinstance(slot_names, str) else slot_names for slot_names in slots)
    attributes = {name: getattr(value, name) for name in names if hasattr(value, name)}
    attributes |= getattr(value, "__dict__", {})
    members = chain.from_iterable(vars(kind).items() for kind in kinds)
    cached = {name for name, member in members if isinstance(member, functools.cached_property)}
    return {name: attribute for name, attribute in attributes.items() if name not in cached}


def _content(cell: CellType) -> object:
    try:
        content: object = cell.cell_contents
    except ValueError:  # not filled yet
        return None
    return content
