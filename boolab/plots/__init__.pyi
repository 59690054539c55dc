# The public names of `bl.plots`. See boolab/core/lazy_names.py.

from boolab.plots.bars import plot_stop_reasons as plot_stop_reasons
from boolab.plots.bars import plot_tools as plot_tools
from boolab.plots.bill import plot_bill as plot_bill
from boolab.plots.caps import plot_caps as plot_caps
from boolab.plots.context_policy import plot_context_policy as plot_context_policy
from boolab.plots.crossval import plot_crossval as plot_crossval
from boolab.plots.divergences import plot_divergences as plot_divergences
from boolab.plots.fit import plot_fit as plot_fit
from boolab.plots.frontier import plot_frontier as plot_frontier
from boolab.plots.heatmap import plot_heatmap as plot_heatmap
from boolab.plots.output import save as save
from boolab.plots.output import theme as theme
from boolab.plots.precision_recall import plot_precision_recall as plot_precision_recall
from boolab.plots.scorecard import plot_scorecard as plot_scorecard
from boolab.plots.steps import plot_steps as plot_steps
from boolab.plots.survival import plot_survival as plot_survival
from boolab.plots.timeline import plot_timeline as plot_timeline
from boolab.plots.trial import plot_trial as plot_trial
