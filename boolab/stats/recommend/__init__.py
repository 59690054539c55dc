"""Which limits to set: the tightest that keep enough successes. Read `recommend` first.

`candidates` are the values that are tried, `fixed_sequence` the test, `wording` the sentences.
"""
