# The public names of `bl.stats`. See boolab/core/lazy_names.py.

from boolab.stats.finding import Finding as Finding
from boolab.stats.recommend.recommend import Recommendation as Recommendation
