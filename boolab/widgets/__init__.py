"""Runs to look at and settings to try, in a notebook's cell or in one file that needs nothing else.

A widget is one Python class and one JavaScript file of the same name. The class prepares plain data with tested
functions (`*_data`), the file draws them: no logic of boolab's is written twice. What the browser alone can do (play,
scrub, fold, filter) needs no kernel; what Python must compute is asked for by ipywidgets. Logs are untrusted: every
text in them reaches the page as text.
"""
