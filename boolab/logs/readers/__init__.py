"""Readers: one module for each log format, including boolab's own. `boolab.logs.load` finds and uses them.

To add a format, add one module here. No registration is needed. Its parts:

- `NAME`, `SUFFIXES`, `PLACES`, `LOOKED_FOR`, `sniff` and `read`, as `boolab.logs.load.Reader` describes them.
- `SCOPE`: how the format's harness counts its limits, `turn` or `run`; see `boolab.logs.sources`. A reader whose runs
  keep the source with which they were written has none.
- `TESTED`: the newest version of the format, or of the harness that writes it, that the reader was tested with, if logs
  name their version. The reader adds that of a log to `damage.versions`.
- `inner(folders)`, only if one log is spread over several folders: which of these sibling folders hold parts of logs,
  and are therefore not searched for logs.

Readers share `boolab.io.json_input` (from bytes to values, within limits), `boolab.logs.fields` (from values to texts
and times) and `boolab.logs.builder` (from these to runs). A leading underscore marks a module that a few readers share.
"""
