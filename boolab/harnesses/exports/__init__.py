"""Limits as the settings of a harness: what to write into which file, and what the harness cannot express.

Read `values` first (`Limits`, `Part`, `Export`), then `export`. The `Target` of a harness is in its own module (see
`boolab.harnesses.registry`), `step_cap` translates a number of steps into a harness's own unit, and `write` changes
files and keeps their format.
"""
