"""Tools: what an agent can call, how a call is checked and executed, and tools for a folder and a shell.

It imports `boolab.core`, `boolab.io` and `boolab.errors`. Read `tool` first: `tool()` makes one of a function;
`execution` runs its calls. `workspace` has tools for files in one folder, `bash` a shell, which `bash_supervisor` keeps
within its limits.
"""
