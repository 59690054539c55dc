"""Compare: runs side by side. Read `widget` first; `data` prepares what compare.js draws."""
