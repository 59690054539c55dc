"""A store of runs: one SQLite file that survives being killed, with one writer and any number of readers.

Nothing is defined here. `writer` has `Store`, `stored` has `stored_runs`; docs/store.md shows the tables.
"""
