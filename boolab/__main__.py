"""`python -m boolab` is the command `boolab`."""

from boolab.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
