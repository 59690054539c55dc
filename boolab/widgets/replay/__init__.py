"""Replay: one run, step by step. Read `widget` first; `data` prepares what replay.js draws."""
