"""Tests of the worlds: the files of a run, kept and restored."""
