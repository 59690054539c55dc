"""Store: runs in one SQLite file that survives a crash, with one writer and any number of readers.

It imports `boolab.core` and `boolab.errors`. Read `writer` first: `Store`. `stored_runs` reads, `schema` has the tables
that docs/store.md explains, `rows` turns runs into rows and back, `changes` writes these and `select` finds them.
"""
