"""CapLab: sliders for limits, and what they would have done. Read `widget` first; `data` prepares it."""
