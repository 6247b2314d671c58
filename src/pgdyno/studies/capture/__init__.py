"""The load that is really there, logged for a while and put down for a replay.

A capture is no kind of study: it measures nothing, has no verdict, and cannot be gone on with once its log has a gap.
What it leaves is a folder with a record (`trace/capture_record.py`), from which a trace is built; its change of the
server is in the undo bundle, like everybody's. `plan.py` says what will be done, `run.py` does it, `register.py` knows
what runs.
"""
