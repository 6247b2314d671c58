"""The server and its host: sessions, commands, restarts, facts, CPU, the sandbox, and changes with their undo.

Everything that touches a PostgreSQL server or starts a program lives here, behind two Protocols: `Runner` (commands)
and `Control` (start, stop, restart), and the class `Postgres` (SQL). Must not import store, optimizer or anything
above. Read `target.py` first, then `runner.py`, `restart.py` and `sandbox.py`.
"""
