# The public names of `bl.stats`. See boolab/core/lazy_names.py.

from boolab.limits.learned.rule import LearnedRule as LearnedRule
from boolab.limits.learned.rule_file import load_rule as load_rule
from boolab.limits.learned.rule_file import save_rule as save_rule
from boolab.stats.compare_rules.cross_validation import crossval as crossval
from boolab.stats.compare_rules.frontiers import Frontier as Frontier
from boolab.stats.compare_rules.frontiers import frontier as frontier
from boolab.stats.compare_rules.settings import best_rule as best_rule
from boolab.stats.compare_rules.settings import percentile_cap as percentile_cap
from boolab.stats.compare_rules.settings import smallest_cap as smallest_cap
from boolab.stats.finding import Finding as Finding
from boolab.stats.learn.report import LearnReport as LearnReport
from boolab.stats.learn.report import features_df as features_df
from boolab.stats.recommend.decision import Decision as Decision
from boolab.stats.scorecard.precision_recall import precision_recall_df as precision_recall_df
