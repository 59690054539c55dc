"""How often 95% intervals hold the truth, by simulation, with the Monte Carlo error of each figure.

Cases that are indented take copies of a run for runs, or a large task for one of many: they show what is lost.

    python benchmarks/coverage.py [--quick]
"""

from __future__ import annotations

import argparse
import time

from tests.support.stats_cases import CASES, coverage


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description="Measure the coverage of boolab's intervals.")
    parser.add_argument("--quick", action="store_true", help="200 repetitions instead of 2,000")
    repetitions = 200 if parser.parse_args().quick else 2000
    print(f"coverage of nominal 95% intervals, {repetitions:,} repetitions each")
    for case in CASES.values():
        start = time.perf_counter()
        share, error = coverage(case, repetitions)
        print(f"{case.name:60} {share:6.1%} +- {error:.1%}   {time.perf_counter() - start:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
