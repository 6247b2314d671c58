"""The movers: one module each, and `registry.py` that finds them by the word of a plan."""
