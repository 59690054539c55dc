"""Rules that were learned from recorded runs: causal features of a run, a model over them, and a threshold.

Everything that a fitted rule needs at run time is here and needs the standard library alone, so that a hook of another
harness starts fast; `boolab.stats.learn` fits them. Read `features` first: what a rule can see. `models` makes one
number of it, `risk` counts that number as a detector does, and `rule_file` reads and writes a rule as YAML.
"""
