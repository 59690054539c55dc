"""Reads rules from YAML.

An example:

    name: repeats, or a cap
    authors: Ada Lovelace
    rules:                              # the run stops when one of these is true
      - doom_loop: 3
      - max_steps: [20, 40, 60]         # the best of these is chosen on the training runs
      - all:                            # true when all of these are
          - error_streak: {n: 2, on_unknown: ignore}
          - tool_budget: "20:100:20"    # 20, 40, 60, 80 or 100

A rule is the name of a function of `boolab.limits.catalog` or `bl.detectors` with its first argument, or
with a mapping of arguments. A list or a range in place of a number is a choice. `learned: rule.yaml` is a rule that
`bl.stats.save_rule` wrote, beside the file. Further keys: `description`, `url`, and `scope`: `run` (the default), where
counters count through the whole run, or `turn`, where they start again with each message of the user.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import product
from math import prod
from operator import and_, or_
from pathlib import Path
from typing import Any, Final, cast

from benchmarks.stoprulebench.entries import About, RuleEntry
from benchmarks.stoprulebench.first_stops import RuleScope, Scoped
from boolab.errors import FileError, SettingError, near
from boolab.io.files import read_file
from boolab.io.yaml_loader import DocumentError, YamlDocument, read_yaml
from boolab.limits import catalog, detectors
from boolab.limits.learned.rule_file import load_rule
from boolab.limits.stop import StopRule
from boolab.limits.table import LIMITS

MAX_BYTES: Final = 200_000
MAX_SETTINGS: Final = 5_000
"""How many settings a file may have to choose among."""

RULES: Final[Mapping[str, Callable[..., StopRule]]] = {
    name: getattr(catalog, name, None) or getattr(detectors, name)
    for name in (*LIMITS, *(name for name in dir(detectors) if name.islower() and name != "stop_when"))
}
"""The rules that a file may name."""

LEARNED: Final = "learned"
"""The name of a rule that is read from a file of `bl.stats.save_rule`."""

_RANGE: Final = re.compile(r"(\d{1,6}):(\d{1,6})(?::(\d{1,6}))?")
_KEYS: Final = ("name", "authors", "description", "url", "scope", "rules")
_JOINS: Final = {"any": or_, "all": and_}
_LISTS: Final = ("exempt",)
"""Arguments that are lists, so that a list is no choice."""

_Place = tuple[object, ...]
_Options = list[StopRule]


def read_rules(path: str | Path) -> RuleEntry:
    """Read an entry from a file of rules.

    Args:
        path: The YAML file.

    Returns:
        The entry; its definition is the text of the file.

    Raises:
        FileError: if it cannot be read, or something in it is not known or not accepted; with the line.
    """
    try:
        text = read_file(path, MAX_BYTES).decode("utf-8-sig")
        return parse_rules(text, default_name=Path(path).stem, folder=Path(path).parent)
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise FileError(f"not UTF-8: {error.reason}", path=path) from error
    except DocumentError as error:
        raise FileError(error.message, path=path, line=error.line) from error


def parse_rules(text: str, default_name: str = "rules", folder: Path | None = None) -> RuleEntry:
    """Read an entry from YAML.

    Args:
        text: The YAML.
        default_name: The name of the entry if the text has none.
        folder: Where the files of learned rules are; the current folder by default.

    Returns:
        The entry.

    Raises:
        DocumentError: if something in it is not known or not accepted.

    Example:
        >>> entry = parse_rules("rules: [{doom_loop: [3, 4]}, {max_steps: 40}]")
        >>> [str(setting[0].rule) for setting in entry.settings]
        ['doom_loop(3, canonical) | max_steps(40)', 'doom_loop(4, canonical) | max_steps(40)']
    """
    document = read_yaml(text)
    return _Parser(document, folder or Path()).entry(text, default_name)


class _Parser:
    """The values of one document, with their lines."""

    def __init__(self, document: YamlDocument, folder: Path) -> None:
        self._document = document
        self._folder = folder

    def entry(self, text: str, default_name: str) -> RuleEntry:
        given: object = self._document.data
        if not isinstance(given, dict):
            raise self._fault((), f"expected a mapping with {', '.join(_KEYS)}")
        for key in given:
            if key not in _KEYS:
                raise self._fault((key,), f"the key {key!r} is not known{near(key, _KEYS, 'accepted')}")
        if "rules" not in given:
            raise self._fault((), "there are no `rules`: expected a list such as [{doom_loop: 3}, {max_steps: 40}]")
        scope = given.get("scope", "run")
        if scope not in ("run", "turn"):
            raise self._fault(("scope",), f"scope {scope!r} is not known; accepted: run, turn")
        words = {key: self._text(given, key) for key in ("name", "authors", "description", "url")}
        about = About(**{**words, "name": words["name"] or default_name}, definition=text.strip())
        rules = self._joined("any", given["rules"], ("rules",))
        return RuleEntry(about=about, settings=[(Scoped(rule, cast("RuleScope", scope)),) for rule in rules])

    def _fault(self, place: _Place, message: str) -> DocumentError:
        return DocumentError(message, self._document.line(place))

    def _text(self, given: Mapping[str, object], key: str) -> str:
        value = given.get(key, "")
        if not isinstance(value, str):
            raise self._fault((key,), f"{key}: {value!r} is not a text")
        return " ".join(value.split())

    def _joined(self, how: str, given: object, place: _Place) -> _Options:
        """All choices of rules joined by `any` or `all`."""
        if not isinstance(given, list) or not given:
            raise self._fault(place, f"{place[-1]}: expected a list of rules such as [{{doom_loop: 3}}]")
        members = [self._rule(one, (*place, number)) for number, one in enumerate(given)]
        if prod(map(len, members)) > MAX_SETTINGS:
            raise self._fault(place, f"more than {MAX_SETTINGS:,} settings to choose among")
        try:
            return [reduce(_JOINS[how], rules) for rules in product(*members)]
        except SettingError as error:
            raise self._fault(place, str(error)) from error

    def _rule(self, given: object, place: _Place) -> _Options:
        if not isinstance(given, dict) or len(given) != 1:
            raise self._fault(place, f"expected one rule, such as {{doom_loop: 3}}, and not {given!r}")
        [(name, value)] = given.items()
        if name in _JOINS:
            return self._joined(name, value, (*place, name))
        if name == LEARNED:
            return [self._learned(value, (*place, name))]
        if name not in RULES:
            raise self._fault(place, f"there is no rule {name!r}{near(name, sorted((*RULES, LEARNED)), 'accepted')}")
        function = RULES[name]
        known = inspect.signature(function).parameters
        named = value if isinstance(value, dict) else {next(iter(known)): value}
        for key in named:
            if key not in known:
                raise self._fault((*place, name, key), f"{name} has no argument {key!r}{near(key, known, 'accepted')}")
        choices = [list(self._values(key, of, (*place, name, key))) for key, of in named.items()]
        if prod(map(len, choices)) > MAX_SETTINGS:
            raise self._fault(place, f"more than {MAX_SETTINGS:,} settings to choose among")
        try:
            return [function(**dict(zip(named, values, strict=True))) for values in product(*choices)]
        except (SettingError, TypeError) as error:
            raise self._fault((*place, name), str(error).replace(f"{name}()", name)) from error

    def _learned(self, given: object, place: _Place) -> StopRule:
        if not isinstance(given, str):
            raise self._fault(place, f"learned: {given!r}: expected the name of a file of bl.stats.save_rule")
        try:
            return load_rule(self._folder / given)
        except FileError as error:
            raise self._fault(place, f"learned: {error}") from error

    def _values(self, key: object, given: object, place: _Place) -> Iterator[Any]:
        if isinstance(given, list) and key not in _LISTS:
            if not given:
                raise self._fault(place, f"{key}: the list is empty")
            for number, one in enumerate(given):
                yield from self._values(key, one, (*place, number))
            return
        meant = _RANGE.fullmatch(given) if isinstance(given, str) else None
        if meant is None:
            yield given
            return
        first, last, by = int(meant[1]), int(meant[2]), int(meant[3] or 1)
        if not by or first > last or (last - first) // by >= MAX_SETTINGS:
            raise self._fault(place, f"{given!r} is not a range such as 10:100:10 of at most {MAX_SETTINGS:,} values")
        yield from range(first, last + 1, by)
