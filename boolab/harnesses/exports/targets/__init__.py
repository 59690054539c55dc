"""The harnesses that limits can be exported to: a module each, with a `TARGET`."""
