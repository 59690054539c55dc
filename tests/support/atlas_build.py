"""`datasets/atlas/build.py` as a module: it is a script beside its data, and in no package."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Final

from tests.support.project import ROOT


def _load() -> ModuleType:
    folder = ROOT / "datasets" / "atlas"
    sys.path.append(str(folder))  # the script imports the module beside it
    spec = spec_from_file_location("atlas_build", folder / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD: Final = _load()
