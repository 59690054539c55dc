"""Simulated models: answer at random from a profile.

Read `model` first; `profile` is the data, `trajectory` one run of it.
"""
