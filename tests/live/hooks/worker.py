"""A process that gives the hook the events of some calls, and prints the number of each as it is counted."""

import sys

from tests.support.hook_events import Did, Session


def main(session: str, first: int, calls: int) -> None:
    """Each call is a step of its own."""
    agent = Session("--max-steps 1000000 --doom-loop 5 --shadow", session)
    agent._ids = iter(range(first, first + calls))
    for number in range(first, first + calls):
        agent.step(Did(arguments={"number": number}))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
