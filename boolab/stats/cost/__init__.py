"""What runs cost, and who pays for what: the context by step, the bill by cause, and misses of the cache.

Read `allocated` first, which charges the requests of runs (`boolab.core.allocation`); `causes`, `context` and `misses`
make a frame each. `bills` has list prices beside what logs state.
"""
