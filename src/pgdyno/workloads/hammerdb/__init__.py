"""HammerDB beside pgdyno: what its files say, and its own driver where it is installed.

`results.py` reads logs and JSON into a `run.py`, with `job_report.py` and `time_profile.py` for two of their parts;
`script.py` writes the Tcl and runs it.
"""
