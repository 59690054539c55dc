"""Runs to look at and settings to try, in a notebook's cell or in one file that needs nothing else.

It may import everything but `cli` and `report`. Read `_base.widget` and `replay.widget` first. A widget is a folder
with one Python class and one JavaScript file. The class prepares plain data with tested functions (in `data`), the file
draws them: no logic is written twice. What the browser can do alone (play, scrub, fold, filter) needs no kernel; what
Python must compute goes through ipywidgets. Logs are untrusted: every text in them reaches the page as text, never as
markup.
"""
