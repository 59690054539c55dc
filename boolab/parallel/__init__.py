"""Parallel: executors, which run functions in other processes or on other machines.

It imports `boolab.errors` alone. Read `executors` first: the interface, and what `executor=` takes. `process_pool`
survives the death of a worker, `worker` is what runs there.
"""
