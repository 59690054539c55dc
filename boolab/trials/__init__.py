"""Trials: what a change of limits brings where a recording cannot show it, by branches of recorded runs.

It imports `boolab.sweeps`, `boolab.stats` and what is below them. Read `trial` first: `bl.trial`. `change` is what is
tried, `openings` what the recording knows of it, `hazards` what longer runs suggest; `design` holds them, with the
order of the tasks. `job` is one branch, and `branches` runs them. `estimates` makes intervals of their outcomes, and
finds how many more are needed; `summary` puts the `result` together.
"""
