"""HammerDB beside pgdyno: what its files say, and its own driver where it is installed.

`results.py` reads logs and JSON, `script.py` writes the Tcl, `driver.py` runs it.
"""
