"""What the site needs beyond Sphinx: the reference from lists of names, docstrings in Markdown's hand, and help pages.

A page of the reference lists names, one a line, in `.. members::`. What they are, their signatures and their texts come
from the package. `.. help-pages::` shows the help of the command and of each subcommand, as the parser prints it.
"""  # noqa: INP001 - an extension beside its configuration

from __future__ import annotations

import inspect
import re
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from boolab.cli.main import help_pages
from boolab.core.lazy_names import public_names

if TYPE_CHECKING:
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

PUBLIC = public_names()
HOMES = {home: f"boolab.{name}" for name, home in PUBLIC.items()}
"""Where a public name is defined, and where it is documented."""
_WORDS = {"run", "doom_loop", "error_streak", "tool_budget"}
"""Names that stand alone for a scope, a reason or a setting more often than for the function of that name."""
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


class Members(SphinxDirective):
    """A table of the names that are listed, and then each in full."""

    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        names = [_documented(line.strip()) for line in self.content if line.strip()]
        lines = [".. autosummary::", "", *(f"   {name}" for name in names), ""]
        for name in names:
            lines += [f".. {_directive(name)}:: {name}", *_OPTIONS.get(_directive(name), ()), ""]
        return self.parse_text_to_nodes("\n".join(lines))


def _documented(name: str) -> str:
    """Where a name's text is to be found: for data, whose docstrings only their own module's source has, at home."""
    return PUBLIC[name] if name in PUBLIC and not callable(resolve_name(PUBLIC[name])) else f"boolab.{name}"


_OPTIONS = {
    "autoclass": ("   :members:",),
    "autoexception": ("   :members:", "   :show-inheritance:"),
    "autodata": ("   :no-value:",),
}


def _directive(name: str) -> str:
    value = resolve_name(name)
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if inspect.isroutine(value) else "autodata"


class HelpPages(SphinxDirective):
    """The help of the command and of each subcommand, from the parser itself, 80 columns wide."""

    def run(self) -> list[nodes.Node]:
        sections: list[nodes.Node] = []
        for command, text in help_pages().items():
            section = nodes.section(ids=[nodes.make_id(command)], names=[command])
            section += nodes.title(command, command)
            section += nodes.literal_block(text, text, language="text")
            self.state.document.note_explicit_target(section)
            sections.append(section)
        return sections


def as_restructured_text(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:  # noqa: ARG001, ANN401 - autodoc's signature
    """Make code in single backticks code, and a link where it names something public."""
    lines[:] = _CODE.sub(_as_role, "\n".join(lines)).split("\n")


def _as_role(found: re.Match[str]) -> str:
    code = " ".join(found[1].split())
    public = code.removeprefix("boolab.").removesuffix("()")
    named = public in PUBLIC and (public not in _WORDS or code != public)
    role = f":py:obj:`{code} <boolab.{public}>`" if named else f"``{code}``"
    letter_follows = found.string[found.end() : found.end() + 1].isalnum()  # as in `Step`s
    return f"{role}\\ " if letter_follows else role


def skip_plumbing(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: Any) -> bool | None:  # noqa: ARG001, ANN401 - autodoc's signature
    """Leave out the fields of named tuples, whose docstrings are Python's own: the class's docstring has them."""
    return True if (inspect.getdoc(obj) or "").startswith("Alias for field number") else None


def to_the_public_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> Any:  # noqa: ANN401 - Sphinx's signature
    """Lead a type in a signature, which names the module of its definition, to where it is documented."""
    public = HOMES.get(node.get("reftarget", ""))
    if public is None:
        return None
    domain = env.domains.python_domain
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, content)


def without_abbreviations(app: Sphinx, tree: nodes.document, page: str) -> None:  # noqa: ARG001 - Sphinx's signature
    """Write the marks of a signature as text in Markdown, whose builder knows no abbreviations."""
    if app.builder.name == "markdown":
        for node in [*tree.findall(nodes.abbreviation)]:
            node.replace_self(nodes.Text(node.astext()))


def to_the_sites_reference(app: Sphinx, page: str, source: list[str]) -> None:  # noqa: ARG001 - Sphinx's signature
    """Lead links to the reference in Markdown, which is for GitHub, to that of the site."""
    source[0] = source[0].replace("(docs/api/index.md)", "(docs/reference/index.rst)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register all of it."""
    app.add_directive("members", Members)
    app.add_directive("help-pages", HelpPages)
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)  # before napoleon's
    app.connect("autodoc-skip-member", skip_plumbing)
    app.connect("missing-reference", to_the_public_name)
    app.connect("doctree-resolved", without_abbreviations)
    app.connect("source-read", to_the_sites_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
