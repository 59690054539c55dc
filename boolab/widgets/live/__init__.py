"""A run while it happens: its cards, its limits and what counts towards them; `data.py` has what is shown."""
