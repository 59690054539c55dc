"""Many rules on the same runs: which to choose, and what the choice keeps on other tasks.

Read `judged` first: what rules make of runs. `frontiers` shows all that one can have, `settings` has functions
that pick one rule, and `cross_validation` judges the choice on tasks that it has not seen.
"""
