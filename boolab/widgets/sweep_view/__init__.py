"""SweepView: a sweep while it runs. Read `widget` first; `data` prepares what sweep_view.js draws."""
