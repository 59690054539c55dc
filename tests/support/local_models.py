"""Tests that need a real language model are skipped where none is installed."""

from importlib.util import find_spec

import pytest

from boolab.errors import SettingError
from boolab.runtime.models.local.weights import HOW_TO_GET, find_weights


def has_model() -> bool:
    """Whether llama.cpp and weights are here."""
    if find_spec("xllamacpp") is None:
        return False
    try:
        find_weights()
    except SettingError:
        return False
    return True


llama = pytest.mark.skipif(find_spec("xllamacpp") is None, reason="llama.cpp is missing: pip install 'boolab[local]'")
"""Tests that need llama.cpp, and no weights."""
real = pytest.mark.skipif(not has_model(), reason=HOW_TO_GET)
"""Tests that need weights too."""
