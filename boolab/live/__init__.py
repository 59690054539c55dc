"""Limits that are set, held and watched in running agents."""
