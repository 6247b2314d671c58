"""The Python engine: sends a tape to a server on schedule, and records what came back. Standard library only.

A program of its own, `python -m pgdyno.trace.engine`, with an `EnginePlan` as JSON on standard input. It knows nothing
of SQL, Parquet or traces: `tape.py` has what it reads, `records.py` what it writes, `loop.py` is the engine itself.
"""
