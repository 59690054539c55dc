"""Outcomes of runs from the log, from files beside it, and from the repository: a module for each source.

`harbor` reads the labels of a benchmark that keeps logs of any format; `boolab.logs.load` calls it for the runs of each
file. Reports of SWE-bench go by instances, which only readers know: see `boolab.logs.readers._swe_bench`. A label names
its source and its file in an event `label` of the run.

`tests`, `git` and `reaction` find evidence, which is no label (see `evidence`); `frame` makes one table of it.

`label_file` reads and appends to a file of labels, `resolve` finds the units that its lines are about (see
`boolab.logs.units`), and which outcome counts.
"""
