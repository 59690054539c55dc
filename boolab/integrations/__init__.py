"""`bl.Monitor` in the loops of other packages: a function for each, which imports the package when it is called.

At a stop the package ends in its own regular way, with what was done so far kept and the reason readable. `bl.Monitor`
itself needs none of them.
"""
