"""A TPROC-C-like load: nine tables of a wholesaler, five transactions, and a check of the data after every run.

The rules follow the specification of TPC-C where this page of the documentation says so; the figures are not TPC-C
results. `tables.py` loads, `mix.py` makes the scripts, `examiner.py` checks and counts.
"""
