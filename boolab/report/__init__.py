"""The results of `boolab whatif` and `boolab report`: what limits would have kept and saved in logs.

It may import everything but `cli` and `widgets`. Read `study` first: it reads the logs and computes the answer as data.
`text` writes it for a terminal and as JSON, `html_page` as one HTML page from the template in `templates`.
"""
