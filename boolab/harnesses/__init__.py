"""Harness: what a coding agent's own loop does, as data. A policy is one frozen value.

It imports `boolab.limits`, `boolab.runtime.tools` and what is below them. Read `policy` first: the fields and what each
means. `presets` has the policies of released harnesses, `compare` puts policies side by side, `describe` puts one into
words.
"""
