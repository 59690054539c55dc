"""Make docs/leaderboard.md and its figure of the submissions in docs/leaderboard.

Usage: python -m benchmarks.leaderboard
"""

from benchmarks.environments import ROOT
from benchmarks.stoprulebench.leaderboard import write_board

if __name__ == "__main__":
    print(f"Wrote {write_board(ROOT / 'docs')}")
