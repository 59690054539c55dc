"""The scripts of widgets: they draw all that Python sends, and hold no function that nothing calls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

import boolab as bl
from boolab import widgets
from boolab.widgets._base.standalone_html import module_of, text_of
from tests.support.labelled_runs import labelled_runs
from tests.support.packed import unpacked
from tests.support.scripts import unread_keys, unused_functions

MODULES: Final = sorted(path.stem for path in Path(widgets.__path__[0]).glob("*/*.js") if path.stem == path.parent.name)


@pytest.mark.parametrize("name", MODULES)
def test_each_function_of_a_script_is_used(name: str) -> None:
    assert unused_functions(module_of(name).removeprefix(text_of("_base/shared.js"))) == []


def test_each_shared_function_is_used_by_some_widget() -> None:
    shared = text_of("_base/shared.js")
    assert unused_functions("\n".join([shared, *(module_of(name).removeprefix(shared) for name in MODULES)])) == []


def test_the_script_of_caplab_reads_all_that_python_sends() -> None:
    data = unpacked(bl.CapLab(labelled_runs(10))._figure._data)
    assert isinstance(data, dict)
    parts: list[Mapping[str, object]] = [data, data["counting"], data["base"], *data["agents"]]
    for part in parts:
        assert unread_keys(part, module_of("caplab")) == []
