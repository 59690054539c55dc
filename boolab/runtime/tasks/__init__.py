"""Tasks that a small language model can try, with an outcome that their tool decides."""
