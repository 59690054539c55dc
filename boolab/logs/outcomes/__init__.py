"""Outcomes that a benchmark wrote beside its logs: a module for each benchmark that keeps logs of any format.

`boolab.logs.load` calls them for the runs of each file. Reports of SWE-bench go by instances, which only readers know:
see `boolab.logs.readers._swe_bench`. An outcome names its source and its file in an event `label` of the run.

`label_file` reads and appends to a file of labels, `resolve` finds the units that its lines are about (see
`boolab.logs.units`), and which outcome counts.
"""
