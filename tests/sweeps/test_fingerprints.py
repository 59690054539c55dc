"""Fingerprints see what can change a run, and nothing else."""

import collections
import datetime as dt
import functools
import itertools
import logging
import operator
import re
import subprocess
import sys
import types
import weakref
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boolab as bl
from boolab.sweeps.fingerprints import digest, fingerprint

BASE = "K = 3\ndef helper(x):\n    return x * K\ndef f(x, n=2):\n    'Do it.'\n    return helper(x) + n\n"


def made(source: str) -> Any:
    scope: dict[str, Any] = {"__name__": "somewhere"}
    exec(compile(source, "<source>", "exec"), scope)  # noqa: S102 - source of our own
    return scope["f"]


@pytest.mark.parametrize(
    "changed",
    [
        BASE.replace("+ n", "- n"),
        BASE.replace("n=2", "n=3"),
        BASE.replace("'Do it.'", "'Do that.'"),
        BASE.replace("x * K", "x + K"),
        BASE.replace("K = 3", "K = 4"),
        BASE.replace("(x, n=2)", "(x, n=2, m=1)"),
        BASE.replace("def f", "async def f"),
    ],
)
def test_fingerprint_changes_with_functions_of_the_module(changed: str) -> None:
    assert fingerprint(made(BASE)) != fingerprint(made(changed))


@pytest.mark.parametrize(
    "same",
    [
        BASE,
        "\n\n# a comment\n" + BASE,
        BASE.replace("helper(x) + n", "helper( x )  +  n  # sum"),
        BASE + "def g():\n    return 1\nUNUSED = 2\n",
    ],
)
def test_comments_layout_and_what_is_not_used_are_no_change(same: str) -> None:
    assert fingerprint(made(BASE)) == fingerprint(made(same))


def test_fingerprint_has_closures_without_counters() -> None:
    def make(limit: int) -> tuple[Any, Any]:
        count, log = 0, []

        def f() -> int:
            nonlocal count
            count += 1
            log.append(count)
            return limit

        return f, fingerprint(f)

    (one, before), (_, other) = make(1), make(2)
    one()
    assert fingerprint(one) == before != other


class Model:
    """A model as users write them."""

    name = "mine"

    def __init__(self, temperature: float, options: dict[str, int]) -> None:
        self.temperature = temperature
        self.options = options
        self.asked = 0
        self.seen: list[Any] = []
        self._cache: dict[int, int] = {}

    async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
        self.asked += 1
        self.seen.append(request.index)
        self._cache[request.index] = 1
        return bl.models.Response("Done.")


def test_fingerprint_has_settings_but_no_state() -> None:
    model = Model(0.5, {"top_k": 3})
    before = fingerprint(model)
    bl.run_sync(None, "Go", model=model)
    assert model.asked == 1
    assert fingerprint(model) == before == fingerprint(Model(0.5, {"top_k": 3}))
    assert len({before, fingerprint(Model(0.6, {"top_k": 3})), fingerprint(Model(0.5, {"top_k": 4}))}) == 3


def test_an_object_may_say_itself_what_it_is() -> None:
    class Opaque:
        def __init__(self, fingerprint: str, rest: int) -> None:
            self.fingerprint = fingerprint
            self.rest = rest

    assert fingerprint(Opaque("a", 1)) == fingerprint(Opaque("a", 2)) != fingerprint(Opaque("b", 1))


def test_kinds_and_cuts_are_told_apart() -> None:
    values: list[Any] = [
        1, True, 1.0, "1", b"1", None, (), [], {}, (1,), [1], {1: 1}, {1: 2}, {1}, (1, 2), (2, 1), ("a", "bc"),
        ("ab", "c"), re.compile("a"), re.compile("a", re.IGNORECASE), Path("a"), "a", functools.partial(int, 1), len,
        int,
    ]  # fmt: skip
    assert len({fingerprint(value) for value in values}) == len(values)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert digest("a", "bc") != digest("ab", "c")


def test_what_holds_itself_has_a_fingerprint() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert fingerprint(ring) == fingerprint(ring)


def test_policies_and_agents_differ_in_all_that_they_are_made_of() -> None:
    assert len({fingerprint(policy) for policy in bl.policies.values()}) == len(bl.policies)
    agent = bl.Agent("a", prompt="Look.")
    changes: list[dict[str, Any]] = [{"prompt": "Find."}, {"max_steps": 3}, {"temperature": 0.5}, {"description": "x"}]
    assert len({fingerprint(agent), *(fingerprint(replace(agent, **change)) for change in changes)}) == 5


def test_fingerprint_separates_similar_tools() -> None:
    def scout(text: str) -> bl.Agent:
        return bl.Agent("scout", model=bl.ScriptedModel([text]))

    one, same, other = bl.task_tool(scout("Here.")), bl.task_tool(scout("Here.")), bl.task_tool(scout("There."))
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)


def test_models_are_what_they_will_say() -> None:
    scripts = [bl.ScriptedModel(["a", "b"]), bl.ScriptedModel(["a", "c"]), bl.ScriptedModel(["a"], summary="b")]
    assert fingerprint(scripts[0]) == fingerprint(bl.ScriptedModel(["a", "b"]))
    runs = [bl.run_sync(None, "Go", model=script) for script in scripts[:2]]
    local = "http://127.0.0.1:1/v1"
    models: list[Any] = [
        *scripts,
        *map(bl.RecordedModel, runs),
        bl.OpenAIModel("a", base_url=local),
        bl.OpenAIModel("b", base_url=local),
        bl.OpenAIModel("a", base_url=local, top_p=0.5),
        bl.OpenAIModel("a", base_url=local + "/other"),
    ]
    assert len({fingerprint(model) for model in models}) == len(models)
    patient = bl.OpenAIModel("a", base_url=local, retry=bl.models.Retry(attempts=9), api_key="secret")
    assert fingerprint(patient) == fingerprint(bl.OpenAIModel("a", base_url=local))


def test_another_process_finds_the_same() -> None:
    code = (
        "import boolab as bl; from boolab.sweeps.fingerprints import fingerprint as f; "
        "print(f(bl.policies['roo']), f({'b', 'a', 'c'}), f(lambda x, y=(1, 2): {x} | {'q', 'r', 's'}))"
    )
    commands = [[sys.executable, "-c", code]] * 2
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}).stdout
        for command, seed in zip(commands, ("1", "2"), strict=True)
    )
    assert first == second


CLASS = "import enum, functools, pydantic, typing\n{}\ndef f():\n    return M\n"


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("def f():\n try:\n  a()\n{}", "  b()\n except E:\n  pass\n", " except E:\n  pass\n else:\n  b()\n"),
        ("import re\nD = {}\ndef f():\n return D", "{'a': 1}", "{'a': 2}"),
        ("import re\nD = {}\ndef f():\n return D", "re.compile('a')", "re.compile('b')"),
        ("from pathlib import Path\nD = {}\ndef f():\n return D", "Path('a')", "Path('b')"),
        ("from decimal import Decimal\nD = {}\ndef f():\n return D", "Decimal(1)", "Decimal(2)"),
        ("import boolab as bl\nD = bl.Agent('a', prompt={})\ndef f():\n return D", "'x'", "'y'"),
        ("import functools\n@functools.cache\ndef g():\n return {}\ndef f():\n return g()", "1", "2"),
        ("import boolab as bl\n@bl.tool\ndef g() -> int:\n return {}\ndef f():\n return g()", "1", "2"),
        ("def f(*, n={}):\n return n", "1", "2"),
        ("class B:\n def a(self):\n  return {}\nclass M(B):\n pass\ndef f():\n return M", "1", "2"),
        ("class M:\n def __init__(self, n):\n  self.n = n\n def a(self):\n  return self.n\nf = M({}).a", "1", "2"),
        ("def f(run):\n return run.{}", "text", "task"),
        (CLASS.format("class M(enum.Enum):\n A = {}"), "1", "2"),
        (CLASS.format("class M(typing.NamedTuple):\n a: int = {}"), "1", "2"),
        (CLASS.format("class M(pydantic.BaseModel):\n a: int = {}"), "1", "2"),
        (CLASS.format("class M:\n @functools.cache\n def _a(self):\n  return {}"), "1", "2"),
        (CLASS.format("class M(tuple):\n def a(self):\n  return {}\nM = M()"), "1", "2"),
    ],
)
def test_what_a_function_uses_is_seen_whatever_it_is(source: str, old: str, new: str) -> None:
    assert fingerprint(made(source.format(old))) == fingerprint(made(source.format(old)))
    assert fingerprint(made(source.format(old))) != fingerprint(made(source.format(new)))


def test_fingerprint_ignores_a_global_named_like_an_attribute() -> None:
    source = "text = {}\ndef f(run):\n    return run.text"
    assert fingerprint(made(source.format(1))) == fingerprint(made(source.format(2)))


def test_values_are_what_they_stand_for() -> None:
    values: list[Any] = [
        dt.timedelta(1), dt.timedelta(2), Decimal(1), Decimal(2), Fraction(1, 2), Fraction(1, 3), range(3),
        range(4), np.int64(1), np.int64(2), np.array([1]), np.array([2]), np.array([[1]]), bytearray(b"a"), slice(1),
        slice(2), operator.itemgetter(1), operator.itemgetter(2), "-".join, "+".join, re.compile("a").sub,
        re.compile("b").sub, functools.cache(lambda: 1), functools.cache(lambda: 2), list[int], list[str],
    ]  # fmt: skip
    assert len({fingerprint(value) for value in values}) == len(values)
    day = dt.date(2025, 1, 1)
    assert fingerprint((day, day)) == fingerprint((day, dt.date(2025, 1, 1)))
    assert fingerprint(np.arange(3)) == fingerprint(np.arange(3))
    assert fingerprint(np.array([object()])) == fingerprint(np.array([object()]))
    assert fingerprint(weakref.ref(str)) == fingerprint(weakref.ref(int))


def test_what_an_object_holds_is_told_from_what_that_holds() -> None:
    def holding(inner: dict[str, int], **outer: int) -> Any:
        return types.SimpleNamespace(a=types.SimpleNamespace(**inner), **outer)

    assert fingerprint(holding({"b": 1}, c=2)) != fingerprint(holding({"b": 1, "c": 2}))


def test_use_is_no_change() -> None:
    """What an object, its class, or a function keeps of how it was used."""

    class Used:
        total = 0

        def __init__(self) -> None:
            self.log = logging.getLogger("used")
            self.counts: collections.Counter[str] = collections.Counter()

        @functools.cached_property
        def slow(self) -> object:
            return object()

        def use(self) -> None:
            Used.total += 1
            self.counts["use"] += 1

    used, ids, doubled = Used(), itertools.count(), functools.cache(lambda n: 2 * n)
    before = [fingerprint(value) for value in (used, ids, doubled)]
    used.use()
    logging.getLogger("used.since")
    assert (used.slow, next(ids), doubled(4)) == (used.slow, 0, 8)
    assert [fingerprint(value) for value in (used, ids, doubled)] == before


def test_fingerprint_reads_recursive_functions_once() -> None:
    """By all ways that lead to it, each of 25 functions would be looked at 24! times."""
    names = [f"g{n}" for n in range(25)]
    source = "".join(f"def {name}():\n return {{}}, {', '.join(names)}\n" for name in names)
    one, other = (source.replace("{}", "1", 24).replace("{}", last) + "f = g0\n" for last in "12")
    assert fingerprint(made(one)) == fingerprint(made(one)) != fingerprint(made(other))


def test_fingerprint_of_deep_nesting_explains_what_to_do() -> None:
    chain = types.SimpleNamespace(next=None)
    for _ in range(5000):
        chain = types.SimpleNamespace(next=chain)
    with pytest.raises(bl.SettingError, match="types.SimpleNamespace: .*nested too deeply.*attribute `fingerprint`"):
        fingerprint(chain)
