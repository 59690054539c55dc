"""Parallel: executors, which run functions in other processes or on other machines.

It imports `boolab.errors` alone. Read `executors` first: the interface, and the values of `executor=`. `process_pool`
survives the death of a worker; `worker` runs in each of its processes.
"""
