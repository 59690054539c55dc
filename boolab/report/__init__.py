"""What `boolab whatif`, `boolab report` and `boolab doctor` do: logs in, an answer in plain words out.

`options` reads the command line's values, `study` puts the questions to the data, `tell` says the answers in a
terminal and as JSON, `page` on one HTML page; `machine` looks for logs.
"""
