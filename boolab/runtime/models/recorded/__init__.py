"""Recorded models: answer as a recording does.

Read `model` first; `recorder` makes recordings, `format` is their file.
"""
