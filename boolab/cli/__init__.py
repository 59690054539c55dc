"""The command line: `boolab` and its commands, a module for each.

It may import everything; nothing imports it. Read `main` first: it lists the commands and dispatches. `help` has
their parsers, `arguments` reads options, `terminal` writes text that arrives in pieces.
"""
