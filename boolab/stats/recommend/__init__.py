"""The decision on limits: which to set, to leave off, or not yet. Read `recommend` first.

`groups` decides which runs are separated, and `units` what is counted of them. `candidates` are the settings that are
tried, `fixed_sequence` the test of what they keep, `null_test` that of whom they stop. `decide` puts them together for
one group, with the `evidence`; `decision` is what the user gets. `words` and `notes` are the sentences, whose templates
are in `boolab.display.answers`.
"""
