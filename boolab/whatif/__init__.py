"""Counterfactuals: what other limits would have done to recorded runs.

It imports `boolab.frames`, `boolab.logs`, `boolab.harnesses` and what is below them. Read `step_table` first: a
recording as columns, a row for each step. `evaluate` has `counterfactual()`, `question` its checked arguments,
`recordings` reads its data, `tables` makes its rows and sums. `grid` has the settings, `first_crossing` finds where a
rule becomes true, `outcomes` what that does to a run.
"""
