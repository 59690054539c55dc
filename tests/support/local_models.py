"""Tests that need a real language model are skipped where none is installed."""

from importlib.util import find_spec

import pytest

from boolab.errors import SettingError
from boolab.runtime.models.local.weights import find_weights


def has_model() -> bool:
    """Whether llama.cpp and weights are here."""
    if find_spec("xllamacpp") is None:
        return False
    try:
        find_weights()
    except SettingError:
        return False
    return True


real = pytest.mark.skipif(not has_model(), reason="no llama.cpp with a model: boolab[local], boolab model")
