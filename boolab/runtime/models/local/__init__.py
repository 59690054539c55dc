"""A language model in this process: llama.cpp, and a small model with it."""
