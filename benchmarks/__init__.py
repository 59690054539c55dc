"""Benchmarks: each file is a script of its own."""
