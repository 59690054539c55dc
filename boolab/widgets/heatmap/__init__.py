"""Heatmap: two settings at once. Read `widget` first; `data` prepares what heatmap.js draws."""
