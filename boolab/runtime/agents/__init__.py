"""Agents: a name, a prompt, tools and limits; and the Markdown files that hold them.

It imports `boolab.harnesses` and what is below it. Read `agent` first; `edit` changes a file and keeps its format.
"""
