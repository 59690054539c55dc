"""Frames: runs as DataFrames, a row for each run, step, call or event.

It imports `boolab.store`, `boolab.limits` and what is below them. Read `tables` first: `runs_df`, `steps_df` and the
others. `runs` takes what users pass as runs, `labels` sets outcomes.
"""
