"""A server on this machine that answers like a provider, from a script.

Read `server` first; `streams` has the two protocols.
"""
