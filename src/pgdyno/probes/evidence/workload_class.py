"""What the load is: read-only, mostly read-only, OLTP, write-heavy, OLAP or batch. Pure; thresholds with reasons.

The classes come from the sources (000: OLTP is what was tested, analytic loads may react adversely; 003: mostly
read-only databases may do without autovacuum); the limits are pgdyno's own, and docs/reference/evidence.md lists them.
"""

from __future__ import annotations

from pgdyno.model.evidence import SAMPLED, Statistics, WorkloadClass
from pgdyno.model.facts import NoLoad, Unknown
from pgdyno.units import percent_text, plural, rate_text

READ_ONLY_BELOW = 0.000_1
"""Share of rows written: less than one row in ten thousand is housekeeping of applications, no load."""
MOSTLY_READ_BELOW = 0.05
"""One row in twenty: WAL, checkpoints and vacuum are then no part of what takes the time."""
WRITES_OFTEN = 0.5
"""Rows written per transaction from which a load is no reading one, however many rows it reads: small tables are
scanned whole, so that pgbench's TPC-B reads some 220 rows for the 4 that it writes, and commits wait for the WAL."""
WRITE_HEAVY_FROM = 0.6
"""More rows written than read: every written row that was found by an index counts one read too, so that a load of
nothing but single-row updates comes out at 0.5; above are inserts and bulk changes."""
OLAP_ROWS = 10_000
"""Rows read per transaction: 10,000 rows are megabytes, which no OLTP transaction touches."""
OLAP_SCANNED = 0.5
BATCH_ROWS = 1_000
"""Rows written per transaction: loading and mass changes."""

IDLE_TRANSACTIONS_S = 5.0
IDLE_ROWS_S = 1_000.0
"""A window below both is idle: monitoring and autovacuum make about as much. In a month they come to millions."""
FEWEST_TRANSACTIONS = 10_000
FEWEST_ROWS = 10_000_000
"""Since a reset: what monitoring makes in a day, a thousand rows of catalogues each time; of a server that did less its
counters show no load. Reports and batches are few transactions of many rows."""
OWN_TRANSACTIONS, OWN_ROWS = 30, 20_000
"""What opening pgdyno's own sessions and reading the views adds to a window, whatever its length."""


def classify(statistics: Statistics) -> tuple[WorkloadClass, str] | Unknown:
    """Return the class and the figures that it rests on, in words; unknown when there was no load."""
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
        return NoLoad("no transaction ended in the window")
    is_sampled = statistics.window.source == SAMPLED
    seconds = statistics.window.seconds
    transactions, rows = _counted(statistics, "commits_s", "rollbacks_s"), _counted(statistics, *_ROWS)
    few = transactions < IDLE_TRANSACTIONS_S * seconds + OWN_TRANSACTIONS
    if is_sampled and few and rows < IDLE_ROWS_S * seconds + OWN_ROWS:
        return NoLoad(f"the server was idle in the window: {plural(rate_text(ended), 'transaction')} a second")
    if not is_sampled and transactions < FEWEST_TRANSACTIONS and rows < FEWEST_ROWS:
        return NoLoad(
            f"fewer than {FEWEST_TRANSACTIONS:,} transactions and {FEWEST_ROWS // 1_000_000} million rows were counted "
            "since the reset, which is not a load"
        )
    if not is_sampled and transactions < IDLE_TRANSACTIONS_S * seconds and rows < IDLE_ROWS_S * seconds:
        return NoLoad(
            f"{plural(rate_text(transactions / seconds), 'transaction')} a second since the reset are as few as "
            "monitoring makes, or a load with much idle time; --window SECONDS watches it"
        )
    reads_each, writes_each = read / ended, written / ended
    words = (
        f"{percent_text(share, 2)} of the rows touched were written, "
        f"{reads_each:,.1f} read and {writes_each:,.1f} written a transaction"
    )
    return _class(share, reads_each, writes_each, statistics.analytic_share), words


_ROWS = ("rows_read_s", "rows_written_s")


def _counted(statistics: Statistics, *rates: str) -> float:
    """Return how much was counted of these rates together; one that is unknown counts nothing."""
    amounts = (statistics.amount(rate) for rate in rates)
    return sum(amount for amount in amounts if not isinstance(amount, Unknown))


UNREACHABLE = Unknown("the statistics of the window are incomplete")


def _class(share: float, reads_each: float, writes_each: float, scanned: float | Unknown) -> WorkloadClass:
    scans = isinstance(scanned, Unknown) or scanned >= OLAP_SCANNED
    if writes_each >= BATCH_ROWS:
        return WorkloadClass.BATCH
    if reads_each >= OLAP_ROWS and scans and share < MOSTLY_READ_BELOW:
        return WorkloadClass.OLAP
    if share < MOSTLY_READ_BELOW and writes_each < WRITES_OFTEN:
        return WorkloadClass.READ_ONLY if share < READ_ONLY_BELOW else WorkloadClass.MOSTLY_READ
    return WorkloadClass.WRITE_HEAVY if share >= WRITE_HEAVY_FROM else WorkloadClass.OLTP
