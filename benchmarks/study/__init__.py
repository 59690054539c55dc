"""The study of limits on public runs: its notebook, and the statistics and plots that it alone needs.

`make study` runs `study.ipynb` and puts what it gives into docs/study.md. `length_ratios` compares the lengths of
failures and successes, and `transfers` judges a rule of one group on each other. `length_ratio_plot`, `transfer_plot`
and `lift_plot` draw these, and the lift of a scorecard.
"""
