"""The loop and what it runs: agents, tools, models and worlds."""
