"""Logs: other systems' recordings in, and boolab's own in and out.

It imports `boolab.frames`, `boolab.store` and what is below them. Read `load` first: it finds the reader of a file.
`readers` has one file for each format, `builder` what they share, `save` writes.
"""
