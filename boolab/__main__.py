"""`python -m boolab` is the command `boolab`."""

import sys

from boolab.live.hooks.entry import is_hook


def main() -> int:
    """Run the command, and return its exit code. A hook is started at every call, and loads nothing of the others."""
    if is_hook(sys.argv[1:]):
        from boolab.live.hooks.entry import main as answer

        return answer(sys.argv[3:])
    from boolab.cli.main import main as command

    return command()


if __name__ == "__main__":
    raise SystemExit(main())
