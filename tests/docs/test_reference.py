"""The reference: every public name is on one page of it, and its docstring says all that there is to know."""

import ast
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pkgutil import resolve_name
from types import FunctionType
from typing import Any, Final

import boolab as bl
from boolab import errors
from boolab.core.lazy_names import public_names
from tests.support.project import ROOT

SECTIONS: Final = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example")
NAMED: Final = re.compile(r"^((?:\*{0,2}\w+, )*\*{0,2}\w+): \S", re.MULTILINE)


def members() -> list[str]:
    """All names in the lists of the reference's pages."""
    pages = sorted((ROOT / "docs" / "reference").glob("*.rst"))
    lists = [page.read_text().partition(".. members::\n")[2] for page in pages]
    return [name for names in lists for name in names.split()]


def documented() -> Iterator[tuple[str, Any]]:
    """The public classes and functions, with the public methods and properties that the classes define."""
    for name, home in public_names().items():
        value = resolve_name(home)
        if not callable(value) or (home.startswith("boolab.limits.detectors.") and inspect.isclass(value)):
            continue  # a detector is explained by the rule on it, and by `Detector`
        yield name, value
        for inner, member in vars(value).items() if inspect.isclass(value) else ():
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if not inner.startswith("_") and isinstance(function, FunctionType | property):
                yield f"{name}.{inner}", function


def test_the_reference_in_markdown_has_every_public_name() -> None:
    """`make docs` makes it, from the same lists as the site."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "api").glob("*.md"))]
    anchors = {anchor for text in texts for anchor in re.findall(r'<a id="(boolab\.[^"]+)"></a>', text)}
    assert {f"boolab.{name}" for name in members()} - anchors == {"boolab.policies"}  # data stands at its home
    assert public_names()["policies"] in anchors


EVERY = dict(documented())
FUNCTIONS = {name: value for name, value in EVERY.items() if isinstance(value, FunctionType)}
CLASSES = {name: value for name, value in EVERY.items() if inspect.isclass(value)}


def sections(value: object) -> dict[str, str]:
    """The sections of a docstring, without their indentation; what comes before them has no name."""
    found: dict[str, list[str]] = {"": []}
    lines = found[""]
    for line in (inspect.getdoc(value) or "").splitlines():
        title = line.removesuffix(":")
        if line.endswith(":") and title in SECTIONS:
            lines = found[title] = []
        else:
            if line and not line.startswith(" "):
                lines = found[""]
            lines.append(line)
    return {title: textwrap.dedent("\n".join(lines)) for title, lines in found.items()}


def named(text: str) -> list[str]:
    """The names that a section explains."""
    return [name.lstrip("*") for found in NAMED.finditer(text) for name in found[1].split(", ")]


def _written(function: Callable[..., object]) -> Callable[..., object]:
    """The function as it is written: `help` shows the options of `run` for some, which `run` alone explains."""
    if function is bl.run or not isinstance(function, FunctionType) or "__signature__" not in vars(function):
        return function
    return FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)


def parameters(value: Callable[..., object]) -> list[str]:
    """What can be passed: nothing to a protocol; to an error without an `__init__` of its own a message, as to any."""
    if inspect.isclass(value) and issubclass(value, Exception) and "__init__" not in vars(value):
        return []
    if getattr(value, "_is_protocol", False):
        return []
    shown = inspect.signature(value) if inspect.isclass(value) else inspect.Signature.from_callable(_written(value))
    return [name for name in shown.parameters if name not in ("self", "cls") and name[0] != "_"]


def test_each_public_name_is_on_one_page_of_the_reference() -> None:
    assert [name for name, n in Counter(members()).items() if n > 1] == []
    assert [name for name in public_names() if name not in members()] == [], "put them on a page of docs/reference"


def test_what_else_is_on_a_page_is_there() -> None:
    for name in members():
        assert resolve_name(f"boolab.{name}").__doc__, name


def test_the_index_has_all_pages_of_the_reference() -> None:
    folder = ROOT / "docs" / "reference"
    pages = {page.stem for page in folder.glob("*.rst")} - {"index"}
    assert pages == set((folder / "index.rst").read_text().partition(":maxdepth: 1")[2].split())


def test_a_docstring_says_first_what_it_is_for() -> None:
    first = {name: sections(value)[""].strip().partition("\n\n")[0] for name, value in EVERY.items()}
    assert [name for name, text in first.items() if text[-1:] not in (".", ":", "`")] == []


def test_a_function_explains_all_that_it_takes_and_gives() -> None:
    for name, function in FUNCTIONS.items():
        told, taken = sections(function), parameters(function)
        assert named(told.get("Args", "")) == taken, name
        given = inspect.signature(function).return_annotation
        # What a method without arguments gives is all that it does, as with a property: its first sentence says it.
        if given not in (None, "None", "StopRule") and (taken or "." not in name):
            assert told.keys() & {"Returns", "Yields"}, f"{name} gives {given}"


def test_a_class_explains_what_it_is_made_of() -> None:
    for name, made in CLASSES.items():
        told, taken = sections(made), parameters(made)
        arguments, attributes = named(told.get("Args", "")), named(told.get("Attributes", ""))
        assert [one for one in taken if one not in (*arguments, *attributes)] == [], name
        assert [one for one in arguments if one not in taken] == [], name
        assert [one for one in attributes if not is_attribute(made, one)] == [], name


def is_attribute(made: type, name: str) -> bool:
    """Whether a class has it, or its source gives it to what is made of it."""
    given = re.compile(rf"^    {name}: |\.{name}(: .+)? = ", re.MULTILINE)
    return hasattr(made, name) or given.search(inspect.getsource(made)) is not None


def test_each_name_shows_how_it_is_used() -> None:
    for name, value in EVERY.items():
        plain_error = inspect.isclass(value) and issubclass(value, Exception) and not parameters(value)
        if "." not in name and not plain_error:
            assert ">>> " in sections(value).get("Example", ""), name


def test_each_error_that_is_raised_on_purpose_is_told() -> None:
    for name, value in EVERY.items():
        told = [vars(errors)[kind] for kind in named(sections(value).get("Raises", "")) if kind in vars(errors)]
        for error in raised(value):
            assert any(issubclass(error, kind) for kind in told), f"{name} raises {error.__name__}"


def raised(value: object) -> Iterator[type[errors.BoolabError]]:
    """The errors of boolab that a function's own body raises; of a class, that making one does."""
    made = [vars(value).get("__init__"), vars(value).get("__post_init__")] if inspect.isclass(value) else [value]
    written = [body for body in made if isinstance(body, FunctionType) and body.__code__.co_filename != "<string>"]
    for body in written:
        nodes: list[ast.AST] = [*ast.parse(textwrap.dedent(inspect.getsource(body))).body[0].body]  # type: ignore[attr-defined]
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue  # what is in there is raised elsewhere
            nodes += ast.iter_child_nodes(node)
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                error = vars(errors).get(node.exc.func.id)
                if isinstance(error, type) and issubclass(error, errors.BoolabError):
                    yield error
