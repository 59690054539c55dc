"""Where the project's own files lie: beside these tests, also where boolab itself is installed elsewhere."""

from pathlib import Path
from typing import Final

import boolab

ROOT: Final = Path(__file__).resolve().parents[2]
"""The folder of README.md, docs, notebooks and datasets; `resources.checkout` asks where the package lies instead."""

PACKAGE: Final = Path(boolab.__file__).parent
"""The package that is tested: below `ROOT` in a checkout, elsewhere where it is installed."""
