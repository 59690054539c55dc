"""`boolab hook`: a stop rule in the hooks of another harness, where boolab has no process of its own.

Claude Code starts a process for each event. `entry` is that process and `options` what it is started with;
`claude_code` answers the events. `journal` keeps what happened, with a `call_record` of each call; `counts` counts it,
and `replay` gives the verdict there. `log` keeps what was done, and `settings` writes the hook into Claude Code's
settings.

What runs at every call imports little: it starts in about twice the time of `python -c pass`.
"""
