"""boolab: step caps, tool budgets and doom-loop thresholds for LLM agents, compared in notebooks.

The public names are listed in `__init__.pyi`. Each is imported when it is first used, so that `import boolab` costs
next to nothing. `detectors`, `errors`, `models`, `plots` and `stats` hold further ones.
"""

from boolab.core import displayable
from boolab.core.lazy_names import lazy_names

_get, __dir__ = lazy_names(__name__)


def _text_of(value: object) -> str:
    from boolab.display.transcript import text_of

    return text_of(value)


def _html_of(value: object) -> str:
    from boolab.display.cards import document_of

    return document_of(value).html()


displayable.text_of, displayable.html_of = _text_of, _html_of  # the views are loaded when a value is shown


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("boolab")
    return _get(name)
