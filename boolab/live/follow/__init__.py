"""Follows logs of agents while they are written."""
