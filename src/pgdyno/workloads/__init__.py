"""Loads for a server, all driven by pgbench: what is run, on which data, and what came of it.

Owns the template databases that loads are cloned from, the pgbench command line, its logs and their arithmetic.
Must not import probes, trial or anything above. Read `protocol.py` first, then `pgbench_workload.py`.
"""
