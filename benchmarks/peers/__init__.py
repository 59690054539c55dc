"""boolab's loop beside those of released packages: what a step costs, and what a step limit leaves."""
