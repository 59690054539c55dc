"""Worlds: the state outside a run that its tools change, kept step by step, so that a branch can begin with it.

Start with `protocol`: the engine knows nothing else. `git_world` keeps the files of a folder in its git repository, by
snapshots that `git_keeper` makes. `checkout` writes one into a folder.
"""
