"""What a widget sends to the browser, read again."""

from __future__ import annotations

import gzip
import json


def unpacked(data: bytes) -> object:
    """The data that `boolab.widgets._base.standalone_html.pack` was given."""
    value: object = json.loads(gzip.decompress(data))
    return value
