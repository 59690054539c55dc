"""A profile for `SimulatedModel`, fitted on runs. Read `fit` first; `result` is what it returns."""
