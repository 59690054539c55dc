"""Which limits to set: the tightest that keep enough successes. Read `recommend` first.

`units` are what is counted, `candidates` the values that are tried and what was found for each group, `fixed_sequence`
the test, `wording` and `verdict` the sentences.
"""
