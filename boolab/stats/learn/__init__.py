"""Learning a stop rule from labelled runs, with a promise about the successes that it keeps.

Read `learn_stop` first. `table` holds the features of all runs after each step, `logistic` and `trees` fit models to
them, `thresholds` has the two promises, `held_out` judges rules on tasks that they have not seen, and `report` puts all
into words. What a fitted rule needs at run time is in `boolab.limits.learned`.
"""
