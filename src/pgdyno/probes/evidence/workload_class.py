"""What the load is: read-only, mostly read-only, OLTP, write-heavy, OLAP or batch. Pure; thresholds with reasons.

The classes come from the sources (000: OLTP is what was tested, analytic loads may react adversely; 003: mostly
read-only databases may do without autovacuum); the limits are pgdyno's own, and docs/reference/evidence.md lists them.
"""

from __future__ import annotations

from pgdyno.model.evidence import Statistics, WorkloadClass
from pgdyno.model.facts import Unknown

READ_ONLY_BELOW = 0.000_1
"""Share of rows written: less than one row in ten thousand is housekeeping of applications, no load."""
MOSTLY_READ_BELOW = 0.05
"""One row in twenty: WAL, checkpoints and vacuum are then no part of what takes the time."""
WRITE_HEAVY_FROM = 0.6
"""More rows written than read: every written row that was found by an index counts one read too, so that a load of
nothing but single-row updates comes out at 0.5; above are inserts and bulk changes."""
OLAP_ROWS = 10_000
"""Rows read per transaction: 10,000 rows are megabytes, which no OLTP transaction touches."""
OLAP_SCANNED = 0.5
BATCH_ROWS = 1_000
"""Rows written per transaction: loading and mass changes."""


def classify(statistics: Statistics) -> tuple[WorkloadClass, str] | Unknown:
    """Return the class and the figures that it rests on, in words; unknown when nothing was read or written."""
    share, commits = statistics.write_share, statistics.commits_s
    read, written = statistics.rows_read_s, statistics.rows_written_s
    for value in (share, commits, read, written):
        if isinstance(value, Unknown):
            return value
    if isinstance(share, Unknown) or isinstance(commits, Unknown):
        return UNREACHABLE
    if isinstance(read, Unknown) or isinstance(written, Unknown):
        return UNREACHABLE
    ended = commits + (0.0 if isinstance(statistics.rollbacks_s, Unknown) else statistics.rollbacks_s)
    if ended <= 0:
        return Unknown("no transaction ended in the window")
    reads_each, writes_each = read / ended, written / ended
    words = (
        f"{share:.2%} of the rows touched were written, "
        f"{reads_each:,.1f} read and {writes_each:,.1f} written a transaction"
    )
    return _class(share, reads_each, writes_each, statistics.analytic_share), words


UNREACHABLE = Unknown("the statistics of the window are incomplete")


def _class(share: float, reads_each: float, writes_each: float, scanned: float | Unknown) -> WorkloadClass:
    scans = isinstance(scanned, Unknown) or scanned >= OLAP_SCANNED
    if writes_each >= BATCH_ROWS:
        return WorkloadClass.BATCH
    if reads_each >= OLAP_ROWS and scans and share < MOSTLY_READ_BELOW:
        return WorkloadClass.OLAP
    if share < READ_ONLY_BELOW:
        return WorkloadClass.READ_ONLY
    if share < MOSTLY_READ_BELOW:
        return WorkloadClass.MOSTLY_READ
    return WorkloadClass.WRITE_HEAVY if share >= WRITE_HEAVY_FROM else WorkloadClass.OLTP
