"""StopRuleBench: how well stop rules work on recorded runs that they were not chosen on.

`boolab bench` runs it in a checkout of the repository. Read `recordings` first: the runs with their sets, tasks and
folds. `tracks` splits them, `entries` are what is judged, `metrics` has the formulas, `judge` puts them together,
`submission` is the file that comes out, `command` prints and writes, and `leaderboard` is the page made of all files.
docs/stoprulebench.md explains all of it to users.
"""
