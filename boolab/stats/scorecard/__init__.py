"""How well rules separate failures from successes.

Read `scorecard` first; `metrics` has the numbers, `alarms` the rows.
"""
