"""Readers: one module for each log format, including boolab's own. `boolab.logs.load` finds and uses them.

To add a format, add one module here. No registration is needed. Its parts:

- `NAME`: the format's name, which becomes `Run.source`.
- `SCOPE`: how the format's harness counts its limits: `turn` (anew from each message of the user) or `run`. Leave it
  out if the runs keep the source that they were written with. See `boolab.logs.sources`.
- `SUFFIXES`: the ends of its file names. In a folder, only these files are read.
- `PLACES`: globs of where its harness keeps logs on a machine; empty if there is no fixed place.
- `LOOKED_FOR`: what `sniff` expects, in words, for the error message about an unknown file.
- `sniff(head)`: whether the beginning of a file looks like this format (`boolab.logs.fields.Head`).
- `read(path, damage)`: the runs of one file. It records what it cannot read in `damage`, a
  `boolab.io.json_input.Damage`, and returns everything else. It raises a `RunFormatError` if the file cannot be a log
  of this format.
- `inner(folders)`, only if one log is spread over several folders: which of these sibling folders hold parts of logs,
  and are therefore not searched for logs.

Readers share `boolab.io.json_input` (from bytes to values, within limits), `boolab.logs.fields` (from values to texts
and times) and `boolab.logs.builder` (from these to runs). A leading underscore marks a module that a few readers share.
"""
