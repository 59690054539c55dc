"""Core: the values that everything else is about, such as `Run`, `Step` and `ToolCall`, and how they become JSON.

It imports `boolab.errors` alone, and does no I/O. Read `types` first: it holds the values. `events` derives what
happened from them, `run_tree` puts runs with those of their subagents, `codec` turns them into JSON and back.
"""
