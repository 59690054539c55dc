"""A server that fails at random, speaks both protocols, and has a process of its own: `python -m tests.soak.server`.

It prints its address, and serves until its input ends. It keeps nothing between requests: how far a run has come is in
what it sends.
"""

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.model_protocols import CHAT, MESSAGES, Said
from tests.support.model_server import CLOSE, RESET, Act, Asked, Latency, ModelServer, stream, whole

STEPS: Final = 4
FAULTY: Final = 0.15


def reply(asked: Asked, rng: random.Random) -> Sequence[Act]:
    """The next step of a run; or, now and then, a failure."""
    speaks = MESSAGES if asked.target.endswith("/messages") else CHAT
    made = sum(f'"call_{n}"'.encode() in asked.body for n in range(STEPS))
    call = (f"call_{made}", "look", f'{{"what": "{made}"}}')
    said = Said("All done.") if made == STEPS or "tools" not in asked.json else Said("I look. ", [call])
    events = speaks.events(said)
    if rng.random() > FAULTY:
        return stream(*(act for event in events for act in (Latency(0.001), event)))
    faults: list[Sequence[Act]] = [
        whole(speaks.error("Busy."), 529),
        whole(speaks.error("Slow down."), 429, {"retry-after-ms": "20"}),
        [RESET],
        [CLOSE],
        [*stream(*events[: len(events) // 2], end=()), Latency(0.005), RESET],
        stream(*events[: len(events) // 2]),
        stream(b"data: {garbage\n\n"),
    ]
    return rng.choice(faults)


@contextmanager
def serving() -> Iterator[str]:
    """The address of such a server, in another process."""
    command = [sys.executable, "-m", "tests.soak.server"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()
            server.wait(30)


def main() -> None:
    """Serve until the input ends."""
    rng = random.Random(1)  # noqa: S311 - not for secrets

    def forgetful(asked: Asked) -> Sequence[Act]:
        server.asked.clear()
        return reply(asked, rng)

    with ModelServer(reply=forgetful) as server:
        print(server.url, flush=True)  # noqa: T201 - that is how it is found
        sys.stdin.read()


if __name__ == "__main__":
    main()
