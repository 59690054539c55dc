"""Running agents, in a notebook."""
