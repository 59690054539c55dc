"""Frames as pictures, in one style.

A plot draws a frame and computes no more than counts. It takes the frame, or runs, and an `ax`; it returns the Axes and
leaves matplotlib's settings alone: text keeps the colour and font of the user's own style, and greys are that colour
faded towards the background, so that dark styles work too. One colour has one meaning in all of boolab, and never
stands alone: a hatch or a shape and a word go with it. The title states the finding, the note below the sample and
what is missing; names from the data are never markup. Figures that a plot makes itself use the constrained layout; give
your own the same (`plt.subplots(2, 2, layout="constrained")`), or long names and small lines may overlap.
"""

from boolab.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
