"""Soaking: many runs at once, and a mixed sweep for minutes, while what the process holds is looked at.

`python -m tests.soak` (`make soak`) prints one table; `tests/soak/test_soak.py` plays short forms of both.
"""
