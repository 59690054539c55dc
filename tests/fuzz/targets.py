"""The one table of what is tried, by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.fuzz.file_targets import file_targets
from tests.fuzz.log_targets import log_targets
from tests.fuzz.store_targets import store_targets
from tests.fuzz.target import Target
from tests.fuzz.wire_targets import wire_targets

TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {target.name: target for target in (*file_targets(), *wire_targets(), *store_targets(), *log_targets())}
)
"""Files that people write, what servers send, stores, and every format of logs."""
