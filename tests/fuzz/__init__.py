"""Fuzzing: everything that reads what strangers wrote, tried on what nobody would write.

`targets` is the one table of what is tried; `drawn` (hypothesis) and `guided` (atheris, led by coverage) are two
engines over it; `contract` says what must hold of each input. `python -m tests.fuzz` runs all of it, `test_fuzz.py` a
slice.
"""
