"""Captured load: server logs as a trace, the trace as a replay, the replay's outcomes.

Owns the schema of traces and outcomes, the readers of logs and the engines that send a trace again. Statements of users
are text here until an engine sends them; whether a target may be replayed to is decided above (`replay`). Must
not import a room that works on servers: an engine is told where to connect and speaks the wire protocol itself.
Read `schema.py` first.
"""
