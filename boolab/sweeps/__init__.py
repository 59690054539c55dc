"""Sweeps: agents x tasks x models x settings x repeats, in one event loop or on many workers, with or without a store.

- `cells`: the plan, and what each cell of it is called
- `job`: what is done for one piece of the plan, wherever it is done
- `derive`: cells that follow from another one's run
- `progress`: what one sees meanwhile
- `sweep`: the driver, which alone writes
"""
