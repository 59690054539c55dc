"""Sweeps: agents x tasks x models x settings x repeats, in one event loop or on many workers.

It imports `boolab.runtime.engine`, `boolab.core.parallel`, `boolab.store` and what is below them. Read `driver` first:
`sweep()`. `cells` is the plan, `task` runs a part of it, `dispatch` sends tasks to workers, `reuse` takes results from
other cells, `progress` shows it, and `notes` names what else decided its numbers.
"""
