"""Sweeps: agents x tasks x models x settings x repeats, in one event loop or on many workers.

It imports `boolab.runtime.engine`, `boolab.core.executors`, `boolab.store` and what is below them. Read `driver` first:
`sweep()`. `cells` is the plan, `task` runs a part of it, here or on workers, `reuse` takes results from other cells,
`sinks` keep the runs, and `progress` shows them and names what else decided the numbers.
"""
