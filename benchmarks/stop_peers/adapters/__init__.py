"""The adapters: each runs in the environment of its own package, and is fed the recorded steps one by one."""
