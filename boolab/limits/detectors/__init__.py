"""Detectors: one module for each family of what they look for. All count, and `boolab.limits.stop` compares.

`streaks` counts the same call or error in a row, `similar` calls that are nearly the same, `cycles` repeated sequences,
`windows` calls in the last few steps, `context` compactions and growth of the context, `text` repeated text;
`openhands` and `wrappers` follow other harnesses.
"""

from boolab.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
