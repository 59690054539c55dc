"""Frames as pictures, in one style.

A plot draws a frame and computes no more than counts. It takes the frame, or runs, and an `ax`; it returns the Axes and
leaves matplotlib's settings alone: text keeps the colour and font of the user's own style, and greys are that colour
faded towards the background, so that dark styles work too. One colour has one meaning in all of boolab, and never
stands alone: a hatch or a shape and a word go with it. The title says the finding; the note below says the sample and
what is missing; names from the data are never markup. Figures that a plot makes itself use the constrained layout; give
your own the same (`plt.subplots(2, 2, layout="constrained")`), or long names and small lines may overlap.
"""

from boolab.plots.caps import plot_caps
from boolab.plots.divergences import plot_divergences
from boolab.plots.fit import plot_fit
from boolab.plots.heatmap import plot_heatmap
from boolab.plots.scorecard import plot_scorecard
from boolab.plots.steps import plot_steps
from boolab.plots.stop_reasons import plot_stop_reasons
from boolab.plots.survival import plot_survival
from boolab.plots.timeline import plot_timeline
from boolab.plots.tools import plot_tools

__all__ = [
    "plot_caps",
    "plot_divergences",
    "plot_fit",
    "plot_heatmap",
    "plot_scorecard",
    "plot_steps",
    "plot_stop_reasons",
    "plot_survival",
    "plot_timeline",
    "plot_tools",
]
