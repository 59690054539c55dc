"""Readers: one file for each log format of other systems, and for boolab's own. `boolab.reading` finds and uses them.

A reader is a module of this package with

- `NAME`: the format's name, which becomes `Run.source`;
- `PLACES`: globs of where its harness keeps its logs on a machine (empty if nowhere in particular);
- `sniff(head, path)`: whether the first `boolab.reading.HEAD` bytes of a file look like this format;
- `read(path, warn)`: its runs. What is damaged is told to `warn`, and everything else is returned; a file with nothing
  readable in it is a `RunFormatError`.

Adding a format is adding one such file. What readers share is in `boolab.readers.lines` (bytes to values, within
limits) and `boolab.readers.drafts` (values to steps).
"""
