"""Tests of the readers, and how they make sessions to read."""
