"""StopRuleBench: how well stop rules work on recorded runs that they were not chosen on.

It may import everything but `cli`, `report` and `widgets`. Read `recordings` first: the runs with their sets, tasks and
folds. `tracks` splits them, `entries` are what is judged, `metrics` has the formulas, `judge` puts them together,
`submission` is the file that comes out, and `leaderboard` the page made of all files. docs/stoprulebench.md explains
all of it to users.
"""
