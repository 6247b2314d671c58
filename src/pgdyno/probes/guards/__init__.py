"""Reads what the guards watch: memory and its limits, volumes, and the server's own counters. Twice a second, cheaply.

Owns the readers and nothing that judges: limits and history are `trial/guards.py`. Must not import `workloads`. A
reader returns what it read, `Absent` for what this host does not have, and raises nothing: a failure is `Failed`.
Read `reader.py` first.
"""
