"""Harness: what a coding agent's own loop does, as data. A policy is one frozen value.

It imports `boolab.limits` and what is below it. Read `policy` first: the fields and what each means. Then `harness`:
what is known of a harness is in one module, such as `claude_code`, and `registry` has a line for each. `presets` looks
up their policies, `compare` puts policies side by side, `describe` puts one into words, `exports` writes limits as
settings.
"""
