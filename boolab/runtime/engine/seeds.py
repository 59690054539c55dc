"""Seeds that are made from a run's seed: one for each of its requests, and one for each subagent that it starts.

A server that honours a seed starts its random generator anew for each request. With one seed for a whole run, every
step would draw the same numbers, and a state like the last one would give the same call: a loop that the model does not
have.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

_BITS: Final = 31
"""A positive number of 31 bits fits every server and client: llama.cpp's seeds have 32 bits, of which all ones mean
"random", and others read a signed integer of 32 bits."""


def request_seed(seed: int | None, purpose: str, index: int) -> int | None:
    """The seed of a request by its number: the same for the same request of a branch, another for any other one."""
    return None if seed is None else _draw_seed(f"request {seed} {purpose} {index}")


def subagent_seed(seed: int | None, step: int, call: int) -> int | None:
    """The seed of the run of a subagent: it draws neither its caller's numbers nor those of another subagent."""
    return None if seed is None else _draw_seed(f"subagent {seed} {step} {call}")


def _draw_seed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> (32 - _BITS)
