"""The search for a better configuration, its proof, and its page. Read `run.py` first."""
