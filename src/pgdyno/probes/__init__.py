"""Samples the host, the server and the load's driver once a second, at a cost that is measured.

Owns the readers of /proc, the SQL of each statistics view by version, the sampler thread and the arithmetic over a
window of rows. Must not import `workloads` or anything above, and changes nothing on the server. Read `sampler.py`
first; what each column means is in `model/sample_tables.py`.
"""
