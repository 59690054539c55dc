"""Engine: the loop that runs an agent, and everything that decides whether it continues.

It imports `boolab.runtime.agents`, `boolab.runtime.models`, `boolab.harnesses` and what is below them. Five modules
make a step. Read `loop` first: it holds the order, on one screen. Then `turn` (how a step begins and ends: the table of
transitions), `decide` (continue? which calls? final?), `plan` (the options, and what holds for the turn) and
`limits.ladder` (the counters). `runner` starts runs.
"""
