"""Learning a stop rule from labelled runs, with a promise about the successes that it keeps.

Read `learn_stop` first: it has the two promises. `table` holds the features of all runs after each step, `fit` fits
models to them, and `report` judges rules on held-out tasks. What a fitted rule needs at run time is in
`boolab.limits.learned`.
"""
