"""Steps on top of each other: the plan, the climb and its page. Read `run.py` first."""
