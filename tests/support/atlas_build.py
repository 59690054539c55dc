"""`datasets/atlas/build.py` as a module: it is a script beside its data, and in no package."""

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Final

from tests.support.project import ROOT


def _load() -> ModuleType:
    spec = spec_from_file_location("atlas_build", ROOT / "datasets" / "atlas" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD: Final = _load()
