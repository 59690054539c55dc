"""Trials: what a change of limits brings where a recording cannot show it, by branches of recorded runs.

It imports `boolab.sweeps`, `boolab.stats` and what is below them. Read `trial` first: `bl.trial`. `change` is what is
tried, `openings` what the recording knows of it, `hazards` what longer runs suggest; `design` holds them, with the
order of the tasks. `cells` is one branch, and `branches` runs them. `estimates` makes intervals of their outcomes,
`forecast` finds how many more are needed, and `summary` puts the `result` together.
"""
