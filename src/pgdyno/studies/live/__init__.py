"""Studies of a server under its users' own load: no benchmark, no driver, no clone.

Owns what is read of such a server and what follows from it; the arithmetic is `stats/body_index.py` and
`period_choice.py`. Must never run a statement of the users, nor reset anybody's statistics. Read `watch.py`
first, then `run.py`.
"""
