"""Statistics: what recorded runs show about future runs, with intervals.

It imports `boolab.whatif`, `boolab.runtime.engine` and what is below them. Read `finding` first: what each function
returns, a frame with its sentences and the quality of its data. `survival`, `recommend`, `scorecard` and `profile_fit`
are the questions, `intervals` and `units` the methods.
"""

from boolab.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
