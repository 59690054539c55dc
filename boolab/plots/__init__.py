"""Frames as pictures, in one style.

It imports `boolab.stats` and what is below it. Read `style` first, then one plot. A plot draws a frame and computes
only counts. It takes the frame, or runs, and an `ax`; it returns the Axes and leaves matplotlib's settings alone: text
keeps the colour and font of the user's own style, and greys are that colour faded towards the background, so that dark
styles work too. One colour has one meaning in all of boolab, and always comes with a shape or a word. The
title states the finding, the note below it the sample and what is missing; names from the data are never markup.
Figures that a plot makes itself use the constrained layout; use the same for your own (`plt.subplots(2, 2,
layout="constrained")`), or long names and small lines may overlap.
"""

from boolab.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
