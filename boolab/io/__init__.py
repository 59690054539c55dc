"""I/O: files, resources of the package, and untrusted texts, read within limits.

It imports `boolab.errors` alone. Read `files` first: whole files, written at once or not at all. `yaml_loader` and
`json_input` read what may be hostile, `safe_regex` runs patterns in linear time.
"""
