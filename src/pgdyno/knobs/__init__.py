"""What may be tuned, within which bounds, and what never: policy, catalogue, search space, joint constraints.

Owns the two data files (`data/policy.toml`, `data/postgresql.toml`) and every decision that follows from them and
from the facts of a server. Pure: reads no file but its own data and touches no server. Must not import `stats`, nor
anything above. Read `policy.py` first, then `catalogue.py`, `space.py` and `constraints.py`.
"""
