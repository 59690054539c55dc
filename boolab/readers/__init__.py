"""Readers: one file for each log format of other systems, and for boolab's own. `boolab.reading` finds and uses them.

A reader is a module of this package with

- `NAME`: the format's name, which becomes `Run.source`;
- `SCOPE`: where the format's harness counts its limits, `turn` (anew from each message of the user on) or `run`; not
  given where runs keep the source that they had. See `boolab.sources`;
- `SUFFIXES`: how the names of its files end; those are looked at in a folder;
- `PLACES`: globs of where its harness keeps its logs on a machine (empty if nowhere in particular);
- `sniff(head)`: whether the beginning of a file looks like this format (`boolab.readers.lines.Head`);
- `read(path, warn)`: its runs. What is damaged is told to `warn`, and everything else is returned; a file with nothing
  readable in it is a `RunFormatError`;
- if a log of its lies in several folders, `inner(folders)`: which of the folders beside each other hold parts of logs
  only, and are not searched for logs.

Adding a format is adding one such file. What readers share is in `boolab.readers.lines` (bytes to values, within
limits), `boolab.readers.drafts` (values to steps) and `boolab.readers.talk` (steps to runs).
"""
