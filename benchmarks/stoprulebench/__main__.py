"""`python -m benchmarks.stoprulebench ENTRY`: the same as `boolab bench ENTRY`, where boolab comes from its wheel."""

import sys

from boolab.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
